"""What training computes between the products of a layer, forward and backward, each in one pass over its rows.

Arrays come as addresses of contiguous memory: to make an array of a tensor, Python's lock is given away several times,
for which other threads that compute are waiting. `kind` is a number of the type in which activations are stored:
float32, or uint16 that holds bfloat16. What is not said to be of that kind is float32, and so are sums.

`draws` are 16 random bits an element, of which dropout keeps those not below `first_kept`, times `scale`; their
address is 0 where nothing is dropped.
"""

import math
from typing import Any

import numpy as np

from dragoman.kernels import LANES, TILE_ROWS
from dragoman.kernels.arithmetic import array_at, at_least, chosen, larger, number, put
from dragoman.kernels.jit import compiled_with_nan
from dragoman.kernels.vectors import (
    copy_line,
    dot_of_lines,
    exp2_of_line,
    largest_of_line,
    made_powers,
    multiply_tile,
    subtract_and_multiply,
    sum_of,
    sum_of_squares,
    sums_of_gradients,
)

_ZERO, _ONE = np.float32(0), np.float32(1)
_BYTE, _SHORT, _LONG = np.uint8(0), np.int16(0), np.int64(0)
_LEAST = np.float32(-3e38)
_LOG2_E = np.float32(math.log2(math.e))


@compiled_with_nan
def draw(state: Any, count: int, out: int) -> None:
    """Writes `count` numbers of 64 random bits: SFC64 (Doty-Humphrey), whose state (4) goes on."""
    made = array_at(out, np.uint64(0), (count,))
    one, other, third, counter = state[0], state[1], state[2], state[3]
    for i in range(count):
        drawn = one + other + counter
        counter += np.uint64(1)
        one = other ^ (other >> np.uint64(11))
        other = third + (third << np.uint64(3))
        third = ((third << np.uint64(24)) | (third >> np.uint64(40))) + drawn
        made[i] = drawn
    state[0], state[1], state[2], state[3] = one, other, third, counter


@compiled_with_nan
def add_dropped(
    kind: Any, size: int, hidden: int, output: int, draws: int, first_kept: int, scale: float, total: int
) -> None:
    """total = hidden + dropout(output); all of the kind."""
    ours, added, out = array_at(hidden, kind, (size,)), array_at(output, kind, (size,)), array_at(total, kind, (size,))
    drawn, least, factor = array_at(draws, _SHORT, (size,)), np.int16(first_kept), np.float32(scale)
    for i in range(size):
        kept = chosen(drawn[i] >= least, number(added[i]) * factor, _ZERO)
        put(out, i, number(ours[i]) + kept)


@compiled_with_nan
def keep_scaled(kind: Any, size: int, values: int, draws: int, first_kept: int, scale: float, out: int) -> None:
    """out = dropout(values); both of the kind."""
    given, made = array_at(values, kind, (size,)), array_at(out, kind, (size,))
    drawn, least, factor = array_at(draws, _SHORT, (size,)), np.int16(first_kept), np.float32(scale)
    for i in range(size):
        put(made, i, chosen(drawn[i] >= least, number(given[i]) * factor, _ZERO))


@compiled_with_nan
def normalise(
    kind: Any,
    count: int,
    width: int,
    rows: int,
    gain: int,
    bias: int,
    epsilon: float,
    normed: int,
    means: int,
    inverses: int,
) -> None:
    """Layer norm: normed = (rows - mean) / sqrt(variance + epsilon) * gain + bias; keeps means and 1 / sqrt(...).

    Rows, gain, bias and what comes out are of the kind.
    """
    given, made = array_at(rows, kind, (count, width)), array_at(normed, kind, (count, width))
    gains, biases = array_at(gain, kind, (width,)), array_at(bias, kind, (width,))
    kept_means, kept_inverses = array_at(means, _ZERO, (count,)), array_at(inverses, _ZERO, (count,))
    share = _ONE / np.float32(width)
    for n in range(count):
        row, out = given[n], made[n]
        mean = sum_of(row) * share
        inverse = _ONE / np.sqrt(sum_of_squares(row, mean) * share + np.float32(epsilon))
        kept_means[n], kept_inverses[n] = mean, inverse
        for i in range(width):
            put(out, i, (number(row[i]) - mean) * inverse * number(gains[i]) + number(biases[i]))


@compiled_with_nan
def normalise_back(
    kind: Any,
    count: int,
    width: int,
    grads: int,
    rows: int,
    gain: int,
    means: int,
    inverses: int,
    row_grads: int,
    sums: Any,
    gain_grad: int,
    bias_grad: int,
) -> None:
    """The gradient of `normalise` with respect to rows, gain and bias; `sums` (2, width) are zeros to add up in."""
    given, upstream = array_at(rows, kind, (count, width)), array_at(grads, kind, (count, width))
    made, gains = array_at(row_grads, kind, (count, width)), array_at(gain, kind, (width,))
    kept_means, kept_inverses = array_at(means, _ZERO, (count,)), array_at(inverses, _ZERO, (count,))
    share = _ONE / np.float32(width)
    gain_sums, bias_sums = sums[0], sums[1]
    for n in range(count):
        row, grad, out = given[n], upstream[n], made[n]
        mean, inverse = kept_means[n], kept_inverses[n]
        plain, along = sums_of_gradients(grad, gains, row, mean, inverse)
        plain, along = plain * share, along * share
        for i in range(width):
            normed, above = (number(row[i]) - mean) * inverse, number(grad[i])
            gain_sums[i] += above * normed
            bias_sums[i] += above
            put(out, i, inverse * (above * number(gains[i]) - plain - normed * along))
    _round(kind, gain_sums, gain_grad)
    _round(kind, bias_sums, bias_grad)


@compiled_with_nan
def _round(kind: Any, values: Any, out: int) -> None:
    made = array_at(out, kind, (values.size,))
    for i in range(values.size):
        put(made, i, values[i])


@compiled_with_nan
def pad_rows(kind: Any, count: int, width: int, values: int, rows: int, out: int) -> None:
    """out (rows, width) = the values (count, width), then zeros."""
    given, made = array_at(values, kind, (count * width,)), array_at(out, kind, (rows * width,))
    for i in range(given.size):
        made[i] = given[i]
    for i in range(given.size, made.size):
        put(made, i, _ZERO)


@compiled_with_nan
def add_rows(kind: Any, count: int, width: int, rows: int, sums: Any, out: int) -> None:
    """out (width) = the sum of the rows (count, width); `sums` (width) are zeros to add up in."""
    given = array_at(rows, kind, (count, width))
    for n in range(count):
        row = given[n]
        for i in range(width):
            sums[i] += number(row[i])
    _round(kind, sums, out)


@compiled_with_nan
def add_to(kind: Any, size: int, sums: int, values: int) -> None:
    """sums += values, which are of the kind."""
    total, given = array_at(sums, _ZERO, (size,)), array_at(values, kind, (size,))
    for i in range(size):
        total[i] += number(given[i])


@compiled_with_nan
def rectify(kind: Any, size: int, values: int, draws: int, first_kept: int, scale: float, out: int) -> None:
    """out = dropout(max(values, 0)); both of the kind."""
    given, made = array_at(values, kind, (size,)), array_at(out, kind, (size,))
    if draws:
        drawn, least, factor = array_at(draws, _SHORT, (size,)), np.int16(first_kept), np.float32(scale)
        for i in range(size):
            put(made, i, chosen(drawn[i] >= least, at_least(number(given[i]), _ZERO) * factor, _ZERO))
    else:
        for i in range(size):
            put(made, i, at_least(number(given[i]), _ZERO))


@compiled_with_nan
def rectify_back(kind: Any, size: int, grads: int, outputs: int, scale: float, out: int) -> None:
    """The gradient of `rectify`, which let through what is above 0 in its outputs; all of the kind."""
    upstream, passed, made = (
        array_at(grads, kind, (size,)),
        array_at(outputs, kind, (size,)),
        array_at(out, kind, (size,)),
    )
    factor = np.float32(scale)
    for i in range(size):
        put(made, i, chosen(number(passed[i]) > _ZERO, number(upstream[i]) * factor, _ZERO))


@compiled_with_nan
def embed(
    kind: Any,
    count: int,
    length: int,
    ids: int,
    vocab_size: int,
    width: int,
    table: int,
    factor: float,
    positions: int,
    draws: int,
    first_kept: int,
    scale: float,
    out: int,
) -> bool:
    """out = dropout(factor * table[ids] + positions), of the kind; ids (int64) are (count, length).

    False where an id has no row in the table.
    """
    tokens, rows = array_at(ids, _LONG, (count, length)), array_at(table, _ZERO, (vocab_size, width))
    places, made = array_at(positions, _ZERO, (length, width)), array_at(out, kind, (count, length, width))
    drawn = array_at(draws, _SHORT, (count, length, width))
    least, rate, root = np.int16(first_kept), np.float32(scale), np.float32(factor)
    for b in range(count):
        for t in range(length):
            token = tokens[b, t]
            if token < 0 or token >= vocab_size:
                return False
            row, place, target = rows[token], places[t], made[b, t]
            if draws:
                bits = drawn[b, t]
                for i in range(width):
                    put(target, i, chosen(bits[i] >= least, (row[i] * root + place[i]) * rate, _ZERO))
            else:
                for i in range(width):
                    put(target, i, row[i] * root + place[i])
    return True


@compiled_with_nan
def embed_back(
    kind: Any,
    count: int,
    ids: int,
    vocab_size: int,
    width: int,
    grads: int,
    factor: float,
    draws: int,
    first_kept: int,
    scale: float,
    table_grad: int,
) -> None:
    """Adds the gradient of `embed` with respect to the table, of `count` ids."""
    tokens, sums = array_at(ids, _LONG, (count,)), array_at(table_grad, _ZERO, (vocab_size, width))
    upstream, drawn = array_at(grads, kind, (count, width)), array_at(draws, _SHORT, (count, width))
    least, rate = np.int16(first_kept), np.float32(scale * factor)
    for n in range(count):
        target, grad = sums[tokens[n]], upstream[n]
        if draws:
            bits = drawn[n]
            for i in range(width):
                target[i] += chosen(bits[i] >= least, number(grad[i]) * rate, _ZERO)
        else:
            for i in range(width):
                target[i] += number(grad[i]) * rate


@compiled_with_nan
def exponentials(kind: Any, count: int, width: int, rows: int, totals: int) -> None:
    """rows = 2 ** rows, in place and of the kind, and the sum of each."""
    given, sums = array_at(rows, kind, (count, width)), array_at(totals, _ZERO, (count,))
    for n in range(count):
        sums[n] = made_powers(given[n])


@compiled_with_nan
def _load(rows: Any, batch: int, first: int, factor: Any, out: Any) -> None:
    """out = factor * rows[batch], of the row's columns as many from `first` on as `out` is wide; in chunks of LANES."""
    for t in range(rows.shape[1]):
        for c in range(out.shape[1]):
            copy_line(rows[batch, t, first + c], factor, out[t, c])


@compiled_with_nan
def _store(values: Any, factor: Any, rows: Any, batch: int, first: int) -> None:
    """The other way round: rows[batch] = factor * values there."""
    for t in range(rows.shape[1]):
        for c in range(values.shape[1]):
            copy_line(values[t, c], factor, rows[batch, t, first + c])


@compiled_with_nan
def _turned(rows: Any, count: int, out: Any) -> None:
    """out = the first `count` of the rows, as columns; both in chunks of LANES."""
    for s in range(count):
        chunk, lane = s // LANES, s % LANES
        for c in range(rows.shape[1]):
            row = rows[s, c]
            for i in range(LANES):
                out[c * LANES + i, chunk, lane] = row[i]


@compiled_with_nan
def _multiply(left: Any, turned: bool, right: Any, rows: int, depth: int, out: Any) -> None:
    """out = left @ right, or left^T @ right where it is turned, of so many rows."""
    width = left.shape[1] * LANES
    row_step, step = (1, width) if turned else (width, 1)
    flat = left.reshape(left.size)
    for c in range(right.shape[1]):
        for t in range(0, rows, TILE_ROWS):
            multiply_tile(flat, t * row_step, row_step, step, right[:, c:], depth, out[:, c:], t)


@compiled_with_nan
def _softmax(scores: Any, seen: Any, weights: Any) -> None:
    """Scores in base 2 become weights, also kept in `weights`; 0 but for the first `seen`. In chunks of LANES."""
    top = _LEAST
    for c in range(scores.shape[0]):
        top = larger(top, largest_of_line(scores[c], seen - np.int32(c * LANES)))
    total = _ZERO
    for c in range(scores.shape[0]):
        total += exp2_of_line(scores[c], seen - np.int32(c * LANES), top)
    inverse = _ONE / total
    for c in range(scores.shape[0]):
        copy_line(scores[c], inverse, scores[c])
        copy_line(scores[c], _ONE, weights[c])


@compiled_with_nan
def _softmax_back(scores: Any, weights: Any) -> None:
    """The gradient with respect to the weights becomes that with respect to the scores, in chunks of LANES."""
    mean = _ZERO
    for c in range(scores.shape[0]):
        mean += dot_of_lines(scores[c], weights[c])
    for c in range(scores.shape[0]):
        subtract_and_multiply(scores[c], mean, weights[c])


@compiled_with_nan
def attend(
    kind: Any,
    shape: tuple[int, int, int, int, int],
    queries: int,
    sources: int,
    beside: bool,
    mask: int,
    mask_steps: tuple[int, int],
    draws: int,
    first_kept: int,
    scale: float,
    query: Any,
    key: Any,
    turned: Any,
    scores: Any,
    result: Any,
    weights: int,
    out: int,
) -> None:
    """Attention of all heads: softmax(q k^T / sqrt(K)) v.

    `shape` is (B, H, T, S, chunks of LANES in a head). Key and value stand in `sources` (B, S, 2D), or `beside` the
    queries (B, T, 3D), which are the sources then; `out` is (B, T, D). `weights` (B, H, T, S in whole chunks) are kept.
    The mask (bool; address 0: none) lets the first keys of a row through; its steps lead to the next b and t.
    `draws` are (B, H, T, S). What is between is working room for one head.
    """
    count, heads, length, keys, width = shape
    flags = array_at(mask, _BYTE, (count * mask_steps[0] + length * mask_steps[1] + keys,))
    drawn, least, rate = array_at(draws, _SHORT, (count, heads, length, keys)), np.int16(first_kept), np.float32(scale)
    kept_weights = array_at(weights, _ZERO, (count, heads, length, scores.shape[1], LANES))
    chunks = heads * width
    query_rows = array_at(queries, kind, (count, length, 3 * chunks if beside else chunks, LANES))
    source_rows = array_at(sources, kind, (count, keys, 3 * chunks if beside else 2 * chunks, LANES))
    out_rows = array_at(out, kind, (count, length, chunks, LANES))
    key_at = chunks if beside else 0
    factor = _LOG2_E / np.sqrt(np.float32(width * LANES))
    for b in range(count):
        for h in range(heads):
            shift = h * width
            _load(query_rows, b, shift, factor, query)
            _load(source_rows, b, key_at + shift, _ONE, key)
            _turned(key, keys, turned)
            _multiply(query, False, turned, length, width * LANES, scores)
            _load(source_rows, b, key_at + chunks + shift, _ONE, key)
            for t in range(length):
                seen = keys
                if mask:
                    seen, first = 0, b * mask_steps[0] + t * mask_steps[1]
                    while seen < keys and flags[first + seen]:
                        seen += 1
                _softmax(scores[t], np.int32(seen), kept_weights[b, h, t])
                if draws:
                    bits = drawn[b, h, t]
                    for s in range(keys):
                        kept = kept_weights[b, h, t, s // LANES, s % LANES] * rate
                        scores[t, s // LANES, s % LANES] = chosen(bits[s] >= least, kept, _ZERO)
            _multiply(scores, False, key, length, keys, result)
            _store(result, _ONE, out_rows, b, shift)


@compiled_with_nan
def attend_back(
    kind: Any,
    shape: tuple[int, int, int, int, int],
    grads: int,
    queries: int,
    sources: int,
    beside: bool,
    draws: int,
    first_kept: int,
    scale: float,
    weights: int,
    query: Any,
    key: Any,
    turned: Any,
    scores: Any,
    dropped: Any,
    result: Any,
    source_result: Any,
    query_grads: int,
    source_grads: int,
) -> None:
    """The gradients of `attend` with respect to queries and sources, laid out as those are."""
    count, heads, length, keys, width = shape
    drawn, least, rate = array_at(draws, _SHORT, (count, heads, length, keys)), np.int16(first_kept), np.float32(scale)
    kept_weights = array_at(weights, _ZERO, (count, heads, length, scores.shape[1], LANES))
    chunks = heads * width
    query_shape = (count, length, 3 * chunks if beside else chunks, LANES)
    source_shape = (count, keys, 3 * chunks if beside else 2 * chunks, LANES)
    query_rows, made_query_rows = array_at(queries, kind, query_shape), array_at(query_grads, kind, query_shape)
    source_rows, made_source_rows = array_at(sources, kind, source_shape), array_at(source_grads, kind, source_shape)
    upstream = array_at(grads, kind, (count, length, chunks, LANES))
    key_at = chunks if beside else 0
    factor = _ONE / np.sqrt(np.float32(width * LANES))
    for b in range(count):
        for h in range(heads):
            shift = h * width
            _load(upstream, b, shift, _ONE, query)
            _load(source_rows, b, key_at + chunks + shift, _ONE, key)
            _turned(key, keys, turned)
            _multiply(query, False, turned, length, width * LANES, scores)
            if draws:
                for t in range(length):
                    bits = drawn[b, h, t]
                    for s in range(keys):
                        c, i = s // LANES, s % LANES
                        is_kept = bits[s] >= least
                        dropped[t, c, i] = chosen(is_kept, kept_weights[b, h, t, c, i] * rate, _ZERO)
                        scores[t, c, i] = chosen(is_kept, scores[t, c, i] * rate, _ZERO)
                _multiply(dropped, True, query, keys, length, source_result)
            else:
                _multiply(kept_weights[b, h], True, query, keys, length, source_result)
            _store(source_result, _ONE, made_source_rows, b, key_at + chunks + shift)
            for t in range(length):
                _softmax_back(scores[t], kept_weights[b, h, t])
            _load(source_rows, b, key_at + shift, _ONE, key)
            _multiply(scores, False, key, length, keys, result)
            _store(result, factor, made_query_rows, b, shift)
            _load(query_rows, b, shift, _ONE, query)
            _multiply(scores, True, query, keys, length, source_result)
            _store(source_result, factor, made_source_rows, b, key_at + shift)

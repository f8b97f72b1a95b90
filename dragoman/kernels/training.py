"""Operations of a training step between the matrix products of a layer, forward and backward.

Each function makes one pass over its rows. torch would read and write all numbers once for each elementary operation.
In a small model that takes longer than the products. `training/step/fused.py` wraps these functions as autograd
functions, and `training/step/accelerated.py` builds modules of them.

Conventions:

- Most arguments are addresses of contiguous memory. Making an array of a tensor in Python would release Python's lock
  several times, and other computing threads wait for the lock.
- `kind` is any number of the type that activations are stored in: float32, or uint16 for bfloat16. All other arrays and
  all sums are float32.
- `dropout_bits` are 16 random bits for each element, as int16. Dropout keeps an element if its bits are at least
  `first_kept`, and multiplies it by `scale`. If the address of the bits is 0, functions that allow it apply no dropout.
- Attention works on matrices whose columns are split into chunks of VECTOR_WIDTH (L): (rows, chunks, L).
"""

import math
from typing import Any

import numpy as np

from dragoman.kernels import VECTOR_WIDTH, processor, vectors
from dragoman.kernels.jit import jit_cached, jit_compile
from dragoman.kernels.vectors import array_at, at_least, load_number, maximum, norm_statistics, select, store_number

_ZERO, _ONE = np.float32(0), np.float32(1)
_BYTE, _SHORT, _LONG = np.uint8(0), np.int16(0), np.int64(0)
_LEAST = np.float32(-3e38)
_LOG2_E = np.float32(math.log2(math.e))


@jit_cached
def fill_random(state: Any, count: int, out: int) -> None:
    """Write `count` numbers of 64 random bits with SFC64 (Doty-Humphrey) and advance its state of four numbers."""
    words = array_at(out, np.uint64(0), (count,))
    one, other, third, counter = state[0], state[1], state[2], state[3]
    for i in range(count):
        word = one + other + counter
        counter += np.uint64(1)
        one = other ^ (other >> np.uint64(11))
        other = third + (third << np.uint64(3))
        third = ((third << np.uint64(24)) | (third >> np.uint64(40))) + word
        words[i] = word
    state[0], state[1], state[2], state[3] = one, other, third, counter


@jit_cached
def add_kept(
    kind: Any, size: int, hidden: int, output: int, dropout_bits: int, first_kept: int, scale: float, total: int
) -> None:
    """total = hidden + dropout(output), the residual connection. All three have `size` numbers of `kind`."""
    ours, added, out = array_at(hidden, kind, (size,)), array_at(output, kind, (size,)), array_at(total, kind, (size,))
    all_bits, least, factor = array_at(dropout_bits, _SHORT, (size,)), np.int16(first_kept), np.float32(scale)
    for i in range(size):
        kept = select(all_bits[i] >= least, load_number(added[i]) * factor, _ZERO)
        store_number(out, i, load_number(ours[i]) + kept)


@jit_cached
def scale_kept(kind: Any, size: int, values: int, dropout_bits: int, first_kept: int, scale: float, out: int) -> None:
    """out = dropout(values). Both have `size` numbers of `kind`."""
    inputs, results = array_at(values, kind, (size,)), array_at(out, kind, (size,))
    all_bits, least, factor = array_at(dropout_bits, _SHORT, (size,)), np.int16(first_kept), np.float32(scale)
    for i in range(size):
        store_number(results, i, select(all_bits[i] >= least, load_number(inputs[i]) * factor, _ZERO))


@jit_cached
def normalize_rows(
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
    """Layer norm: normed = (rows - mean) / sqrt(variance + epsilon) * gain + bias.

    `rows` and `normed` (count, width), `gain` and `bias` (width,) have the type of `kind`. `means` and `inverses`
    (count,) receive the mean and 1 / sqrt(variance + epsilon) of each row, for the backward pass.
    """
    inputs, results = array_at(rows, kind, (count, width)), array_at(normed, kind, (count, width))
    gains, biases = array_at(gain, kind, (width,)), array_at(bias, kind, (width,))
    kept_means, kept_inverses = array_at(means, _ZERO, (count,)), array_at(inverses, _ZERO, (count,))
    for n in range(count):
        row, out = inputs[n], results[n]
        mean, inverse = norm_statistics(row, epsilon)
        kept_means[n], kept_inverses[n] = mean, inverse
        for i in range(width):
            store_number(
                out, i, (load_number(row[i]) - mean) * inverse * load_number(gains[i]) + load_number(biases[i])
            )


@jit_cached
def normalize_rows_backward(
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
    """The gradient of `normalize_rows` with respect to rows, gain and bias.

    `grads` (count, width) are the gradients of the output. `sums` (2, width) is a float32 buffer of zeros.
    """
    inputs, upstream = array_at(rows, kind, (count, width)), array_at(grads, kind, (count, width))
    results, gains = array_at(row_grads, kind, (count, width)), array_at(gain, kind, (width,))
    kept_means, kept_inverses = array_at(means, _ZERO, (count,)), array_at(inverses, _ZERO, (count,))
    share = _ONE / np.float32(width)
    gain_sums, bias_sums = sums[0], sums[1]
    for n in range(count):
        row, grad, out = inputs[n], upstream[n], results[n]
        mean, inverse = kept_means[n], kept_inverses[n]
        plain, along = vectors.sums_of_gradients(grad, gains, row, mean, inverse)
        plain, along = plain * share, along * share
        for i in range(width):
            normed, above = (load_number(row[i]) - mean) * inverse, load_number(grad[i])
            gain_sums[i] += above * normed
            bias_sums[i] += above
            store_number(out, i, inverse * (above * load_number(gains[i]) - plain - normed * along))
    _round(kind, gain_sums, gain_grad)
    _round(kind, bias_sums, bias_grad)


@jit_compile
def _round(kind: Any, values: Any, out: int) -> None:
    """out = values, rounded to the type of `kind`."""
    results = array_at(out, kind, (values.size,))
    for i in range(values.size):
        store_number(results, i, values[i])


@jit_cached
def pad_rows(kind: Any, count: int, width: int, values: int, rows: int, out: int) -> None:
    """out (rows, width) = values (count, width), followed by rows of zeros."""
    inputs, results = array_at(values, kind, (count * width,)), array_at(out, kind, (rows * width,))
    for i in range(inputs.size):
        results[i] = inputs[i]
    for i in range(inputs.size, results.size):
        store_number(results, i, _ZERO)


@jit_cached
def add_rows(kind: Any, count: int, width: int, rows: int, sums: Any, out: int) -> None:
    """out (width,) = the sum of the rows (count, width). `sums` (width,) is a float32 buffer of zeros."""
    inputs = array_at(rows, kind, (count, width))
    for n in range(count):
        row = inputs[n]
        for i in range(width):
            sums[i] += load_number(row[i])
    _round(kind, sums, out)


@jit_cached
def add_values(kind: Any, size: int, sums: int, values: int) -> None:
    """sums += values. The sums are float32, the values have the type of `kind`."""
    total, inputs = array_at(sums, _ZERO, (size,)), array_at(values, kind, (size,))
    for i in range(size):
        total[i] += load_number(inputs[i])


@jit_cached
def rectify_values(
    kind: Any, size: int, values: int, dropout_bits: int, first_kept: int, scale: float, out: int
) -> None:
    """out = dropout(ReLU(values)). Both have `size` numbers of `kind`. `dropout_bits` may be 0."""
    inputs, results = array_at(values, kind, (size,)), array_at(out, kind, (size,))
    if dropout_bits:
        all_bits, least, factor = array_at(dropout_bits, _SHORT, (size,)), np.int16(first_kept), np.float32(scale)
        for i in range(size):
            rectified = at_least(load_number(inputs[i]), _ZERO)
            store_number(results, i, select(all_bits[i] >= least, rectified * factor, _ZERO))
    else:
        for i in range(size):
            store_number(results, i, at_least(load_number(inputs[i]), _ZERO))


@jit_cached
def rectify_values_backward(kind: Any, size: int, grads: int, outputs: int, scale: float, out: int) -> None:
    """The gradient of `rectify_values`: grads * scale where its outputs are above 0, else 0. All have `kind`."""
    upstream, passed, results = (
        array_at(grads, kind, (size,)),
        array_at(outputs, kind, (size,)),
        array_at(out, kind, (size,)),
    )
    factor = np.float32(scale)
    for i in range(size):
        store_number(results, i, select(load_number(passed[i]) > _ZERO, load_number(upstream[i]) * factor, _ZERO))


@jit_cached
def embed_ids(
    kind: Any,
    count: int,
    length: int,
    ids: int,
    vocab_size: int,
    width: int,
    table: int,
    factor: float,
    positions: int,
    dropout_bits: int,
    first_kept: int,
    scale: float,
    out: int,
) -> bool:
    """out = dropout(factor * table[ids] + positions). `dropout_bits` may be 0.

    `ids` (count, length) are int64, `table` (vocab_size, width) and `positions` (length, width) float32, and `out`
    (count, length, width) has the type of `kind`. Returns False at the first id that has no row in the table.
    """
    tokens, rows = array_at(ids, _LONG, (count, length)), array_at(table, _ZERO, (vocab_size, width))
    places, results = array_at(positions, _ZERO, (length, width)), array_at(out, kind, (count, length, width))
    all_bits = array_at(dropout_bits, _SHORT, (count, length, width))
    least, rate, root = np.int16(first_kept), np.float32(scale), np.float32(factor)
    for b in range(count):
        for t in range(length):
            token = tokens[b, t]
            if token < 0 or token >= vocab_size:
                return False
            row, place, target = rows[token], places[t], results[b, t]
            if dropout_bits:
                bits = all_bits[b, t]
                for i in range(width):
                    store_number(target, i, select(bits[i] >= least, (row[i] * root + place[i]) * rate, _ZERO))
            else:
                for i in range(width):
                    store_number(target, i, row[i] * root + place[i])
    return True


@jit_cached
def embed_ids_backward(
    kind: Any,
    count: int,
    ids: int,
    vocab_size: int,
    width: int,
    grads: int,
    factor: float,
    dropout_bits: int,
    first_kept: int,
    scale: float,
    table_grad: int,
) -> None:
    """Add the gradient of `embed_ids` for `count` ids to `table_grad` (vocab_size, width)."""
    tokens, sums = array_at(ids, _LONG, (count,)), array_at(table_grad, _ZERO, (vocab_size, width))
    upstream, all_bits = array_at(grads, kind, (count, width)), array_at(dropout_bits, _SHORT, (count, width))
    least, rate = np.int16(first_kept), np.float32(scale * factor)
    for n in range(count):
        target, grad = sums[tokens[n]], upstream[n]
        if dropout_bits:
            bits = all_bits[n]
            for i in range(width):
                target[i] += select(bits[i] >= least, load_number(grad[i]) * rate, _ZERO)
        else:
            for i in range(width):
                target[i] += load_number(grad[i]) * rate


@jit_cached
def exponentiate_rows(kind: Any, count: int, width: int, rows: int, totals: int) -> None:
    """rows = 2 ** rows, in place, and totals (count,) = the float32 sum of each row (count, width)."""
    inputs, sums = array_at(rows, kind, (count, width)), array_at(totals, _ZERO, (count,))
    for n in range(count):
        sums[n] = vectors.write_powers(inputs[n])


@jit_compile
def _load(rows: Any, batch: int, first: int, factor: Any, out: Any) -> None:
    """out (T, chunks, L) = factor * rows[batch], for the chunks from `first` on."""
    for t in range(rows.shape[1]):
        for c in range(out.shape[1]):
            vectors.copy_vector(rows[batch, t, first + c], factor, out[t, c])


@jit_compile
def _store(values: Any, factor: Any, rows: Any, batch: int, first: int) -> None:
    """rows[batch] = factor * values (T, chunks, L), for the chunks from `first` on. The reverse of `_load`."""
    for t in range(rows.shape[1]):
        for c in range(values.shape[1]):
            vectors.copy_vector(values[t, c], factor, rows[batch, t, first + c])


@jit_compile
def _transpose(rows: Any, count: int, out: Any) -> None:
    """out = the transpose of the first `count` rows. Both are matrices in chunks."""
    for s in range(count):
        chunk, lane = s // VECTOR_WIDTH, s % VECTOR_WIDTH
        for c in range(rows.shape[1]):
            row = rows[s, c]
            for i in range(VECTOR_WIDTH):
                out[c * VECTOR_WIDTH + i, chunk, lane] = row[i]


@jit_compile
def _multiply(left: Any, turned: bool, right: Any, rows: int, depth: int, out: Any) -> None:
    """out = the first `rows` rows of left @ right, or of left^T @ right if `turned`. All are matrices in chunks."""
    width = left.shape[1] * VECTOR_WIDTH
    row_step, step = (1, width) if turned else (width, 1)
    flat = left.reshape(left.size)
    for c in range(right.shape[1]):
        for t in range(0, rows, processor.TILE_ROWS):
            vectors.multiply_tile(flat, t * row_step, row_step, step, right[:, c:], depth, out[:, c:], t)


@jit_compile
def _softmax(scores: Any, seen: Any, weights: Any) -> None:
    """Replace one row of scores in base 2 by its softmax over the first `seen` keys, and copy it to `weights`."""
    top = _LEAST
    for c in range(scores.shape[0]):
        top = maximum(top, vectors.max_of_vector(scores[c], seen - np.int32(c * VECTOR_WIDTH)))
    total = _ZERO
    for c in range(scores.shape[0]):
        total += vectors.exp2_of_vector(scores[c], seen - np.int32(c * VECTOR_WIDTH), top)
    inverse = _ONE / total
    for c in range(scores.shape[0]):
        vectors.copy_vector(scores[c], inverse, scores[c])
        vectors.copy_vector(scores[c], _ONE, weights[c])


@jit_compile
def _softmax_backward(scores: Any, weights: Any) -> None:
    """Replace the gradient of one row of weights by the gradient of its scores."""
    mean = _ZERO
    for c in range(scores.shape[0]):
        mean += vectors.dot_of_vectors(scores[c], weights[c])
    for c in range(scores.shape[0]):
        vectors.subtract_and_multiply(scores[c], mean, weights[c])


@jit_cached
def attention_forward(
    kind: Any,
    shape: tuple[int, int, int, int, int],
    queries: int,
    sources: int,
    beside: bool,
    mask: int,
    mask_steps: tuple[int, int],
    dropout_bits: int,
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
    """Attention of all heads: out = dropout(softmax(Q K^T / sqrt(K))) V (Vaswani et al. 2017, equation 1).

    One head of one sentence at a time fits into the processor's cache. Scores are in base 2, because exp2 is cheaper
    than exp.

    Parameters
    ----------
    shape
        (B, H, T, S, chunks of a head).
    queries, sources, beside
        Self-attention (`beside`): both are the joint projection (B, T, 3D) of query, key and value. Otherwise `queries`
        is (B, T, D) and `sources` the projection (B, S, 2D) of key and value.
    mask, mask_steps
        Address of Boolean flags, or 0 for no mask. A query may attend to its first keys up to the first False.
        `mask_steps` are the steps from one sentence, and one query, to the next.
    dropout_bits
        (B, H, T, S), or address 0.
    query, key, turned, scores, result
        Buffers for one head.
    weights, out
        The results: attention weights before dropout (B, H, T, S in whole chunks), and (B, T, D).
    """
    count, heads, length, keys, width = shape
    flags = array_at(mask, _BYTE, (count * mask_steps[0] + length * mask_steps[1] + keys,))
    all_bits = array_at(dropout_bits, _SHORT, (count, heads, length, keys))
    least, rate = np.int16(first_kept), np.float32(scale)
    kept_weights = array_at(weights, _ZERO, (count, heads, length, scores.shape[1], VECTOR_WIDTH))
    chunks = heads * width
    query_rows = array_at(queries, kind, (count, length, 3 * chunks if beside else chunks, VECTOR_WIDTH))
    source_rows = array_at(sources, kind, (count, keys, 3 * chunks if beside else 2 * chunks, VECTOR_WIDTH))
    out_rows = array_at(out, kind, (count, length, chunks, VECTOR_WIDTH))
    key_at = chunks if beside else 0
    factor = _LOG2_E / np.sqrt(np.float32(width * VECTOR_WIDTH))
    for b in range(count):
        for h in range(heads):
            shift = h * width
            _load(query_rows, b, shift, factor, query)
            _load(source_rows, b, key_at + shift, _ONE, key)
            _transpose(key, keys, turned)
            _multiply(query, False, turned, length, width * VECTOR_WIDTH, scores)
            _load(source_rows, b, key_at + chunks + shift, _ONE, key)
            for t in range(length):
                seen = keys
                if mask:
                    seen, first = 0, b * mask_steps[0] + t * mask_steps[1]
                    while seen < keys and flags[first + seen]:
                        seen += 1
                _softmax(scores[t], np.int32(seen), kept_weights[b, h, t])
                if dropout_bits:
                    bits = all_bits[b, h, t]
                    for s in range(keys):
                        kept = kept_weights[b, h, t, s // VECTOR_WIDTH, s % VECTOR_WIDTH] * rate
                        scores[t, s // VECTOR_WIDTH, s % VECTOR_WIDTH] = select(bits[s] >= least, kept, _ZERO)
            _multiply(scores, False, key, length, keys, result)
            _store(result, _ONE, out_rows, b, shift)


@jit_cached
def attention_backward(
    kind: Any,
    shape: tuple[int, int, int, int, int],
    grads: int,
    queries: int,
    sources: int,
    beside: bool,
    dropout_bits: int,
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
    """The gradients of `attention_forward` with respect to `queries` and `sources`, in the same layout.

    `grads` (B, T, D) are the gradients of the output, and `weights` the weights that the forward pass wrote. The arrays
    from `query` to `source_result` are buffers for one head.
    """
    count, heads, length, keys, width = shape
    all_bits = array_at(dropout_bits, _SHORT, (count, heads, length, keys))
    least, rate = np.int16(first_kept), np.float32(scale)
    kept_weights = array_at(weights, _ZERO, (count, heads, length, scores.shape[1], VECTOR_WIDTH))
    chunks = heads * width
    query_shape = (count, length, 3 * chunks if beside else chunks, VECTOR_WIDTH)
    source_shape = (count, keys, 3 * chunks if beside else 2 * chunks, VECTOR_WIDTH)
    query_rows, query_grad_rows = array_at(queries, kind, query_shape), array_at(query_grads, kind, query_shape)
    source_rows, source_grad_rows = array_at(sources, kind, source_shape), array_at(source_grads, kind, source_shape)
    upstream = array_at(grads, kind, (count, length, chunks, VECTOR_WIDTH))
    key_at = chunks if beside else 0
    factor = _ONE / np.sqrt(np.float32(width * VECTOR_WIDTH))
    for b in range(count):
        for h in range(heads):
            shift = h * width
            _load(upstream, b, shift, _ONE, query)
            _load(source_rows, b, key_at + chunks + shift, _ONE, key)
            _transpose(key, keys, turned)
            _multiply(query, False, turned, length, width * VECTOR_WIDTH, scores)
            if dropout_bits:
                for t in range(length):
                    bits = all_bits[b, h, t]
                    for s in range(keys):
                        c, i = s // VECTOR_WIDTH, s % VECTOR_WIDTH
                        is_kept = bits[s] >= least
                        dropped[t, c, i] = select(is_kept, kept_weights[b, h, t, c, i] * rate, _ZERO)
                        scores[t, c, i] = select(is_kept, scores[t, c, i] * rate, _ZERO)
                _multiply(dropped, True, query, keys, length, source_result)
            else:
                _multiply(kept_weights[b, h], True, query, keys, length, source_result)
            _store(source_result, _ONE, source_grad_rows, b, key_at + chunks + shift)
            for t in range(length):
                _softmax_backward(scores[t], kept_weights[b, h, t])
            _load(source_rows, b, key_at + shift, _ONE, key)
            _multiply(scores, False, key, length, keys, result)
            _store(result, factor, query_grad_rows, b, shift)
            _load(query_rows, b, shift, _ONE, query)
            _multiply(scores, True, query, keys, length, source_result)
            _store(source_result, factor, source_grad_rows, b, key_at + shift)

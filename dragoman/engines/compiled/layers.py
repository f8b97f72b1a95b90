"""The Transformer's layers in machine code: matrix products, layer norm, attention (Vaswani et al. 2017, section 3).

Functions work on the rows of `RowBuffers`, one for each source token (encoder) or hypothesis (decoder). A sublayer
reads `rows.inputs` (quantized in int8 and int16), writes `rows.outputs`, and the residual sum is in `rows.states`. The
results of a row do not depend on the other rows of the pass, to the last bit.

Tricks that are worth their ugliness (measured in docs/log/2026.md, 2026-11-21):

- Scales and biases are applied inside the tile of a product: the vocabulary product takes 12.1 instead of 16.0 us.
- Softmax works on whole blocks of 16 scores, the last one padded.
- Layer norm writes to a second line first, because LLVM does not vectorize a loop that writes what it reads.
- Keys and values are float16 unless the precision is float32, and are prefetched while the hypothesis before them is
  computed: 35 to 29 us per hypothesis and step.
"""

import math
from typing import Any

import numpy as np
from numba.extending import overload

from dragoman.engines.compiled.layout import (
    DecoderWeights,
    EncoderWeights,
    Floats,
    Integers1,
    Norm,
    PackedLinear,
    RowBuffers,
    SearchState,
    Shape,
    as_variable,
)
from dragoman.kernels import VECTOR_WIDTH
from dragoman.kernels.jit import STRICT_ARITHMETIC, jit_without_nan
from dragoman.kernels.matrix_products import dot, fetch_ahead, keep, multiply, weighted_sum
from dragoman.kernels.processor import CACHE_LINE_BYTES, HEAD_WIDTH_MULTIPLE, PRODUCT_COLUMNS, PRODUCT_ROWS
from dragoman.kernels.vectors import copy_vector, exp2, exp2_of_vector, max_of_vector, maximum, norm_statistics

_ZERO, _ONE = np.float32(0), np.float32(1)
_LARGEST_BYTE, _ZERO_BYTE, _TINY = np.float32(127), np.float32(128.5), np.float32(1e-30)
# Rounding to the nearest without a call: add the shift and a half, truncate, and subtract the shift.
_LARGEST_SHORT, _LARGEST_SUM = 32767, 2**31 - 1
_SHORT_SHIFT, _ZERO_SHORT = np.int32(32768), np.float32(32768.5)
_LOG2_E = np.float32(math.log2(math.e))
_ROOT_HALF = math.sqrt(0.5)
_LEAST = np.float32(-3e38)
# Below this, |x / (1 + exp(-x))| is less than 1e-32. Clamping keeps exp from overflowing.
_LEAST_SWISH = np.float32(-80)
BLOCK = VECTOR_WIDTH
"""Attention scores that softmax processes at once."""


def store_row(values: Floats, inputs: Any, scales: Floats, row: int) -> None:
    """Store `values` as one row of a product's inputs, in the type of the inputs.

    uint8 and int16 are quantized, with the scale of the row in `scales`. uint8 are stored plus 128.
    """


@overload(store_row, jit_options=STRICT_ARITHMETIC)  # type: ignore[untyped-decorator]
def _put_row(values: Any, inputs: Any, scales: Any, row: Any) -> Any:
    if inputs.dtype.name == "uint8":

        def put(values: Any, inputs: Any, scales: Any, row: Any) -> None:
            largest = _TINY
            for i in range(values.size):
                largest = maximum(largest, abs(values[i]))
            factor = _LARGEST_BYTE / largest
            scales[row] = largest / _LARGEST_BYTE
            target = inputs[row]
            for i in range(values.size):
                target[i] = np.uint8(np.int32(values[i] * factor + _ZERO_BYTE))

    elif inputs.dtype.name == "int16":

        def put(values: Any, inputs: Any, scales: Any, row: Any) -> None:
            # The formula of `kernels.processor.largest_integer`.
            most = np.float32(min(_LARGEST_SHORT, math.floor(math.sqrt(_LARGEST_SUM / values.size))))
            largest = _TINY
            for i in range(values.size):
                largest = maximum(largest, abs(values[i]))
            factor = most / largest
            scales[row] = largest / most
            target = inputs[row]
            for i in range(values.size):
                target[i] = np.int16(np.int32(values[i] * factor + _ZERO_SHORT) - _SHORT_SHIFT)

    else:

        def put(values: Any, inputs: Any, scales: Any, row: Any) -> None:
            target = inputs[row]
            for i in range(values.size):
                target[i] = values[i]

    return put


@jit_without_nan
def multiply_rows(
    inputs: Any, scales: Floats, linear: PackedLinear, layer: int, num_rows: int, outputs: Floats
) -> None:
    """outputs = inputs times one layer's weights, for the first `num_rows` rows, rounded up to whole tiles."""
    panels, correction = linear.panels[layer], linear.correction[layer]
    scale, bias = linear.scale[layer], linear.bias[layer]
    for panel in range(panels.shape[0]):
        for row in range(0, num_rows, PRODUCT_ROWS):
            multiply(inputs, scales, row, panels, correction, scale, bias, panel, outputs, row, panel * PRODUCT_COLUMNS)


@jit_without_nan
def normalize_row(values: Floats, gain: Floats, bias: Floats, epsilon: float, out: Floats) -> None:
    """Layer norm of one row."""
    mean, factor = norm_statistics(values, epsilon)
    for i in range(values.size):
        out[i] = (values[i] - mean) * factor * gain[i] + bias[i]


@jit_without_nan
def embed_row(rows: RowBuffers, row: int, embedding: Floats, position: Floats) -> None:
    """states = embedding * sqrt(D) + position (section 3.4)."""
    factor = np.float32(math.sqrt(embedding.size))
    for i in range(embedding.size):
        rows.states[row, i] = embedding[i] * factor + position[i]


@jit_without_nan
def _normalise_state(row: int, norm: Norm, layer: int, shape: Shape, rows: RowBuffers) -> None:
    """Layer norm of one row of states, in place but through `rows.line`.

    LLVM does not vectorize loops that read and write the same memory.
    """
    states, line = rows.states[row], rows.line[: rows.states.shape[1]]
    normalize_row(states, norm.gain[layer], norm.bias[layer], shape.epsilon, line)
    for i in range(states.size):
        states[i] = line[i]


@jit_without_nan
def enter_sublayer(rows: RowBuffers, num_rows: int, norm: Norm, layer: int, shape: Shape) -> None:
    """inputs = states, after layer norm if the model has it before sublayers (`norm_first`)."""
    for row in range(num_rows):
        if shape.norm_first:
            line = rows.line[: rows.states.shape[1]]
            normalize_row(rows.states[row], norm.gain[layer], norm.bias[layer], shape.epsilon, line)
            store_row(line, rows.inputs, rows.scales, row)
        else:
            store_row(rows.states[row], rows.inputs, rows.scales, row)


@jit_without_nan
def leave_sublayer(rows: RowBuffers, num_rows: int, norm: Norm, layer: int, shape: Shape) -> None:
    """states += outputs, followed by layer norm if the model has it after sublayers."""
    for row in range(num_rows):
        states, outputs = rows.states[row], rows.outputs[row]
        for i in range(states.size):
            states[i] += outputs[i]
        if not shape.norm_first:
            _normalise_state(row, norm, layer, shape, rows)


@jit_without_nan
def attend_head(
    query: Floats, keys: Any, values: Any, value_shift: int, num_keys: int, rows: RowBuffers, num_heads: int
) -> None:
    """merged = softmax(Q K^T) V of every head, for one query (A,).

    The keys of position k start at `rows.places[k]`, and its values at `rows.places[k] + value_shift`. The query's
    projection contains the scale of the scores, which are in base 2.
    """
    width, scores, places = query.size // num_heads, rows.scores, rows.places
    for k in range(num_keys):
        for head in range(num_heads):
            scores[head, k] = dot(query, head * width, keys, places[k] + head * width, width)
    weigh(values, value_shift, num_keys, rows, num_heads)


@jit_without_nan
def weigh(values: Any, value_shift: int, num_keys: int, rows: RowBuffers, num_heads: int) -> None:
    """merged = the sums of the values, weighted by the softmax of `rows.scores`, for every head."""
    width = rows.merged.size // num_heads
    for head in range(num_heads):
        scores = rows.scores[head]
        softmax(scores, num_keys)
        for at in range(head * width, (head + 1) * width, HEAD_WIDTH_MULTIPLE):
            weighted_sum(rows.merged, at, scores, 0, values, rows.places, value_shift + at, num_keys)


@jit_without_nan
def softmax(scores: Floats, size: int) -> None:
    """Softmax of the first `size` scores, in base 2 and in place. The array has space for one more block."""
    largest = _LEAST
    for k in range(0, size, BLOCK):
        largest = maximum(largest, max_of_vector(scores[k:], np.int32(size - k)))
    total = _ZERO
    for k in range(0, size, BLOCK):
        total += exp2_of_vector(scores[k:], np.int32(size - k), largest)
    factor = _ONE / total
    for k in range(0, size, BLOCK):
        copy_vector(scores[k:], factor, scores[k:])


@jit_without_nan
def activate(values: Floats, activation: int, out: Floats) -> None:
    """out = the activation function of each value: ReLU (0), GELU (1) or Swish (2)."""
    if activation == 0:
        for i in range(values.size):
            out[i] = maximum(values[i], _ZERO)
    elif activation == 1:
        for i in range(values.size):
            out[i] = values[i] * np.float32(0.5 + 0.5 * math.erf(values[i] * _ROOT_HALF))
    else:
        for i in range(values.size):
            out[i] = values[i] / (_ONE + exp2(-maximum(values[i], _LEAST_SWISH) * _LOG2_E))


@jit_without_nan
def feed_forward_sublayer(
    weights: EncoderWeights | DecoderWeights, rows: RowBuffers, num_rows: int, layer: int, shape: Shape
) -> None:
    """The feed-forward network of one layer, with its residual connection."""
    enter_sublayer(rows, num_rows, weights.feed_forward_norm, layer, shape)
    multiply_rows(rows.inputs, rows.scales, weights.inner, layer, num_rows, rows.outputs)
    width = rows.inner_inputs.shape[1]
    for row in range(num_rows):
        line, out = rows.outputs[row, :width], rows.line[:width]
        activate(line, shape.activation, out)
        store_row(out, rows.inner_inputs, rows.scales, row)
    multiply_rows(rows.inner_inputs, rows.scales, weights.outer, layer, num_rows, rows.outputs)
    leave_sublayer(rows, num_rows, weights.feed_forward_norm, layer, shape)


@jit_without_nan
def finish(rows: RowBuffers, num_rows: int, norm: Norm, shape: Shape) -> None:
    """inputs = the final states of a stack, after its final layer norm if it has one."""
    for row in range(num_rows):
        if norm.gain.shape[0]:
            _normalise_state(row, norm, as_variable(0), shape, rows)
        store_row(rows.states[row], rows.inputs, rows.scales, row)


@jit_without_nan
def encode(
    weights: EncoderWeights,
    decoder: DecoderWeights,
    shape: Shape,
    rows: RowBuffers,
    search: SearchState,
    ids: Integers1,
    starts: Integers1,
    slots: Integers1,
) -> None:
    """Encode sentences and store the keys and values of cross-attention in their slots.

    `ids` are the source ids of all sentences, one after the other. Sentence n is ids[starts[n]:starts[n + 1]] and
    belongs to `slots[n]`.
    """
    num_rows, width, sources = ids.size, rows.merged.size, decoder.cross_sources
    for n in range(slots.size):
        for row in range(starts[n], starts[n + 1]):
            embed_row(rows, row, weights.embedding[ids[row]], weights.positions[row - starts[n]])
    stride = rows.outputs.shape[1]
    for layer in range(weights.self_in.panels.shape[0]):
        enter_sublayer(rows, num_rows, weights.self_norm, layer, shape)
        multiply_rows(rows.inputs, rows.scales, weights.self_in, layer, num_rows, rows.outputs)
        for n in range(slots.size):
            length = starts[n + 1] - starts[n]
            for k in range(length):
                rows.places[k] = (starts[n] + k) * stride + width
            for row in range(starts[n], starts[n + 1]):
                query = rows.outputs[row, :width]
                attend_head(query, rows.all_outputs, rows.all_outputs, width, length, rows, shape.num_heads)
                store_row(rows.merged, rows.attended, rows.scales, row)
        multiply_rows(rows.attended, rows.scales, weights.self_out, layer, num_rows, rows.outputs)
        leave_sublayer(rows, num_rows, weights.self_norm, layer, shape)
        feed_forward_sublayer(weights, rows, num_rows, layer, shape)
    finish(rows, num_rows, weights.final_norm, shape)
    for layer in range(sources.panels.shape[0]):
        multiply_rows(rows.inputs, rows.scales, sources, layer, num_rows, rows.outputs)
        for n in range(slots.size):
            search.src_lengths[slots[n]] = starts[n + 1] - starts[n]
            keep_source(slots[n], layer, starts[n], rows, search)


@jit_without_nan
def keep_source(slot: int, layer: int, first: int, rows: RowBuffers, search: SearchState) -> None:
    """Store one sentence's keys and values of cross-attention, which start at row `first` of `rows.outputs`.

    Keys are stored by dimension (A, S), so that `weighted_sum` computes the scores of 16 positions at once. The last
    block of positions is filled with copies of the last key. Values are stored by position (S, A).
    """
    width, length, line = rows.merged.size, search.src_lengths[slot], rows.line
    keys, values = search.src_keys[layer, slot], search.src_values[layer, slot]
    positions = keys.size // width
    for position in range(length):
        keep(values, position * width, rows.outputs[first + position], width, width)
    for begin in range(0, length, HEAD_WIDTH_MULTIPLE):
        for i in range(width):
            for k in range(HEAD_WIDTH_MULTIPLE):
                line[k] = rows.outputs[first + min(begin + k, length - 1), i]
            keep(keys, i * positions + begin, line, 0, HEAD_WIDTH_MULTIPLE)


@jit_without_nan
def _fetch_past(slot: int, hypothesis: int, layer: int, width: int, search: SearchState) -> None:
    """Prefetch the keys and values of one hypothesis's earlier tokens."""
    keys, values, ancestors = search.keys[layer, slot], search.values[layer, slot], search.ancestors[slot, hypothesis]
    line, beam_size = CACHE_LINE_BYTES // keys.itemsize, search.ids.shape[1]
    for k in range(search.position[slot]):
        first = (k * beam_size + ancestors[k]) * width
        for at in range(first, first + width, line):
            fetch_ahead(keys, at)
            fetch_ahead(values, at)


@jit_without_nan
def _fetch_source(slot: int, layer: int, width: int, search: SearchState) -> None:
    """Prefetch the keys and values of one sentence's source."""
    keys, values = search.src_keys[layer, slot], search.src_values[layer, slot]
    length, positions, line = search.src_lengths[slot], keys.size // width, CACHE_LINE_BYTES // keys.itemsize
    for at in range(0, length * width, line):
        fetch_ahead(values, at)
    for i in range(width):
        for at in range(i * positions, i * positions + length, line):
            fetch_ahead(keys, at)


@jit_without_nan
def self_attention_sublayer(rows: RowBuffers, num_rows: int, layer: int, shape: Shape, search: SearchState) -> None:
    """Attention of every hypothesis to its tokens, after storing the keys and values of the last one."""
    width, beam_size = rows.merged.size, search.ids.shape[1]
    for row in range(num_rows):
        if row + 1 < num_rows:
            _fetch_past(rows.slot[row + 1], rows.hypothesis[row + 1], layer, width, search)
        slot, hypothesis = rows.slot[row], rows.hypothesis[row]
        position = search.position[slot]
        keys, values = search.keys[layer, slot], search.values[layer, slot]
        ancestors, outputs = search.ancestors[slot, hypothesis], rows.outputs[row]
        own = (position * beam_size + hypothesis) * width
        keep(keys, own, outputs, width, width)
        keep(values, own, outputs, 2 * width, width)
        for k in range(position):
            rows.places[k] = (k * beam_size + ancestors[k]) * width
        rows.places[position] = own
        query = outputs[:width]
        attend_head(query, keys, values, as_variable(0), position + 1, rows, shape.num_heads)
        store_row(rows.merged, rows.attended, rows.scales, row)


@jit_without_nan
def score_source(row: int, layer: int, shape: Shape, rows: RowBuffers, search: SearchState) -> int:
    """rows.scores = the scores of every head of one row for the positions of its source. Returns their number."""
    width, slot = rows.merged.size, rows.slot[row]
    head_width, positions = width // shape.num_heads, search.src_keys.shape[2] // width
    keys, query = search.src_keys[layer, slot], rows.outputs[row]
    length: int = search.src_lengths[slot]
    for head in range(shape.num_heads):
        at, scores = head * head_width, rows.scores[head]
        for begin in range(0, length, HEAD_WIDTH_MULTIPLE):
            weighted_sum(scores, begin, query, at, keys, rows.dimensions, at * positions + begin, head_width)
    return length


@jit_without_nan
def cross_attention_sublayer(rows: RowBuffers, num_rows: int, layer: int, shape: Shape, search: SearchState) -> None:
    """Attention of every hypothesis to its source."""
    width = rows.merged.size
    for row in range(num_rows):
        slot = rows.slot[row]
        if row + 1 < num_rows and rows.slot[row + 1] != slot:
            _fetch_source(rows.slot[row + 1], layer, width, search)
        length = score_source(row, layer, shape, rows, search)
        for k in range(length):
            rows.places[k] = k * width
        weigh(search.src_values[layer, slot], as_variable(0), length, rows, shape.num_heads)
        store_row(rows.merged, rows.attended, rows.scales, row)


@jit_without_nan
def embed_token(weights: DecoderWeights, rows: RowBuffers, num_rows: int, search: SearchState) -> None:
    """states = embedding plus position of the last token of each hypothesis."""
    for row in range(num_rows):
        slot = rows.slot[row]
        token = search.ids[slot, rows.hypothesis[row]]
        embed_row(rows, row, weights.embedding[token], weights.positions[search.position[slot]])


@jit_without_nan
def decode(weights: DecoderWeights, shape: Shape, rows: RowBuffers, num_rows: int, search: SearchState) -> None:
    """Run the last token of every hypothesis through the decoder. Leaves the final states in `rows.inputs`."""
    embed_token(weights, rows, num_rows, search)
    for layer in range(weights.self_in.panels.shape[0]):
        enter_sublayer(rows, num_rows, weights.self_norm, layer, shape)
        multiply_rows(rows.inputs, rows.scales, weights.self_in, layer, num_rows, rows.outputs)
        self_attention_sublayer(rows, num_rows, layer, shape, search)
        multiply_rows(rows.attended, rows.scales, weights.self_out, layer, num_rows, rows.outputs)
        leave_sublayer(rows, num_rows, weights.self_norm, layer, shape)
        enter_sublayer(rows, num_rows, weights.cross_norm, layer, shape)
        multiply_rows(rows.inputs, rows.scales, weights.cross_query, layer, num_rows, rows.outputs)
        cross_attention_sublayer(rows, num_rows, layer, shape, search)
        multiply_rows(rows.attended, rows.scales, weights.cross_out, layer, num_rows, rows.outputs)
        leave_sublayer(rows, num_rows, weights.cross_norm, layer, shape)
        feed_forward_sublayer(weights, rows, num_rows, layer, shape)
    finish(rows, num_rows, weights.final_norm, shape)

"""Forced passes in machine code: whole targets run through the decoder at once.

All positions of a target are rows of one pass, and each attends to itself and the earlier ones. A step-by-step pass
with `layers.decode` would give the same numbers, but would read all weights once for each position.
"""

from dragoman.engines.compiled import layers
from dragoman.engines.compiled.beams import find_continuations, score_vocabulary
from dragoman.engines.compiled.layout import (
    BeamRules,
    DecoderWeights,
    Floats1,
    Floats3,
    Integers1,
    RowBuffers,
    SearchState,
    Shape,
    as_variable,
)
from dragoman.kernels.jit import jit_without_nan
from dragoman.kernels.matrix_products import keep


@jit_without_nan
def decode_targets(
    weights: DecoderWeights,
    shape: Shape,
    rows: RowBuffers,
    search: SearchState,
    ids: Integers1,
    starts: Integers1,
    attended: int,
    attention: Floats3,
) -> None:
    """Run whole targets through the decoder. Leaves the final states in `rows.inputs`.

    `ids` are the decoder's inputs of all sentences. Sentence n is ids[starts[n]:starts[n + 1]] and belongs to slot n,
    where `encode` stored its source. Cross-attention of layer `attended` is written to `attention` (R, H, S).
    """
    num_rows = ids.size
    for n in range(starts.size - 1):
        for row in range(starts[n], starts[n + 1]):
            rows.slot[row] = n
            layers.embed_row(rows, row, weights.embedding[ids[row]], weights.positions[row - starts[n]])
    for layer in range(weights.self_in.panels.shape[0]):
        layers.enter_sublayer(rows, num_rows, weights.self_norm, layer, shape)
        layers.multiply_rows(rows.inputs, rows.scales, weights.self_in, layer, num_rows, rows.outputs)
        causal_attention_sublayer(rows, starts, shape, search)
        layers.multiply_rows(rows.attended, rows.scales, weights.self_out, layer, num_rows, rows.outputs)
        layers.leave_sublayer(rows, num_rows, weights.self_norm, layer, shape)
        layers.enter_sublayer(rows, num_rows, weights.cross_norm, layer, shape)
        layers.multiply_rows(rows.inputs, rows.scales, weights.cross_query, layer, num_rows, rows.outputs)
        layers.cross_attention_sublayer(rows, num_rows, layer, shape, search)
        if layer == attended:
            copy_attention(rows, num_rows, layer, shape, search, attention)
        layers.multiply_rows(rows.attended, rows.scales, weights.cross_out, layer, num_rows, rows.outputs)
        layers.leave_sublayer(rows, num_rows, weights.cross_norm, layer, shape)
        layers.feed_forward_sublayer(weights, rows, num_rows, layer, shape)
    layers.finish(rows, num_rows, weights.final_norm, shape)


@jit_without_nan
def causal_attention_sublayer(rows: RowBuffers, starts: Integers1, shape: Shape, search: SearchState) -> None:
    """Attention of every position of a target to itself and the earlier ones.

    Keys and values go through the search's memory, where they are rounded as in a search. All layers use the memory of
    the first.
    """
    width = rows.merged.size
    for n in range(starts.size - 1):
        keys, values = search.keys[0, n], search.values[0, n]
        for row in range(starts[n], starts[n + 1]):
            position, outputs = row - starts[n], rows.outputs[row]
            rows.places[position] = position * width
            keep(keys, position * width, outputs, width, width)
            keep(values, position * width, outputs, 2 * width, width)
            layers.attend_head(outputs[:width], keys, values, as_variable(0), position + 1, rows, shape.num_heads)
            layers.store_row(rows.merged, rows.attended, rows.scales, row)


@jit_without_nan
def copy_attention(
    rows: RowBuffers, num_rows: int, layer: int, shape: Shape, search: SearchState, attention: Floats3
) -> None:
    """attention (R, H, S) = cross-attention of every row, computed again as in `cross_attention_sublayer`."""
    for row in range(num_rows):
        length = layers.score_source(row, layer, shape, rows, search)
        for head in range(shape.num_heads):
            layers.softmax(rows.scores[head], length)
            for k in range(length):
                attention[row, head, k] = rows.scores[head, k]


@jit_without_nan
def score_labels(
    weights: DecoderWeights, rows: RowBuffers, search: SearchState, labels: Integers1, log_probs: Floats1
) -> None:
    """Write the log-probability of the label of each row.

    Slot 0 is used as a search of one hypothesis, whose prefix is the label, for each row in turn.
    """
    rules, vocabulary, slot = BeamRules(1, 1, 0), weights.vocabulary, as_variable(0)
    score_vocabulary(vocabulary, rules, rows, labels.size, search)
    for row in range(labels.size):
        search.first_row[0], search.prefixes[0, 0] = row, labels[row]
        find_continuations(slot, vocabulary, rules, rows, search)
        log_probs[row] = search.candidate_log_probs[1, 0]

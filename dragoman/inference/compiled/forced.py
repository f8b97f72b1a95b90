"""Forced passes in machine code: log-probabilities, attention and alternatives of given translations.

All positions of a target are rows of one pass through the decoder, and each attends to itself and the earlier ones.
A step-by-step pass with `layers.decode` would give the same numbers, but would read all weights once for each position.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.config import InferenceSettings
from dragoman.inference.compiled.beams import find_continuations, score_vocabulary
from dragoman.inference.compiled.layers import (
    attend_head,
    cross_attention_sublayer,
    encode,
    enter_sublayer,
    feed_forward,
    finish,
    leave_sublayer,
    multiply_rows,
    softmax,
    store_row,
)
from dragoman.inference.compiled.layout import (
    FREE,
    BeamRules,
    DecoderWeights,
    Floats,
    Integers,
    PackedLinear,
    RowBuffers,
    SearchState,
    Shape,
)
from dragoman.inference.compiled.memory import allocate_rows, allocate_search
from dragoman.inference.compiled.weights import CompiledWeights
from dragoman.inference.segments import IdPair, pair_batches
from dragoman.kernels.jit import jit_without_nan
from dragoman.kernels.matrix_products import keep, weighted_sum
from dragoman.kernels.tiles import HEAD_WIDTH_MULTIPLE
from dragoman.text.tokenization.control_ids import BOS_ID, EOS_ID

_TOKENS_AT_ONCE = 1024
"""Padded tokens of a side in one batch. More do not make a pass faster, and take more memory."""


@dataclass(frozen=True, slots=True)
class ForcedPass:
    """What a model computes for one pair of n source tokens and m target tokens. The target is forced.

    Attributes
    ----------
    log_probs
        Natural log-probability (m + 1,) of each target token and of eos, given the tokens before it.
    attention
        Cross-attention (H, m + 1, n + 1) of the layer that was requested, else (0, 0, 0). Queries are bos and the
        target tokens, and keys are the source tokens and eos. Each row sums to 1.
    alternative_ids
        The k most probable tokens (m + 1, k) at each position, the best first, of those that a search may write: pad,
        bos and unk are left out. Filled up with -1 if the vocabulary has fewer tokens.
    alternative_log_probs
        Their natural log-probabilities (m + 1, k), filled up with -inf.
    """

    log_probs: Floats
    attention: Floats
    alternative_ids: Integers
    alternative_log_probs: Floats


def force_targets(
    weights: CompiledWeights,
    pairs: Sequence[IdPair],
    *,
    layer: int | None = None,
    num_alternatives: int = 0,
    with_log_probs: bool = True,
) -> list[ForcedPass]:
    """Run the decoder over given targets, in one pass for each batch of pairs, in the calling thread.

    Machine code runs without Python's lock, so threads with a part of the pairs each run at the same time. The result
    of a pair does not depend on the other pairs. Log-probabilities equal those that a search finds for the same tokens,
    to the last bit. In float32 they differ from the definition's by about 1e-5.

    Parameters
    ----------
    weights
        The weights, which must be finite (`is_finite`).
    pairs
        Source and target ids without control ids. A side may be empty.
    layer
        The decoder layer, from 0, whose cross-attention is returned. None: no attention.
    num_alternatives
        The number of most probable tokens to return for each position.
    with_log_probs
        Whether to compute log-probabilities and alternatives, which takes most of the time. Otherwise they are empty.

    Raises
    ------
    ValueError
        If an id is not in its vocabulary, or if the model has no such layer.
    DataError
        If a side has more tokens than the model has learned positions.
    """
    for side, size in enumerate(weights.vocab_sizes):
        if any(pair[side] and not 0 <= min(pair[side]) <= max(pair[side]) < size for pair in pairs):
            raise ValueError(f"the ids of side {side} of a pair must be below {size}")
    if layer is not None and not 0 <= layer < weights.num_layers:
        raise ValueError(f"`layer` must be from 0 to {weights.num_layers - 1}, but is {layer}")
    found: dict[int, ForcedPass] = {}
    for batch in pair_batches(pairs, _TOKENS_AT_ONCE):
        passes = _Batch(weights, [pairs[place] for place in batch], layer)
        results = passes.score(num_alternatives) if with_log_probs else passes.leave_unscored()
        found.update(zip(batch, results, strict=True))
    return [found[place] for place in range(len(pairs))]


class _Batch:
    """A batch of targets, run through the decoder by the constructor, and the results of its pairs."""

    def __init__(self, weights: CompiledWeights, pairs: Sequence[IdPair], layer: int | None) -> None:
        src_starts, src_ids = _flatten([[*src, EOS_ID] for src, _ in pairs])
        self._starts, ids = _flatten([[BOS_ID, *tgt] for _, tgt in pairs])
        _, self._labels = _flatten([[*tgt, EOS_ID] for _, tgt in pairs])
        self._src_lengths = np.diff(src_starts)
        length, src_length = int(np.diff(self._starts).max()), int(self._src_lengths.max())
        src_length = -(-src_length // HEAD_WIDTH_MULTIPLE) * HEAD_WIDTH_MULTIPLE
        settings, shape = InferenceSettings(beam_size=1), weights.shape
        self._rows = allocate_rows(weights, max(len(ids), len(src_ids)), src_length, max(src_length, length))
        self._search = allocate_search(weights, settings, len(pairs), src_length, length, 1)
        self._decoder = weights.decoder(length)
        of_rows = (0, 0, 0) if layer is None else (len(ids), shape.num_heads, src_length)
        self._attention = np.zeros(of_rows, np.float32)
        sources, slots = self._decoder.cross_sources, np.arange(len(pairs))
        encoder = weights.encoder(int(self._src_lengths.max()))
        encode(encoder, sources, shape, src_ids, src_starts, slots, self._rows, self._search)
        attended = -1 if layer is None else layer
        decode_targets(self._decoder, shape, ids, self._starts, self._rows, self._search, attended, self._attention)

    def score(self, num_alternatives: int) -> Iterator[ForcedPass]:
        """Yield the results of each pair."""
        log_probs = np.zeros(len(self._labels), np.float32)
        best_ids = np.full((len(self._labels), num_alternatives), -1)
        best_log_probs = np.full((len(self._labels), num_alternatives), -np.inf, np.float32)
        size = max(num_alternatives, 1)
        self._search.live[0] = 1
        search = self._search._replace(
            candidates=np.zeros((2, size), np.int64),
            candidate_log_probs=np.zeros((2, size), np.float32),
            bounds=np.zeros(size, np.float32),
        )
        score_labels(self._decoder.vocabulary, self._labels, self._rows, search, log_probs, best_ids, best_log_probs)
        return self._split(log_probs, best_ids, best_log_probs)

    def leave_unscored(self) -> Iterator[ForcedPass]:
        """Yield the results of each pair, without log-probabilities."""
        return self._split(np.zeros(0, np.float32), np.zeros((0, 0), np.int64), np.zeros((0, 0), np.float32))

    def _split(self, log_probs: Floats, best_ids: Integers, best_log_probs: Floats) -> Iterator[ForcedPass]:
        for n, src_length in enumerate(self._src_lengths.tolist()):
            rows = slice(self._starts[n], self._starts[n + 1])
            attention = self._attention[rows, :, :src_length].transpose(1, 0, 2).copy()
            yield ForcedPass(log_probs[rows], attention, best_ids[rows], best_log_probs[rows])


def _flatten(ids: Sequence[Sequence[int]]) -> tuple[Integers, Integers]:
    """Where each sequence starts in the flat array, with the end of the last one, and the flat array."""
    return np.cumsum([0, *map(len, ids)], dtype=np.int64), np.array([one for row in ids for one in row], np.int64)


@jit_without_nan
def decode_targets(
    weights: DecoderWeights,
    shape: Shape,
    ids: Integers,
    starts: Integers,
    rows: RowBuffers,
    search: SearchState,
    attended: int,
    attention: Floats,
) -> None:
    """Run whole targets through the decoder. Leaves the final states in `rows.inputs`.

    `ids` are the decoder's inputs of all sentences. Sentence n is ids[starts[n]:starts[n + 1]] and belongs to slot n,
    where `encode` stored its source. Cross-attention of layer `attended` is written to `attention` (R, H, S).
    """
    num_rows, width = ids.size, rows.states.shape[1]
    for n in range(starts.size - 1):
        for row in range(starts[n], starts[n + 1]):
            rows.slot[row] = n
            embedding, position = weights.embedding[ids[row]], weights.positions[row - starts[n]]
            for i in range(width):
                rows.states[row, i] = embedding[i] + position[i]
    for layer in range(weights.self_in.panels.shape[0]):
        enter_sublayer(rows, num_rows, weights.self_norm, layer, shape)
        multiply_rows(rows.inputs, rows.scales, weights.self_in, layer, num_rows, rows.outputs)
        causal_attention_sublayer(rows, starts, shape, search)
        multiply_rows(rows.attended, rows.scales, weights.self_out, layer, num_rows, rows.outputs)
        leave_sublayer(rows, num_rows, weights.self_norm, layer, shape)
        enter_sublayer(rows, num_rows, weights.cross_norm, layer, shape)
        multiply_rows(rows.inputs, rows.scales, weights.cross_query, layer, num_rows, rows.outputs)
        cross_attention_sublayer(rows, num_rows, layer, shape, search)
        if layer == attended:
            copy_attention(rows, num_rows, layer, shape, search, attention)
        multiply_rows(rows.attended, rows.scales, weights.cross_out, layer, num_rows, rows.outputs)
        leave_sublayer(rows, num_rows, weights.cross_norm, layer, shape)
        enter_sublayer(rows, num_rows, weights.feed_forward_norm, layer, shape)
        feed_forward(rows, num_rows, weights.inner, weights.outer, layer, shape)
        leave_sublayer(rows, num_rows, weights.feed_forward_norm, layer, shape)
    finish(rows, num_rows, weights.final_norm, shape)


@jit_without_nan
def causal_attention_sublayer(rows: RowBuffers, starts: Integers, shape: Shape, search: SearchState) -> None:
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
            attend_head(outputs[:width], keys, values, 0, position + 1, rows, shape.num_heads)
            store_row(rows.merged, rows.attended, rows.scales, row)


@jit_without_nan
def copy_attention(
    rows: RowBuffers, num_rows: int, layer: int, shape: Shape, search: SearchState, attention: Floats
) -> None:
    """attention (R, H, S) = cross-attention of every row, computed again as in `cross_attention_sublayer`."""
    width = rows.merged.size
    head_width, positions = width // shape.num_heads, search.src_keys.shape[2] // width
    for row in range(num_rows):
        keys, length = search.src_keys[layer, rows.slot[row]], search.src_lengths[rows.slot[row]]
        for head in range(shape.num_heads):
            at, scores = head * head_width, rows.scores[head]
            for begin in range(0, length, HEAD_WIDTH_MULTIPLE):
                shift = at * positions + begin
                weighted_sum(scores, begin, rows.outputs[row], at, keys, rows.dimensions, shift, head_width)
            softmax(scores, length)
            for k in range(length):
                attention[row, head, k] = scores[k]


@jit_without_nan
def score_labels(
    vocabulary: PackedLinear,
    labels: Integers,
    rows: RowBuffers,
    search: SearchState,
    log_probs: Floats,
    best_ids: Integers,
    best_log_probs: Floats,
) -> None:
    """Write the log-probability of the label of each row, and its best tokens.

    Slot 0 is used as a search of one hypothesis, at its first token, for each row in turn.
    """
    rules = BeamRules(1, 1, 0)
    score_vocabulary(vocabulary, rules, rows, labels.size, search)
    for row in range(labels.size):
        search.first_row[0], search.prefixes[0, 0] = row, labels[row]
        find_continuations(0, vocabulary, rules, rows, search)
        log_probs[row] = search.candidate_log_probs[1, 0]
        if best_ids.shape[1]:
            search.prefixes[0, 0] = FREE
            for k in range(find_continuations(0, vocabulary, rules, rows, search)):
                best_ids[row, k], best_log_probs[row, k] = search.candidates[1, k], search.candidate_log_probs[1, k]

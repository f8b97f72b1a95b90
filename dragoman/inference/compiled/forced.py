"""Forced passes: log-probabilities and attention of given translations. `targets.py` computes them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.config import InferenceSettings
from dragoman.inference.compiled.layout import Floats, Integers
from dragoman.inference.compiled.memory import allocate_rows, allocate_search
from dragoman.inference.compiled.weights import CompiledWeights
from dragoman.inference.segments import IdPair, pair_batches
from dragoman.kernels.tiles import HEAD_WIDTH_MULTIPLE
from dragoman.text.tokenization.control_ids import BOS_ID, EOS_ID


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
    """

    log_probs: Floats
    attention: Floats


def force_targets(
    weights: CompiledWeights, pairs: Sequence[IdPair], *, layer: int | None = None, with_log_probs: bool = True
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
    with_log_probs
        Whether to compute log-probabilities, which takes most of the time. Otherwise they are empty.

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
    for batch in pair_batches(pairs):
        passes = _force_batch(weights, [pairs[place] for place in batch], layer, with_log_probs)
        found.update(zip(batch, passes, strict=True))
    return [found[place] for place in range(len(pairs))]


def _force_batch(
    weights: CompiledWeights, pairs: Sequence[IdPair], layer: int | None, with_log_probs: bool
) -> Iterator[ForcedPass]:
    """Run a batch of targets through the decoder, and yield the result of each pair."""
    src_starts, src_ids = _flatten([[*src, EOS_ID] for src, _ in pairs])
    starts, ids = _flatten([[BOS_ID, *tgt] for _, tgt in pairs])
    _, labels = _flatten([[*tgt, EOS_ID] for _, tgt in pairs])
    src_lengths = np.diff(src_starts)
    length, longest = int(np.diff(starts).max()), int(src_lengths.max())
    positions = -(-longest // HEAD_WIDTH_MULTIPLE) * HEAD_WIDTH_MULTIPLE
    rows = allocate_rows(weights, max(len(ids), len(src_ids)), positions, max(positions, length))
    search = allocate_search(weights, InferenceSettings(beam_size=1), len(pairs), positions, length, 1)
    attention = np.zeros((0, 0, 0) if layer is None else (len(ids), weights.shape.num_heads, positions), np.float32)
    log_probs = np.zeros(len(labels) if with_log_probs else 0, np.float32)
    fixed = weights.decoder(length), weights.shape, rows, search
    weights.code.call("encode", weights.encoder(longest), *fixed, src_ids, src_starts, np.arange(len(pairs)))
    weights.code.call("decode_targets", *fixed, ids, starts, -1 if layer is None else layer, attention)
    if with_log_probs:
        search.live[0] = 1
        weights.code.call("score_labels", weights.decoder(length), rows, search, labels, log_probs)
    for n, src_length in enumerate(src_lengths.tolist()):
        of_pair = slice(starts[n], starts[n + 1])
        yield ForcedPass(log_probs[of_pair], attention[of_pair, :, :src_length].transpose(1, 0, 2).copy())


def _flatten(ids: Sequence[Sequence[int]]) -> tuple[Integers, Integers]:
    """Where each sequence starts in the flat array, with the end of the last one, and the flat array."""
    return np.cumsum([0, *map(len, ids)], dtype=np.int64), np.array([one for row in ids for one in row], np.int64)

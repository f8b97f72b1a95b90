"""What the compiled functions work on: plain arrays by name. L layers, D is d_model, R rows are
hypotheses or source tokens.

`slots` are places for sentences in search, W hypotheses each. A product's inputs are integers with a scale a row, or
float32; its weights stand in panels of some columns, all their depth together (weights.py).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

FREE = -1
"""What stands in `SearchState.prefixes` where the prefix does not say which token comes."""


class PackedLinear(NamedTuple):
    """The same product of L layers: inputs times `panels`, less `correction`, times `scale`, plus `bias`."""

    panels: NDArray[Any]  # (L, panels, numbers of a panel), int8, int16 or float32
    correction: NDArray[Any]  # (L, columns), int32 or float32
    scale: Floats  # (L, columns)
    bias: Floats  # (L, columns)


class Norm(NamedTuple):
    """The same layer norm of L layers."""

    gain: Floats  # (L, D)
    bias: Floats  # (L, D)


class EncoderWeights(NamedTuple):
    """Of a stack of encoder layers."""

    self_in: PackedLinear
    self_out: PackedLinear
    self_norm: Norm
    inner: PackedLinear
    outer: PackedLinear
    feed_forward_norm: Norm
    final_norm: Norm  # L is 0 without one
    embedding: Floats  # (V, D), with its factor
    positions: Floats


class DecoderWeights(NamedTuple):
    """Of a stack of decoder layers, the projection of the sources for it, and that to the vocabulary."""

    self_in: PackedLinear
    self_out: PackedLinear
    self_norm: Norm
    cross_query: PackedLinear
    cross_sources: PackedLinear
    cross_out: PackedLinear
    cross_norm: Norm
    inner: PackedLinear
    outer: PackedLinear
    feed_forward_norm: Norm
    final_norm: Norm
    embedding: Floats
    positions: Floats
    vocabulary: PackedLinear  # logits in base 2


class Shape(NamedTuple):
    """Numbers of a model that are no arrays."""

    num_heads: int
    norm_first: bool
    activation: int  # 0 relu, 1 gelu, 2 swish
    epsilon: float


class RowBuffers(NamedTuple):
    """Room for the rows of one pass through the layers."""

    states: Floats  # (R, D)
    inputs: NDArray[Any]  # (R, D), uint8, int16 or float32
    inner_inputs: NDArray[Any]  # (R, F)
    scales: Floats  # (R,)
    outputs: Floats  # (R, widest product)
    band: Floats  # (PRODUCT_ROWS, VOCABULARY_BAND)
    line: Floats  # (at least D, PRODUCT_COLUMNS, and the width of inner_inputs,)
    scores: Floats  # (H, positions)
    places: Integers  # (positions,): where the keys or values of each begin
    dimensions: Integers  # (D / H,): the same of a source's keys, which stand by dimension
    merged: Floats  # (D,)
    slot: Integers  # (R,)
    hypothesis: Integers  # (R,)
    best_of_band: Floats  # (R, bands of the vocabulary)
    normalisers: Floats  # (R,)
    largest: Floats  # (R,)


class SearchState(NamedTuple):
    """The sentences in search. There is room for T tokens of output."""

    src_lengths: Integers  # (slots,)
    src_keys: NDArray[Any]  # (L, slots, D S), float32 or float16 in uint16
    src_values: NDArray[Any]  # (L, slots, S D)
    keys: NDArray[Any]  # (L, slots, T W D)
    values: NDArray[Any]
    ancestors: NDArray[np.int16]  # (slots, W, T): which hypothesis wrote the keys of each position
    moved: NDArray[np.int16]  # (W, T)
    position: Integers  # (slots,)
    limit: Integers
    limit_penalties: Floats  # (slots,): the penalty of an output of that length
    live: Integers
    first_row: Integers
    ids: Integers  # (slots, W)
    log_probs: Floats
    path_ids: NDArray[np.int32]  # (slots, T, W)
    path_parents: NDArray[np.int16]
    path_log_probs: Floats
    prefixes: Integers  # (slots, P), then -1
    finished: Integers  # (slots,)
    finished_scores: Floats  # (slots, W)
    finished_lengths: Integers
    finished_parents: Integers
    finished_ids: Integers
    finished_log_probs: Floats
    candidates: Integers  # (2, 2 W): parents, ids
    candidate_log_probs: Floats  # (2, 2 W): of the whole, of the token
    bounds: Floats  # (2 W,)
    penalties: Floats  # (T,): of 1, 2, ... tokens


class BeamRules(NamedTuple):
    """Of a search."""

    beam_size: int
    n_best: int
    min_tokens: int

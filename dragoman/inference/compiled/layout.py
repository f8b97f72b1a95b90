"""The arrays that the compiled functions work on, as named tuples, which numba can pass between functions.

Letters in shapes: L layers, D = d_model, H heads, A width of all heads with padding, F = d_ff, V vocabulary,
W beam size, S source positions, T output positions, R rows.

- A *row* is one position in a pass through the layers: a source token in the encoder, a hypothesis in the decoder.
- A *slot* is the place of one sentence in search, with up to W hypotheses.
- A *panel* is a group of PRODUCT_COLUMNS columns of a weight matrix, over the whole depth (`weights.py`).
- A *band* is a group of VOCABULARY_BAND logits that are reduced to their maximum.

Inputs of a product are float32, or integers with one scale for each row.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

FREE = -1
"""Value in `SearchState.prefixes` at positions after the prefix, where any token may follow."""


class PackedLinear(NamedTuple):
    """One linear map in each of L layers: (inputs @ panels - correction) * input scale * scale + bias."""

    panels: NDArray[Any]  # (L, panels, depth * PRODUCT_COLUMNS), int8, int16 or float32
    correction: NDArray[Any]  # (L, columns), int32 or float32
    scale: Floats  # (L, columns)
    bias: Floats  # (L, columns)


class Norm(NamedTuple):
    """One layer norm in each of L layers."""

    gain: Floats  # (L, D)
    bias: Floats  # (L, D)


class EncoderWeights(NamedTuple):
    """Weights of the encoder stack."""

    self_in: PackedLinear
    self_out: PackedLinear
    self_norm: Norm
    inner: PackedLinear
    outer: PackedLinear
    feed_forward_norm: Norm
    final_norm: Norm  # L is 1, or 0 for a stack without a final norm
    embedding: Floats  # (V, D), multiplied by sqrt(D)
    positions: Floats  # (positions, D)


class DecoderWeights(NamedTuple):
    """Weights of the decoder stack and of the projection to the vocabulary.

    `cross_sources` projects the encoder's output to the keys and values of cross-attention.
    """

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
    vocabulary: PackedLinear  # multiplied by log2 e, so that logits are in base 2


class Shape(NamedTuple):
    """Settings of a model that the functions need."""

    num_heads: int
    norm_first: bool
    activation: int  # 0 relu, 1 gelu, 2 swish
    epsilon: float


class RowBuffers(NamedTuple):
    """Buffers for the rows of one pass through the layers."""

    states: Floats  # (R, D)
    inputs: NDArray[Any]  # (R, D), uint8, int16 or float32
    attended: NDArray[Any]  # (R, A), outputs of attention; the same memory as `inputs` if A is D
    inner_inputs: NDArray[Any]  # (R, F)
    scales: Floats  # (R,)
    outputs: Floats  # (R, widest product)
    band: Floats  # (PRODUCT_ROWS, VOCABULARY_BAND)
    line: Floats  # (at least D, PRODUCT_COLUMNS, and the width of inner_inputs,)
    scores: Floats  # (H, positions)
    places: Integers  # (positions,): index of the first key or value of each position
    dimensions: Integers  # (A / H,): index of each dimension in a source's keys, which are stored by dimension
    merged: Floats  # (A,): output of all heads for one row
    slot: Integers  # (R,): slot of each row
    hypothesis: Integers  # (R,): hypothesis of each row within its slot
    best_of_band: Floats  # (R, bands of the vocabulary): largest logit in each band
    normalisers: Floats  # (R,): log2 of the sum of 2 ** logit
    largest: Floats  # (R,): largest logit


class SearchState(NamedTuple):
    """The state of all sentences in search, with space for T tokens of output.

    Keys and values of a token are stored once, at (position, hypothesis that wrote the token). When hypotheses are
    chosen, only `ancestors` changes, and no keys or values move.
    """

    src_lengths: Integers  # (slots,)
    src_keys: NDArray[Any]  # (L, slots, A S), float32 or float16 in uint16
    src_values: NDArray[Any]  # (L, slots, S A)
    keys: NDArray[Any]  # (L, slots, T W A), the same types
    values: NDArray[Any]  # (L, slots, T W A)
    ancestors: NDArray[np.int16]  # (slots, W, T): which hypothesis wrote the keys of each position
    moved: NDArray[np.int16]  # (W, T): buffer for the new ancestors of one slot
    position: Integers  # (slots,): tokens written so far
    limit: Integers  # (slots,): maximum tokens of output, eos included
    limit_penalties: Floats  # (slots,): length penalty at the limit
    live: Integers  # (slots,): number of live hypotheses
    first_row: Integers  # (slots,): row of the first hypothesis
    ids: Integers  # (slots, W): last token of each live hypothesis
    log_probs: Floats  # (slots, W): log-probability of each live hypothesis
    path_ids: NDArray[np.int32]  # (slots, T, W): token written at each position
    path_parents: NDArray[np.int16]  # (slots, T, W): hypothesis at the position before
    path_log_probs: Floats  # (slots, T, W): log-probability of the token
    prefixes: Integers  # (slots, P): forced first tokens, then FREE
    finished: Integers  # (slots,): number of finished hypotheses kept
    finished_scores: Floats  # (slots, W): best first, after the length penalty
    finished_lengths: Integers  # (slots, W): tokens, eos included
    finished_parents: Integers  # (slots, W): hypothesis at the position before the last token
    finished_ids: Integers  # (slots, W): last token
    finished_log_probs: Floats  # (slots, W): log-probability of the last token
    candidates: Integers  # (2, 2 W): parents and ids of the best continuations of one sentence
    candidate_log_probs: Floats  # (2, 2 W): log-probabilities of the whole and of the last token
    bounds: Floats  # (2 W,): best bounds of bands
    penalties: Floats  # (T,): length penalties of 1, 2, ... tokens


class BeamRules(NamedTuple):
    """The settings of a beam search that the functions need."""

    beam_size: int
    n_best: int
    min_tokens: int

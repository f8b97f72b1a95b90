"""The arrays that the compiled functions work on, as named tuples, which numba can pass between functions.

`build.py` reads the types of the arguments of compiled functions from these annotations. All arrays are C-contiguous.

Letters in shapes: L layers, D = d_model, H heads, A width of all heads with padding, F = d_ff, V vocabulary,
W beam size, S source positions, T output positions, R rows.

- A *row* is one position in a pass through the layers: a source token in the encoder, a hypothesis in the decoder.
- A *slot* is the place of one sentence in search, with up to W hypotheses.
- A *panel* is a group of PRODUCT_COLUMNS columns of a weight matrix, over the whole depth (`weights.py`).
- A *band* is a group of VOCABULARY_BAND logits that are reduced to their maximum.

Inputs of a product are float32, or integers with one scale for each row.
"""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


class Stored(NamedTuple):
    """The type of an array's numbers, which is a type of NumPy or a key of NUMBER_TYPES, and its dimensions."""

    numbers: str
    num_dimensions: int


NUMBER_TYPES = {
    "float32": {"weights": "float32", "inputs": "float32", "corrections": "float32", "cache": "float32"},
    "int16": {"weights": "int16", "inputs": "int16", "corrections": "int32", "cache": "uint16"},
    "int8": {"weights": "int8", "inputs": "uint8", "corrections": "int32", "cache": "uint16"},
}
"""Types of numbers that depend on the precision. The cache of keys and values has float16, stored as uint16."""

Floats1 = Annotated[Floats, Stored("float32", 1)]
Floats2 = Annotated[Floats, Stored("float32", 2)]
Floats3 = Annotated[Floats, Stored("float32", 3)]
Integers1 = Annotated[Integers, Stored("int64", 1)]
Integers2 = Annotated[Integers, Stored("int64", 2)]
Shorts2 = Annotated[NDArray[np.int16], Stored("int16", 2)]
Shorts3 = Annotated[NDArray[np.int16], Stored("int16", 3)]
TokenIds3 = Annotated[NDArray[np.int32], Stored("int32", 3)]
Panels3 = Annotated[NDArray[Any], Stored("weights", 3)]
Corrections2 = Annotated[NDArray[Any], Stored("corrections", 2)]
Inputs2 = Annotated[NDArray[Any], Stored("inputs", 2)]
Cache3 = Annotated[NDArray[Any], Stored("cache", 3)]

as_variable: Callable[[int], int] = np.int64  # type: ignore[assignment]
"""Hides from numba that an integer is a literal. It would compile a function for each literal argument."""
FREE = -1
"""Value in `SearchState.prefixes` at positions after the prefix, where any token may follow."""


class PackedLinear(NamedTuple):
    """One linear map in each of L layers: (inputs @ panels - correction) * input scale * scale + bias."""

    panels: Panels3  # (L, panels, depth * PRODUCT_COLUMNS)
    correction: Corrections2  # (L, columns)
    scale: Floats2  # (L, columns)
    bias: Floats2  # (L, columns)


class Norm(NamedTuple):
    """One layer norm in each of L layers."""

    gain: Floats2  # (L, D)
    bias: Floats2  # (L, D)


class EncoderWeights(NamedTuple):
    """Weights of the encoder stack."""

    self_in: PackedLinear
    self_out: PackedLinear
    self_norm: Norm
    inner: PackedLinear
    outer: PackedLinear
    feed_forward_norm: Norm
    final_norm: Norm  # L is 1, or 0 for a stack without a final norm
    embedding: Floats2  # (V, D)
    positions: Floats2  # (positions, D)


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
    embedding: Floats2
    positions: Floats2
    vocabulary: PackedLinear  # multiplied by log2 e, so that logits are in base 2


class Shape(NamedTuple):
    """Settings of a model that the functions need."""

    num_heads: int
    norm_first: bool
    activation: int  # 0 relu, 1 gelu, 2 swish
    epsilon: float


class RowBuffers(NamedTuple):
    """Buffers for the rows of one pass through the layers."""

    states: Floats2  # (R, D)
    inputs: Inputs2  # (R, D)
    attended: Inputs2  # (R, A), outputs of attention; the same memory as `inputs` if A is D
    inner_inputs: Inputs2  # (R, F)
    scales: Floats1  # (R,)
    outputs: Floats2  # (R, widest product)
    all_outputs: Floats1  # the same memory
    band: Floats2  # (PRODUCT_ROWS, VOCABULARY_BAND)
    line: Floats1  # (at least D, PRODUCT_COLUMNS, and the width of inner_inputs,)
    scores: Floats2  # (H, positions)
    places: Integers1  # (positions,): index of the first key or value of each position
    dimensions: Integers1  # (A / H,): index of each dimension in a source's keys, which are stored by dimension
    merged: Floats1  # (A,): output of all heads for one row
    slot: Integers1  # (R,): slot of each row
    hypothesis: Integers1  # (R,): hypothesis of each row within its slot
    best_of_band: Floats2  # (R, bands of the vocabulary): largest logit in each band
    normalisers: Floats1  # (R,): log2 of the sum of 2 ** logit
    largest: Floats1  # (R,): largest logit


class SearchState(NamedTuple):
    """The state of all sentences in search, with space for T tokens of output.

    Keys and values of a token are stored once, at (position, hypothesis that wrote the token). When hypotheses are
    chosen, only `ancestors` changes, and no keys or values move.
    """

    src_lengths: Integers1  # (slots,): tokens of the source, eos included
    src_keys: Cache3  # (L, slots, A S)
    src_values: Cache3  # (L, slots, S A)
    keys: Cache3  # (L, slots, T W A)
    values: Cache3  # (L, slots, T W A)
    ancestors: Shorts3  # (slots, W, T): which hypothesis wrote the keys of each position
    moved: Shorts2  # (W, T): buffer for the new ancestors of one slot
    position: Integers1  # (slots,): tokens written so far
    limit: Integers1  # (slots,): maximum tokens of output, eos included
    limit_penalties: Floats1  # (slots,): length penalty at the limit
    live: Integers1  # (slots,): number of live hypotheses
    first_row: Integers1  # (slots,): row of the first hypothesis
    ids: Integers2  # (slots, W): last token of each live hypothesis
    log_probs: Floats2  # (slots, W): log-probability of each live hypothesis
    path_ids: TokenIds3  # (slots, T, W): token written at each position
    path_parents: Shorts3  # (slots, T, W): hypothesis at the position before
    path_log_probs: Floats3  # (slots, T, W): log-probability of the token
    prefixes: Integers2  # (slots, P): forced first tokens, then FREE
    finished: Integers1  # (slots,): number of finished hypotheses kept
    finished_scores: Floats2  # (slots, W): best first, after the length penalty
    finished_lengths: Integers2  # (slots, W): tokens, eos included
    finished_parents: Integers2  # (slots, W): hypothesis at the position before the last token
    finished_ids: Integers2  # (slots, W): last token
    finished_log_probs: Floats2  # (slots, W): log-probability of the last token
    candidates: Integers2  # (2, 2 W): parents and ids of the best continuations of one sentence
    candidate_log_probs: Floats2  # (2, 2 W): log-probabilities of the whole and of the last token
    bounds: Floats1  # (2 W,): best bounds of bands
    penalties: Floats1  # (T,): length penalties of 1, 2, ... tokens


class BeamRules(NamedTuple):
    """The settings of a beam search that the functions need."""

    beam_size: int
    n_best: int
    min_tokens: int

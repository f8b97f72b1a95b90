"""A Transformer's weights in the layout of the compiled search: scaled, quantized and packed into panels.

The inner loop of a product (`kernels/matrix_products.multiply`) reads a panel from beginning to end. A panel has
PRODUCT_COLUMNS output columns. For each step of depth it holds 32 bits of each column: one float32, two int16 or four
int8. Constant factors are multiplied into the weights once: sqrt(D) of embeddings and 1 / sqrt(K) of attention scores.
Logits and attention scores also get log2 e, because the search computes powers of 2 instead of exponentials.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dragoman.bundle.weights import Arrays
from dragoman.config import InferenceSettings, ModelSettings
from dragoman.inference.compiled.layout import DecoderWeights, EncoderWeights, Floats, Norm, PackedLinear, Shape
from dragoman.inference.compiled.positions import KnownPositions, PositionTable, position_tables
from dragoman.inference.weight_scales import attention_scales, quantize_rows
from dragoman.kernels.tiles import (
    CACHE_LINE_BYTES,
    HAS_BYTE_PRODUCTS,
    HAS_FMA,
    HAS_SHORT_PRODUCTS,
    HEAD_WIDTH_MULTIPLE,
    MULTIPLIED_TOGETHER,
    PRODUCT_COLUMNS,
    VOCABULARY_BAND,
    largest_integer,
)

_LOG2_E = math.log2(math.e)
_LAYER_NORM_EPSILON = 1e-5
"""The default of `torch.nn.LayerNorm`."""
_ZERO_BYTE = 128

_HAS_PRODUCTS = {"float32": True, "int16": HAS_SHORT_PRODUCTS, "int8": HAS_BYTE_PRODUCTS}
_ACTIVATIONS = ("relu", "gelu", "swish")

MAX_BEAM_SIZE = 64
"""Limit of the beam size. Insertion, which finds the best continuations here, is slow in wider beams."""
LinearArrays = tuple[Floats, Floats | None]
"""Weight (out, in) and bias."""


class CompiledWeights:
    """All weights of a model for the compiled search, as copies.

    Parameters
    ----------
    settings
        The model's settings. `supports` must be True for them.
    arrays
        The model's parameters by name, as in `bundle.parameters.parameter_shapes`.
    tables
        The position tables of source and target. None: those of `positions.position_tables`.
    precision
        Of matrix products: "float32", "int16" or "int8".
    """

    def __init__(
        self,
        settings: ModelSettings,
        arrays: Arrays,
        tables: tuple[PositionTable, PositionTable] | None,
        precision: str,
    ) -> None:
        self.precision = precision
        self._settings, self._arrays = settings, arrays
        self.width, self.inner_width, self.num_layers = settings.d_model, settings.d_ff, settings.num_decoder_layers
        src, tgt = self._embedding("src"), self._embedding("tgt")
        self.vocab_sizes = len(src), len(tgt)
        self.is_finite = all(bool(np.isfinite(array).all()) for array in arrays.values())
        limit = settings.max_positions if settings.positions == "learned" else None
        self._positions = [
            KnownPositions(table, self.width, limit) for table in tables or position_tables(settings, arrays)
        ]
        activation = _ACTIVATIONS.index(settings.activation)
        self.shape = Shape(settings.num_heads, settings.norm_first, activation, _LAYER_NORM_EPSILON)
        with np.errstate(invalid="ignore", over="ignore"):  # callers check `is_finite` before they search
            self._encoder = self._encoder_weights(src)
            self._decoder = self._decoder_weights(tgt)
        del self._arrays

    def encoder(self, length: int) -> EncoderWeights:
        """Weights of the encoder, with positional encodings for sources up to `length` tokens."""
        return self._encoder._replace(positions=self._positions[0].up_to(length))

    def decoder(self, length: int) -> DecoderWeights:
        """Weights of the decoder, with positional encodings for outputs up to `length` tokens."""
        return self._decoder._replace(positions=self._positions[1].up_to(length))

    @property
    def vocabulary_bands(self) -> int:
        """Number of bands of the vocabulary."""
        return int(self._decoder.vocabulary.bias.shape[1]) // VOCABULARY_BAND

    def _encoder_weights(self, embedding: Floats) -> EncoderWeights:
        layers = [f"encoder.layers.{index}" for index in range(self._settings.num_encoder_layers)]
        return EncoderWeights(
            **self._shared_weights(layers),
            final_norm=self._final_norm("encoder"),
            embedding=embedding * np.float32(math.sqrt(self.width)),
            positions=np.zeros((0, self.width), np.float32),
        )

    def _decoder_weights(self, embedding: Floats) -> DecoderWeights:
        layers = [f"decoder.layers.{index}" for index in range(self._settings.num_decoder_layers)]
        crosses = [f"{layer}.cross_attn" for layer in layers]
        projection, bias = self._arrays.get("projection.weight", embedding), self._arrays.get("projection.bias")
        log2_e = np.float32(_LOG2_E)
        vocabulary = (projection * log2_e, None if bias is None else bias * log2_e)
        return DecoderWeights(
            **self._shared_weights(layers),
            cross_query=self._pack([self._attention_input(cross, 0, 1) for cross in crosses]),
            cross_sources=self._pack([self._attention_input(cross, 1, 3) for cross in crosses]),
            cross_out=self._pack([self._linear(f"{cross}.out.") for cross in crosses]),
            cross_norm=self._norms([f"{cross}_residual.norm" for cross in crosses]),
            final_norm=self._final_norm("decoder"),
            embedding=embedding * np.float32(math.sqrt(self.width)),
            positions=np.zeros((0, self.width), np.float32),
            vocabulary=pack_products([vocabulary], self.precision, VOCABULARY_BAND, padding=-math.inf),
        )

    def _shared_weights(self, layers: Sequence[str]) -> dict[str, Any]:
        """Weights that encoder and decoder layers both have: self-attention and feed-forward network."""
        return {
            "self_in": self._pack([self._attention_input(f"{layer}.self_attn", 0, 3) for layer in layers]),
            "self_out": self._pack([self._linear(f"{layer}.self_attn.out.") for layer in layers]),
            "self_norm": self._norms([f"{layer}.self_attn_residual.norm" for layer in layers]),
            "inner": self._pack([self._linear(f"{layer}.feed_forward.inner.") for layer in layers]),
            "outer": self._pack([self._linear(f"{layer}.feed_forward.outer.") for layer in layers]),
            "feed_forward_norm": self._norms([f"{layer}.feed_forward_residual.norm" for layer in layers]),
        }

    def _embedding(self, side: str) -> Floats:
        """The embedding of a side. A tied embedding has the name of the source side."""
        found = self._arrays.get(f"{side}_embedding.weight")
        return self._arrays["src_embedding.weight"] if found is None else found

    def _linear(self, prefix: str) -> LinearArrays:
        return self._arrays[f"{prefix}weight"], self._arrays.get(f"{prefix}bias")

    def _attention_input(self, attention: str, first: int, last: int) -> LinearArrays:
        """Parts `first` to `last` of the joint projection of query (0), key (1) and value (2).

        The query is multiplied by log2 e / sqrt(K), so that attention scores are scaled and in base 2.
        """
        weight, bias = self._linear(f"{attention}.in_")
        scales = attention_scales(self.width, self._settings.num_heads, _LOG2_E)
        part = slice(first * self.width, last * self.width)
        return (weight * scales[:, None])[part], None if bias is None else (bias * scales)[part]

    def _norms(self, names: Sequence[str]) -> Norm:
        arrays = self._arrays
        return Norm(*(np.stack([arrays[f"{name}.{part}"] for name in names]) for part in ("weight", "bias")))

    def _final_norm(self, stack: str) -> Norm:
        if self._settings.norm_first:
            return self._norms([f"{stack}.norm"])
        return Norm(np.zeros((0, self.width), np.float32), np.zeros((0, self.width), np.float32))

    def _pack(self, products: Sequence[LinearArrays]) -> PackedLinear:
        return pack_products(products, self.precision)


def supports(model: ModelSettings, precision: str, settings: InferenceSettings) -> bool:
    """Whether the compiled search can run this model, precision and beam size on this processor."""
    return (
        HAS_FMA
        and model.d_model // model.num_heads % HEAD_WIDTH_MULTIPLE == 0
        and settings.beam_size <= MAX_BEAM_SIZE
        and _HAS_PRODUCTS.get(precision, False)
    )


def pack_products(
    products: Sequence[LinearArrays], precision: str, multiple_of: int = PRODUCT_COLUMNS, padding: float = 0.0
) -> PackedLinear:
    """Pack the weight (out, in) and bias of each layer into panels of PRODUCT_COLUMNS columns.

    The number of columns is padded to a multiple of `multiple_of`. Padding columns have zero weights and the bias
    `padding`.
    """
    packs = [_pack(weight, bias, precision, multiple_of, padding) for weight, bias in products]
    return PackedLinear(*(_stack_aligned(parts) for parts in zip(*packs, strict=True)))


def _stack_aligned(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Stack the arrays of all layers from the start of a cache line, so that no register is loaded from two lines."""
    size = sum(part.nbytes for part in parts)
    room = np.empty(size + CACHE_LINE_BYTES, np.uint8)
    first = -room.ctypes.data % CACHE_LINE_BYTES
    stacked = room[first : first + size].view(parts[0].dtype).reshape(len(parts), *parts[0].shape)
    np.stack(parts, out=stacked)
    return stacked


def _pack(
    weight: Floats, bias: Floats | None, precision: str, multiple_of: int, padding: float
) -> tuple[np.ndarray, ...]:
    """One layer's panels, corrections, scales and biases."""
    size, depth = weight.shape
    missing = -size % multiple_of
    biases = np.pad(np.zeros(size, np.float32) if bias is None else bias, (0, missing), constant_values=padding)
    if precision == "float32":
        panels = np.pad(weight, ((0, missing), (0, 0))).reshape(-1, PRODUCT_COLUMNS, depth).transpose(0, 2, 1)
        zeros, ones = np.zeros(size + missing, np.float32), np.ones(size + missing, np.float32)
        return panels.reshape(len(panels), -1), zeros, ones, biases
    together, largest = MULTIPLIED_TOGETHER[precision], largest_integer(precision, depth)
    integers, scale = quantize_rows(weight, largest)
    quantized = np.pad(integers, ((0, missing), (0, -depth % together)))
    quantized = quantized.astype(np.int8 if precision == "int8" else np.int16)
    groups = quantized.reshape(-1, PRODUCT_COLUMNS, quantized.shape[1] // together, together).transpose(0, 2, 1, 3)
    # VNNI multiplies unsigned by signed bytes, so inputs are stored plus 128. The correction takes 128 @ weights away.
    zero = _ZERO_BYTE if precision == "int8" else 0
    correction = zero * quantized.sum(1, dtype=np.int32)
    return groups.reshape(len(groups), -1), correction, np.pad(scale, (0, missing)), biases

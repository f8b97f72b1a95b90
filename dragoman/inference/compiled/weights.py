"""A Transformer's weights in the layout of the compiled search: quantized and packed into panels.

The inner loop of a product (`kernels/matrix_products.multiply`) reads a panel from beginning to end. A panel has
PRODUCT_COLUMNS output columns. For each step of depth it holds 32 bits of each column: one float32, two int16 or four
int8. The outputs of a head are padded with zeros to a multiple of HEAD_WIDTH_MULTIPLE.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle.weights import Arrays, check_stored_precision
from dragoman.config import ModelSettings
from dragoman.inference.compiled.layout import DecoderWeights, EncoderWeights, Floats, Norm, PackedLinear, Shape
from dragoman.inference.compiled.positions import KnownPositions, position_tables
from dragoman.inference.compiled.quantized import Product, make_product, quantize_weight
from dragoman.kernels.library import MachineCode, Packed, load_code, pack
from dragoman.kernels.tiles import (
    CACHE_LINE_BYTES,
    HAS_FMA,
    HEAD_WIDTH_MULTIPLE,
    MULTIPLIED_TOGETHER,
    PRODUCT_COLUMNS,
    VOCABULARY_BAND,
)

_LAYER_NORM_EPSILON = 1e-5
"""The default of `torch.nn.LayerNorm`."""
_ZERO_BYTE = 128

_ACTIVATIONS = ("relu", "gelu", "swish")

Stack = TypeVar("Stack", EncoderWeights, DecoderWeights)
LinearArrays = tuple[Floats, Floats | None]
"""Weight (out, in) and bias."""


class CompiledWeights:
    """All weights of a model for the compiled search, as copies.

    Parameters
    ----------
    settings
        The model's settings.
    arrays
        The model's parameters by name, as in `bundle.parameters.parameter_shapes` or from `quantized_arrays`.
    precision
        Of matrix products: "float32", "int16" or "int8". `unsupported_reason` must be "" for it.

    Raises
    ------
    ModelError
        If the arrays are quantized, but in another precision.
    """

    def __init__(
        self,
        settings: ModelSettings,
        arrays: Arrays,
        precision: str,
    ) -> None:
        check_stored_precision(arrays, precision)
        self.precision = precision
        self._settings, self._arrays = settings, arrays
        self.width, self.inner_width, self.num_layers = settings.d_model, settings.d_ff, settings.num_decoder_layers
        self._head_padding = -(settings.d_model // settings.num_heads) % HEAD_WIDTH_MULTIPLE
        self.heads_width = settings.d_model + settings.num_heads * self._head_padding
        src, tgt = self._embedding("src"), self._embedding("tgt")
        self.vocab_sizes = len(src), len(tgt)
        self.is_finite = all(bool(np.isfinite(array).all()) for array in arrays.values())
        limit = settings.max_positions if settings.positions == "learned" else None
        self._positions = [KnownPositions(table, self.width, limit) for table in position_tables(settings, arrays)]
        activation = _ACTIVATIONS.index(settings.activation)
        self.shape = Shape(settings.num_heads, settings.norm_first, activation, _LAYER_NORM_EPSILON)
        with np.errstate(invalid="ignore", over="ignore"):  # callers check `is_finite` before they search
            self._encoder = pack(self._encoder_weights(src))
            self._decoder = pack(self._decoder_weights(tgt))
        del self._arrays

    def encoder(self, length: int) -> Packed[EncoderWeights]:
        """Weights of the encoder, with positional encodings for sources up to `length` tokens."""
        self._encoder = _with_positions(self._encoder, self._positions[0].up_to(length))
        return self._encoder

    def decoder(self, length: int) -> Packed[DecoderWeights]:
        """Weights of the decoder, with positional encodings for outputs up to `length` tokens."""
        self._decoder = _with_positions(self._decoder, self._positions[1].up_to(length))
        return self._decoder

    @property
    def code(self) -> MachineCode:
        """The compiled functions for this precision."""
        return load_code(self.precision)

    @property
    def vocabulary_bands(self) -> int:
        """Number of bands of the vocabulary."""
        return int(self._decoder.record.vocabulary.bias.shape[1]) // VOCABULARY_BAND

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
        inputs = [self._product(f"{cross}.in_") for cross in crosses]
        return DecoderWeights(
            **self._shared_weights(layers),
            cross_query=self._pack([self._attention_input(joint, 0, 1) for joint in inputs]),
            cross_sources=self._pack([self._attention_input(joint, 1, 3) for joint in inputs]),
            cross_out=self._pack([self._attention_output(cross) for cross in crosses]),
            cross_norm=self._norms([f"{cross}_residual.norm" for cross in crosses]),
            final_norm=self._final_norm("decoder"),
            embedding=embedding * np.float32(math.sqrt(self.width)),
            positions=np.zeros((0, self.width), np.float32),
            vocabulary=_pack_all([self._product("projection.")], self.precision, VOCABULARY_BAND, -math.inf),
        )

    def _shared_weights(self, layers: Sequence[str]) -> dict[str, Any]:
        """Weights that encoder and decoder layers both have: self-attention and feed-forward network."""
        inputs = [self._product(f"{layer}.self_attn.in_") for layer in layers]
        return {
            "self_in": self._pack([self._attention_input(joint, 0, 3) for joint in inputs]),
            "self_out": self._pack([self._attention_output(f"{layer}.self_attn") for layer in layers]),
            "self_norm": self._norms([f"{layer}.self_attn_residual.norm" for layer in layers]),
            "inner": self._pack([self._product(f"{layer}.feed_forward.inner.") for layer in layers]),
            "outer": self._pack([self._product(f"{layer}.feed_forward.outer.") for layer in layers]),
            "feed_forward_norm": self._norms([f"{layer}.feed_forward_residual.norm" for layer in layers]),
        }

    def _embedding(self, side: str) -> Floats:
        """The embedding of a side. A tied embedding has the name of the source side."""
        found = self._arrays.get(f"{side}_embedding.weight")
        return self._arrays["src_embedding.weight"] if found is None else found

    def _product(self, name: str) -> Product:
        return make_product(self._settings, self._arrays, name, self.precision)

    def _attention_input(self, joint: Product, first: int, last: int) -> Product:
        """Parts `first` to `last` of the joint projection of query (0), key (1) and value (2)."""
        part = slice(first * self.width, last * self.width)
        return Product(*(self._pad_heads(array[part], 0) for array in joint))

    def _attention_output(self, attention: str) -> Product:
        product = self._product(f"{attention}.out.")
        return product._replace(weight=self._pad_heads(product.weight, 1))

    def _pad_heads(self, array: NDArray[Any], axis: int) -> NDArray[Any]:
        """Pad each head along an axis with zeros. The axis may have several parts of all heads."""
        if not self._head_padding:
            return array
        before, after = array.shape[:axis], array.shape[axis + 1 :]
        heads = array.reshape(*before, -1, self.width // self._settings.num_heads, *after)
        padding = [(0, self._head_padding if number == axis + 1 else 0) for number in range(heads.ndim)]
        return np.pad(heads, padding).reshape(*before, -1, *after)

    def _norms(self, names: Sequence[str]) -> Norm:
        arrays = self._arrays
        return Norm(*(np.stack([arrays[f"{name}.{part}"] for name in names]) for part in ("weight", "bias")))

    def _final_norm(self, stack: str) -> Norm:
        if self._settings.norm_first:
            return self._norms([f"{stack}.norm"])
        return Norm(np.zeros((0, self.width), np.float32), np.zeros((0, self.width), np.float32))

    def _pack(self, products: Sequence[Product]) -> PackedLinear:
        return _pack_all(products, self.precision, PRODUCT_COLUMNS, 0.0)


def _with_positions(stack: Packed[Stack], positions: Floats) -> Packed[Stack]:
    return stack if stack.record.positions is positions else pack(stack.record._replace(positions=positions))


def unsupported_reason(precision: str) -> str:
    """What the compiled search does not support, as the subject of an error, or "" if it can run in `precision`.

    It can on every processor with FMA, and its integer products are exact. Without VNNI (int8) or AVX2 (int16), they
    take more instructions.
    """
    if not HAS_FMA:
        return "a processor without FMA instructions"
    return "" if precision in MULTIPLIED_TOGETHER else f"`inference.precision` {precision}"


def pack_products(
    products: Sequence[LinearArrays], precision: str, multiple_of: int = PRODUCT_COLUMNS, padding: float = 0.0
) -> PackedLinear:
    """Pack the weight (out, in) and bias of each layer into panels of PRODUCT_COLUMNS columns.

    The number of columns is padded to a multiple of `multiple_of`. Padding columns have zero weights and the bias
    `padding`.
    """
    of_all = [
        Product(*quantize_weight(weight, precision), np.zeros(len(weight), np.float32) if bias is None else bias)
        for weight, bias in products
    ]
    return _pack_all(of_all, precision, multiple_of, padding)


def _pack_all(products: Sequence[Product], precision: str, multiple_of: int, padding: float) -> PackedLinear:
    packs = [_pack(product, precision, multiple_of, padding) for product in products]
    return PackedLinear(*(_stack_aligned(parts) for parts in zip(*packs, strict=True)))


def _stack_aligned(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Stack the arrays of all layers from the start of a cache line, so that no register is loaded from two lines."""
    size = sum(part.nbytes for part in parts)
    room = np.empty(size + CACHE_LINE_BYTES, np.uint8)
    first = -room.ctypes.data % CACHE_LINE_BYTES
    stacked = room[first : first + size].view(parts[0].dtype).reshape(len(parts), *parts[0].shape)
    np.stack(parts, out=stacked)
    return stacked


def _pack(product: Product, precision: str, multiple_of: int, padding: float) -> tuple[np.ndarray, ...]:
    """One layer's panels, corrections, scales and biases."""
    size, depth = product.weight.shape
    missing, together = -size % multiple_of, MULTIPLIED_TOGETHER[precision]
    scale, biases = np.pad(product.scale, (0, missing)), np.pad(product.bias, (0, missing), constant_values=padding)
    weight = np.pad(product.weight, ((0, missing), (0, -depth % together)))
    groups = weight.reshape(-1, PRODUCT_COLUMNS, weight.shape[1] // together, together).transpose(0, 2, 1, 3)
    # VNNI multiplies unsigned by signed bytes, so inputs are stored plus 128. The correction takes 128 @ weights away.
    zero = _ZERO_BYTE if precision == "int8" else 0
    sums = np.zeros(len(scale), np.float32) if precision == "float32" else zero * weight.sum(1, dtype=np.int32)
    return groups.reshape(len(groups), -1), sums, scale, biases

"""A Transformer's weights in the layout of the compiled search: quantized and packed into panels.

The inner loop of a product (`kernels/matrix_products.multiply`) reads a panel from beginning to end. A panel has
PRODUCT_COLUMNS output columns. For each step of depth it holds 32 bits of each column: one float32, two int16 or four
int8. The outputs of a head are padded with zeros to a multiple of HEAD_WIDTH_MULTIPLE.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dragoman.bundle.weights import Product, check_stored_precision, float32_arrays, make_product, stored_precision
from dragoman.config import ModelSettings
from dragoman.engines.compiled.layout import DecoderWeights, EncoderWeights, Floats, Norm, PackedLinear, Shape
from dragoman.errors import DataError
from dragoman.kernels import processor
from dragoman.kernels.library import MachineCode, Packed, load_code, pack
from dragoman.model.shapes import Arrays

_LAYER_NORM_EPSILON = 1e-5
"""The default of `torch.nn.LayerNorm`."""
_ZERO_BYTE = 128

_ACTIVATIONS = ("relu", "gelu", "swish")

Stack = TypeVar("Stack", EncoderWeights, DecoderWeights)


class CompiledWeights:
    """All weights of a model for the compiled search: copies, but embeddings and learned positions stay where they are.

    Parameters
    ----------
    settings
        The model's settings.
    arrays
        The model's parameters by name, as in `model.shapes.parameter_shapes` or from `quantized_arrays`.
    precision
        Of matrix products: "float32", "int16" or "int8". `unsupported_reason` must be "" for it.

    Raises
    ------
    ModelError
        If the arrays are quantized, but in another precision.
    """

    def __init__(self, settings: ModelSettings, arrays: Arrays, precision: str) -> None:
        check_stored_precision(stored_precision(arrays), precision)
        self.precision = precision
        arrays = float32_arrays(settings, arrays, only_embeddings=True)
        self._settings, self._arrays = settings, arrays
        self.width, self.inner_width, self.num_layers = settings.d_model, settings.d_ff, settings.num_decoder_layers
        self._head_padding = -(settings.d_model // settings.num_heads) % processor.HEAD_WIDTH_MULTIPLE
        self.heads_width = settings.d_model + settings.num_heads * self._head_padding
        src, tgt = self._embedding("src"), self._embedding("tgt")
        self.vocab_sizes = len(src), len(tgt)
        self.is_finite = all(bool(np.isfinite(array).all()) for array in arrays.values())
        tables = position_tables(settings, arrays)
        self._positions = [KnownPositions(table, self.width, settings.position_limit) for table in tables]
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
        return int(self._decoder.record.vocabulary.bias.shape[1]) // processor.VOCABULARY_BAND

    def _encoder_weights(self, embedding: Floats) -> EncoderWeights:
        layers = [f"encoder.layers.{index}" for index in range(self._settings.num_encoder_layers)]
        return EncoderWeights(
            **self._shared_weights(layers),
            final_norm=self._final_norm("encoder"),
            embedding=embedding,
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
            embedding=embedding,
            positions=np.zeros((0, self.width), np.float32),
            vocabulary=pack_products(
                [self._product("projection.")], self.precision, processor.VOCABULARY_BAND, -math.inf
            ),
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
        return np.ascontiguousarray(self._arrays["src_embedding.weight"] if found is None else found)

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
        return pack_products(products, self.precision)


def _with_positions(stack: Packed[Stack], positions: Floats) -> Packed[Stack]:
    return stack if stack.record.positions is positions else pack(stack.record._replace(positions=positions))


def unsupported_reason(precision: str) -> str:
    """What the compiled search does not support, as the subject of an error, or "" if it can run in `precision`.

    It can on every processor with FMA, and its integer products are exact. Without VNNI (int8) or AVX2 (int16), they
    take more instructions.
    """
    if not processor.HAS_FMA:
        return "a processor without FMA instructions"
    return "" if precision in processor.MULTIPLIED_TOGETHER else f"`inference.precision` {precision}"


def pack_products(
    products: Sequence[Product], precision: str, multiple_of: int = processor.PRODUCT_COLUMNS, padding: float = 0.0
) -> PackedLinear:
    """Pack the linear maps of all layers into panels of PRODUCT_COLUMNS columns.

    The number of columns is padded to a multiple of `multiple_of`. Padding columns have zero weights and the bias
    `padding`.
    """
    size, depth = products[0].weight.shape
    together, columns = processor.MULTIPLIED_TOGETHER[precision], processor.to_multiple(size, multiple_of)
    rows = processor.to_multiple(depth, together)
    shape = len(products), columns // processor.PRODUCT_COLUMNS, rows * processor.PRODUCT_COLUMNS
    corrections = np.float32 if precision == "float32" else np.int32
    types = products[0].weight.dtype, corrections, np.float32, np.float32
    per_column = len(products), columns
    packed = PackedLinear(*map(_allocate_aligned, (shape, per_column, per_column, per_column), types))
    for layer, product in enumerate(products):
        weight = _pad(product.weight, columns, rows)
        groups = weight.reshape(shape[1], processor.PRODUCT_COLUMNS, -1, together).transpose(0, 2, 1, 3)
        packed.panels[layer].reshape(groups.shape)[...] = groups
        packed.scale[layer, :size] = product.scale
        packed.bias[layer] = padding
        packed.bias[layer, :size] = product.bias
        if precision == "int8":
            # VNNI multiplies unsigned by signed bytes, so inputs are stored plus 128. This takes 128 @ weights away.
            packed.correction[layer, :size] = _ZERO_BYTE * product.weight.sum(1, dtype=np.int32)
    return packed


def _allocate_aligned(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Zeros from the start of a cache line, so that no register is loaded from two lines."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.zeros(size + processor.CACHE_LINE_BYTES, np.uint8)
    first = -room.ctypes.data % processor.CACHE_LINE_BYTES
    return room[first : first + size].view(dtype).reshape(shape)


def _pad(weight: NDArray[Any], rows: int, columns: int) -> NDArray[Any]:
    """The weight with rows and columns of zeros added up to this size."""
    if weight.shape == (rows, columns):
        return weight
    padded = np.zeros((rows, columns), weight.dtype)
    padded[: weight.shape[0], : weight.shape[1]] = weight
    return padded


PositionTable = Callable[[int, int], Floats]
"""Function (first position, number of positions) to the positional encodings (positions, D)."""
_POSITIONS_AHEAD = 512


def position_tables(settings: ModelSettings, arrays: Arrays) -> tuple[PositionTable, PositionTable]:
    """The position tables of source and target, equal to those of `model/embedding.py` to the last bit.

    So both round sinusoids from float64. float32 functions of NumPy and torch differ in their last bits.
    """
    if settings.positions == "learned":
        src, tgt = (_learned(arrays[f"{side}_embedding.positions"], f"{side}_ids") for side in ("src", "tgt"))
        return src, tgt
    return (_sinusoids(settings.d_model, settings.positions == "marian"),) * 2


def _learned(table: Floats, ids_name: str) -> PositionTable:
    def positions(start: int, length: int) -> Floats:
        if start + length > len(table):
            raise DataError(
                f"`{ids_name}` must have at most {len(table)} tokens, the learned positions (`max_positions`), "
                f"but has {start + length}."
            )
        return table[start : start + length]

    return positions


def _sinusoids(width: int, sines_first: bool) -> PositionTable:
    """Sines and cosines in turn, or all sines before all cosines."""
    exponents = np.arange(0, width, 2, dtype=np.float32) * np.float32(-math.log(10000.0) / width)
    rates = np.exp(exponents, dtype=np.float64).astype(np.float32)

    def positions(start: int, length: int) -> Floats:
        angles = np.arange(start, start + length, dtype=np.float32)[:, None] * rates
        waves = np.sin(angles, dtype=np.float64), np.cos(angles, dtype=np.float64)
        joined = np.concatenate(waves, 1) if sines_first else np.stack(waves, 2).reshape(length, width)
        return joined.astype(np.float32)

    return positions


class KnownPositions:
    """Positional encodings, computed up to the longest length so far, with some positions in reserve."""

    def __init__(self, table: PositionTable, width: int, limit: int | None) -> None:
        self._table, self._limit = table, limit
        self._known = np.zeros((0, width), np.float32)

    def up_to(self, length: int) -> Floats:
        """Encodings of at least `length` positions. Raises DataError if there are fewer learned positions."""
        known = self._known
        if known.shape[0] < length:
            end = length + min(length, _POSITIONS_AHEAD)
            end = end if self._limit is None else max(min(end, self._limit), length)
            self._known = known = self._table(0, end)
        return known

"""A Transformer's weights as the compiled functions read them."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.config import InferenceSettings
from dragoman.inference.compiled.layout import DecoderWeights, EncoderWeights, Floats, Norm, PackedLinear, Shape
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
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.embedding import Embedding
from dragoman.model.layers import DecoderLayer, EncoderLayer, Residual
from dragoman.model.transformer import Transformer

_LOG2_E = math.log2(math.e)
_POSITIONS_AHEAD = 512
_ZERO_BYTE = 128

_MULTIPLIES = {"float32": True, "int16": HAS_SHORT_PRODUCTS, "int8": HAS_BYTE_PRODUCTS}
_ACTIVATIONS = ("relu", "gelu", "swish")

MAX_BEAM_SIZE = 64
"""Wider beams are searched elsewhere: here the best continuations are kept by insertion."""
Product = tuple[Tensor, Tensor | None]
"""Weight (out, in) and bias."""


class CompiledWeights:
    """All of a model for the compiled search, in float32, int16 or int8, copied."""

    def __init__(self, model: Transformer, precision: str) -> None:
        self.precision = precision
        self.width, self.inner_width = model.settings.d_model, model.settings.d_ff
        encoder: list[EncoderLayer] = list(model.encoder.layers)  # type: ignore[arg-type]
        decoder: list[DecoderLayer] = list(model.decoder.layers)  # type: ignore[arg-type]
        self.num_layers = len(decoder)
        self.vocab_sizes = model.src_vocab_size, model.tgt_vocab_size
        self.is_finite = all(bool(parameter.isfinite().all()) for parameter in model.parameters())
        self._positions = _Positions(model.src_embedding), _Positions(model.tgt_embedding)
        with torch.no_grad():
            self.shape = Shape(
                model.settings.num_heads,
                model.settings.norm_first,
                _ACTIVATIONS.index(model.settings.activation),
                encoder[0].self_attn_residual.norm.eps,
            )
            self._encoder = self._encoder_weights(model, encoder)
            self._decoder = self._decoder_weights(model, decoder)

    def encoder(self, length: int) -> EncoderWeights:
        """For sources up to `length`."""
        return self._encoder._replace(positions=self._positions[0].up_to(length))

    def decoder(self, length: int) -> DecoderWeights:
        """For outputs up to `length`."""
        return self._decoder._replace(positions=self._positions[1].up_to(length))

    @property
    def vocabulary_bands(self) -> int:
        """Bands of the projection to the vocabulary."""
        return int(self._decoder.vocabulary.bias.shape[1]) // VOCABULARY_BAND

    def _linear(self, products: Sequence[Product]) -> PackedLinear:
        return pack_products(products, self.precision)

    def _encoder_weights(self, model: Transformer, layers: Sequence[EncoderLayer]) -> EncoderWeights:
        return EncoderWeights(
            self_in=self._linear([_scaled_input(layer.self_attn, 0, 3) for layer in layers]),
            self_out=self._linear([(layer.self_attn.out.weight, layer.self_attn.out.bias) for layer in layers]),
            self_norm=_norms([layer.self_attn_residual for layer in layers]),
            inner=self._linear([(layer.feed_forward.inner.weight, layer.feed_forward.inner.bias) for layer in layers]),
            outer=self._linear([(layer.feed_forward.outer.weight, layer.feed_forward.outer.bias) for layer in layers]),
            feed_forward_norm=_norms([layer.feed_forward_residual for layer in layers]),
            final_norm=_final_norm(model.encoder.norm, self.width),
            embedding=_embedding(model.src_embedding),
            positions=np.zeros((0, self.width), np.float32),
        )

    def _decoder_weights(self, model: Transformer, layers: Sequence[DecoderLayer]) -> DecoderWeights:
        bias: Tensor | None = model.projection.bias
        return DecoderWeights(
            self_in=self._linear([_scaled_input(layer.self_attn, 0, 3) for layer in layers]),
            self_out=self._linear([(layer.self_attn.out.weight, layer.self_attn.out.bias) for layer in layers]),
            self_norm=_norms([layer.self_attn_residual for layer in layers]),
            cross_query=self._linear([_scaled_input(layer.cross_attn, 0, 1) for layer in layers]),
            cross_sources=self._linear([_scaled_input(layer.cross_attn, 1, 3) for layer in layers]),
            cross_out=self._linear([(layer.cross_attn.out.weight, layer.cross_attn.out.bias) for layer in layers]),
            cross_norm=_norms([layer.cross_attn_residual for layer in layers]),
            inner=self._linear([(layer.feed_forward.inner.weight, layer.feed_forward.inner.bias) for layer in layers]),
            outer=self._linear([(layer.feed_forward.outer.weight, layer.feed_forward.outer.bias) for layer in layers]),
            feed_forward_norm=_norms([layer.feed_forward_residual for layer in layers]),
            final_norm=_final_norm(model.decoder.norm, self.width),
            embedding=_embedding(model.tgt_embedding),
            positions=np.zeros((0, self.width), np.float32),
            vocabulary=pack_products(
                [(model.projection.weight * _LOG2_E, None if bias is None else bias * _LOG2_E)],
                self.precision,
                VOCABULARY_BAND,
                padding=-math.inf,
            ),
        )


def supports(model: Transformer, precision: str, settings: InferenceSettings) -> bool:
    """Whether the compiled functions have what the model, the precision and the search need, on this processor."""
    head_width = model.settings.d_model // model.settings.num_heads
    return (
        model.device.type == "cpu"
        and model.working_type == torch.float32
        and HAS_FMA
        and head_width % HEAD_WIDTH_MULTIPLE == 0
        and settings.beam_size <= MAX_BEAM_SIZE
        and _MULTIPLIES.get(precision, False)
    )


def pack_products(
    products: Sequence[Product], precision: str, multiple_of: int = PRODUCT_COLUMNS, padding: float = 0.0
) -> PackedLinear:
    """The products of all layers in panels of PRODUCT_COLUMNS columns. Their number is a multiple of `multiple_of`.

    Columns after the last real one get `padding` as bias.
    """
    packs = [_packed(weight.float(), bias, precision, multiple_of, padding) for weight, bias in products]
    return PackedLinear(*(_stacked(parts) for parts in zip(*packs, strict=True)))


def _stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The parts of all layers, beginning with a line of the cache: a register is then loaded from one line, not two."""
    size = sum(part.nbytes for part in parts)
    room = np.empty(size + CACHE_LINE_BYTES, np.uint8)
    first = -room.ctypes.data % CACHE_LINE_BYTES
    stacked = room[first : first + size].view(parts[0].dtype).reshape(len(parts), *parts[0].shape)
    np.stack(parts, out=stacked)
    return stacked


def _packed(
    weight: Tensor, bias: Tensor | None, precision: str, multiple_of: int, padding: float
) -> tuple[np.ndarray, ...]:
    size, depth = weight.shape
    missing = -size % multiple_of
    biases = torch.zeros(size) if bias is None else bias.float()
    biases = nn.functional.pad(biases, (0, missing), value=padding)
    if precision == "float32":
        panels = nn.functional.pad(weight, (0, 0, 0, missing)).view(-1, PRODUCT_COLUMNS, depth).transpose(1, 2)
        zeros = torch.zeros(size + missing)
        return panels.flatten(1).numpy(), zeros.numpy(), torch.ones(size + missing).numpy(), biases.numpy()
    at_once, largest = MULTIPLIED_TOGETHER[precision], largest_integer(precision, depth)
    scale = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / largest
    quantised = (weight / scale[:, None]).round()
    quantised = nn.functional.pad(quantised, (0, -depth % at_once, 0, missing))
    panels = quantised.view(-1, PRODUCT_COLUMNS, quantised.size(1) // at_once, at_once).transpose(1, 2)
    # Bytes of inputs stand around 128, because VNNI multiplies unsigned by signed ones.
    zero = _ZERO_BYTE if precision == "int8" else 0
    return (
        panels.flatten(1).to(torch.int8 if precision == "int8" else torch.int16).numpy(),
        (zero * quantised.sum(1)).to(torch.int32).numpy(),
        nn.functional.pad(scale, (0, missing)).numpy(),
        biases.numpy(),
    )


def _scaled_input(attention: MultiHeadAttention, first: int, last: int) -> Product:
    """Parts of query, key and value. The query has the scale of the scores, which are in base 2."""
    width = attention.in_weight.size(1)
    scale = torch.ones(3 * width)
    scale[:width] = _LOG2_E * (width // attention.num_heads) ** -0.5
    part = slice(first * width, last * width)
    bias = None if attention.in_bias is None else (attention.in_bias * scale)[part]
    return (attention.in_weight * scale[:, None])[part], bias


def _norms(residuals: Sequence[Residual]) -> Norm:
    return Norm(
        np.stack([_array(residual.norm.weight) for residual in residuals]),
        np.stack([_array(residual.norm.bias) for residual in residuals]),
    )


def _final_norm(norm: nn.Module, width: int) -> Norm:
    if isinstance(norm, nn.LayerNorm):
        return Norm(_array(norm.weight)[None], _array(norm.bias)[None])
    return Norm(np.zeros((0, width), np.float32), np.zeros((0, width), np.float32))


def _embedding(embedding: Embedding) -> Floats:
    return _array(embedding.weight * math.sqrt(embedding.weight.size(1)))


def _array(tensor: Tensor) -> Floats:
    """A copy, in rows."""
    return np.array(tensor.detach().float().numpy(), order="C")


class _Positions:
    """What an embedding adds at each position, computed as far as it was needed."""

    def __init__(self, embedding: Embedding) -> None:
        self._table: Callable[[int, int], Tensor] = embedding.table
        self._limit = None if embedding.positions is None else embedding.positions.size(0)
        self._known = np.zeros((0, embedding.weight.size(1)), np.float32)

    def up_to(self, length: int) -> Floats:
        """Raises ValueError where learned positions end before."""
        known = self._known
        if known.shape[0] < length:
            end = length + min(length, _POSITIONS_AHEAD)
            known = _array(self._table(0, end if self._limit is None else max(min(end, self._limit), length)))
            self._known = known
        return known

"""A Transformer as a StepModel with a key-value cache, in far fewer operations than the definition.

Weights are converted once: query, key and value become one product, and cross-attention keys and values of all layers
another. The scale of attention scores is multiplied into the query's weights. Steps are plain tensor operations without
modules.

The cache is a tree, because the hypotheses of a sentence share most of their tokens. Each sentence has *slots*, one for
every token that was appended to any of its hypotheses. A mask marks which slots are a hypothesis's own past. Choosing
hypotheses moves rows of the mask, and no keys or values. Slots that no hypothesis sees are dropped when the cache is
full.

Matrix products have fixed weights, y = x W^T + b. Weights are converted once, before the search, and on a CPU packed
into the layout that oneDNN's kernels read. This saves up to three quarters of the time of a product with few rows. int8
is quantized dynamically: every row of x and every output column has its own scale, which maps the largest magnitude to
127. Sums are exact integers, so the result of a row does not depend on the other rows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from dragoman.bundle import Weights
from dragoman.bundle.model import Converted
from dragoman.bundle.weights import attention_scales, quantize_rows
from dragoman.devices.without_torch import precisions_of_torch
from dragoman.engines.search.step_model import OfTransformer, Predictions
from dragoman.model.attention import MultiHeadAttention, padding_mask
from dragoman.model.layers import DecoderLayer, EncoderLayer, Residual
from dragoman.model.transformer import Transformer

ProductFunction = Callable[[Tensor], Tensor]
"""Function from (rows, in) to (rows, out). The output is float32, or bfloat16 for products in bfloat16."""

# With fewer weights, packing gains less than oneDNN's call costs (docs/log/2026.md).
_MIN_WEIGHTS_TO_PACK = 2**17
# int8 halves the time of large products. In smaller ones quantizing the rows costs more than it saves.
_MIN_WEIGHTS_FOR_INT8 = 2**17
# A bfloat16 call costs 10 us more than a float32 call. With small weights it is faster from about this many rows. In
# the tiny model, one sentence takes 1.2 to 1.4 times as long in pure bfloat16, and 100 sentences up to 1.3 times as
# long in pure float32 (docs/log/2026.md).
_MIN_ROWS_FOR_BFLOAT16 = 24
# Number of rows that oneDNN chooses the layout of packed weights for.
_TYPICAL_ROWS = 64
_LARGEST = 127
_ZERO_POINT = 128


def product_function(
    weight: Float[Tensor, "out in"], bias: Float[Tensor, " out"] | None, precision: str
) -> ProductFunction:
    """The fastest product with these float32 weights in `precision`: float32, bfloat16 or int8.

    Small weights are not multiplied in int8, because that would be slower.
    """
    on_cpu = weight.device.type == "cpu"
    if precision == "int8" and weight.numel() >= _MIN_WEIGHTS_FOR_INT8:
        return _Int8(weight, bias)
    large = weight.numel() >= _MIN_WEIGHTS_TO_PACK
    if precision == "float32":
        return _Packed(weight, bias) if on_cpu and large and _can_pack(torch.float32) else _Plain(weight, bias)
    halves = weight.bfloat16(), None if bias is None else bias.bfloat16()
    if not on_cpu:
        return _Plain(*halves)
    many = (_Packed if _can_pack(torch.bfloat16) else _Plain)(*halves)
    if large:
        return many
    few = _Plain(weight, bias)
    return lambda rows: (many if rows.size(0) >= _MIN_ROWS_FOR_BFLOAT16 else few)(rows)


def scale_input(attention: MultiHeadAttention, first: int, last: int, precision: str) -> ProductFunction:
    """The product with parts `first` to `last` of the joint projection of query (0), key (1) and value (2).

    The query's weights are multiplied by 1 / sqrt(K), the scale of attention scores.
    """
    d_model = attention.in_weight.size(1)
    scales = torch.from_numpy(attention_scales(d_model, attention.num_heads)).to(attention.in_weight.device)
    part = slice(first * d_model, last * d_model)
    bias = None if attention.in_bias is None else (attention.in_bias * scales)[part]
    return product_function((attention.in_weight * scales[:, None])[part], bias, precision)


class _Plain:
    """torch's product, in the type of the weights."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias, self._dtype = weight.t(), bias, weight.dtype

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dtype != self._dtype:
            rows = rows.to(self._dtype)
        return torch.mm(rows, self._weight) if self._bias is None else torch.addmm(self._bias, rows, self._weight)


class _Packed:
    """oneDNN's linear on weights in oneDNN's layout."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._dtype, self._bias = weight.dtype, bias
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _TYPICAL_ROWS)

    def __call__(self, rows: Tensor) -> Tensor:
        linear = torch.ops.mkldnn._linear_pointwise
        if rows.dtype != self._dtype:
            rows = rows.to(self._dtype)
        return linear(rows, self._weight, self._bias, "none", [], "")  # type: ignore[no-any-return]


class _Int8:
    """Product of 8-bit integers, summed in 32 bits and then multiplied by the scales."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        integers, scale = (torch.from_numpy(array) for array in quantize_rows(weight.detach().numpy(), _LARGEST))
        self._weight = torch.ops.onednn.qlinear_prepack(integers.to(torch.int8), [_TYPICAL_ROWS, weight.size(1)])
        self._scale, self._zeros = scale, torch.zeros(weight.size(0), dtype=torch.int64)
        self._bias = bias
        # Adding this before truncation rounds to the nearest and moves zero to the kernel's zero point.
        self._offset = torch.tensor(_ZERO_POINT + 0.5)

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dtype != torch.float32:
            rows = rows.float()
        largest = torch.maximum(rows.amax(1, keepdim=True), rows.amin(1, keepdim=True).neg_())
        scale = largest.clamp_(min=1e-30).div_(_LARGEST)
        bytes_ = torch.addcdiv(self._offset, rows, scale).to(torch.uint8)
        inputs, weights = (bytes_, 1.0, _ZERO_POINT), (self._weight, self._scale, self._zeros)
        plain = None, 1.0, 0, torch.float32, "none"  # no bias, no output scale, float32, no operation after it
        sums = torch.ops.onednn.qlinear_pointwise(*inputs, *weights, *plain, [], "")
        return sums.mul_(scale) if self._bias is None else torch.addcmul(self._bias, sums, scale)


def _can_pack(dtype: torch.dtype) -> bool:
    """Whether this torch has oneDNN's linear on packed weights of this type.

    torch does not document the operation. torch.compile uses it.
    """
    available = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    if not (available and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")):
        return False
    return dtype == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


_NONE = float("-inf")
_LOG2_E = math.log2(math.e)
_FIRST_SLOTS = 16
_attend = functional.scaled_dot_product_attention


@dataclass(slots=True)
class FastState:
    """The cache of B sentences with N hypotheses, N / B for each sentence.

    Attributes
    ----------
    sources
        Keys and values of the sources, for cross-attention.
    padding
        Additive mask: 0 at the tokens of a source, -inf at its padding.
    everyone
        0, 1, ... B - 1.
    slots
        Keys and values of all tokens written so far. The first `used` slots of each sentence are in use.
    seen
        Additive mask: 0 where the token of a slot is in the past of a hypothesis, else -inf.
    used
        Slots in use in each sentence.
    length
        Tokens written by each hypothesis.
    """

    sources: Float[Tensor, "L 2 B H S K"]
    padding: Float[Tensor, "B 1 1 S"]
    everyone: Int64[Tensor, " B"]
    slots: Float[Tensor, "L 2 B H slots K"]
    seen: Float[Tensor, "N slots"]
    used: int = 0
    length: int = 0


class FastModel(OfTransformer):
    """A Transformer for search, with a copy of its weights in `precision` (float32, bfloat16 or int8), without dropout.

    int16, which only the compiled search supports, becomes float32, which is more exact. So does int8 where torch sums
    products of bytes inexactly. If the model's weights have changed, `start` converts them again. Call all methods
    inside `torch.inference_mode`, as the searches do.
    """

    def __init__(self, model: Transformer, precision: str = "float32") -> None:
        super().__init__(model)
        supported = {"bfloat16", *precisions_of_torch(str(model.device))}
        kept = precision if precision in supported else "float32"
        self._converted = Converted(Weights.of(model), lambda: _Weights(model, kept))
        self._weights: _Weights

    def start(self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, " B"]) -> FastState:
        """Encode the sources."""
        weights = self._weights = self._converted.now()
        is_token = padding_mask(src_lengths, src_ids.size(1))
        padding = torch.zeros(is_token.shape, dtype=weights.cache_dtype, device=src_ids.device)
        sources = weights.read(src_ids, padding.masked_fill_(~is_token, _NONE))
        num_layers, _, num_sentences, num_heads, _, head_width = sources.shape
        slots = sources.new_zeros(num_layers, 2, num_sentences, num_heads, _FIRST_SLOTS, head_width)
        seen = padding.new_full((num_sentences, _FIRST_SLOTS), _NONE)
        return FastState(sources, padding, torch.arange(num_sentences, device=src_ids.device), slots, seen)

    def step(self, ids: Int64[Tensor, " N"], state: FastState) -> Predictions:
        """Append one token to each hypothesis."""
        return Predictions(self._weights.advance(ids, state), self.vocab_size, self._weights.project)

    def reorder(self, state: FastState, rows: Int64[Tensor, " N2"], sentences: Int64[Tensor, " B2"]) -> None:
        """Reorder the mask. Keys and values only move if sentences leave or change places."""
        state.seen = state.seen.index_select(0, rows)
        if sentences.numel() == state.everyone.numel() and torch.equal(sentences, state.everyone):
            return
        state.everyone = torch.arange(sentences.numel(), device=sentences.device)
        state.sources = state.sources.index_select(2, sentences)
        state.padding = state.padding.index_select(0, sentences)
        if state.used:
            _keep_seen(state, sentences)
        else:
            state.slots = state.slots.index_select(2, sentences)


def _keep_seen(state: FastState, sentences: Int64[Tensor, " B"]) -> None:
    """Keep the slots that any hypothesis sees, in order, and allocate space for more.

    `state.seen` already has only the kept sentences. `state.slots` still has all of them.
    """
    width = state.seen.size(0) // sentences.numel()
    seen = state.seen[:, : state.used].view(sentences.numel(), width, -1)
    alive = seen.amax(1) == 0
    counts = alive.sum(1, keepdim=True)
    kept = int(counts.max())
    # Every visible slot moves to its rank among the visible ones. The others move to one extra place, which is cut off.
    targets = (alive.cumsum(1) - 1).where(alive, kept)
    numbers = torch.arange(state.used, device=alive.device).expand_as(targets)
    order = targets.new_zeros(sentences.numel(), kept + 1).scatter_(1, targets, numbers)[:, :kept]
    real = torch.arange(kept, device=alive.device) < counts
    state.slots = _gather(state.slots, sentences, order, capacity=kept + max(4 * width, kept // 2))
    state.used, missing = kept, state.slots.size(4) - kept
    kept_seen = seen.gather(2, order[:, None].expand(-1, width, -1)).masked_fill_(~real[:, None], _NONE)
    state.seen = functional.pad(kept_seen.flatten(0, 1), (0, missing), value=_NONE)


def _gather(
    slots: Float[Tensor, "L 2 B H slots K"],
    sentences: Int64[Tensor, " B2"],
    order: Int64[Tensor, "B2 kept"],
    capacity: int,
) -> Float[Tensor, "L 2 B2 H capacity K"]:
    """Copy the slots in `order` of some sentences into a new cache with space for `capacity` slots."""
    num_layers, _, num_sentences, num_heads, size, head_width = slots.shape
    count, kept = order.shape
    heads = torch.arange(num_heads, device=order.device)[:, None]
    parts = torch.arange(2 * num_layers, device=order.device)[:, None, None, None]
    places = ((parts * num_sentences + sentences[:, None, None]) * num_heads + heads) * size + order[:, None]
    chosen = slots.view(-1, head_width).index_select(0, places.flatten())
    gathered = slots.new_empty(num_layers, 2, count, num_heads, capacity, head_width)
    gathered[..., :kept, :] = chosen.view(num_layers, 2, count, num_heads, kept, head_width)
    return gathered


Sublayer = Callable[[Tensor], Tensor]


def _norm_of(module: nn.Module) -> Sublayer:
    """The module's layer norm without the cost of a module call, or the identity if the module is no layer norm."""
    if not isinstance(module, nn.LayerNorm):
        return lambda rows: rows
    shape, weight, bias, epsilon = module.normalized_shape, module.weight, module.bias, module.eps
    return lambda rows: torch.layer_norm(rows, shape, weight, bias, epsilon, False)


class _Shell:
    """The residual connection around a sublayer, with layer norm before or after it."""

    def __init__(self, residual: Residual) -> None:
        self._before = residual.norm_first
        self._norm = _norm_of(residual.norm)

    def __call__(self, rows: Tensor, sublayer: Sublayer) -> Tensor:
        if self._before:
            return sublayer(self._norm(rows)) + rows
        return self._norm(sublayer(rows) + rows)


def _merge_heads(heads: Float[Tensor, "B H W K"]) -> Float[Tensor, "N D"]:
    """Concatenate the heads of each row. N is B * W."""
    return heads.transpose(1, 2).flatten(2).flatten(0, 1)


class _Layer:
    """The parts that layers of the encoder and of the decoder share."""

    def __init__(self, layer: EncoderLayer | DecoderLayer, precision: str) -> None:
        self._num_heads = layer.self_attn.num_heads
        self._in = scale_input(layer.self_attn, 0, 3, precision)
        self._out = product_function(layer.self_attn.out.weight, layer.self_attn.out.bias, precision)
        self._self_shell = _Shell(layer.self_attn_residual)
        module = layer.feed_forward
        self._inner = product_function(module.inner.weight, module.inner.bias, precision)
        self._outer = product_function(module.outer.weight, module.outer.bias, precision)
        self._activation = module.activation
        self._feed_forward_shell = _Shell(layer.feed_forward_residual)

    def _project(self, rows: Tensor, num_sentences: int, dtype: torch.dtype) -> Float[Tensor, "3 B H W K"]:
        """Queries, keys and values of self-attention. The queries have the scale of the scores."""
        parts = self._in(rows).to(dtype)
        by_head = parts.view(num_sentences, -1, 3, self._num_heads, parts.size(1) // (3 * self._num_heads))
        return by_head.permute(2, 0, 3, 1, 4)

    def _feed_forward(self, rows: Tensor) -> Tensor:
        return self._outer(self._activation(self._inner(rows)))


class _EncoderLayer(_Layer):
    def __call__(self, rows: Float[Tensor, "BS D"], padding: Float[Tensor, "B 1 1 S"]) -> Float[Tensor, "BS D"]:
        rows = self._self_shell(rows, lambda one: self._self_attention(one, padding))
        return self._feed_forward_shell(rows, self._feed_forward)

    def _self_attention(self, rows: Tensor, padding: Tensor) -> Tensor:
        query, key, value = self._project(rows, padding.size(0), padding.dtype)
        return self._out(_merge_heads(_attend(query, key, value, padding, scale=1.0)))


class _DecoderLayer(_Layer):
    def __init__(self, layer: DecoderLayer, number: int, precision: str) -> None:
        super().__init__(layer, precision)
        self._number = number
        self._cross_in = scale_input(layer.cross_attn, 0, 1, precision)
        self._cross_out = product_function(layer.cross_attn.out.weight, layer.cross_attn.out.bias, precision)
        self._cross_shell = _Shell(layer.cross_attn_residual)

    def __call__(self, rows: Float[Tensor, "N D"], past: "_Past") -> Float[Tensor, "N D"]:
        rows = self._self_shell(rows, lambda one: self._self_attention(one, past))
        rows = self._cross_shell(rows, lambda one: self._cross_attention(one, past))
        return self._feed_forward_shell(rows, self._feed_forward)

    def _self_attention(self, rows: Tensor, past: "_Past") -> Tensor:
        """Attend to the past, after storing the keys and values of the last token in it."""
        own, keys, values = past.own[self._number], past.keys[2 * self._number], past.values[2 * self._number + 1]
        parts = self._project(rows, own.size(1), own.dtype)
        own.copy_(parts[1:])
        weights = torch.softmax(torch.baddbmm(past.seen, parts[0].flatten(0, 1), keys), dim=-1)
        return self._out(_merge_heads(torch.bmm(weights, values).view(parts[0].shape)))

    def _cross_attention(self, rows: Tensor, past: "_Past") -> Tensor:
        keys, values = past.sources[2 * self._number], past.sources[2 * self._number + 1]
        query = self._cross_in(rows).to(keys.dtype).view(keys.size(0), -1, self._num_heads, keys.size(3))
        heads = _attend(query.transpose(1, 2), keys, values, past.padding, scale=1.0)
        return self._cross_out(_merge_heads(heads))


@dataclass(frozen=True, slots=True)
class _Past:
    """Views of a state for one step, made for all layers at once.

    Attributes
    ----------
    own
        Where the step stores its keys and values, (2, B, H, W, K) for each layer.
    keys
        Item 2 * layer has the keys of a layer, (B H, K, keys).
    values
        Item 2 * layer + 1 has the values of a layer, (B H, keys, K).
    seen
        The mask, repeated for every head.
    sources
        Items 2 * layer and 2 * layer + 1 have the keys and values of a layer's cross-attention, (B, H, S, K).
    padding
        The mask of the sources.
    """

    own: Sequence[Tensor]
    keys: Sequence[Tensor]
    values: Sequence[Tensor]
    seen: Float[Tensor, "BH W keys"]
    sources: Sequence[Tensor]
    padding: Float[Tensor, "B 1 1 S"]

    @staticmethod
    def of(state: FastState, width: int) -> "_Past":
        """The views for a step of `width` hypotheses per sentence. The slots must have space for them."""
        slots, seen, num_keys = state.slots, state.seen, state.used + width
        num_layers, _, num_sentences, num_heads, capacity, head_width = slots.shape
        seen[:, state.used : num_keys].view(num_sentences, width, width).diagonal(dim1=1, dim2=2).zero_()
        heads = (num_sentences, num_heads, width, num_keys)
        by_head = seen[:, :num_keys].view(num_sentences, 1, width, num_keys).expand(heads).reshape(-1, width, num_keys)
        past = slots.view(2 * num_layers, num_sentences * num_heads, capacity, head_width).narrow(2, 0, num_keys)
        own = slots.narrow(4, state.used, width).unbind(0)
        sources = state.sources.flatten(0, 1).unbind(0)
        return _Past(own, past.transpose(2, 3).unbind(0), past.unbind(0), by_head, sources, state.padding)


class _Weights:
    """The converted weights of a model, and the passes over them."""

    def __init__(self, model: Transformer, precision: str) -> None:
        self._model = model
        self._encoder = [_EncoderLayer(layer, precision) for layer in model.encoder.layers]  # type: ignore[arg-type]
        self._encoder_norm = _norm_of(model.encoder.norm)
        layers: list[DecoderLayer] = list(model.decoder.layers)  # type: ignore[arg-type]
        self._decoder = [_DecoderLayer(layer, number, precision) for number, layer in enumerate(layers)]
        self._decoder_norm = _norm_of(model.decoder.norm)
        bias: Tensor | None = model.projection.bias
        self.project = product_function(
            model.projection.weight * _LOG2_E, None if bias is None else bias * _LOG2_E, precision
        )
        # Attention in bfloat16 takes half the memory, but is not faster on a CPU (`benchmarks/tensor_engine.py`).
        halves = precision == "bfloat16" and model.device.type != "cpu"
        self.cache_dtype = torch.bfloat16 if halves else torch.float32
        crosses, width = [layer.cross_attn for layer in layers], model.settings.d_model
        biases = [cross.in_bias[width:] for cross in crosses if cross.in_bias is not None]
        weight = torch.cat([cross.in_weight[width:] for cross in crosses])
        self._sources = product_function(weight, torch.cat(biases) if biases else None, precision)
        self._scale = math.sqrt(width)
        self._embedding = model.tgt_embedding.weight * self._scale
        self._positions = model.tgt_embedding.table(0, 0)

    def read(self, src_ids: Int64[Tensor, "B S"], padding: Float[Tensor, "B 1 1 S"]) -> Float[Tensor, "L 2 B H S K"]:
        """Encode sources. Returns the keys and values of cross-attention in every layer, in the type of `padding`."""
        side = self._model.src_embedding
        embedded = functional.embedding(src_ids, side.weight) * self._scale + side.table(0, src_ids.size(1))
        rows = embedded.flatten(0, 1)
        for layer in self._encoder:
            rows = layer(rows, padding)
        parts = self._sources(self._encoder_norm(rows)).to(padding.dtype)
        shape = (*src_ids.shape, len(self._decoder), 2, self._model.settings.num_heads, -1)
        return parts.view(shape).permute(2, 3, 0, 4, 1, 5).contiguous()

    def advance(self, ids: Int64[Tensor, " N"], state: FastState) -> Float[Tensor, "N D"]:
        """The decoder's final states after appending `ids` to the hypotheses."""
        width = ids.numel() // state.everyone.numel()
        if state.used + width > state.slots.size(4):
            _keep_seen(state, state.everyone)
        past = _Past.of(state, width)
        rows = functional.embedding(ids, self._embedding).add_(self._position(state.length))
        for layer in self._decoder:
            rows = layer(rows, past)
        state.used += width
        state.length += 1
        return self._decoder_norm(rows)

    def _position(self, position: int) -> Float[Tensor, " D"]:
        if position >= self._positions.size(0):
            end = max(64, 2 * position)
            limit = self._model.max_positions
            self._positions = self._model.tgt_embedding.table(
                0, end if limit is None else max(min(end, limit), position + 1)
            )
        return self._positions[position]

"""A Transformer as a StepModel with a key-value cache, in far fewer operations than the definition.

Weights are converted once: query, key and value become one product, and cross-attention keys and values of all layers
another. The scale of attention scores is multiplied into the query's weights. Steps are plain tensor operations without
modules.

The cache is a tree, because the hypotheses of a sentence share most of their tokens. Each sentence has *slots*, one for
every token that was appended to any of its hypotheses. A mask marks which slots are a hypothesis's own past. Choosing
hypotheses moves rows of the mask, and no keys or values. Slots that no hypothesis sees are dropped when the cache is
full.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from dragoman.bundle import Weights
from dragoman.bundle.model import Converted
from dragoman.devices.precision import precisions_of_torch
from dragoman.inference.search.step_model import OfTransformer, Predictions
from dragoman.inference.tensors.attention import Cross, CrossAttention, attend, merge_heads
from dragoman.inference.tensors.products import product_function, scale_input
from dragoman.model.feed_forward import FeedForward
from dragoman.model.layers import DecoderLayer, EncoderLayer, Residual
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer

_NONE = float("-inf")
_LOG2_E = math.log2(math.e)
# torch's softmax on a CPU is several times slower on fewer keys than a vector register has lanes, so keys are padded.
_MIN_KEYS = 16
# From this many sentences on, keys and values are bfloat16 unless the model is float32, because reading their memory
# takes most of attention's time. With fewer sentences the calls do, and they cost more in bfloat16: one sentence takes
# 1.2 to 1.6 times as long (docs/log.md).
_MIN_SENTENCES_FOR_BFLOAT16 = 8
# Above this many source positions, the encoder uses the fused attention kernel, whose memory is linear in them.
_MAX_PLAIN_KEYS = 64
# Rows computed at once where splitting does not change the result. On a CPU, more rows do not fit into the cache. On a
# GPU, launching a kernel costs more than memory.
_ROWS_AT_ONCE = {"cpu": 256}
_ROWS_AT_ONCE_ELSEWHERE = 1 << 16


@dataclass(slots=True)
class FastState:
    """The cache of B sentences with N hypotheses, N / B for each sentence.

    Attributes
    ----------
    cross
        Cross-attention to the sources.
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

    cross: "Cross"
    everyone: Int64[Tensor, " B"]
    slots: Float[Tensor, "L 2 B H slots K"]
    seen: Float[Tensor, "N slots"]
    used: int = 0
    length: int = 0

    @property
    def num_sentences(self) -> int:
        """B."""
        return self.slots.size(2)


class FastModel(OfTransformer):
    """A Transformer for search, with a copy of its weights in `precision` (float32, bfloat16 or int8), without dropout.

    int16, which only the compiled search supports, becomes float32, which is more exact. So does int8 where torch sums
    products of bytes inexactly. If the model's weights have changed, `start` converts them again. Call all methods
    inside `torch.inference_mode`, as the searches do.
    """

    def __init__(self, model: Transformer, precision: str = "float32") -> None:
        super().__init__(model)
        is_integer = precision in ("int8", "int16")
        kept = "float32" if is_integer and precision not in precisions_of_torch(str(model.device)) else precision
        self._converted = Converted(Weights.of(model), lambda: _Weights(model, kept))
        self._weights: _Weights

    def start(self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, " B"]) -> FastState:
        """Encode the sources."""
        weights = self._weights = self._converted.now()
        missing = max(0, _MIN_KEYS - src_ids.size(1))
        dtype = weights.cache_dtype if src_ids.size(0) >= _MIN_SENTENCES_FOR_BFLOAT16 else torch.float32
        mask = _additive(padding_mask(src_lengths, src_ids.size(1) + missing), dtype)
        memory = weights.encode(src_ids, mask[..., : src_ids.size(1)])
        keys_and_values = functional.pad(weights.cross_attention.keys_and_values(memory, dtype), (0, 0, 0, missing))
        num_layers, _, num_sentences, num_heads, _, head_width = keys_and_values.shape
        slots = keys_and_values.new_zeros(num_layers, 2, num_sentences, num_heads, _MIN_KEYS, head_width)
        seen = mask.new_full((num_sentences, _MIN_KEYS), _NONE)
        everyone = torch.arange(num_sentences, device=src_ids.device)
        return FastState(weights.cross_attention.prepare(keys_and_values, mask), everyone, slots, seen)

    def step(self, ids: Int64[Tensor, " N"], state: FastState) -> Predictions:
        """Append one token to each hypothesis."""
        return Predictions(self._weights.advance(ids, state), self.vocab_size, self._weights.project)

    def reorder(self, state: FastState, rows: Int64[Tensor, " N2"], sentences: Int64[Tensor, " B2"]) -> None:
        """Reorder the mask. Keys and values only move if sentences leave or change places."""
        state.seen = state.seen.index_select(0, rows)
        if sentences.numel() == state.num_sentences and torch.equal(sentences, state.everyone):
            return
        state.everyone = torch.arange(sentences.numel(), device=sentences.device)
        if sentences.numel() < _MIN_SENTENCES_FOR_BFLOAT16 and state.slots.dtype != torch.float32:
            state.slots, state.seen, state.cross = state.slots.float(), state.seen.float(), state.cross.in_float32()
        state.cross = state.cross.select(sentences)
        if state.used:
            _keep_seen(state, sentences)
        else:
            state.slots = state.slots.index_select(2, sentences)


def _rows_at_once(like: Tensor) -> int:
    return _ROWS_AT_ONCE.get(like.device.type, _ROWS_AT_ONCE_ELSEWHERE)


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
    state.slots = _gather(state.slots, sentences, order, capacity=max(_MIN_KEYS, kept + max(4 * width, kept // 2)))
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
    gathered[..., kept:_MIN_KEYS, :] = 0.0  # attention reads these with weight 0, and 0 * NaN would be NaN
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
            return _sum(sublayer(self._norm(rows)), rows)
        return self._norm(_sum(sublayer(rows), rows))


def _sum(output: Tensor, rows: Tensor) -> Tensor:
    """output + rows, in the memory of the output if the types are the same."""
    return output.add_(rows) if output.dtype == rows.dtype else rows + output


_IN_PLACE: dict[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]] = {
    functional.relu: torch.relu_,
    functional.silu: partial(functional.silu, inplace=True),
}


class _FeedForward:
    def __init__(self, module: FeedForward, precision: str) -> None:
        self._inner = product_function(module.inner.weight, module.inner.bias, precision)
        self._outer = product_function(module.outer.weight, module.outer.bias, precision)
        self._activation = _IN_PLACE.get(module.activation, module.activation)

    def __call__(self, rows: Tensor) -> Tensor:
        size = _rows_at_once(rows)
        if rows.size(0) <= size:
            return self._outer(self._activation(self._inner(rows)))
        return torch.cat([self._outer(self._activation(self._inner(part))) for part in torch.split(rows, size)])


class _EncoderLayer:
    def __init__(self, layer: EncoderLayer, precision: str) -> None:
        self._in = scale_input(layer.self_attn, 0, 3, precision)
        self._out = product_function(layer.self_attn.out.weight, layer.self_attn.out.bias, precision)
        self._num_heads = layer.self_attn.num_heads
        self._attention_shell = _Shell(layer.self_attn_residual)
        self._feed_forward = _FeedForward(layer.feed_forward, precision)
        self._feed_forward_shell = _Shell(layer.feed_forward_residual)

    def __call__(self, rows: Float[Tensor, "BS D"], mask: Float[Tensor, "B 1 1 S"]) -> Float[Tensor, "BS D"]:
        rows = self._attention_shell(rows, lambda one: self._attention(one, mask))
        return self._feed_forward_shell(rows, self._feed_forward)

    def _attention(self, rows: Tensor, mask: Tensor) -> Tensor:
        num_sentences, length = mask.size(0), mask.size(3)
        parts = self._in(rows).to(mask.dtype).view(num_sentences, length, 3, self._num_heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4).contiguous()
        if length > _MAX_PLAIN_KEYS:
            heads = functional.scaled_dot_product_attention(query, key, value, mask, scale=1.0)
        else:
            heads = attend(query, key, value, mask)
        return self._out(heads.transpose(1, 2).reshape(rows.size(0), -1))


class _DecoderLayer:
    def __init__(self, layer: DecoderLayer, number: int, precision: str) -> None:
        self._number = number
        self._num_heads = layer.self_attn.num_heads
        self._in = scale_input(layer.self_attn, 0, 3, precision)
        self._out = product_function(layer.self_attn.out.weight, layer.self_attn.out.bias, precision)
        self._self_shell = _Shell(layer.self_attn_residual)
        self._cross_shell = _Shell(layer.cross_attn_residual)
        self._feed_forward = _FeedForward(layer.feed_forward, precision)
        self._feed_forward_shell = _Shell(layer.feed_forward_residual)

    def __call__(self, rows: Float[Tensor, "N D"], past: "_Past", cross: "Cross") -> Float[Tensor, "N D"]:
        rows = self._self_shell(rows, lambda one: self._self_attention(one, past))
        rows = self._cross_shell(rows, lambda one: cross(self._number, one))
        return self._feed_forward_shell(rows, self._feed_forward)

    def _self_attention(self, rows: Tensor, past: "_Past") -> Tensor:
        """Attend to the past, after storing the keys and values of the last token in it."""
        own, keys, values = past.own[self._number], past.keys[2 * self._number], past.values[2 * self._number + 1]
        _, num_sentences, num_heads, width, head_width = own.shape
        parts = self._in(rows).to(own.dtype).view(num_sentences, width, 3, num_heads, head_width).permute(2, 0, 3, 1, 4)
        own.copy_(parts[1:])
        query = parts[0].reshape(-1, width, head_width)
        weights = torch.softmax(torch.baddbmm(past.seen, query, keys), dim=-1)
        return self._out(merge_heads(torch.bmm(weights, values), num_sentences, num_heads))


@dataclass(frozen=True, slots=True)
class _Past:
    """Views of a state's slots for one step, made for all layers at once.

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
    """

    own: Sequence[Tensor]
    keys: Sequence[Tensor]
    values: Sequence[Tensor]
    seen: Float[Tensor, "BH W keys"]

    @staticmethod
    def of(state: FastState, width: int) -> "_Past":
        """The views for a step of `width` hypotheses per sentence. The slots must have space for them."""
        slots, seen = state.slots, state.seen
        num_layers, _, num_sentences, num_heads, capacity, head_width = slots.shape
        seen[:, state.used : state.used + width].view(num_sentences, width, width).diagonal(dim1=1, dim2=2).zero_()
        num_keys = max(state.used + width, _MIN_KEYS)
        heads = (num_sentences, num_heads, width, num_keys)
        by_head = seen[:, :num_keys].view(num_sentences, 1, width, num_keys).expand(heads).reshape(-1, width, num_keys)
        past = slots.view(2 * num_layers, num_sentences * num_heads, capacity, head_width).narrow(2, 0, num_keys)
        own = slots.narrow(4, state.used, width)
        return _Past(own.unbind(0), past.transpose(2, 3).unbind(0), past.unbind(0), by_head)


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
        self.cache_dtype = torch.float32 if precision == "float32" else torch.bfloat16
        self.cross_attention = CrossAttention([layer.cross_attn for layer in layers], precision)
        self._embedding = model.tgt_embedding.weight * math.sqrt(model.settings.d_model)
        shared = model.src_embedding.weight is model.tgt_embedding.weight
        self._src_embedding = (
            self._embedding if shared else model.src_embedding.weight * math.sqrt(model.settings.d_model)
        )
        self._positions = model.tgt_embedding.table(0, 0)

    def encode(self, src_ids: Int64[Tensor, "B S"], mask: Float[Tensor, "B 1 1 S"]) -> Float[Tensor, "B S D"]:
        """The encoder's output, computed for some sentences at a time."""
        embedded = functional.embedding(src_ids, self._src_embedding)
        embedded += self._model.src_embedding.table(0, src_ids.size(1))
        group = max(1, _rows_at_once(src_ids) // src_ids.size(1))
        parts = zip(torch.split(embedded, group), torch.split(mask, group), strict=True)
        return torch.cat([self._encoded(*part) for part in parts])

    def _encoded(self, embedded: Float[Tensor, "B S D"], mask: Float[Tensor, "B 1 1 S"]) -> Float[Tensor, "B S D"]:
        rows = embedded.flatten(0, 1)
        for layer in self._encoder:
            rows = layer(rows, mask)
        return self._encoder_norm(rows).view_as(embedded)

    def advance(self, ids: Int64[Tensor, " N"], state: FastState) -> Float[Tensor, "N D"]:
        """The decoder's final states after appending `ids` to the hypotheses."""
        num_sentences = state.num_sentences
        width = ids.numel() // num_sentences
        if state.used + width > state.slots.size(4):
            _keep_seen(state, state.everyone)
        past = _Past.of(state, width)
        rows = functional.embedding(ids, self._embedding).add_(self._position(state.length))
        for layer in self._decoder:
            rows = layer(rows, past, state.cross)
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


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """An additive mask: 0 where the Boolean mask is True, else -inf."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, _NONE)

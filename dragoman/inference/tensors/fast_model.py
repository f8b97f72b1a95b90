"""One Transformer as a StepModel with a cache, in far fewer operations than the model's own passes.

The weights are converted once: query, key and value in one product, the cross-attention keys and values of all layers
in another, the scale of the attention inside the query's weights. Steps are plain tensor operations, without modules.

The past is kept as a tree. Hypotheses of a sentence share most of it, so each sentence has *slots*, one for every token
that was appended to any of its hypotheses, and each hypothesis sees its own ancestors among them. Choosing hypotheses
then moves no keys and values, only rows of that mask; the slots nobody sees any more go when room is needed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from dragoman.inference.search.step_model import OfTransformer, Predictions
from dragoman.inference.tensors.attention import attend, merge_heads
from dragoman.inference.tensors.converted import Converted
from dragoman.inference.tensors.cross_attention import Cross, CrossAttention
from dragoman.inference.tensors.products import product_function, scale_input
from dragoman.model.feed_forward import FeedForward
from dragoman.model.layers import DecoderLayer, EncoderLayer, Residual
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer

_NONE = float("-inf")
_LOG2_E = math.log2(math.e)
# torch's softmax on a CPU is several times slower on fewer keys than a vector register holds, so there are always more.
_MIN_KEYS = 16
# Keys and values of this many sentences are bfloat16 unless the model is float32: attention waits for their memory.
# With fewer it waits for the calls, which cost more in bfloat16 (one sentence: 1.2 to 1.6 times the time, docs/log.md).
_MIN_SENTENCES_FOR_BFLOAT16 = 8
# Above this many source positions the encoder's attention uses the fused kernel, whose memory is linear in them.
_MAX_PLAIN_KEYS = 64
# Rows computed at once where the result is the same: more would fall out of a processor's cache. On a GPU a launch
# costs more than memory.
_ROWS_AT_ONCE = {"cpu": 256}
_ROWS_AT_ONCE_ELSEWHERE = 1 << 16


@dataclass(slots=True)
class FastState:
    """The decoder's memory of B sentences with N hypotheses, the same number for each.

    `cross` is what cross-attention needs of the sources, `everyone` the sentences' numbers in order, `slots` are keys
    and values of the tokens written so far, of which `used` a sentence count, and `seen` is 0 where a hypothesis has
    that token in its past, else -inf. `length` tokens have been written.
    """

    cross: "Cross"
    everyone: Int64[Tensor, "B"]
    slots: Float[Tensor, "L 2 B H slots K"]
    seen: Float[Tensor, "N slots"]
    used: int = 0
    length: int = 0

    @property
    def num_sentences(self) -> int:
        """B."""
        return self.slots.size(2)


class FastModel(OfTransformer):
    """A Transformer without dropout, as a copy of its weights in `precision` (float32, bfloat16 or int8).

    For int16, which only the compiled search multiplies in, they are in float32, which is more exact.
    Weights that have been changed in place since are converted anew at the next `start`. All verbs want to be called
    inside torch.inference_mode, as the searches do.
    """

    def __init__(self, model: Transformer, precision: str = "float32") -> None:
        super().__init__(model)
        kept = "float32" if precision == "int16" else precision
        self._converted = Converted(model, lambda: _Weights(model, kept))
        self._weights: _Weights

    def start(self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, "B"]) -> FastState:
        """Encodes the sources."""
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

    def step(self, ids: Int64[Tensor, "N"], state: FastState) -> Predictions:
        """Appends one token to each hypothesis."""
        return Predictions(self._weights.advance(ids, state), self.vocab_size, self._weights.project)

    def reorder(self, state: FastState, rows: Int64[Tensor, "N2"], sentences: Int64[Tensor, "B2"]) -> None:
        """Moves what each hypothesis sees; keys and values stay, unless sentences leave or change places."""
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


def _keep_seen(state: FastState, sentences: Int64[Tensor, "B"]) -> None:
    """Keeps the slots that a hypothesis of the sentence sees, in order, and makes room for more.

    `seen` is already that of the sentences kept; `slots` has all of them.
    """
    width = state.seen.size(0) // sentences.numel()
    seen = state.seen[:, : state.used].view(sentences.numel(), width, -1)
    alive = seen.amax(1) == 0
    counts = alive.sum(1, keepdim=True)
    kept = int(counts.max())
    # Every living slot moves to its rank among them; the others go to one place more, which is cut off.
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
    sentences: Int64[Tensor, "B2"],
    order: Int64[Tensor, "B2 kept"],
    capacity: int,
) -> Float[Tensor, "L 2 B2 H capacity K"]:
    """The slots in `order` of some of the sentences, copied row by row, with room for more."""
    num_layers, _, num_sentences, num_heads, size, head_width = slots.shape
    count, kept = order.shape
    heads = torch.arange(num_heads, device=order.device)[:, None]
    parts = torch.arange(2 * num_layers, device=order.device)[:, None, None, None]
    places = ((parts * num_sentences + sentences[:, None, None]) * num_heads + heads) * size + order[:, None]
    chosen = slots.view(-1, head_width).index_select(0, places.flatten())
    gathered = slots.new_empty(num_layers, 2, count, num_heads, capacity, head_width)
    gathered[..., :kept, :] = chosen.view(num_layers, 2, count, num_heads, kept, head_width)
    gathered[..., kept:_MIN_KEYS, :] = 0.0  # looked at, with a weight of 0, which must not meet a NaN
    return gathered


Sublayer = Callable[[Tensor], Tensor]


def _norm_of(module: nn.Module) -> Sublayer:
    """The module's layer norm without the time of a module call, or nothing where the module is no norm."""
    if not isinstance(module, nn.LayerNorm):
        return lambda rows: rows
    shape, weight, bias, epsilon = module.normalized_shape, module.weight, module.bias, module.eps
    return lambda rows: torch.layer_norm(rows, shape, weight, bias, epsilon, False)


class _Shell:
    """A residual connection with its norm, before or after the sublayer."""

    def __init__(self, residual: Residual) -> None:
        self._before = residual.norm_first
        self._norm = _norm_of(residual.norm)

    def __call__(self, rows: Tensor, sublayer: Sublayer) -> Tensor:
        if self._before:
            return _sum(sublayer(self._norm(rows)), rows)
        return self._norm(_sum(sublayer(rows), rows))


def _sum(output: Tensor, rows: Tensor) -> Tensor:
    """In the memory of the sublayer's output, where that has the precision of the sum."""
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
        """The rows' own keys and values go into the past first."""
        own, keys, values = past.own[self._number], past.keys[2 * self._number], past.values[2 * self._number + 1]
        _, num_sentences, num_heads, width, head_width = own.shape
        parts = self._in(rows).to(own.dtype).view(num_sentences, width, 3, num_heads, head_width).permute(2, 0, 3, 1, 4)
        own.copy_(parts[1:])
        query = parts[0].reshape(-1, width, head_width)
        weights = torch.softmax(torch.baddbmm(past.seen, query, keys), dim=-1)
        return self._out(merge_heads(torch.bmm(weights, values), num_sentences, num_heads))


@dataclass(frozen=True, slots=True)
class _Past:
    """The views of a state's slots that one step needs, made for all layers at once.

    `own` are where the step's own keys and values go, one (2, B, H, W, K) a layer; `keys` (B H, K, keys) and `values`
    (B H, keys, K) are lists of both of every layer in turn. `seen` is the mask of every head.
    """

    own: Sequence[Tensor]
    keys: Sequence[Tensor]
    values: Sequence[Tensor]
    seen: Float[Tensor, "BH W keys"]

    @staticmethod
    def of(state: FastState, width: int) -> "_Past":
        """That of a step of `width` hypotheses a sentence, which there is room for."""
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
    """All that a step needs of the model."""

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
        """The memory, computed for some sentences at a time."""
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

    def advance(self, ids: Int64[Tensor, "N"], state: FastState) -> Float[Tensor, "N D"]:
        """The decoder's final states, after `ids` were appended to the hypotheses."""
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

    def _position(self, position: int) -> Float[Tensor, "D"]:
        if position >= self._positions.size(0):
            end = max(64, 2 * position)
            limit = self._model.max_positions
            self._positions = self._model.tgt_embedding.table(
                0, end if limit is None else max(min(end, limit), position + 1)
            )
        return self._positions[position]


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where the mask is True, else -inf."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, _NONE)

"""The encoder and decoder stacks and the whole model (Vaswani et al. 2017, section 3.1 and figure 1)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from dragoman.bundle.weights import Arrays
from dragoman.config import ModelSettings
from dragoman.devices.device import build_without_values
from dragoman.model.cache import DecoderCache, LayerCache
from dragoman.model.embedding import Embedding
from dragoman.model.layers import DecoderLayer, EncoderLayer, Mask, apply_norm
from dragoman.model.masks import causal_mask, padding_mask
from dragoman.model.parameters import replace_parameters


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """Every attention weight of a full pass, one tensor a layer: (B, H, queries, keys), rows sum to 1."""

    encoder_self: tuple[Tensor, ...]
    decoder_self: tuple[Tensor, ...]
    cross: tuple[Tensor, ...]


class Encoder(nn.Module):
    """A stack of encoder layers, with a final norm when norm_first (pre-norm leaves the sum unnormalised)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.num_encoder_layers))
        self.norm = nn.LayerNorm(settings.d_model) if settings.norm_first else nn.Identity()

    def forward(self, hidden: Float[Tensor, "B S D"], mask: Mask) -> Float[Tensor, "B S D"]:
        """The encoder's output, called memory from here on."""
        for layer in self.layers:
            hidden = layer(hidden, mask)
        return apply_norm(self.norm, hidden)


class Decoder(nn.Module):
    """A stack of decoder layers, with a final norm when norm_first."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.num_decoder_layers))
        self.norm = nn.LayerNorm(settings.d_model) if settings.norm_first else nn.Identity()

    def forward(
        self, hidden: Float[Tensor, "B T D"], memory: Float[Tensor, "B S D"], self_mask: Mask, memory_mask: Mask
    ) -> Float[Tensor, "B T D"]:
        """All positions at once, each seeing only those before it."""
        for layer in self.layers:
            hidden = layer(hidden, memory, self_mask, memory_mask)
        return apply_norm(self.norm, hidden)

    def step(self, hidden: Float[Tensor, "N 1 D"], cache: DecoderCache) -> Float[Tensor, "N 1 D"]:
        """One more position; `cache` is extended in place."""
        for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
            hidden = layer.step(hidden, layer_cache, cache.length, cache.memory_mask)  # type: ignore[operator]
        cache.length += 1
        return apply_norm(self.norm, hidden)


class Transformer(nn.Module):
    """Source ids to target logits.

    `settings.tie` shares weights (section 3.4): "all" makes source embedding, target embedding and projection one
    tensor (the vocabularies must be one), "decoder" the latter two, "none" nothing.
    """

    def __init__(self, settings: ModelSettings, src_vocab_size: int, tgt_vocab_size: int) -> None:
        super().__init__()
        if settings.tie == "all" and src_vocab_size != tgt_vocab_size:
            raise ValueError(f"one tensor cannot embed vocabularies of {src_vocab_size} and {tgt_vocab_size} entries")
        self.settings = settings
        self.src_embedding = _embedding(settings, src_vocab_size)
        self.tgt_embedding = _embedding(settings, tgt_vocab_size)
        self.encoder = Encoder(settings)
        self.decoder = Decoder(settings)
        self.projection = nn.Linear(settings.d_model, tgt_vocab_size, bias=settings.projection_bias)
        if settings.projection_bias:
            nn.init.zeros_(self.projection.bias)
        if settings.tie == "none":
            nn.init.xavier_uniform_(self.projection.weight)
        else:
            self.projection.weight = self.tgt_embedding.weight
        if settings.tie == "all":
            self.src_embedding.weight = self.tgt_embedding.weight

    @classmethod
    def from_arrays(
        cls, settings: ModelSettings, src_vocab_size: int, tgt_vocab_size: int, arrays: Arrays
    ) -> "Transformer":
        """A model on the CPU whose parameters share the memory of numpy arrays.

        `arrays` must have the names and shapes of `dragoman.bundle.parameters.parameter_shapes`.
        """
        with build_without_values():
            model = cls(settings, src_vocab_size, tgt_vocab_size)
        return replace_parameters(model, {name: torch.from_numpy(array) for name, array in arrays.items()})

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.tgt_embedding.weight.device

    @property
    def working_type(self) -> torch.dtype:
        """What the layers compute in; embeddings may be more precise."""
        return self.encoder.layers[0].self_attn.in_weight.dtype  # type: ignore[union-attr, return-value]

    @property
    def src_vocab_size(self) -> int:
        """Rows of the source embedding."""
        return self.src_embedding.weight.size(0)

    @property
    def tgt_vocab_size(self) -> int:
        """V, the width of the logits."""
        return self.tgt_embedding.weight.size(0)

    @property
    def max_positions(self) -> int | None:
        """The longest sequence the model can read or write; None with sinusoidal positions: any."""
        return self.settings.max_positions if self.settings.positions == "learned" else None

    def forward(
        self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, "B"], decoder_input: Int64[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Logits at every target position, given bos and the target so far (teacher forcing)."""
        memory = self.encode(src_ids, src_lengths)
        return self.project(self.decode(decoder_input, memory, src_lengths))

    def encode(self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, "B"]) -> Float[Tensor, "B S D"]:
        """The memory; rows at padding positions are meaningless and masked later."""
        hidden = self.src_embedding(src_ids, dtype=self.working_type)
        return self.encoder(hidden, padding_mask(src_lengths, src_ids.size(1)))  # type: ignore[no-any-return]

    def decode(
        self, decoder_input: Int64[Tensor, "B T"], memory: Float[Tensor, "B S D"], src_lengths: Int64[Tensor, "B"]
    ) -> Float[Tensor, "B T D"]:
        """The decoder's final states, before the projection.

        Padding stands only at the end of a target, so the causal mask alone keeps real positions from seeing it.
        """
        self_mask = causal_mask(decoder_input.size(1), decoder_input.device)
        memory_mask = padding_mask(src_lengths, memory.size(1))
        hidden = self.tgt_embedding(decoder_input, dtype=self.working_type)
        return self.decoder(hidden, memory, self_mask, memory_mask)  # type: ignore[no-any-return]

    def project(self, hidden: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows V"]:
        """States to logits."""
        return functional.linear(hidden, self.projection.weight, self.projection.bias)

    def start(self, memory: Float[Tensor, "B S D"], src_lengths: Int64[Tensor, "B"]) -> DecoderCache:
        """A cache with nothing decoded yet, one hypothesis a sentence."""
        layers = [LayerCache(*layer.cross_attn.project_memory(memory)) for layer in self.decoder.layers]  # type: ignore[operator, union-attr]
        return DecoderCache(layers, padding_mask(src_lengths, memory.size(1)))

    def step(self, ids: Int64[Tensor, "N"], cache: DecoderCache) -> Float[Tensor, "N V"]:
        """Logits (float32) of the next token, after `ids` were appended to the N hypotheses of `cache`."""
        hidden = self.tgt_embedding(ids[:, None], start=cache.length)
        return self.project(self.decoder.step(hidden, cache)[:, 0]).float()

    def attention(
        self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, "B"], decoder_input: Int64[Tensor, "B T"]
    ) -> AttentionWeights:
        """All attention weights of a full pass over one batch, without dropout; call it in eval mode."""
        src_mask = padding_mask(src_lengths, src_ids.size(1))
        self_mask = causal_mask(decoder_input.size(1), decoder_input.device)
        hidden, encoder_self = self.src_embedding(src_ids), []
        for layer in self.encoder.layers:
            encoder_self.append(layer.attention(hidden, src_mask))  # type: ignore[operator]
            hidden = layer(hidden, src_mask)
        memory = self.encoder.norm(hidden)
        hidden, decoder_self, cross = self.tgt_embedding(decoder_input), [], []
        for layer in self.decoder.layers:
            self_weights, cross_weights = layer.attention(hidden, memory, self_mask, src_mask)  # type: ignore[operator]
            decoder_self.append(self_weights)
            cross.append(cross_weights)
            hidden = layer(hidden, memory, self_mask, src_mask)
        return AttentionWeights(tuple(encoder_self), tuple(decoder_self), tuple(cross))


def _embedding(settings: ModelSettings, vocab_size: int) -> Embedding:
    return Embedding(vocab_size, settings.d_model, settings.dropout, settings.positions, settings.max_positions)

"""The encoder and decoder stacks and the whole model (Vaswani et al. 2017, section 3.1 and figure 1)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from dragoman.bundle.weights import Arrays
from dragoman.config import ModelSettings
from dragoman.config.checking import check_shape, check_vocabularies
from dragoman.devices.device import build_without_values
from dragoman.model.attention import Mask
from dragoman.model.embedding import Embedding
from dragoman.model.layers import DecoderLayer, EncoderLayer
from dragoman.model.masks import causal_mask, padding_mask
from dragoman.model.parameters import replace_parameters


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """Every attention weight of a full pass, one tensor a layer: (B, H, queries, keys), rows sum to 1."""

    encoder_self: tuple[Tensor, ...]
    decoder_self: tuple[Tensor, ...]
    cross: tuple[Tensor, ...]


class Encoder(nn.Module):
    """A stack of encoder layers, with a final norm if `norm_first` (pre-norm leaves the sum unnormalized)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.num_encoder_layers))
        self.norm = nn.LayerNorm(settings.d_model) if settings.norm_first else nn.Identity()

    def forward(
        self, hidden: Float[Tensor, "B S D"], mask: Mask, weights: list[Tensor] | None = None
    ) -> Float[Tensor, "B S D"]:
        """The encoder's output, called memory from here on."""
        for layer in self.layers:
            hidden = layer(hidden, mask, weights)
        return self.norm(hidden)  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """A stack of decoder layers, with a final norm if `norm_first`."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.num_decoder_layers))
        self.norm = nn.LayerNorm(settings.d_model) if settings.norm_first else nn.Identity()

    def forward(
        self,
        hidden: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"],
        self_mask: Mask,
        memory_mask: Mask,
        self_weights: list[Tensor] | None = None,
        cross_weights: list[Tensor] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The final states of all positions at once."""
        for layer in self.layers:
            hidden = layer(hidden, memory, self_mask, memory_mask, self_weights, cross_weights)
        return self.norm(hidden)  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Source ids to target logits.

    `settings.tie` shares weights (section 3.4): "all" makes source embedding, target embedding and projection one
    tensor (the vocabularies must be one), "decoder" the latter two, "none" nothing. Raises ConfigError for settings
    that no model can have: heads that do not divide `d_model`, an odd `d_model` with sinusoidal positions, one
    embedding for two vocabularies.
    """

    def __init__(self, settings: ModelSettings, src_vocab_size: int, tgt_vocab_size: int) -> None:
        check_shape(settings)
        check_vocabularies(settings, src_vocab_size, tgt_vocab_size)
        super().__init__()
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
        self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, "B"], tgt_ids: Int64[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Logits of the next token after each of `tgt_ids`, which start with bos (teacher forcing)."""
        memory = self.encode(src_ids, src_lengths)
        return self.projection(self.decode(tgt_ids, memory, src_lengths))  # type: ignore[no-any-return]

    def encode(
        self,
        src_ids: Int64[Tensor, "B S"],
        src_lengths: Int64[Tensor, "B"],
        weights: list[Tensor] | None = None,
    ) -> Float[Tensor, "B S D"]:
        """The memory. Its rows at padding positions are meaningless; the decoder's mask excludes them."""
        mask = padding_mask(src_lengths, src_ids.size(1))
        return self.encoder(self.src_embedding(src_ids), mask, weights)  # type: ignore[no-any-return]

    def decode(
        self,
        tgt_ids: Int64[Tensor, "B T"],
        memory: Float[Tensor, "B S D"],
        src_lengths: Int64[Tensor, "B"],
        self_weights: list[Tensor] | None = None,
        cross_weights: list[Tensor] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The decoder's final states, before the projection.

        Padding stands only at the end of a target, so the causal mask alone keeps real positions from seeing it.
        """
        masks = causal_mask(tgt_ids.size(1), tgt_ids.device), padding_mask(src_lengths, memory.size(1))
        hidden = self.tgt_embedding(tgt_ids)
        return self.decoder(hidden, memory, *masks, self_weights, cross_weights)  # type: ignore[no-any-return]

    def attention(
        self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, "B"], tgt_ids: Int64[Tensor, "B T"]
    ) -> AttentionWeights:
        """All attention weights of a forward pass over one batch."""
        encoder_self: list[Tensor] = []
        decoder_self: list[Tensor] = []
        cross: list[Tensor] = []
        memory = self.encode(src_ids, src_lengths, encoder_self)
        self.decode(tgt_ids, memory, src_lengths, decoder_self, cross)
        return AttentionWeights(tuple(encoder_self), tuple(decoder_self), tuple(cross))


def _embedding(settings: ModelSettings, vocab_size: int) -> Embedding:
    return Embedding(vocab_size, settings.d_model, settings.dropout, settings.positions, settings.max_positions)

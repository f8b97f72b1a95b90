"""The Transformer: encoder stack, decoder stack and output projection (Vaswani et al. 2017, section 3.1, figure 1).

This package is the definition of the model, for reading. The engines that make it fast (`training/step/accelerated.py`,
`engines/tensors`, `engines/compiled`) are tested against it in `tests/contract/test_one_transformer.py`.

Shapes: B sentences, S source positions, T target positions, D = d_model, H heads, V target vocabulary.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from dragoman.config import ModelSettings
from dragoman.config.checking import check_shape, check_vocabularies
from dragoman.devices.checks import check_lengths, check_memory, check_sizes
from dragoman.devices.device import build_without_values
from dragoman.display import Facts, ShownRecord, shape_text
from dragoman.model.attention import Cache, Mask, causal_mask, padding_mask
from dragoman.model.embedding import Embedding
from dragoman.model.layers import DecoderLayer, EncoderLayer
from dragoman.model.shapes import ParameterRow, ParameterTable
from dragoman.model.trace import Trace, TracedBatch, trace_modules


@dataclass(frozen=True, slots=True, repr=False)
class AttentionWeights(ShownRecord):
    """All attention weights of a forward pass, one tensor (B, H, queries, keys) for each layer. Rows sum to 1.

    Parameters
    ----------
    encoder_self, decoder_self, cross
        The weights of the encoder's and the decoder's self-attention, and of cross-attention.
    """

    encoder_self: tuple[Tensor, ...]
    decoder_self: tuple[Tensor, ...]
    cross: tuple[Tensor, ...]

    def _facts(self) -> Facts:
        for kind in fields(self):
            layers = getattr(self, kind.name)
            shapes = {shape_text(tensor.shape): None for tensor in layers}
            yield kind.name, f"layers: {len(layers)}, sentences x heads x queries x keys: {', '.join(shapes)}"


class Encoder(nn.Module):
    """A stack of encoder layers.

    With `norm_first`, a final layer norm follows, because the residual sum is otherwise never normalized.

    Parameters
    ----------
    settings : ModelSettings
        The sizes and variants of the model.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.num_encoder_layers))
        self.norm = nn.LayerNorm(settings.d_model) if settings.norm_first else nn.Identity()

    def forward(
        self, hidden: Float[Tensor, "B S D"], mask: Mask | None, weights: list[Tensor] | None = None
    ) -> Float[Tensor, "B S D"]:
        """Transform embedded sources into the memory.

        Parameters
        ----------
        hidden : (B, S, D)
            The embedded sources.
        mask, weights
            As for `EncoderLayer`. The weights of each layer are appended.

        Returns
        -------
        Tensor
            The memory (B, S, D).
        """
        for layer in self.layers:
            hidden = layer(hidden, mask, weights)
        return self.norm(hidden)  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """A stack of decoder layers, with a final layer norm if `norm_first`.

    Parameters
    ----------
    settings : ModelSettings
        The sizes and variants of the model.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.num_decoder_layers))
        self.norm = nn.LayerNorm(settings.d_model) if settings.norm_first else nn.Identity()

    def forward(
        self,
        hidden: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"],
        self_mask: Mask | None,
        memory_mask: Mask | None,
        weights: tuple[list[Tensor] | None, list[Tensor] | None] = (None, None),
        cache: Cache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Transform embedded targets into final states.

        Parameters
        ----------
        hidden : (B, T, D)
            The embedded targets.
        memory, self_mask, memory_mask, weights, cache
            As for `DecoderLayer`. The weights of each layer are appended.

        Returns
        -------
        Tensor
            The final states (B, T, D).
        """
        for layer in self.layers:
            hidden = layer(hidden, memory, self_mask, memory_mask, weights, cache)
        return self.norm(hidden)  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """The Transformer of "Attention Is All You Need": source ids in, logits of target tokens out.

    `settings.tie` selects which weights are one tensor (section 3.4):

    - "all": source embedding, target embedding and output projection, as in the paper. Needs a joint vocabulary.
    - "decoder": target embedding and output projection.
    - "none": each has its own tensor.

    Deviations from the paper, each a setting of [model]:

    - `norm_first` (default): layer norm before the sublayers. The paper has it after them.
    - `attention_bias` and `projection_bias` (default): biases in attention and in the output projection.
    - `attention_dropout` and `activation_dropout` (default 0): dropout inside attention and feed-forward networks.
    - `activation` and `positions` (default as in the paper): other activation functions and positional encodings.

    Parameters
    ----------
    settings
        The sizes and variants of the model, the [model] table of a configuration.
    src_vocab_size
        Number of source token ids.
    tgt_vocab_size
        Number of target token ids V. Must equal `src_vocab_size` if `settings.tie` is "all".

    Raises
    ------
    ConfigError
        If `num_heads` does not divide `d_model`, if `d_model` is odd with sinusoidal positions, or if one tensor would
        embed two vocabularies of different sizes.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", https://arxiv.org/abs/1706.03762
    """

    def __init__(self, settings: ModelSettings, src_vocab_size: int, tgt_vocab_size: int) -> None:
        check_sizes(src_vocab_size=src_vocab_size, tgt_vocab_size=tgt_vocab_size)
        check_shape(settings)
        check_vocabularies(settings, src_vocab_size, tgt_vocab_size)
        super().__init__()
        self.settings = settings
        self.src_embedding = _embedding(settings, src_vocab_size)
        self.tgt_embedding = _embedding(settings, tgt_vocab_size)
        self.src_embedding.ids_name, self.tgt_embedding.ids_name = "src_ids", "tgt_ids"
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
    def build(cls, src_vocab_size: int, tgt_vocab_size: int, preset: str = "base", **sizes: object) -> "Transformer":
        """Build a model with random weights from its sizes.

        Parameters
        ----------
        src_vocab_size, tgt_vocab_size
            Numbers of source and target token ids.
        preset
            "tiny", "small", "base" or "big". The last two have the sizes of the paper (table 3).
        **sizes
            Settings of [model] that replace those of the preset: `d_model`, `d_ff`, `num_heads`, `num_encoder_layers`,
            `num_decoder_layers`, `dropout`, `norm_first`, `tie` and others. Without `tie`, vocabularies of different
            sizes share only the target embedding and the projection.

        Raises
        ------
        ConfigError
            If a size is unknown, out of range, or does not fit the others.

        Examples
        --------
        >>> sizes = {"src_vocab_size": 6, "tgt_vocab_size": 6, "d_model": 8, "num_heads": 8, "d_ff": 16}
        >>> model = Transformer.build(**sizes, tie="none")
        >>> sum(row.count for row in model.parameter_table())
        9206
        """
        given: dict[str, Any] = {"preset": preset, **sizes}
        if src_vocab_size != tgt_vocab_size:
            given = {"tie": "decoder", **given}
        return cls(ModelSettings(**given), src_vocab_size, tgt_vocab_size)

    @classmethod
    def from_arrays(
        cls,
        settings: ModelSettings,
        src_vocab_size: int,
        tgt_vocab_size: int,
        arrays: Mapping[str, NDArray[Any] | Tensor],
    ) -> "Transformer":
        """Build a model whose parameters share the memory of arrays, on the CPU, or of tensors, on their device.

        Parameters
        ----------
        settings, src_vocab_size, tgt_vocab_size
            As for the constructor.
        arrays
            One array for each name in `dragoman.model.shapes.parameter_shapes`, in that shape.
        """
        with build_without_values():
            model = cls(settings, src_vocab_size, tgt_vocab_size)
        parameters = {name: nn.Parameter(torch.as_tensor(array)) for name, array in arrays.items()}
        tied = {name: parameters[names[0]] for names in model._names_of_parameters().values() for name in names}
        model.load_state_dict(tied, assign=True)
        return model

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all distinct parameters as float32 arrays by name. On the CPU they share the model's memory.

        Returns
        -------
        dict of str to numpy.ndarray
            One array for each name in `dragoman.model.shapes.parameter_shapes`.
        """
        return {name: each.detach().cpu().float().contiguous().numpy() for name, each in self.named_parameters()}

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.tgt_embedding.weight.device

    @property
    def src_vocab_size(self) -> int:
        """Number of source token ids, the rows of the source embedding."""
        return self.src_embedding.weight.size(0)

    @property
    def tgt_vocab_size(self) -> int:
        """Number of target token ids V, the width of the logits."""
        return self.tgt_embedding.weight.size(0)

    @property
    def max_positions(self) -> int | None:
        """Length of the longest sequence that the model can read or write, in tokens. None: no limit."""
        return self.settings.position_limit

    def forward(
        self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, " B"], tgt_ids: Int64[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Compute the logits of the next token after each target position (teacher forcing).

        Parameters
        ----------
        src_ids
            Source token ids (B, S), each row ending with eos and then padding.
        src_lengths
            Number of tokens of each source without padding (B,).
        tgt_ids
            Decoder input (B, T): bos, then the target tokens.

        Returns
        -------
        Tensor
            Logits (B, T, V). Position t predicts the token after `tgt_ids[:, t]`.
        """
        memory = self.encode(src_ids, src_lengths)
        return self.projection(self.decode(tgt_ids, memory, src_lengths))  # type: ignore[no-any-return]

    def encode(
        self,
        src_ids: Int64[Tensor, "B S"],
        src_lengths: Int64[Tensor, " B"],
        weights: list[Tensor] | None = None,
    ) -> Float[Tensor, "B S D"]:
        """Encode sources into the memory, which the decoder attends to.

        Parameters
        ----------
        src_ids
            Source token ids (B, S), each row ending with eos and then padding.
        src_lengths
            Number of tokens of each source without padding (B,).
        weights
            If a list is given, the attention weights (B, H, S, S) of each layer are appended to it.

        Returns
        -------
        Tensor
            The memory (B, S, D). The decoder masks its padding positions, so their values have no meaning.
        """
        hidden = self.src_embedding(src_ids)
        check_lengths("src_lengths", src_lengths, src_ids)
        return self.encoder(hidden, padding_mask(src_lengths, src_ids.size(1)), weights)  # type: ignore[no-any-return]

    def decode(
        self,
        tgt_ids: Int64[Tensor, "B T"],
        memory: Float[Tensor, "B S D"],
        src_lengths: Int64[Tensor, " B"],
        self_weights: list[Tensor] | None = None,
        cross_weights: list[Tensor] | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Compute the final states of the decoder, the input of `projection`.

        Targets are padded only at the end, so the causal mask alone keeps real positions from attending to padding.

        Parameters
        ----------
        tgt_ids
            Decoder input (B, T): bos, then the target tokens.
        memory
            The output of `encode` (B, S, D).
        src_lengths
            Number of tokens of each source without padding (B,).
        self_weights, cross_weights
            If a list is given, the attention weights of each layer are appended to it: (B, H, T, T) and (B, H, T, S).
        cache
            A dict, `{}` at first, which keeps the keys and values of each layer from call to call. `tgt_ids` are then
            the tokens after those of earlier calls, and each token is computed once. `memory` must stay the same.

        Returns
        -------
        Tensor
            The states (B, T, D).
        """
        past = cache[self.decoder.layers[0].self_attn][0].size(2) if cache else 0  # type: ignore[index]
        hidden = self.tgt_embedding(tgt_ids, past)
        check_memory(memory, tgt_ids, self.settings.d_model)
        check_lengths("src_lengths", src_lengths, memory)
        # With a cache, only the rows of the new positions.
        self_mask = causal_mask(past + tgt_ids.size(1), tgt_ids.device)[past:]
        memory_mask = padding_mask(src_lengths, memory.size(1))
        weights = self_weights, cross_weights
        return self.decoder(hidden, memory, self_mask, memory_mask, weights, cache)  # type: ignore[no-any-return]

    def attention(
        self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, " B"], tgt_ids: Int64[Tensor, "B T"]
    ) -> AttentionWeights:
        """Run a forward pass and return all attention weights, before dropout.

        Parameters
        ----------
        src_ids, src_lengths, tgt_ids
            As for `forward`.

        Returns
        -------
        AttentionWeights
            One tensor (B, H, queries, keys) per layer, for self-attention of both stacks and for cross-attention.
        """
        encoder_self, decoder_self, cross = (list[Tensor]() for _ in range(3))
        memory = self.encode(src_ids, src_lengths, encoder_self)
        self.decode(tgt_ids, memory, src_lengths, decoder_self, cross)
        return AttentionWeights(tuple(encoder_self), tuple(decoder_self), tuple(cross))

    def trace(self, batch: TracedBatch) -> Trace:
        """Run a forward pass and return every intermediate tensor by name.

        Parameters
        ----------
        batch
            A `dragoman.Batch`, or any object with `src_ids` (B, S), `src_lengths` (B,) and `decoder_input` (B, T).

        Returns
        -------
        Trace
            A mapping from names to tensors, in the order of computation. Names are those of `print(model)`, such as
            "encoder.layers.0.self_attn". Attention also has its queries, keys, values, scores and weights, and
            embeddings their tokens and positions. The last tensor is "logits". Printing the trace lists all shapes.
        """
        return trace_modules(self, batch)

    def parameter_table(self) -> ParameterTable:
        """List the parameters: names, shapes and counts, and which names share one tensor.

        Returns
        -------
        ParameterTable
            The rows. It prints as a table, and displays itself in notebooks.
        """
        return ParameterTable(
            ParameterRow(name, tuple(parameter.shape), parameter.numel(), tuple(further))
            for parameter, (name, *further) in self._names_of_parameters().items()
        )

    def _names_of_parameters(self) -> dict[nn.Parameter, list[str]]:
        """All names of each distinct parameter, in the order of the model."""
        names = defaultdict[nn.Parameter, list[str]](list)
        for name, parameter in self.named_parameters(remove_duplicate=False):
            names[parameter].append(name)
        return names


def _embedding(settings: ModelSettings, vocab_size: int) -> Embedding:
    return Embedding(vocab_size, settings.d_model, settings.dropout, settings.positions, settings.max_positions)

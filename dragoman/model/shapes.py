"""Names, shapes and number of a Transformer's parameters, computed from its settings without building the model.

`Model.load` compares model.safetensors with the shapes, so that a translation without torch needs no Transformer, and a
hostile file is refused before arrays are made. The names are the same as those of `model/transformer.py`; change both
together. A linear layer has the weight (outputs, inputs), as `torch.nn.Linear` does.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from dragoman.config import ModelSettings
from dragoman.display import html_table, shape_text

Shapes = dict[str, tuple[int, ...]]
"""Shapes by name. The order is that of `Transformer.named_parameters`."""
Arrays = Mapping[str, NDArray[Any]]
"""Every distinct parameter by name, as in `parameter_shapes`: float32, or integers with their scales."""


def parameter_shapes(settings: ModelSettings, src_vocab_size: int, tgt_vocab_size: int) -> Shapes:
    """The shape of every distinct parameter, in the order of the model. A tied parameter has its first name.

    Parameters
    ----------
    settings
        The settings of the model. `settings.tie` selects the tensors that are one: with "all" the two embeddings and
        the projection, with "decoder" the target embedding and the projection.
    src_vocab_size, tgt_vocab_size
        Entries of the vocabularies, control tokens included.

    Raises
    ------
    ValueError
        If one tensor must embed two vocabularies of different sizes.
    """
    if settings.tie == "all" and src_vocab_size != tgt_vocab_size:
        raise ValueError(f"one tensor cannot embed vocabularies of {src_vocab_size} and {tgt_vocab_size} entries")
    return dict(_parameters(settings, src_vocab_size, tgt_vocab_size))


def tied_names(settings: ModelSettings) -> dict[str, tuple[str, ...]]:
    """The further names of each tied parameter, by its first name."""
    names: dict[str, dict[str, tuple[str, ...]]] = {
        "all": {"src_embedding.weight": ("tgt_embedding.weight", "projection.weight")},
        "decoder": {"tgt_embedding.weight": ("projection.weight",)},
        "none": {},
    }
    return names[settings.tie]


def _parameters(
    settings: ModelSettings, src_vocab_size: int, tgt_vocab_size: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, learned = settings.d_model, settings.positions == "learned"
    for side, vocab_size in (("src", src_vocab_size), ("tgt", tgt_vocab_size)):
        if side == "src" or settings.tie != "all":
            yield f"{side}_embedding.weight", (vocab_size, width)
        if learned:
            yield f"{side}_embedding.positions", (settings.max_positions, width)
    stacks = {
        "encoder": (settings.num_encoder_layers, ["self"]),
        "decoder": (settings.num_decoder_layers, ["self", "cross"]),
    }
    for stack, (num_layers, attentions) in stacks.items():
        for layer in range(num_layers):
            yield from _layer(settings, f"{stack}.layers.{layer}", attentions)
        if settings.norm_first:
            yield from _norm(f"{stack}.norm", width)
    if settings.tie == "none":
        yield "projection.weight", (tgt_vocab_size, width)
    if settings.projection_bias:
        yield "projection.bias", (tgt_vocab_size,)


def _layer(settings: ModelSettings, name: str, attentions: list[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, inner = settings.d_model, settings.d_ff
    for attention in attentions:  # query, key and value are one matrix of 3 * width rows, in this order
        for part, rows in (("in_", 3 * width), ("out.", width)):
            yield f"{name}.{attention}_attn.{part}weight", (rows, width)
            if settings.attention_bias:
                yield f"{name}.{attention}_attn.{part}bias", (rows,)
        yield from _norm(f"{name}.{attention}_attn_residual.norm", width)
    for part, (rows, columns) in {"inner": (inner, width), "outer": (width, inner)}.items():
        yield f"{name}.feed_forward.{part}.weight", (rows, columns)
        yield f"{name}.feed_forward.{part}.bias", (rows,)
    yield from _norm(f"{name}.feed_forward_residual.norm", width)


def _norm(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One parameter tensor. `shared_with` are its further names if it is tied."""

    name: str
    shape: tuple[int, ...]
    count: int
    shared_with: tuple[str, ...]


class ParameterTable(tuple[ParameterRow, ...]):
    """Rows of parameters and their total. Prints as a table and displays as a table in notebooks."""

    __slots__ = ()

    @property
    def total(self) -> int:
        """The number of parameters. A shared tensor counts once."""
        return sum(row.count for row in self)

    def __repr__(self) -> str:
        width = max((len(row.name) for row in self), default=0)
        lines = [
            f"{row.name:{width}}  {shape_text(row.shape):>14}  {row.count:>12,}  {_shared_text(row)}" for row in self
        ]
        return "\n".join([*(line.rstrip() for line in lines), f"{'total':{width}}  {'':14}  {self.total:>12,}"])

    def _repr_html_(self) -> str:
        cells = [(row.name, shape_text(row.shape), f"{row.count:,}", _shared_text(row)) for row in self]
        return html_table(("parameter", "shape", "count", ""), [*cells, ("total", "", f"{self.total:,}", "")])


def _shared_text(row: ParameterRow) -> str:
    return f"also {', '.join(row.shared_with)}" if row.shared_with else ""


def parameter_rows(settings: ModelSettings, src_vocab_size: int, tgt_vocab_size: int) -> ParameterTable:
    """One row for each distinct parameter, in the order of the model. Raises ValueError as `parameter_shapes` does."""
    further, shapes = tied_names(settings), parameter_shapes(settings, src_vocab_size, tgt_vocab_size)
    return ParameterTable(
        ParameterRow(name, shape, math.prod(shape), further.get(name, ())) for name, shape in shapes.items()
    )


def expected_parameters(settings: ModelSettings, src_vocab_size: int, tgt_vocab_size: int) -> int:
    """Number of parameters, computed from the settings without building a model.

    Multi-head attention has four D x D matrices and 4 D biases. A feed-forward network has 2 D F + F + D parameters.
    A layer norm has 2 D. An encoder layer has two norms and a decoder layer three.
    """
    width, inner = settings.d_model, settings.d_ff
    attention = 4 * width * width + (4 * width if settings.attention_bias else 0)
    feed_forward = 2 * width * inner + inner + width
    norm = 2 * width
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    layers = settings.num_encoder_layers * encoder_layer + settings.num_decoder_layers * decoder_layer
    final_norms = 2 * norm if settings.norm_first else 0
    rows = {
        "all": tgt_vocab_size,
        "decoder": src_vocab_size + tgt_vocab_size,
        "none": src_vocab_size + 2 * tgt_vocab_size,
    }[settings.tie]
    projection_bias = tgt_vocab_size if settings.projection_bias else 0
    positions = 2 * settings.max_positions * width if settings.positions == "learned" else 0
    return layers + final_norms + rows * width + projection_bias + positions

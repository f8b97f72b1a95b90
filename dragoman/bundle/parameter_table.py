"""A table of the parameters of a model, and their number by a formula."""

import math
from dataclasses import dataclass

from dragoman.bundle.parameters import parameter_shapes, tied_names
from dragoman.config import ModelSettings
from dragoman.display import html_table, shape_text


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

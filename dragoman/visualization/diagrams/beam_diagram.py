"""Diagram of a beam search: the tokens that it considered at each step, in the order of their log-probability."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dragoman.visualization.arguments import check_count, check_text
from dragoman.visualization.diagrams.drawing import INK, SOFT, Block, Drawing
from dragoman.visualization.figures.figure import COLORS, drawing_style
from dragoman.visualization.figures.labels import readable_labels
from dragoman.visualization.models import OneTranslator, model_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dragoman.bundle import Model
    from dragoman.visualization.inspection.inspection import BeamNode

_MOST_STEPS, _MOST_BEAMS = 12, 10
_COLUMN, _ROW, _SIZE = 1.25, 0.52, (0.98, 0.36)
_KINDS = {"kept": "feed_forward", "open": "feed_forward", "ended": "softmax", "pruned": "data"}
_BEST = COLORS[1]


def plot_beam_tree(translator: "OneTranslator", text: str, beam_size: int | None = None) -> "Figure":
    """Translate a text, and plot the tree of its beam search.

    A column shows the tokens that one step considered, twice as many as the beam size, the most probable on top. The
    number is the log-probability of the translation up to this token.

    Parameters
    ----------
    translator : Translator or Model
        The model.
    text : str
        The text to translate.
    beam_size : int, optional
        Number of hypotheses, from 1 to 10. The default is that of the translator, if it is at most 10.

    Returns
    -------
    matplotlib.figure.Figure
        The first 12 steps.

    Raises
    ------
    ConfigError
        If `translator` is something else or an ensemble, or if `beam_size` is out of range.
    DataError
        If the text is empty or too long.

    Examples
    --------
    >>> plot_beam_tree(translator, "Where is the station?", beam_size=3)
    """
    trained = model_of(translator)
    check_text("text", text)
    own = min(_MOST_BEAMS, trained.config.inference.beam_size)
    size = own if beam_size is None else check_count("beam_size", beam_size, 1, _MOST_BEAMS)
    return _draw_tree(_search(trained, text, size), size)


def _search(trained: "Model", text: str, beam_size: int) -> "list[BeamNode]":
    """The nodes of the first steps."""
    from dragoman.visualization.inspection.inspector import trace_text

    nodes = trace_text(trained, text, replace(trained.config.inference, beam_size=beam_size))
    return [node for node in nodes if node.position < _MOST_STEPS]


def _draw_tree(nodes: "list[BeamNode]", beam_size: int) -> "Figure":
    ranks = _ranks(nodes)
    columns, high = 1 + nodes[-1].position, 0.1 + _ROW * max(ranks)
    labels = readable_labels(node.token for node in nodes)
    with drawing_style():
        drawing = Drawing(max(5.5, 0.5 + columns * _COLUMN))
        root = Block(0.25, high + _SIZE[1] / 2, 0.0, 0.0)
        blocks: list[Block] = []
        for node, rank, name in zip(nodes, ranks, labels.texts, strict=True):
            foot = 0.95 + node.position * _COLUMN, high - rank * _ROW
            block = drawing.block(foot, "", _KINDS[node.state], size=_SIZE)
            drawing.token((block.x, block.y + 0.07), name, labels.fonts, _SIZE[0] - 0.1)
            drawing.label((block.x, block.y - 0.1), f"{node.log_prob:.2f}", "center", 6.5, INK)
            parent = root if node.parent < 0 else blocks[node.parent]
            if node.best or node.state != "pruned":
                color, width = (_BEST, 2.0) if node.best else (SOFT, 0.8)
                drawing.curve((parent.right, parent.y), (block.left, block.y), color, width)
            blocks.append(block)
        notes = "orange: the translation, blue: in the beam, green: finished, white: pruned"
        if columns == _MOST_STEPS:
            notes += f", first {_MOST_STEPS} steps"
        drawing.title(f"Beam search with beam size {beam_size}", notes)
        return drawing.finish()


def _ranks(nodes: "list[BeamNode]") -> list[int]:
    """The rank of each node in its step, from 0 for the most probable."""
    steps: dict[int, list[float]] = {}
    for node in nodes:
        steps.setdefault(node.position, []).append(-node.log_prob)
    ranks = {position: np.argsort(np.argsort(costs, kind="stable")) for position, costs in steps.items()}
    rest = {position: iter(found.tolist()) for position, found in ranks.items()}
    return [next(rest[node.position]) for node in nodes]

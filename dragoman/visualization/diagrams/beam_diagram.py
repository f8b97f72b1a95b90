"""Diagram of a beam search: the tokens that it considered at each step, in the order of their log-probability."""

from dataclasses import replace
from typing import TYPE_CHECKING

from dragoman.visualization.arguments import check_count, check_text
from dragoman.visualization.diagrams.drawing import INK, SOFT, Block, Drawing, fitting_points
from dragoman.visualization.figures.figure import COLORS, drawing_style
from dragoman.visualization.figures.labels import readable_labels
from dragoman.visualization.models import OneTranslator, trained_model_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dragoman.model.trained import TrainedModel
    from dragoman.visualization.inspection.inspection import BeamNode

_MOST_STEPS, _MOST_BEAMS = 16, 10
_COLUMN, _ROW, _SIZE = 1.25, 0.52, (0.98, 0.36)
_KINDS = {"kept": "feed_forward", "open": "feed_forward", "ended": "softmax", "pruned": "data"}
_BEST = COLORS[1]


def plot_beam_tree(translator: "OneTranslator", text: str, beam_size: int | None = None) -> "Figure":
    """Translate a text, and plot the tree of its beam search.

    A column shows the tokens that one step considered, twice as many as the beam size, the most probable on top. The
    number is the log-probability of the translation up to this token.

    Parameters
    ----------
    translator : Translator or TrainedModel
        The model.
    text : str
        The text to translate.
    beam_size : int, optional
        Number of hypotheses, from 1 to 10. The default is that of the translator, if it is at most 10.

    Returns
    -------
    matplotlib.figure.Figure
        The first 16 steps.

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
    trained = trained_model_of(translator)
    check_text("text", text)
    own = min(_MOST_BEAMS, trained.config.inference.beam_size)
    size = own if beam_size is None else check_count("beam_size", beam_size, 1, _MOST_BEAMS)
    return _draw_tree(_search(trained, text, size), size)


def _search(trained: "TrainedModel", text: str, beam_size: int) -> "list[BeamNode]":
    """The nodes of the first steps."""
    from dragoman.visualization.inspection.inspector import trace_text

    nodes = trace_text(trained, text, replace(trained.config.inference, beam_size=beam_size))
    return [node for node in nodes if node.position < _MOST_STEPS]


def _draw_tree(nodes: "list[BeamNode]", beam_size: int) -> "Figure":
    columns = 1 + max(node.position for node in nodes)
    ranks: dict[int, int] = {}
    for position in range(columns):
        places = [place for place, node in enumerate(nodes) if node.position == position]
        ranks |= {place: rank for rank, place in enumerate(sorted(places, key=lambda place: -nodes[place].log_prob))}
    high = _ROW * max(ranks.values()) + 0.1
    labels = readable_labels(node.token for node in nodes)
    with drawing_style():
        drawing = Drawing(max(5.5, 0.5 + columns * _COLUMN))
        root = Block(0.25, high + _SIZE[1] / 2, 0.0, 0.0)
        blocks: list[Block] = []
        for place, node in enumerate(nodes):
            x, y = 0.95 + node.position * _COLUMN, high - ranks[place] * _ROW
            block = drawing.block((x, y), "", _KINDS[node.state], size=_SIZE)
            points = fitting_points(labels.texts[place], 8.0, _SIZE[0] - 0.1)
            color = INK if node.state != "pruned" else SOFT
            drawing.label((x, block.y + 0.07), labels.texts[place], "center", points, color, labels.fonts)
            drawing.label(
                (x, block.y - 0.09), f"{node.log_prob:.2f}", "center", 6.5, SOFT if node.state == "pruned" else INK
            )
            parent = root if node.parent < 0 else blocks[node.parent]
            if node.state != "pruned" or node.best:
                color = _BEST if node.best else SOFT
                drawing.curve((parent.right, parent.y), (block.left, block.y), color, 2.0 if node.best else 0.8)
            blocks.append(block)
        notes = "orange: the translation, blue: in the beam, green: finished, white: pruned"
        if columns == _MOST_STEPS:
            notes += f", first {_MOST_STEPS} steps"
        drawing.title(f"Beam search with {beam_size} hypotheses", notes)
        return drawing.finish()

"""Diagrams of decoding: the next token of a translation, and the tree of a beam search."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dragoman.bundle import Model
from dragoman.errors import ConfigError
from dragoman.inference.translator import Translator
from dragoman.records import EOS_ID
from dragoman.text.tokenization.tokenizer import Tokenizer
from dragoman.visualization.arguments import check_count, check_text
from dragoman.visualization.diagrams.drawing import INK, SOFT, Block, Drawing, Tower, new_drawing
from dragoman.visualization.diagrams.model_diagrams import AnyArchitecture, add_output, architecture_of, model_of
from dragoman.visualization.figures.figure import COLORS, readable_labels
from dragoman.visualization.inspection.inspection import START, BeamNode

if TYPE_CHECKING:
    from dragoman.visualization.inspection.inspector import ObservedTranslation

_SHOWN = 7
_NARROW, _WIDE = 4.4, 7.8
_PANEL, _BARS, _LONGEST_BAR, _STEP = 3.7, 5.4, 1.3, 0.25
_LONGEST_NOTE = 90


def plot_next_token(model: AnyArchitecture, text: str | None = None, position: int = 1) -> Figure:
    """Plot how the decoder's states become a token: projection to the vocabulary, softmax, choice.

    Parameters
    ----------
    model : Transformer, Translator, Model or ModelSettings
        The model, or its settings. With `text`, a translator.
    text : str, optional
        A text to translate. The most probable tokens of one position are then drawn, with their probabilities.
    position : int
        The position in the translation of `text`, counted from 1.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If `model` is something else or an ensemble, or if the translation has no such position.
    DataError
        If `text` is empty or too long.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.4.

    Examples
    --------
    >>> plot_next_token(translator, "Where is the station?", position=3)
    """
    model = model if text is None else model_of(model, "model")
    one = architecture_of(model)
    position = check_count("position", position)
    seen: ObservedTranslation | None = None
    if text is not None:
        from dragoman.visualization.inspection.inspector import observe_translation

        seen = observe_translation(model_of(model), check_text("text", text))
        most = len(seen.tgt.ids) + seen.finished
        if position > most:
            raise ConfigError(f"`position` must be at most {most}, the tokens of this translation, but is {position}.")
    with new_drawing(_NARROW if seen is None else _WIDE) as drawing:
        tower = Tower(drawing, 1.75, 0.22, 2.3)
        drawing.label((tower.x, 0.12), f"states of the decoder  {one.shape('B', 'T', 'D')}", "center", 8.5, INK)
        softmax = add_output(tower, one, is_last=seen is None)
        rows: dict[str, Sequence[str]] = {}
        if seen is not None:
            drawing.arrow((softmax.right, softmax.y), (_PANEL, softmax.y))
            drawing.label(((softmax.right + _PANEL) / 2, softmax.y + 0.12), f"position {position}", "center")
            _draw_bars(drawing, seen, position, model_of(model).tokenizers.tgt, softmax.y)
            rows = {"Source": seen.src.tokens, "Translation so far": (START, *seen.tgt.tokens[: position - 1])}
        labels = readable_labels(token for tokens in rows.values() for token in tokens)
        rest, notes = iter(labels.texts), []
        for name, tokens in rows.items():
            words = " ".join(islice(rest, len(tokens)))
            notes.append(f"{name}: {words if len(words) <= _LONGEST_NOTE else '…' + words[-_LONGEST_NOTE:]}")
        title = "From the states of the decoder to the next token"
        drawing.title(title, "\n".join(notes) or one.shared_text(), fonts=labels.fonts)
        return drawing.finish()


def _draw_bars(
    drawing: Drawing, seen: "ObservedTranslation", position: int, tokenizer: Tokenizer, middle: float
) -> None:
    """Draw the most probable tokens of a position, and the chosen one, as bars in a panel at the right."""
    chosen = (*seen.tgt.ids, EOS_ID)[position - 1]
    probabilities = seen.log_probs[position - 1].exp()
    best = probabilities.topk(min(_SHOWN, probabilities.numel())).indices.tolist()
    shown = best if chosen in best else [*best[:-1], chosen]
    names = readable_labels(tokenizer.tokens(shown))
    high = max(middle + 0.6, 0.2 + _STEP * len(shown))
    drawing.frame(_PANEL, _WIDE - 0.1, high - _STEP * len(shown) - 0.05, high + 0.05)
    for row, (token_id, name) in enumerate(zip(shown, names.texts, strict=True)):
        y, probability, is_chosen = high - (row + 0.5) * _STEP, float(probabilities[token_id]), token_id == chosen
        size = max(0.01, probability * _LONGEST_BAR), 0.17
        bar = Rectangle((_BARS, y - 0.085), *size, facecolor=COLORS[1] if is_chosen else "#a8a8a8")
        drawing.axes.add_patch(bar)
        drawing.token((_BARS - 0.08, y), name, names.fonts, _BARS - _PANEL - 0.2, "right")
        text = f"{probability:.1%}" + (", chosen" if is_chosen else "")
        drawing.label((_BARS + 0.06 + size[0], y), text, color=INK if is_chosen else SOFT)


_MOST_STEPS, _MOST_BEAMS = 12, 10
_COLUMN, _ROW, _SIZE = 1.25, 0.52, (0.98, 0.36)
_KINDS = {"kept": "feed_forward", "open": "feed_forward", "ended": "softmax", "pruned": "data"}
_BEST = COLORS[1]


def plot_beam_tree(translator: Translator | Model, text: str, beam_size: int | None = None) -> Figure:
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
    one = model_of(translator)
    check_text("text", text)
    own = min(_MOST_BEAMS, one.config.inference.beam_size)
    size = own if beam_size is None else check_count("beam_size", beam_size, 1, _MOST_BEAMS)
    from dragoman.visualization.inspection.inspector import trace_text

    tree = trace_text(one, text, replace(one.config.inference, beam_size=size))
    nodes = [node for node in tree if node.position < _MOST_STEPS]
    ranks = _ranks(nodes)
    columns, high = 1 + nodes[-1].position, 0.1 + _ROW * max(ranks)
    labels = readable_labels(node.token for node in nodes)
    with new_drawing(max(5.5, 0.5 + columns * _COLUMN)) as drawing:
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
        drawing.title(f"Beam search with beam size {size}", notes)
        return drawing.finish()


def _ranks(nodes: Sequence[BeamNode]) -> list[int]:
    """The rank of each node in its step, from 0 for the most probable."""
    ranks = [0] * len(nodes)
    for _, step in groupby(range(len(nodes)), key=lambda place: nodes[place].position):
        for rank, place in enumerate(sorted(step, key=lambda place: -nodes[place].log_prob)):
            ranks[place] = rank
    return ranks

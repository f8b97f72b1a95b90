"""Figures of attention: masks, the heads of a layer, and one head before and after training."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dragoman.bundle import Model
from dragoman.display import shape_text
from dragoman.errors import ConfigError
from dragoman.inference.translator import Translator
from dragoman.model.attention import causal_mask, padding_mask
from dragoman.visualization.arguments import check_choice, check_count, check_text, check_tokens, wrong_type
from dragoman.visualization.diagrams.model_diagrams import model_of
from dragoman.visualization.figures.figure import SEQUENTIAL, Labels, label_axis, new_figure, readable_labels
from dragoman.visualization.inspection.attributions import collect_weights, decode_weights
from dragoman.visualization.inspection.inspection import KIND_NAMES, AttentionKind, Inspection
from dragoman.visualization.inspection.inspector import observe_translation

_MOST_ACROSS = 4
_WIDEST_INCHES = 20.0


def plot_heads(
    translator: Translator | Model | Inspection, text: str = "", layer: int | None = None, kind: AttentionKind = "cross"
) -> Figure:
    """Translate a text, and plot the attention weights of all heads of one layer.

    Rows are queries, columns are keys, and one colour scale shows weights from 0 to 1.

    Parameters
    ----------
    translator : Translator, Model or Inspection
        The model, or a translation that `dragoman.inspect` has inspected.
    text : str
        The text to translate, if `translator` is no inspection.
    layer : int, optional
        Number of the layer, counted from 1 as on the inspection page. The default is the last layer.
    kind : {"cross", "encoder_self", "decoder_self"}
        Cross-attention, encoder self-attention or decoder self-attention.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If `translator` is something else or an ensemble, or if the model has no such layer.
    DataError
        If the text is empty or too long.

    Examples
    --------
    >>> plot_heads(translator, "Where is the station?", layer=2)
    """
    check_choice("kind", kind, KIND_NAMES)
    if isinstance(translator, Inspection):
        weights = translator.weights
    else:
        seen = observe_translation(model_of(translator), check_text("text", text))
        weights = collect_weights(seen.attention, seen.src.tokens, seen.tgt.tokens)
    one = next(each for each in weights if each.kind == kind)
    number = one.num_layers if layer is None else check_count("layer", layer, 1, one.num_layers)
    heads = decode_weights(one)[number - 1]
    rows, columns = readable_labels(one.queries), readable_labels(one.keys)
    inches = side_inches(len(one.keys), 2.4, 14.0), side_inches(len(one.queries), 2.4, 10.0)
    across = min(_MOST_ACROSS, len(heads), int(_WIDEST_INCHES / inches[0]))
    down = math.ceil(len(heads) / across)
    with new_figure(across * inches[0] + 0.6, down * inches[1] + 0.4, down, across) as (figure, axes):
        for index, (place, head) in enumerate(zip(axes, heads, strict=False)):
            title = "mean of the heads" if one.mean_only else f"head {index + 1}"
            image = draw_weights(place, head, (rows, columns), title, inches)
            place.set_aspect("auto")
        for place in axes[len(heads) :]:
            place.set_axis_off()
        width, height = figure.get_size_inches()
        bar = min(4.0, 0.7 * height)  # inches; matplotlib makes it 20 times as long as wide
        figure.colorbar(image, ax=axes, label="weight", shrink=bar / height, fraction=min(0.15, 0.5 / width))
        figure.suptitle(f"{KIND_NAMES[one.kind].capitalize()}, layer {number}")
        if note := rows.note or columns.note:
            figure.supxlabel(note, fontsize=8)
    return figure


def plot_untrained_and_trained(
    untrained: ArrayLike, trained: ArrayLike, queries: Sequence[str], keys: Sequence[str]
) -> Figure:
    """Plot the weights of one attention head before and after training, with one colour scale.

    Parameters
    ----------
    untrained, trained : array_like
        Attention weights from 0 to 1, of shape (queries, keys).
    queries : sequence of str
        Labels of the rows.
    keys : sequence of str
        Labels of the columns.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If the weights are no numbers from 0 to 1, or if the numbers of labels do not match them.
    """
    shape = len(check_tokens("queries", queries)), len(check_tokens("keys", keys))
    both = [_check_weights(name, each, shape) for name, each in (("untrained", untrained), ("trained", trained))]
    rows, columns = readable_labels(queries), readable_labels(keys)
    side = min(4.6, 1.2 + 0.28 * max(len(queries), len(keys)))
    with new_figure(2 * side + 0.8, side, columns=2) as (figure, axes):
        for place, weights, title in zip(axes, both, ("Untrained", "Trained"), strict=True):
            image = draw_weights(place, weights, (rows, columns), title, (side, side))
        axes[0].set_ylabel("query")
        figure.colorbar(image, ax=axes, label="weight", shrink=0.8)
        note = rows.note or columns.note
        figure.supxlabel("key" + (f"\n{note}" if note else ""), fontsize=8)
    return figure


def _check_weights(name: str, weights: ArrayLike, shape: tuple[int, int]) -> NDArray[np.float64]:
    """The weights as an array of this shape, with numbers from 0 to 1."""
    try:
        found = np.asarray(weights, dtype=float)
    except (TypeError, ValueError):
        raise wrong_type(name, "a table of numbers from 0 to 1", weights) from None
    if found.shape != shape:
        text = shape_text(found.shape) or "a single number"
        raise ConfigError(f"`{name}` must have the shape {shape_text(shape)} (`queries` x `keys`), but has {text}.")
    if not ((found >= 0) & (found <= 1 + 1e-6)).all():
        raise ConfigError(f"`{name}` must have weights from 0 to 1, but has {found.min():g} to {found.max():g}.")
    return found


SMALLEST_LABEL, LARGEST_LABEL = 5.5, 8.0
"""Font sizes in points."""
_ROOM_FOR_LABELS = 0.9
_INCHES_A_LABEL = 0.19


def side_inches(count: int, least: float, most: float) -> float:
    """The length in inches of a side with `count` labels, from `least` to `most`."""
    return min(most, max(least, _ROOM_FOR_LABELS + _INCHES_A_LABEL * count))


def draw_weights(
    axes: Axes, weights: NDArray[Any], labels: tuple[Labels, Labels], title: str, inches: tuple[float, float]
) -> AxesImage:
    """Draw weights from 0 to 1, of shape (queries, keys), with the labels of both.

    `inches` are the available width and height. If a side has no space for all labels, only every second or third label
    is drawn, and so on.
    """
    image = axes.imshow(weights, cmap=SEQUENTIAL, vmin=0, vmax=1)
    width, height = inches
    for axis, names, room, rotation in ((axes.yaxis, labels[0], height, 0.0), (axes.xaxis, labels[1], width, 90.0)):
        points = 72 * max(0.5, room - _ROOM_FOR_LABELS) / max(1, len(names.texts))
        size = min(LARGEST_LABEL, max(SMALLEST_LABEL, 0.8 * points))
        label_axis(axis, names, size, rotation, every=max(1, math.ceil(1.2 * size / points)))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title)
    return image


_HIDDEN, _SEEN, _PADDING = "#f4f4f4", "#2b7bba", "#fdd9b5"


def plot_masks(src_tokens: Sequence[str], tgt_tokens: Sequence[str], src_length: int, tgt_length: int) -> Figure:
    """Plot three masks of a padded sentence pair: source padding, target causal, and both combined for the target.

    Rows are queries, columns are keys. The decoder uses the causal mask alone: padding comes last, so the causal mask
    already hides it from every real position. The third panel shows the combined effect.

    Parameters
    ----------
    src_tokens, tgt_tokens : sequence of str
        The token at every position, padding included.
    src_length, tgt_length : int
        Number of real tokens on each side. The tokens after them are padding.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If a length is below 1 or larger than the number of tokens, or if the tokens are no texts.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.2.3.
    """
    src, tgt = len(check_tokens("src_tokens", src_tokens)), len(check_tokens("tgt_tokens", tgt_tokens))
    check_count("src_length", src_length, 1, src)
    check_count("tgt_length", tgt_length, 1, tgt)
    source = padding_mask(torch.tensor([src_length]), src)[0, 0].expand(src, src)
    causal = causal_mask(tgt, torch.device("cpu"))
    combined = causal & padding_mask(torch.tensor([tgt_length]), tgt)[0, 0]
    with new_figure(9.6, 3.7, columns=3) as (figure, axes):
        _draw(axes[0], source, src_tokens, src_length, "Source: padding mask")
        _draw(axes[1], causal, tgt_tokens, tgt, "Target: causal mask")
        _draw(axes[2], combined, tgt_tokens, tgt_length, "Target: both masks")
        axes[0].set_ylabel("query position")
        text = "key position (blue: may attend, grey: masked, orange: row of a padding position)"
        figure.supxlabel(text, fontsize=9)
    return figure


def _draw(axes: Axes, mask: Tensor, tokens: Sequence[str], length: int, title: str) -> None:
    # 0 masked, 1 may attend, 2 the row of a padding position, whose result is never used.
    kinds = mask.int()
    kinds[length:] = 2
    axes.imshow(kinds.numpy(), cmap=ListedColormap([_HIDDEN, _SEEN, _PADDING]), vmin=0, vmax=2)
    axes.set_xticks([position - 0.5 for position in range(1, len(tokens))], minor=True)
    axes.set_yticks([position - 0.5 for position in range(1, len(tokens))], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    labels = readable_labels(tokens)
    size = max(4.0, min(8.0, 90 / len(tokens)))
    label_axis(axes.xaxis, labels, size, rotation=90)
    label_axis(axes.yaxis, labels, size)
    axes.set_title(title)

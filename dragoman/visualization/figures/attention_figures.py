"""Figures of attention: masks, the heads of a layer, and one head before and after training."""

import math
import os
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
from dragoman.data.batch import Batch
from dragoman.display import shape_text
from dragoman.engines.search.greedy import greedy, without_dropout
from dragoman.errors import ConfigError, DataError
from dragoman.inference.translator import Translator
from dragoman.model.attention import causal_mask, padding_mask
from dragoman.model.transformer import AttentionWeights, Transformer
from dragoman.visualization.arguments import check_choice, check_count, check_sequence, check_tokens, wrong_type
from dragoman.visualization.diagrams.model_diagrams import model_of, transformer_of
from dragoman.visualization.figures.figure import Labels, label_axis, new_figure, readable_labels, write_numbers
from dragoman.visualization.inspection.attributions import collect_weights, decode_weights, pair_batch
from dragoman.visualization.inspection.inspection import KIND_NAMES, AttentionKind, Inspection, PackedAttention
from dragoman.visualization.inspection.inspector import observe_translation

_MOST_ACROSS = 4
_WIDEST_INCHES = 20.0


def plot_heads(
    translator: "Translator | Model | Transformer | Inspection | str | os.PathLike[str]",
    text: str | Batch | Sequence[int] = "",
    layer: int | None = None,
    kind: AttentionKind = "cross",
) -> Figure:
    """Translate a text, and plot the attention weights of all heads of one layer.

    Rows are queries, columns are keys, and one colour scale shows weights from 0 to 1.

    Parameters
    ----------
    translator : Translator, Run, Model, Transformer, Inspection, str or Path
        The model, the folder of one, or a translation that `dragoman.inspect` has inspected.
    text : str, Batch or sequence of int
        The text to translate, if `translator` is no inspection. A Transformer has no tokenizer, and takes source ids
        without control ids, or a `Batch`. A batch is not translated if it has targets. Its first sentence is plotted:
        ``batch.part(2, 3)`` has the third one.
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
        If the text is empty or too long, or if ids do not fit the model.
    ModelError
        If a folder has no model.

    Examples
    --------
    >>> plot_heads(translator, "Where is the station?", layer=2)
    >>> plot_heads(model, Batch.from_ids([[4, 5, 6]], [[7, 8]]))
    """
    check_choice("kind", kind, KIND_NAMES)
    if isinstance(translator, Inspection):
        weights = translator.weights
    elif isinstance(text, str) and not isinstance(translator, Transformer):
        seen = observe_translation(model_of(translator), text)
        weights = collect_weights(seen.attention, seen.src.tokens, seen.tgt.tokens)
    else:
        weights = _observe_ids(transformer_of(translator, "translator", "a translator or a Transformer"), text)
    one = next(each for each in weights if each.kind == kind)
    number = one.num_layers if layer is None else check_count("layer", layer, 1, one.num_layers)
    heads = decode_weights(one)[number - 1]
    titles = ["mean of the heads"] if one.mean_only else ()
    return _plot_panels(heads, (one.queries, one.keys), titles, f"{KIND_NAMES[kind].capitalize()}, layer {number}")


def _observe_ids(model: Transformer, ids: object) -> tuple[PackedAttention, ...]:
    """All weights of one sentence, whose tokens are called by their ids. Without a target, the model writes one."""
    expected = "a list of ids or a `dragoman.Batch`, or a text for a translator"
    try:
        batch = ids if isinstance(ids, Batch) else Batch.from_ids([check_sequence("text", ids, expected)])
    except DataError:
        raise wrong_type("text", expected, ids) from None
    if not len(batch.src_ids):
        raise ConfigError("`text` must have at least one sentence, but is an empty batch.")
    batch = batch.part(0, 1).to(model.device)
    src, tgt = batch.src_ids[0, :-1].tolist(), batch.decoder_input[0, 1:].tolist()
    tgt = tgt or greedy(model, batch, 2 * len(src) + 2)[0]
    batch = pair_batch([src], tgt, model.device)
    with without_dropout(model):
        attention = model.attention(batch.src_ids, batch.src_lengths, batch.decoder_input)
    return collect_weights(attention, [*map(str, src)], [*map(str, tgt)])


def plot_weights(weights: ArrayLike, queries: Sequence[str] | None = None, keys: Sequence[str] | None = None) -> Figure:
    """Plot attention weights, one panel for each head, with numbers in the cells where they fit.

    Parameters
    ----------
    weights : array_like
        Weights from 0 to 1 of a model, a layer or a formula, of shape (queries, keys), (heads, queries, keys) or
        (1, heads, queries, keys): a NumPy array, a tensor or a list.
    queries : sequence of str, optional
        Labels of the rows. The default are the positions from 0.
    keys : sequence of str, optional
        Labels of the columns.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If the weights are no numbers from 0 to 1, have another shape, or do not match the numbers of labels.

    Examples
    --------
    >>> plot_weights([[0.9, 0.1], [0.4, 0.6]], ["I", "sleep"], ["ich", "schlafe"])
    >>> plot_weights(model.attention(batch.src_ids, batch.src_lengths, batch.decoder_input).cross[0][:1])
    """
    found = _check_weights("weights", weights)
    if not found.size or (found.ndim not in (2, 3) and (found.ndim, len(found)) != (4, 1)):
        advice = " Choose one layer and one sentence: `weights[0]`." if found.ndim > 3 else ""
        raise ConfigError(
            "`weights` must have the shape (queries, keys), (heads, queries, keys) or (1, heads, queries, keys), "
            f"but has {shape_text(found.shape) or 'a single number'}.{advice}"
        )
    heads = found.reshape(-1, *found.shape[-2:])
    labels = [
        [*map(str, range(count))] if given is None else given
        for given, count in zip((queries, keys), heads.shape[1:], strict=True)
    ]
    _check_weights("weights", heads[0], *labels)
    return _plot_panels(heads, labels, [""] if found.ndim == 2 else (), numbers=True)


# Width and height that a number needs, and the longest side of weights that get enough space for their numbers.
_NUMBER_INCHES, _MOST_NUMBERS = np.array((0.26, 0.14)), 12


def _plot_panels(
    heads: NDArray[Any], labels: Sequence[Sequence[str]], titles: Sequence[str], title: str = "", numbers: bool = False
) -> Figure:
    """Plot weights (heads, queries, keys), one panel for each head. `labels` are those of queries and keys."""
    titles = titles or [f"head {number}" for number in range(1, len(heads) + 1)]
    rows, columns = map(readable_labels, labels)
    spread = 2 if numbers and max(heads.shape[1:]) <= _MOST_NUMBERS else 1
    high, wide = (side_inches(spread * len(each), 2.4, most) for each, most in zip(labels, (10.0, 14.0), strict=True))
    across = min(_MOST_ACROSS, len(heads), int(_WIDEST_INCHES / wide))
    down = math.ceil(len(heads) / across)
    with new_figure(across * wide + 0.6, down * high + 0.4, down, across) as (figure, axes):
        for place, head, name in zip(axes, heads, titles, strict=False):
            image = draw_weights(place, head, (rows, columns), name, (wide, high))
        for place in axes[len(heads) :]:
            place.set_axis_off()
        width, height = figure.get_size_inches()
        bar = min(4.0, 0.7 * height)  # inches; matplotlib makes it 20 times as long as wide
        figure.colorbar(image, ax=axes, label="weight", shrink=bar / height, fraction=min(0.15, 0.5 / width))
        figure.suptitle(title)
        if note := rows.note or columns.note:
            figure.supxlabel(note, fontsize=8)
        if numbers:
            figure.draw_without_rendering()
            cell = axes[0].get_window_extent().size / figure.dpi / heads.shape[:0:-1]  # type: ignore[operator]
            if (cell >= _NUMBER_INCHES).all():
                for place, head in zip(axes, heads, strict=False):
                    write_numbers(place, head, digits=2)
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
    both = [_check_weights("untrained", untrained, queries, keys), _check_weights("trained", trained, queries, keys)]
    return _plot_panels(np.stack(both), (queries, keys), ("Untrained", "Trained"), numbers=True)


def _check_weights(name: str, weights: ArrayLike, *labels: Sequence[str]) -> NDArray[np.float64]:
    """The weights as an array with numbers from 0 to 1. With labels of queries and keys, it has their shape."""
    try:
        if isinstance(weights, Tensor):  # on any device, in any precision, and also in training
            weights = weights.detach().cpu().double().numpy()
        found = np.asarray(weights, dtype=float)
    except (TypeError, ValueError, RuntimeError):
        layer = ".cross" * isinstance(weights, AttentionWeights)
        advice = f"Choose one layer: `weights{layer}[0]`." if layer or isinstance(weights, list | tuple) else ""
        raise wrong_type(name, "a table of numbers from 0 to 1", weights, advice) from None
    shape = tuple(len(check_tokens(side, each)) for side, each in zip(("queries", "keys"), labels, strict=False))
    if shape and found.shape != shape:
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
    image = axes.imshow(weights, vmin=0, vmax=1, aspect="auto")
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

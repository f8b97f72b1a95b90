"""Figure of the attention masks: which positions each position may attend to (Vaswani et al. 2017, section 3.2.3)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from dragoman.model.masks import causal_mask, padding_mask
from dragoman.visualization.arguments import check_count, check_tokens
from dragoman.visualization.figures.figure import drawing_style, new_figure
from dragoman.visualization.figures.labels import label_axis, readable_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

_HIDDEN, _SEEN, _PADDING = "#f4f4f4", "#2b7bba", "#fdd9b5"


def plot_masks(src_tokens: Sequence[str], tgt_tokens: Sequence[str], src_length: int, tgt_length: int) -> "Figure":
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
    with drawing_style():
        figure, axes = new_figure(9.6, 3.7, columns=3)
        _draw(axes[0], source, src_tokens, src_length, "Source: padding mask")
        _draw(axes[1], causal, tgt_tokens, tgt, "Target: causal mask")
        _draw(axes[2], combined, tgt_tokens, tgt_length, "Target: both masks")
        axes[0].set_ylabel("query position")
        text = "key position (blue: may attend, grey: masked, orange: row of a padding position)"
        figure.supxlabel(text, fontsize=9)
    return figure


def _draw(axes: "Axes", mask: "Tensor", tokens: Sequence[str], length: int, title: str) -> None:
    from matplotlib.colors import ListedColormap

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
    label_axis(axes, "x", labels, size, rotation=90)
    label_axis(axes, "y", labels, size)
    axes.set_title(title)

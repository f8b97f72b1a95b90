"""Picture of an attention head before and after training: from looking everywhere to looking somewhere."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dragoman.visualize.figure import SEQUENTIAL, drawing_style, new_figure
from dragoman.visualize.labels import Labels, label_axis, readable_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage


def plot_untrained_and_trained(
    untrained: ArrayLike, trained: ArrayLike, queries: Sequence[str], keys: Sequence[str]
) -> "Figure":
    """The weights of one head on one pair of sequences, (queries, keys), before and after training, on one scale.

    `queries` look (rows), `keys` are looked at (columns). Raises ValueError where labels and weights do not match.
    """
    both = [np.asarray(weights, dtype=float) for weights in (untrained, trained)]
    for weights in both:
        if weights.shape != (len(queries), len(keys)):
            raise ValueError(f"weights of shape {weights.shape} for {len(queries)} queries and {len(keys)} keys")
    rows, columns = readable_labels(queries), readable_labels(keys)
    side = min(4.6, 1.2 + 0.28 * max(len(queries), len(keys)))
    with drawing_style():
        figure, axes = new_figure(2 * side + 0.8, side, columns=2)
        for place, weights, title in zip(axes, both, ("Untrained", "Trained"), strict=True):
            image = _draw(place, weights, rows, columns, title)
        axes[0].set_ylabel("looks")
        figure.colorbar(image, ax=axes, label="weight", shrink=0.8)
        note = rows.note or columns.note
        figure.supxlabel("is looked at" + (f"\n{note}" if note else ""), fontsize=8)
    return figure


def _draw(axes: "Axes", weights: np.ndarray, rows: Labels, columns: Labels, title: str) -> "AxesImage":
    image = axes.imshow(weights, cmap=SEQUENTIAL, vmin=0, vmax=1)
    size = max(3.5, min(8.0, 160 / max(weights.shape)))
    label_axis(axes, "x", columns, size, rotation=90)
    label_axis(axes, "y", rows, size)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title)
    return image

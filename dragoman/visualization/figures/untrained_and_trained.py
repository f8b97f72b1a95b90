"""Figure of an attention head before and after training: from even weights to focused weights."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dragoman.visualization.figures.figure import drawing_style, new_figure
from dragoman.visualization.figures.labels import readable_labels
from dragoman.visualization.figures.weight_matrix import draw_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_untrained_and_trained(
    untrained: ArrayLike, trained: ArrayLike, queries: Sequence[str], keys: Sequence[str]
) -> "Figure":
    """Plot the weights of one attention head before and after training, with one colour scale.

    Parameters
    ----------
    untrained, trained
        Attention weights from 0 to 1, of shape (queries, keys).
    queries
        Labels of the rows.
    keys
        Labels of the columns.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If the numbers of labels do not match the weights.
    """
    both = [np.asarray(weights, dtype=float) for weights in (untrained, trained)]
    shape = (len(queries), len(keys))
    for weights in both:
        if weights.shape != shape:
            raise ValueError(f"weights must have the shape (queries, keys) = {shape}, but have {weights.shape}")
    rows, columns = readable_labels(queries), readable_labels(keys)
    side = min(4.6, 1.2 + 0.28 * max(len(queries), len(keys)))
    with drawing_style():
        figure, axes = new_figure(2 * side + 0.8, side, columns=2)
        for place, weights, title in zip(axes, both, ("Untrained", "Trained"), strict=True):
            image = draw_weights(place, weights, (rows, columns), title, (side, side))
        axes[0].set_ylabel("query")
        figure.colorbar(image, ax=axes, label="weight", shrink=0.8)
        note = rows.note or columns.note
        figure.supxlabel("key" + (f"\n{note}" if note else ""), fontsize=8)
    return figure

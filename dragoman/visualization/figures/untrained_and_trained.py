"""Picture of an attention head before and after training: from looking everywhere to looking somewhere."""

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
            image = draw_weights(place, weights, (rows, columns), title, (side, side))
        axes[0].set_ylabel("looks")
        figure.colorbar(image, ax=axes, label="weight", shrink=0.8)
        note = rows.note or columns.note
        figure.supxlabel("is looked at" + (f"\n{note}" if note else ""), fontsize=8)
    return figure

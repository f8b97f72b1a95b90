"""Draws a matrix of attention weights, with as many labels as are readable."""

import math
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dragoman.visualization.figures.figure import SEQUENTIAL
from dragoman.visualization.figures.labels import Labels, label_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

SMALLEST_LABEL, LARGEST_LABEL = 5.5, 8.0
"""Font sizes in points."""
_ROOM_FOR_LABELS = 0.9
_INCHES_A_LABEL = 0.19


def side_inches(count: int, least: float, most: float) -> float:
    """The length in inches of a side with `count` labels, from `least` to `most`."""
    return min(most, max(least, _ROOM_FOR_LABELS + _INCHES_A_LABEL * count))


def draw_weights(
    axes: "Axes", weights: NDArray[Any], labels: tuple[Labels, Labels], title: str, inches: tuple[float, float]
) -> "AxesImage":
    """Draw weights from 0 to 1, of shape (queries, keys), with the labels of both.

    `inches` are the available width and height. If a side has no space for all labels, only every second or third label
    is drawn, and so on.
    """
    image = axes.imshow(weights, cmap=SEQUENTIAL, vmin=0, vmax=1)
    width, height = inches
    for side, names, room, rotation in (("y", labels[0], height, 0.0), ("x", labels[1], width, 90.0)):
        points = 72 * max(0.5, room - _ROOM_FOR_LABELS) / max(1, len(names.texts))
        size = min(LARGEST_LABEL, max(SMALLEST_LABEL, 0.8 * points))
        label_axis(axes, side, names, size, rotation, every=max(1, math.ceil(1.2 * size / points)))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title)
    return image

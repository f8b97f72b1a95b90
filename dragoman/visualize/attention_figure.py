"""The classic picture of attention: the heads of a layer side by side, with the tokens beside them."""

import math
from typing import TYPE_CHECKING

from dragoman.visualize.figure import SEQUENTIAL, drawing_style, new_figure
from dragoman.visualize.inspection import Inspection, Kind
from dragoman.visualize.labels import label_axis, readable_labels
from dragoman.visualize.weights import unpacked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = {"cross": "decoder to source", "encoder_self": "encoder", "decoder_self": "decoder to itself"}
_COLUMNS = 4


def plot_heads(inspection: Inspection, kind: Kind = "cross", layer: int | None = None) -> "Figure":
    """The weights of every head of one layer (from 0; None: the one alignments are read from), on one scale.

    Rows look, columns are looked at. Raises ValueError for a layer the model does not have.
    """
    one = inspection.of_kind(kind)
    layer = min(inspection.layer, one.num_layers - 1) if layer is None else layer
    if not 0 <= layer < one.num_layers:
        raise ValueError(f"layer {layer} of {one.num_layers}")
    weights = unpacked(one)[layer]
    rows, columns = readable_labels(one.queries), readable_labels(one.keys)
    across = min(_COLUMNS, len(weights))
    down = math.ceil(len(weights) / across)
    longest = max(len(one.queries), len(one.keys))
    side = min(7.0, max(2.4, 0.9 + 0.19 * longest))
    with drawing_style():
        figure, axes = new_figure(across * side + 0.6, down * side + 0.4, down, across)
        for head, place in enumerate(axes):
            if head >= len(weights):
                place.set_axis_off()
                continue
            image = place.imshow(weights[head], cmap=SEQUENTIAL, vmin=0, vmax=1)
            size = max(2.0, min(8.0, 150 / longest))
            label_axis(place, "x", columns, size, rotation=90)
            label_axis(place, "y", rows, size)
            place.tick_params(length=0)
            place.spines[:].set_visible(False)
            place.set_title("mean of the heads" if one.mean_only else f"head {head + 1}")
        figure.colorbar(image, ax=axes, label="weight", shrink=0.7)
        figure.suptitle(f"Attention, {_NAMES[kind]}, layer {layer + 1}")
        if note := rows.note or columns.note:
            figure.supxlabel(note, fontsize=8)
    return figure

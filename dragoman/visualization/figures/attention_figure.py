"""Figure of attention weights: one matrix per head of a layer, labelled with tokens."""

import math
from typing import TYPE_CHECKING

from dragoman.visualization.figures.figure import drawing_style, new_figure
from dragoman.visualization.figures.labels import readable_labels
from dragoman.visualization.figures.weight_matrix import draw_weights, side_inches
from dragoman.visualization.inspection.inspection import AttentionKind, Inspection
from dragoman.visualization.inspection.weights import decode_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = {
    "cross": "cross-attention",
    "encoder_self": "encoder self-attention",
    "decoder_self": "decoder self-attention",
}
_MOST_ACROSS = 4
_WIDEST_INCHES = 20.0


def plot_heads(inspection: Inspection, kind: AttentionKind = "cross", layer: int | None = None) -> "Figure":
    """Plot the attention weights of all heads of one layer, with one colour scale for weights from 0 to 1.

    Rows are queries, columns are keys.

    Parameters
    ----------
    inspection
        The inspected translation.
    kind
        Cross-attention, encoder self-attention or decoder self-attention.
    layer
        Number of the layer, from 0. Defaults to the layer that alignments are read from.

    Raises
    ------
    ValueError
        If the model does not have this layer.
    """
    one = inspection.of_kind(kind)
    layer = min(inspection.layer, one.num_layers - 1) if layer is None else layer
    if not 0 <= layer < one.num_layers:
        raise ValueError(f"layer must be from 0 to {one.num_layers - 1}, but is {layer}")
    weights = decode_weights(one)[layer]
    rows, columns = readable_labels(one.queries), readable_labels(one.keys)
    inches = side_inches(len(one.keys), 2.4, 14.0), side_inches(len(one.queries), 2.4, 10.0)
    across = min(_MOST_ACROSS, len(weights), int(_WIDEST_INCHES / inches[0]))
    down = math.ceil(len(weights) / across)
    with drawing_style():
        figure, axes = new_figure(across * inches[0] + 0.6, down * inches[1] + 0.4, down, across)
        for head, place in enumerate(axes):
            if head >= len(weights):
                place.set_axis_off()
                continue
            title = "mean of the heads" if one.mean_only else f"head {head + 1}"
            image = draw_weights(place, weights[head], (rows, columns), title, inches)
            place.set_aspect("auto")
        width, height = figure.get_size_inches()
        bar = min(4.0, 0.7 * height)  # inches; matplotlib makes it 20 times as long as wide
        figure.colorbar(image, ax=axes, label="weight", shrink=bar / height, fraction=min(0.15, 0.5 / width))
        figure.suptitle(f"{_NAMES[kind].capitalize()}, layer {layer + 1}")
        if note := rows.note or columns.note:
            figure.supxlabel(note, fontsize=8)
    return figure

"""Figure of a configuration: its parameters by part and its learning-rate schedule."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragoman.config import TrainSettings
from dragoman.model.parameters import ParameterRow
from dragoman.visualization.figures.figure import drawing_style, new_figure
from dragoman.visualization.figures.parameters import draw_parameter_shares
from dragoman.visualization.figures.schedules import draw_schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_summary(rows: Sequence[ParameterRow], settings: TrainSettings, d_model: int) -> "Figure":
    """Plot parameters by part above the learning-rate schedule."""
    with drawing_style():
        figure, (above, below) = new_figure(7.0, 5.8, rows=2)
        draw_parameter_shares(above, rows)
        draw_schedule(below, settings, d_model)
    return figure

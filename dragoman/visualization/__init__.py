"""Figures of a Transformer and of its training.

Every ``plot_`` function returns a `matplotlib.figure.Figure` and never opens a window. A notebook shows the figure, and
`save_figure` writes it to a file. matplotlib is imported when the first figure is drawn.
"""

from dragoman.visualization.figures.curves import plot_initializations, plot_training_curves
from dragoman.visualization.figures.encodings import plot_encoding_curves, plot_encodings
from dragoman.visualization.figures.figure import save_figure
from dragoman.visualization.figures.masks import plot_masks
from dragoman.visualization.figures.parameters import parameter_shares, plot_parameter_shares
from dragoman.visualization.figures.schedules import plot_schedule, plot_schedules
from dragoman.visualization.figures.smoothing import plot_smoothed_targets, target_distributions
from dragoman.visualization.figures.untrained_and_trained import plot_untrained_and_trained

__all__ = [
    "plot_encodings",
    "plot_encoding_curves",
    "plot_masks",
    "plot_schedules",
    "plot_schedule",
    "plot_smoothed_targets",
    "target_distributions",
    "plot_untrained_and_trained",
    "plot_initializations",
    "plot_training_curves",
    "plot_parameter_shares",
    "parameter_shares",
    "save_figure",
]

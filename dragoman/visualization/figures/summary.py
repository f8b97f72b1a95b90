"""Figure of a configuration: its parameters by part and its learning-rate schedule."""

from typing import TYPE_CHECKING

from dragoman.config import TrainSettings
from dragoman.visualization.arguments import check_count
from dragoman.visualization.diagrams.architecture import architecture_of
from dragoman.visualization.figures.figure import drawing_style, new_figure
from dragoman.visualization.figures.parameters import AnyParameters, draw_parameter_shares, rows_of
from dragoman.visualization.figures.schedules import check_train_settings, draw_schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_summary(model: "AnyParameters", settings: TrainSettings, d_model: int | None = None) -> "Figure":
    """Plot the parameters of a model by part, above its learning-rate schedule.

    Parameters
    ----------
    model : Transformer, Translator, Model, ModelSettings or list of ParameterRow
        The model, as for `plot_parameter_shares`.
    settings : TrainSettings
        Training settings with a schedule, learning rate and warm-up.
    d_model : int, optional
        Width of the model, if `model` is a list of rows.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If `model` or `settings` are something else, or if `d_model` is below 1.
    """
    rows = rows_of(model)
    check_train_settings("settings", settings)
    width = architecture_of(model).settings.d_model if d_model is None else check_count("d_model", d_model)
    with drawing_style():
        figure, (above, below) = new_figure(7.0, 5.8, rows=2)
        draw_parameter_shares(above, rows)
        draw_schedule(below, settings, width)
    return figure

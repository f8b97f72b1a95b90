"""Pictures of a Transformer, of its training, and of what it does with a text.

Every ``plot_`` function returns a `matplotlib.figure.Figure`, which `save_figure` writes to a file. The figure shows
itself as other figures of matplotlib do:

- A notebook shows each figure that a cell makes, once, at the end of the cell or with ``plt.show()``.
- A script that has imported pyplot shows its figures in windows with ``plt.show()``. The latest 15 wait for it.
- ``figure.show()`` shows one figure.

In any other program, a function opens no window, imports no pyplot, and keeps no figure. A figure is drawn without
pyplot and given to pyplot when it is finished, so that settings and styles of pyplot do not change it. Matplotlib and
torch are imported with the first function that needs them.
"""

from typing import TYPE_CHECKING

from dragoman.lazy import import_lazily

if TYPE_CHECKING:
    from dragoman.visualization.diagrams.attention_diagrams import plot_attention, plot_multi_head_attention
    from dragoman.visualization.diagrams.decoding_diagrams import plot_beam_tree, plot_next_token
    from dragoman.visualization.diagrams.model_diagrams import plot_layer, plot_stacks, plot_transformer
    from dragoman.visualization.figures.attention_figures import (
        plot_heads,
        plot_masks,
        plot_untrained_and_trained,
        plot_weights,
    )
    from dragoman.visualization.figures.figure import save_figure
    from dragoman.visualization.figures.model_figures import (
        parameter_shares,
        plot_encoding_curves,
        plot_encodings,
        plot_parameter_shares,
        plot_summary,
    )
    from dragoman.visualization.figures.training_figures import (
        plot_initializations,
        plot_lengths,
        plot_schedule,
        plot_schedules,
        plot_smoothed_targets,
        plot_training_curves,
        target_distributions,
    )
    from dragoman.visualization.report.run_figures import plot_run

_MODULES = {
    "diagrams.model_diagrams": ("plot_transformer", "plot_stacks", "plot_layer"),
    "diagrams.attention_diagrams": ("plot_attention", "plot_multi_head_attention"),
    "diagrams.decoding_diagrams": ("plot_next_token", "plot_beam_tree"),
    "figures.attention_figures": ("plot_heads", "plot_weights", "plot_untrained_and_trained", "plot_masks"),
    "figures.model_figures": (
        "plot_encodings",
        "plot_encoding_curves",
        "plot_parameter_shares",
        "parameter_shares",
        "plot_summary",
    ),
    "figures.training_figures": (
        "plot_schedules",
        "plot_schedule",
        "plot_smoothed_targets",
        "target_distributions",
        "plot_training_curves",
        "plot_initializations",
        "plot_lengths",
    ),
    "report.run_figures": ("plot_run",),
    "figures.figure": ("save_figure",),
}

__all__ = ["plot_transformer", "plot_stacks", "plot_layer", "plot_attention", "plot_multi_head_attention"]
__all__ += ["plot_next_token", "plot_heads", "plot_weights", "plot_untrained_and_trained", "plot_beam_tree"]
__all__ += ["plot_encodings", "plot_encoding_curves", "plot_masks"]
__all__ += ["plot_parameter_shares", "parameter_shares", "plot_summary"]
__all__ += ["plot_schedules", "plot_schedule", "plot_smoothed_targets", "target_distributions"]
__all__ += ["plot_run", "plot_training_curves", "plot_initializations", "plot_lengths", "save_figure"]

import_lazily(__name__, __all__, _MODULES)

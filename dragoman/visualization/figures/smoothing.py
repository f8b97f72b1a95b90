"""Figure of label smoothing: the target distributions of training (Vaswani et al. 2017, section 5.4)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.errors import ConfigError
from dragoman.training.step.loss import smoothed_cross_entropy
from dragoman.visualization.arguments import check_count, check_sequence, check_share
from dragoman.visualization.figures.figure import SEQUENTIAL, drawing_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABELS = "a list of token ids"


def target_distributions(labels: Sequence[int], vocab_size: int, epsilon: float, pad_id: int) -> Float[Tensor, "T V"]:
    """The target distribution of the loss for each label.

    The distributions are computed from the loss itself: its gradient with respect to the logits is p - q, where p is
    the model's distribution and q is the target distribution.

    Parameters
    ----------
    labels : sequence of int
        Token ids from 0 to `vocab_size` - 1.
    vocab_size : int
        Size of the vocabulary.
    epsilon : float
        Amount of label smoothing, from 0 to 1. 0 gives one-hot distributions.
    pad_id : int
        Id of the padding token.

    Returns
    -------
    Tensor
        One row per label, of shape (labels, vocab_size). Rows of padding are zero.

    Raises
    ------
    ConfigError
        If a label or `pad_id` is no token id, if there is no label, or if `epsilon` is not from 0 to 1.
    """
    check_count("vocab_size", vocab_size, 3)
    check_count("pad_id", pad_id, 0, vocab_size - 1)
    check_share("epsilon", epsilon)
    labels = [check_count("labels", label, 0, vocab_size - 1) for label in check_sequence("labels", labels, _LABELS)]
    if not labels:
        raise ConfigError("`labels` must have at least one token id, but is empty. Give some, such as (5, 2).")
    targets = torch.zeros(len(labels), vocab_size)
    counted = [row for row, label in enumerate(labels) if label != pad_id]
    if not counted:
        return targets
    logits = torch.zeros(len(counted), vocab_size, requires_grad=True)
    loss, _ = smoothed_cross_entropy(logits, torch.tensor([labels[row] for row in counted]), epsilon, pad_id)
    (gradient,) = torch.autograd.grad(loss, logits)
    targets[counted] = (torch.softmax(logits.detach(), -1) - gradient).clamp(min=0)
    # Exact zeros may come out as rounding errors, which would be drawn.
    targets[targets < 1e-6] = 0.0
    return targets


def plot_smoothed_targets(
    labels: Sequence[int] = (5, 2, 7, 4, 3, 0, 0), vocab_size: int = 8, epsilon: float = 0.4, pad_id: int = 0
) -> "Figure":
    """Plot one-hot targets beside smoothed targets, one row per label.

    The column of the padding token and the rows of padding labels are zero.

    Parameters
    ----------
    labels : sequence of int
        Token ids from 0 to `vocab_size` - 1.
    vocab_size : int
        Size of the vocabulary.
    epsilon : float
        Amount of label smoothing, from 0 to 1.
    pad_id : int
        Id of the padding token.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If a label or `pad_id` is no token id, if there is no label, or if `epsilon` is not from 0 to 1.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 5.4.
    """
    smoothed = target_distributions(labels, vocab_size, epsilon, pad_id)
    one_hot = target_distributions(labels, vocab_size, 0.0, pad_id)
    with drawing_style():
        figure, axes = new_figure(8.2, 0.9 + 0.36 * len(labels), columns=2)
        _draw(axes[0], one_hot, labels, pad_id, "One-hot")
        _draw(axes[1], smoothed, labels, pad_id, f"Smoothed, epsilon = {epsilon:g}")
        axes[0].set_ylabel("position (label)")
    return figure


def _draw(axes: "Axes", targets: Tensor, labels: Sequence[int], pad_id: int, title: str) -> None:
    axes.imshow(targets.numpy(), cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="auto")
    if targets.numel() <= 200:
        for row, values in enumerate(targets.tolist()):
            for column, value in enumerate(values):
                color = "white" if value > 0.6 else "#b0b0b0" if value == 0 else "#222222"
                axes.text(column, row, f"{value:.3g}"[:5], ha="center", va="center", fontsize=7, color=color)
    names = [f"{row} ({'pad' if label == pad_id else label})" for row, label in enumerate(labels)]
    axes.set_yticks(range(len(labels)), names)
    columns = range(targets.size(1))
    axes.set_xticks(columns, ["pad" if column == pad_id else str(column) for column in columns])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(title=title, xlabel="token id")

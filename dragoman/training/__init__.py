"""The training of the paper: the smoothed loss and the learning rate, and the loop around them."""

from typing import TYPE_CHECKING

from dragoman.lazy import import_lazily

if TYPE_CHECKING:
    from dragoman.training.step.loss import smoothed_cross_entropy
    from dragoman.training.step.optimizer import learning_rate

__all__ = ["smoothed_cross_entropy", "learning_rate"]

_MODULES = {"step.loss": ("smoothed_cross_entropy",), "step.optimizer": ("learning_rate",)}

import_lazily(__name__, __all__, _MODULES)

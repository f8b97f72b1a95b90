"""Scores of translations, each with its signature."""

from typing import TYPE_CHECKING

from dragoman.lazy import import_lazily

if TYPE_CHECKING:
    from dragoman.evaluation.metrics import bleu, chrf
    from dragoman.records import Score

__all__ = ["bleu", "chrf", "Score"]

_MODULES = {"metrics": ("bleu", "chrf"), ".records": ("Score",)}

import_lazily(__name__, __all__, _MODULES)

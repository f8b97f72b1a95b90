"""Dragoman: train, serve and inspect your own translator.

Names are imported on first use, so that ``import dragoman`` and ``dragoman --help`` stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.errors import needs_train_extra
from dragoman.version import __version__

if TYPE_CHECKING:
    from dragoman import corpora, visualization
    from dragoman.config import (
        DataSettings,
        InferenceSettings,
        ModelSettings,
        TokenizerSettings,
        TrainSettings,
        ValidateSettings,
    )
    from dragoman.data.batch import Batch
    from dragoman.inference.translator import Translator
    from dragoman.model.transformer import Transformer
    from dragoman.records import Details, Preserve
    from dragoman.workflows.api.functions import check, compare, evaluate, inspect, plan, train
    from dragoman.workflows.api.loading import load
    from dragoman.workflows.api.models import average, export, import_model, summary
    from dragoman.workflows.api.run import Run

_MODULES = {
    "workflows.api.loading": ("load",),
    "workflows.api.functions": ("train", "evaluate", "compare", "inspect", "plan", "check"),
    "workflows.api.models": ("import_model", "export", "average", "summary"),
    "workflows.api.run": ("Run",),
    "inference.translator": ("Translator",),
    "records": ("Details", "Preserve"),
    "model.transformer": ("Transformer",),
    "data.batch": ("Batch",),
    "config": (
        "DataSettings",
        "TokenizerSettings",
        "ModelSettings",
        "TrainSettings",
        "ValidateSettings",
        "InferenceSettings",
    ),
}
_PLACES = {name: f"dragoman.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [
    "train",
    "load",
    "evaluate",
    "compare",
    "inspect",
    "plan",
    "check",
    "import_model",
    "export",
    "average",
    "summary",
    "Run",
    "Translator",
    "Details",
    "Preserve",
    "Transformer",
    "Batch",
    "DataSettings",
    "TokenizerSettings",
    "ModelSettings",
    "TrainSettings",
    "ValidateSettings",
    "InferenceSettings",
    "corpora",
    "visualization",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in ("corpora", "visualization"):
        return import_module(f"dragoman.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    with needs_train_extra(f"`dragoman.{name}`"):
        value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

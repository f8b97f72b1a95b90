"""Dragoman: train, serve and inspect your own translator.

Names are imported on first use, so that ``import dragoman`` and ``dragoman --help`` stay fast.
"""

from typing import TYPE_CHECKING

from dragoman.lazy import import_lazily
from dragoman.version import __version__

if TYPE_CHECKING:
    from dragoman import corpora, data, errors, evaluation, model, text, training, visualization
    from dragoman.config import (
        CorpusSettings,
        DataSettings,
        InferenceSettings,
        ModelSettings,
        TokenizerSettings,
        TrainSettings,
        ValidateSettings,
    )
    from dragoman.data.batch import Batch
    from dragoman.engines.search.greedy import greedy
    from dragoman.inference.preservation import translate_html, translate_srt, translate_xml
    from dragoman.inference.translator import Translator
    from dragoman.model.transformer import Transformer
    from dragoman.records import Details, Preserve
    from dragoman.text.documents.terms import Terms
    from dragoman.workflows.api.documents import translate_document
    from dragoman.workflows.api.functions import check, compare, evaluate, inspect, plan, train
    from dragoman.workflows.api.loading import load
    from dragoman.workflows.api.models import average, calibrate, export, import_model, summary
    from dragoman.workflows.api.run import Run

_MODULES = {
    "workflows.api.loading": ("load",),
    "workflows.api.functions": ("train", "evaluate", "compare", "inspect", "plan", "check"),
    "workflows.api.models": ("import_model", "export", "average", "calibrate", "summary"),
    "workflows.api.documents": ("translate_document",),
    "workflows.api.run": ("Run",),
    "inference.translator": ("Translator",),
    "inference.preservation": ("translate_html", "translate_xml", "translate_srt"),
    "text.documents.terms": ("Terms",),
    "records": ("Details", "Preserve"),
    "model.transformer": ("Transformer",),
    "data.batch": ("Batch",),
    "engines.search.greedy": ("greedy",),
    "config": (
        "CorpusSettings",
        "DataSettings",
        "TokenizerSettings",
        "ModelSettings",
        "TrainSettings",
        "ValidateSettings",
        "InferenceSettings",
    ),
}

__all__ = ["train", "load", "evaluate", "compare", "inspect", "plan", "check", "import_model", "export", "average"]
__all__ += ["calibrate", "summary", "Run", "Translator", "Details", "Preserve", "Terms"]
__all__ += ["translate_document", "translate_html", "translate_xml", "translate_srt", "Transformer", "Batch", "greedy"]
__all__ += ["DataSettings", "CorpusSettings", "TokenizerSettings", "ModelSettings", "TrainSettings", "ValidateSettings"]
__all__ += ["InferenceSettings", "corpora", "data", "errors", "evaluation", "model", "text", "training"]
__all__ += ["visualization", "__version__"]

import_lazily(__name__, __all__, _MODULES)

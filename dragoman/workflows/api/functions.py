"""The functions of ``import dragoman``: what the commands do, with Python arguments and records as results.

Each function turns its arguments into the record of a workflow, and calls the workflow. Checks and errors are those of
the command line. Progress is printed on standard error. In a notebook, it is a display that is updated in place.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from dragoman.config.checking import check_sides
from dragoman.errors import ConfigError, needs_train_extra
from dragoman.workflows.api.keywords import (
    CORPUS_KEYWORDS,
    check_path,
    check_paths,
    naming_keywords,
    overrides_of_keywords,
)
from dragoman.workflows.api.loading import PathName, import_start, imported_folder
from dragoman.workflows.api.notebook import default_progress
from dragoman.workflows.api.run import Run, train_in
from dragoman.workflows.comparison import ComparisonRequest, compare_systems
from dragoman.workflows.corpus import check_files
from dragoman.workflows.evaluation import EvaluationReport, EvaluationRequest, evaluate_test
from dragoman.workflows.models import ModelRequest
from dragoman.workflows.training.settings import RunRequest

if TYPE_CHECKING:
    from dragoman.bundle import Model
    from dragoman.evaluation.comparison import Comparison
    from dragoman.inference.translator import Translator
    from dragoman.text.doctor.findings import Examination
    from dragoman.visualization.inspection.inspection import Inspection
    from dragoman.workflows.training.planning import Plan

AnyModel: TypeAlias = "PathName | Run | Translator | Model"
"""A model folder, a run, a loaded translator, or its `model`."""


@naming_keywords()
@needs_train_extra("`dragoman.train`")
def train(
    src: PathName | None = None,
    tgt: PathName | None = None,
    out: PathName | None = None,
    *,
    data: PathName | None = None,
    config: PathName | Sequence[PathName] = (),
    **settings: object,
) -> Run:
    """Train a translator on parallel text, or continue a run.

    If the folder `out` holds a run, training continues there. Ctrl-C and the stop button of a notebook save the run and
    return it.

    Parameters
    ----------
    src, tgt : str or Path
        Two aligned files: line n of one is the translation of line n of the other.
    out : str or Path
        The folder of the run. By default ``runs/NAME``, after the name of the data.
    data : str or Path
        One file with both sides instead of `src` and `tgt`: TSV, CSV, JSON lines or TMX, plain or gzip.
    config : str, Path, or list of these
        TOML files with settings. Later files override earlier ones, and keywords override files.
    **settings
        Any setting of the reference by its name: ``max_minutes=30``. If several settings have the same name, write the
        table too: ``train_seed=2``. ``start_from="run"`` fine-tunes a model.

    Returns
    -------
    Run

    Raises
    ------
    ConfigError
        If a setting is unknown, out of range, or contradicts another.
    DataError
        If a file cannot be read, or if the corpus cannot be right.
    CheckpointError
        If the run cannot continue with these settings.
    ResourceError
        If memory or disk space is too small.

    Examples
    --------
    >>> run = train(src="train.en", tgt="train.de", out="run", max_minutes=30)
    >>> run.scores
    {'validation, beam 4': {'BLEU': 38.2, 'chrF2': 63.1, 'TER': 45.0}}
    """
    request = _run_request({"src": src, "tgt": tgt, "data": data, **settings}, config)
    if out is not None:
        request = replace(request, out=check_path("out", out))
    return train_in(replace(request, out=request.folder), default_progress())


@naming_keywords()
@needs_train_extra("`dragoman.plan`")
def plan(
    src: PathName | None = None,
    tgt: PathName | None = None,
    *,
    data: PathName | None = None,
    config: PathName | Sequence[PathName] = (),
    **settings: object,
) -> "Plan":
    """Measure some training steps on this machine, and predict time, memory and disk space of the whole run.

    Nothing is kept. Errors are those of `train`.

    Parameters
    ----------
    src, tgt, data, config, **settings
        As for `train`.

    Returns
    -------
    Plan
        The settings, the measurements, and the forecast for the whole run.
    """
    from dragoman.workflows.training.planning import plan_run

    request = _run_request({"src": src, "tgt": tgt, "data": data, **settings}, config)
    return plan_run(import_start(request), default_progress())


def _run_request(settings: Mapping[str, object], config: PathName | Sequence[PathName]) -> RunRequest:
    if not config:
        check_sides(settings.get("src"), settings.get("tgt"), ["`src`", "`tgt`", "`data`"])
    for name in CORPUS_KEYWORDS:
        if settings.get(name) is not None:
            check_path(name, settings[name])
    return RunRequest(check_paths("config", config), overrides_of_keywords(settings))


@naming_keywords()
def evaluate(
    model: AnyModel,
    src: PathName,
    ref: PathName,
    *,
    train: Sequence[PathName] = (),
    checklist: bool = False,
    **settings: object,
) -> EvaluationReport:
    """Translate a test set and score the translations with BLEU, chrF and TER.

    Parameters
    ----------
    model : str, Path, Run or Translator
        The model to score.
    src, ref : str or Path
        The sources and the references: two aligned files, or twice one file with both sides.
    train : list of str or Path
        Files of training text. The scores are also computed without the test sentences that they contain.
    checklist : bool
        Whether to count mistakes with numbers, names, negation and similar phenomena.
    **settings
        Settings of [inference], such as ``beam_size=1``.

    Returns
    -------
    EvaluationReport
        Scores with 95 % intervals and sacreBLEU's signatures.

    Raises
    ------
    ConfigError, DataError, ModelError
        As the command `dragoman evaluate`.
    """
    ref, src = str(check_path("ref", ref)), str(check_path("src", src))
    request = EvaluationRequest(src=src, ref=ref, model=_model_request(model, settings), checklist=checklist)
    return evaluate_test(replace(request, train=tuple(map(str, check_paths("train", train)))), default_progress())


@naming_keywords()
def compare(a: AnyModel, b: AnyModel, src: PathName, ref: PathName, **settings: object) -> "Comparison":
    """Compare two systems on a test set: which one is better, and is the difference significant?

    Parameters
    ----------
    a, b : str, Path, Run or Translator
        A model folder, a run, a loaded translator, or a file with one translation per line.
    src, ref : str or Path
        The sources and the references.
    **settings
        Settings of [inference], for both models.

    Returns
    -------
    Comparison
        Its `verdict` is one sentence. It calls a system better only if the difference is significant.

    Raises
    ------
    ConfigError, DataError, ModelError
        As the command `dragoman compare`.
    """
    models = ModelRequest(overrides=overrides_of_keywords(settings, ("inference",)))
    systems = [_model_request(model, {}, name) for name, model in (("a", a), ("b", b))]
    first, second = (model.translator or model.paths[0] for model in systems)
    src, ref = str(check_path("src", src)), str(check_path("ref", ref))
    request = ComparisonRequest(a=first, b=second, src=src, ref=ref, models=models)
    return compare_systems(request, default_progress())


@naming_keywords()
def check(
    *files: PathName,
    dev: Sequence[PathName] = (),
    test: Sequence[PathName] = (),
    src_lang: str = "",
    tgt_lang: str = "",
) -> "Examination":
    """Check a corpus before training: misalignment, duplicates, wrong encodings or languages, leaked test sentences.

    Parameters
    ----------
    *files : str or Path
        One file with both sides, or two aligned files (source, target).
    dev, test : list of str or Path
        Validation and test sets to look for in the corpus, each one or two files.
    src_lang, tgt_lang : str
        Languages, if the files and their names do not tell.

    Returns
    -------
    Examination
        The size of the corpus and the findings.

    Raises
    ------
    ConfigError, DataError
        As the command `dragoman check`.
    """
    if not files:
        raise ConfigError("`files` must be one file with both sides, or two aligned files, but none is given.")
    parts = {"files": files, "dev": dev, "test": test}
    train, *held_out = ([*map(str, check_paths(name, part))] for name, part in parts.items())
    sets = dict(zip(("dev", "test"), held_out, strict=True))
    return check_files(train, sets, (src_lang, tgt_lang), progress=default_progress())


@naming_keywords()
@needs_train_extra("`dragoman.inspect`")
def inspect(model: AnyModel, text: str, **settings: object) -> "Inspection":
    """Translate a text, and record what happens inside the model: attention, probabilities and beam search.

    Parameters
    ----------
    model : str, Path, Run or Translator
        The model. A notebook shows the result as an interactive page.
    text : str
        The text to translate.
    **settings
        Settings of [inference], such as ``beam_size=8``.

    Returns
    -------
    Inspection

    Raises
    ------
    ConfigError, DataError, ModelError
        As the command `dragoman inspect`.
    """
    from dragoman.workflows.inspection import inspect_model

    if not isinstance(text, str):
        raise ConfigError(f"`text` must be a string, but is {text!r:.60}.")
    return inspect_model(_model_request(model, settings), text, progress=default_progress())


def _model_request(model: object, settings: Mapping[str, object], name: str = "model") -> ModelRequest:
    """The request for a model, which may be loaded already. `name` is the argument, for the error."""
    overrides = overrides_of_keywords(settings, ("inference",))
    if not isinstance(model, str | os.PathLike):
        from dragoman.bundle import Model
        from dragoman.inference.translator import Translator

        if isinstance(model, Model):
            model = Translator.from_models([model])
        if isinstance(model, Translator):
            return ModelRequest(overrides=overrides, translator=model)
    return ModelRequest((str(imported_folder(check_path(name, model, ", a run or a translator"))),), overrides)

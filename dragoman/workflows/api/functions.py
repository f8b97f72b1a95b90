"""The functions of ``import dragoman``: what the commands do, with Python arguments and records as results.

Each function turns its arguments into the record of a workflow, and calls the workflow. Checks and errors are those of
the command line. Progress is printed on standard error. In a notebook, it is a display that is updated in place.
Sentences in memory become files (`workflows/api/sentences.py`), so that the workflows know only files.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, Unpack, overload

from dragoman.config import Config, CorpusSettings, DataSettings
from dragoman.config.checking import check_sides
from dragoman.config.corpora import read_corpora
from dragoman.display import one_line
from dragoman.errors import ConfigError, needs_train_extra
from dragoman.languages import check_language
from dragoman.text.corpus.layout import PLAIN
from dragoman.text.corpus.opening import open_corpora
from dragoman.training.run.run_folder import CORPUS
from dragoman.workflows.api.keywords import check_path, check_paths, naming_keywords, overrides_of_keywords
from dragoman.workflows.api.loading import PathName, import_start, imported_folder
from dragoman.workflows.api.notebook import default_progress
from dragoman.workflows.api.run import Run, train_in
from dragoman.workflows.api.sentences import PairData, SentenceData, SentenceFiles
from dragoman.workflows.comparison import ComparisonRequest, compare_systems
from dragoman.workflows.corpus import check_files, check_opened
from dragoman.workflows.evaluation import EvaluationReport, EvaluationRequest, evaluate_test
from dragoman.workflows.models import ModelRequest
from dragoman.workflows.training.settings import RunRequest

if TYPE_CHECKING:
    from dragoman.bundle import Model
    from dragoman.config.keyword_types import InferenceKeywords, TrainKeywords
    from dragoman.evaluation.comparison import Comparison
    from dragoman.inference.translator import Translator
    from dragoman.text.doctor.findings import Examination
    from dragoman.visualization.inspection.inspection import Inspection
    from dragoman.workflows.training.planning import Plan

CorpusList: TypeAlias = Sequence[Mapping[str, object] | CorpusSettings]
_Sets: TypeAlias = PathName | Sequence[SentenceData | PairData]
AnyModel: TypeAlias = "PathName | Run | Translator | Model"
"""A model folder, a run, a loaded translator, or its `model`."""


@naming_keywords()
@needs_train_extra("`dragoman.train`")
def train(
    src: SentenceData | None = None,
    tgt: SentenceData | None = None,
    out: PathName | None = None,
    *,
    data: PairData | None = None,
    config: PathName | Sequence[PathName] = (),
    **settings: "Unpack[TrainKeywords]",
) -> Run:
    """Train a translator on parallel text, or continue a run.

    If the folder `out` holds a run, training continues there. Ctrl-C and the stop button of a notebook save the run and
    return it.

    Parameters
    ----------
    src, tgt : str, Path or iterable of str
        Two aligned files: line n of one is the translation of line n of the other. Or the sentences themselves: lists,
        generators, columns of pandas or `datasets`. The run keeps a copy of these, so that it can be resumed.
    out : str or Path
        The folder of the run. By default ``runs/NAME``, after the name of the data. Data in memory has the name "run".
    data : str, Path or iterable of pairs
        One file with both sides instead of `src` and `tgt`: TSV, CSV, JSON lines or TMX, plain or gzip. Or pairs: dicts
        with a text for each language, such as the rows of `datasets`, or tuples of two texts.
    config : str, Path, or list of these
        TOML files with settings. Later files override earlier ones, and keywords override files.
    **settings
        Any setting of the reference by its name: ``max_minutes=30``. If several settings have the same name, write the
        table too: ``train_seed=2``. ``start_from="run"`` fine-tunes a model. Sentences and pairs may be in memory here
        too: ``dev_src``, ``dev_tgt``, ``test_src``, ``test_tgt``, or ``dev`` and ``test``. ``corpora=[{"data":
        "memory.tmx", "weight": 3}, {"src": "b.en", "tgt": "b.de"}]`` has several corpora instead of `src`, `tgt` and
        `data`. Further keys are those of ``[[corpora]]``: "tag", "synthetic", "from", "until" and others.

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
    base = RunRequest(check_paths("config", config), out=None if out is None else check_path("out", out))
    with SentenceFiles(base.folder / CORPUS) as files:
        request = _with_settings(base, {**settings, "src": src, "tgt": tgt, "data": data}, files)
        return train_in(replace(request, out=base.folder if files.sources else request.folder), files.progress)


@naming_keywords()
@needs_train_extra("`dragoman.plan`")
def plan(
    src: SentenceData | None = None,
    tgt: SentenceData | None = None,
    *,
    data: PairData | None = None,
    config: PathName | Sequence[PathName] = (),
    **settings: "Unpack[TrainKeywords]",
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

    base = RunRequest(check_paths("config", config))
    with SentenceFiles(base.folder / CORPUS) as files:
        request = _with_settings(base, {**settings, "src": src, "tgt": tgt, "data": data}, files)
        return plan_run(import_start(request), files.progress)


def _with_settings(request: RunRequest, settings: dict[str, object], files: SentenceFiles) -> RunRequest:
    corpora = settings.pop("corpora", None)
    data, src, tgt = (settings.get(name) is not None for name in ("data", "src", "tgt"))
    if data and (src or tgt):
        raise ConfigError(f"`data` and `{'src' if src else 'tgt'}` must not both be given. Leave one out.")
    if not request.configs:
        check_sides(src, tgt, ["`src`", "`tgt`", "`data`"])
    if corpora and (data or src or tgt):
        alone = "data" if data else "src" if src else "tgt"
        raise ConfigError(f"`corpora` and `{alone}` must not both be given. Write `{alone}` into one of the corpora.")
    overrides = overrides_of_keywords(settings, path_of=files.path)
    several = () if corpora is None else read_corpora(_with_files(corpora, files))
    return replace(request, overrides=overrides, sources=files.sources, corpora=several)


def _with_files(corpora: object, files: SentenceFiles) -> object:
    """The corpora with files of the sentences and pairs that are in memory."""
    if not isinstance(corpora, list | tuple):
        return corpora

    def path_of(place: int, name: str, value: object) -> object:
        first = next(iter(value), None) if isinstance(value, list | tuple) else None
        lists_files = isinstance(first, str | os.PathLike) and os.path.isfile(first)
        if name not in ("data", "src", "tgt") or value is None or lists_files:
            return value
        return str(files.path(f"corpora_{place}_{name}", value))

    return [
        {name: path_of(place, name, value) for name, value in each.items()} if isinstance(each, Mapping) else each
        for place, each in enumerate(corpora)
    ]


@naming_keywords()
def evaluate(
    model: AnyModel,
    src: SentenceData,
    ref: SentenceData,
    *,
    train: PathName | Sequence[SentenceData] = (),
    checklist: bool = False,
    **settings: "Unpack[InferenceKeywords]",
) -> EvaluationReport:
    """Translate a test set and score the translations with BLEU, chrF and TER.

    Parameters
    ----------
    model : str, Path, Run or Translator
        The model to score.
    src, ref : str, Path or iterable of str
        The sources and the references: two aligned files, twice one file with both sides, or the sentences themselves.
    train : list of str, Path or iterable of str
        Training text: files, or lists of sentences (``train=[sources]``). The scores are also computed without the test
        sentences that it contains.
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
    scored = model_request(model, settings)
    with SentenceFiles() as files:
        src, ref = str(files.path("src", src)), str(files.path("ref", ref))
        request = EvaluationRequest(src=src, ref=ref, model=scored, checklist=checklist)
        return evaluate_test(replace(request, train=files.paths("train", train)), files.progress)


@naming_keywords()
def compare(
    a: "AnyModel | SentenceData",
    b: "AnyModel | SentenceData",
    src: SentenceData,
    ref: SentenceData,
    **settings: "Unpack[InferenceKeywords]",
) -> "Comparison":
    """Compare two systems on a test set: which one is better, and is the difference significant?

    Parameters
    ----------
    a, b : str, Path, Run, Translator or iterable of str
        A model folder, a run, a loaded translator, a file with one translation per line, or a list of translations.
    src, ref : str, Path or iterable of str
        The sources and the references: files, or the sentences themselves.
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
    with SentenceFiles() as files:
        kinds = ", a run, a translator"
        first, second = (
            _loaded(each) or str(imported_folder(files.path(name, each, kinds))) for name, each in (("a", a), ("b", b))
        )
        src, ref = str(files.path("src", src)), str(files.path("ref", ref))
        request = ComparisonRequest(a=first, b=second, src=src, ref=ref, models=models)
        return compare_systems(request, files.progress)


@overload
def check(
    *files: SentenceData | PairData, dev: _Sets = (), test: _Sets = (), src_lang: str = "", tgt_lang: str = ""
) -> "Examination": ...


@overload
def check(
    *,
    corpora: CorpusList,
    dev: _Sets = (),
    test: _Sets = (),
    src_lang: str = "",
    tgt_lang: str = "",
) -> "list[Examination]": ...


@naming_keywords()
def check(
    *files: SentenceData | PairData,
    corpora: CorpusList = (),
    dev: _Sets = (),
    test: _Sets = (),
    src_lang: str = "",
    tgt_lang: str = "",
) -> "Examination | list[Examination]":
    """Check a corpus before training: misalignment, duplicates, wrong encodings or languages, leaked test sentences.

    Parameters
    ----------
    *files : str, Path or iterable
        One file with both sides, or two aligned files (source, target). Or data in memory: an iterable of pairs (dicts
        or tuples), or two iterables of str.
    corpora : list of dict or CorpusSettings
        Several corpora instead, as for `train`: ``corpora=[{"data": "a.tmx"}, {"src": "b.en", "tgt": "b.de"}]``.
    dev, test : list of the same
        Validation and test sets to look for in the corpus, each one or two of the same (``dev=[dev_src, dev_tgt]``).
    src_lang, tgt_lang : str
        Languages, if the files and their names do not tell.

    Returns
    -------
    Examination or list of Examination
        The size of the corpus and the findings. With `corpora`, one for each, which counts pairs of earlier corpora.

    Raises
    ------
    ConfigError, DataError
        As the command `dragoman check`.
    """
    if not files and not corpora:
        raise ConfigError("`files` must be one file with both sides, or two aligned files, but none is given.")
    if files and corpora:
        raise ConfigError("`files` and `corpora` must not both be given. Leave one out.")
    with SentenceFiles() as in_memory:
        dev_files, test_files = in_memory.paths("dev", dev), in_memory.paths("test", test)
        held_out = {"dev": dev_files, "test": test_files}
        if corpora:
            src_lang, tgt_lang = map(check_language, (src_lang, tgt_lang), ("`src_lang`", "`tgt_lang`"))
            data = DataSettings(src_lang=src_lang, tgt_lang=tgt_lang)
            config = Config(data=data, corpora=read_corpora(_with_files(corpora, in_memory)))
            found = check_opened(open_corpora(config).train, held_out, PLAIN, in_memory.progress)
        else:
            train = in_memory.paths("data", files)
            found = check_files([train], held_out, (src_lang, tgt_lang), progress=in_memory.progress)
        renamed = [
            replace(
                one,
                name=in_memory.named(one.name),
                findings=tuple(replace(each, message=in_memory.named(each.message)) for each in one.findings),
            )
            for one in found
        ]
        return renamed if corpora else renamed[0]


@naming_keywords()
@needs_train_extra("`dragoman.inspect`")
def inspect(model: AnyModel, text: str, **settings: "Unpack[InferenceKeywords]") -> "Inspection":
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
        raise ConfigError(f"`text` must be a string, but is {one_line(text)}.")
    return inspect_model(model_request(model, settings), text, progress=default_progress())


def model_request(model: object, settings: Mapping[str, object], name: str = "model") -> ModelRequest:
    """The request for a model, which may be loaded already. `name` is the argument that has it."""
    overrides = overrides_of_keywords(settings, ("inference",))
    if translator := _loaded(model):
        return ModelRequest(overrides=overrides, translator=translator)
    path = imported_folder(check_path(name, model, ", a run or a translator"))
    return ModelRequest((str(path),), overrides)


def _loaded(model: object) -> "Translator | None":
    """The translator if the model is loaded. Its module is only imported if it can be one."""
    if isinstance(model, str | os.PathLike):
        return None
    from dragoman.bundle import Model
    from dragoman.inference.translator import Translator

    if isinstance(model, Model):
        return Translator.from_models([model])
    return model if isinstance(model, Translator) else None

"""Comparing two models, or two files of translations, on one test."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dragoman.config.loading import flag_of
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation.comparison import Comparison, compare
from dragoman.evaluation.metrics import tokenizer_for
from dragoman.text.corpus.layout import PLAIN, Layout
from dragoman.text.corpus.opening import check_direction, read_side, texts_of_side
from dragoman.text.doctor.languages import SKIP_FLAG, check_same_language
from dragoman.text.lines import prefetch_first
from dragoman.workflows.evaluation import EvaluationTexts, check_test_languages, read_test
from dragoman.workflows.models import ModelRequest, load_model
from dragoman.workflows.progress import QUIET, Progress


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """Two systems, each a model folder, a run or a file with a translation a line, and the test for both.

    `models` says how to translate; its paths are not used. `train` is training text of the target side, which shows
    what words are rare. `tokenize` is sacreBLEU's tokenizer for BLEU; without it the target language decides.
    """

    a: str
    b: str
    src: str
    ref: str
    models: ModelRequest = field(default_factory=ModelRequest)
    train: str = ""
    layout: Layout = PLAIN
    tokenize: str = ""
    check_languages: bool = True


@dataclass(frozen=True, slots=True)
class _Output:
    """The translations of a system, and the target language of its model or ""."""

    texts: Sequence[str]
    lang: str = ""


def compare_systems(request: ComparisonRequest, progress: Progress = QUIET) -> Comparison:
    """Compare two systems on a test, with significance tests. Raises ConfigError, DataError, ModelError.

    What cannot be read is an error before anything is translated.
    """
    request.models.check()
    test = read_test(request.src, request.ref, request.layout)
    training_text = None
    if request.train:
        languages = test.src_lang, test.tgt_lang
        training_text = prefetch_first(texts_of_side(Path(request.train), 1, *languages, request.layout))
    written = _read_translations(request, len(test.sources))
    a, b = (
        _translate(path, test, request, progress) if output is None else output
        for path, output in zip((request.a, request.b), written, strict=True)
    )
    lang = a.lang or b.lang or test.tgt_lang
    if request.check_languages:
        if not a.lang and not b.lang:
            check_test_languages(test, request.src, request.ref, progress)
        for name, output in zip((request.a, request.b), written, strict=True):
            if output is not None:  # what a model writes is not the wrong file, however bad it is
                check_same_language(output.texts, test.references, name, SKIP_FLAG)
    tokenize = request.tokenize or tokenizer_for(lang)
    return compare(test.sources, test.references, a.texts, b.texts, tokenize, training_text)


def _read_translations(request: ComparisonRequest, num_sources: int) -> list[_Output | None]:
    """The translations in files, None for a model."""
    written: list[_Output | None] = []
    for path in (Path(request.a), Path(request.b)):
        if not path.exists():
            raise DataError(f"{path} does not exist. Name a model folder, a run, or a file with a translation a line.")
        if path.is_dir():
            from dragoman.bundle import resolve_model_folder  # two files are compared without torch

            resolve_model_folder(path)
            written.append(None)
            continue
        outputs, _ = read_side(path, 1, request.layout)
        if len(outputs) != num_sources:
            raise DataError(
                f"{path} has {len(outputs)} lines, but {request.src} has {num_sources}. Give a translation a line, or "
                "name a model's folder."
            )
        written.append(_Output(outputs))
    if None not in written and (given := list(request.models.overrides)):
        raise ConfigError(f"`{flag_of(given[0])}` is for a model that translates, but both are files. Leave it out.")
    return written


def _translate(path: str, test: EvaluationTexts, request: ComparisonRequest, progress: Progress) -> _Output:
    model = load_model(replace(request.models, paths=(path,)), progress)
    check_direction(Path(request.src), Path(request.ref), model.src_lang, model.tgt_lang)
    if request.check_languages:
        languages = {"src_lang": model.src_lang, "tgt_lang": model.tgt_lang}
        check_test_languages(replace(test, **languages), request.src, request.ref, progress)
    return _Output(model.translator.translate(test.sources, **model.overrides), model.tgt_lang)

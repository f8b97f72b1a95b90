"""Scoring a model on a test set, or translations that are already there."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from dragoman.config.loading import flag_of
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation.checklists import PhenomenonCount, check_phenomena
from dragoman.evaluation.metrics import Evaluation, evaluate, tokenizer_for
from dragoman.text.corpus.layout import PLAIN, Layout
from dragoman.text.corpus.opening import check_direction, holds_pairs, open_aligned, read_side, texts_of_side
from dragoman.text.corpus.splitting import chunks
from dragoman.text.doctor.languages import SKIP_FLAG, check_same_language, check_side
from dragoman.text.doctor.overlap import Overlap
from dragoman.text.lines import prefetch_first
from dragoman.workflows.models import ModelRequest, load_model
from dragoman.workflows.progress import QUIET, Progress

_CHUNK_LINES = 1 << 13


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """A model and a test to translate with it (`src`, `ref`), or translations in the file `hyp`.

    With training text in `train`, which needs `src`, the scores are also computed without the sentences it contains.
    `tokenize` is sacreBLEU's tokenizer for BLEU; without it the target language decides. `checklist` also counts what
    the model gets wrong (`dragoman.evaluation.checklists`).
    """

    ref: str
    src: str = ""
    hyp: str = ""
    model: ModelRequest = field(default_factory=ModelRequest)
    train: tuple[str, ...] = ()
    layout: Layout = PLAIN
    tokenize: str = ""
    check_languages: bool = True
    checklist: bool = False


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """The scores on all of a test, on what is left of it without training text (if requested), and the checklist."""

    whole: Evaluation
    without_leaks: Evaluation | None = None
    checklist: tuple[PhenomenonCount, ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluationTexts:
    """The sources and references of a test, and their languages as the files or their names tell them, or ""."""

    sources: Sequence[str]
    references: Sequence[str]
    src_lang: str
    tgt_lang: str


def evaluate_test(request: EvaluationRequest, progress: Progress = QUIET) -> EvaluationReport:
    """Score a model, or translations, on a test. Raises ConfigError, DataError, ModelError.

    What cannot be read is an error before anything is translated.
    """
    _check(request)
    request.model.check()
    findings: list[PhenomenonCount] = []
    if request.hyp:
        test, hypotheses = _read_translated_test(request)
        training = _open_training_text(request, test)
        if request.check_languages:
            _check_side(test.references, test.tgt_lang, request.ref, progress)
            check_same_language(hypotheses, test.references, request.hyp, SKIP_FLAG)
    else:
        test = read_test(request.src, request.ref, request.layout)
        model = load_model(request.model, progress)
        check_direction(Path(request.src), Path(request.ref), model.src_lang, model.tgt_lang)
        languages = model.src_lang or test.src_lang, model.tgt_lang or test.tgt_lang
        test = EvaluationTexts(test.sources, test.references, *languages)
        training = _open_training_text(request, test)
        if request.check_languages:
            check_test_languages(test, request.src, request.ref, progress)
        translate = partial(model.translator.translate, **model.overrides)
        hypotheses = model.translator.translate(test.sources, **model.overrides)
        if request.checklist:
            findings = check_phenomena(test.sources, test.references, hypotheses, translate, *languages)
    score = partial(evaluate, tokenize=request.tokenize or tokenizer_for(test.tgt_lang), intervals=True)
    whole, rest = score(hypotheses, test.references), None
    if training:
        places = _places_without_leaks(test.sources, training, progress)
        if places:
            rest = score([hypotheses[place] for place in places], [test.references[place] for place in places])
        else:
            progress.note(
                "warning: all of the test is in the training text: its score says nothing. Take another test."
            )
    return EvaluationReport(whole, rest, tuple(findings))


def _check(request: EvaluationRequest) -> None:
    """Raise ConfigError if the request asks for both ways of scoring, or for neither."""
    src, ref, hyp = request.src, request.ref, request.hyp
    if not hyp:
        if not request.model.paths:
            raise ConfigError(
                "MODEL with `--src`, or `--hyp`, is missing. `dragoman evaluate --help` says what goes where."
            )
        if not src:
            raise ConfigError("`--src` is missing. `dragoman evaluate --help` says what goes where.")
        return
    if request.train and not src:
        raise ConfigError("`--train` is given, but `--src` is not: leaks are found in the test's sources. Give both.")
    for name, given in (("MODEL", request.model.paths), ("`--src`", src and not request.train)):
        if given:
            raise ConfigError(f"{name} and `--hyp` must not both be given. Leave one out.")
    if os.path.exists(ref) and os.path.exists(hyp) and os.path.samefile(hyp, ref):
        raise ConfigError(f"`--hyp` and `--ref` must not be the same file, but both are {ref}.")
    if overrides := list(request.model.overrides):
        raise ConfigError(
            f"`{flag_of(overrides[0])}` is for a model that translates, but `--hyp` is given. Leave one out."
        )
    if request.checklist:
        raise ConfigError("`--checklist` asks a model for more translations. Give MODEL and `--src`, not `--hyp`.")


def read_test(src: str, ref: str, layout: Layout = PLAIN) -> EvaluationTexts:
    """The texts of a test. Of files with both sides, the source or target. Raises DataError if one has more texts."""
    return _read_two(src, ref, layout, (0, 1))


def _read_two(first: str, second: str, layout: Layout, sides: tuple[int, int]) -> EvaluationTexts:
    if not any(map(holds_pairs, (Path(first), Path(second)))):
        corpus = open_aligned(first, second, encoding=layout.encoding)
        pairs = list(corpus.pairs())
        sources, references = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
        return EvaluationTexts(sources, references, corpus.src_lang, corpus.tgt_lang)
    (one, one_lang), (other, other_lang) = (
        read_side(Path(path), side, layout) for path, side in zip((first, second), sides, strict=True)
    )
    if len(one) != len(other):
        raise DataError(f"{first} has {len(one)} texts, but {second} has {len(other)}. Give files of one test.")
    return EvaluationTexts(one, other, one_lang, other_lang)


def _read_translated_test(request: EvaluationRequest) -> tuple[EvaluationTexts, Sequence[str]]:
    """The test and the translations in `hyp`. The test has sources only if `src` is given."""
    found = _read_two(request.hyp, request.ref, request.layout, (1, 1))
    hypotheses, src_lang = found.sources, ""
    sources: Sequence[str] = ()
    if request.src:
        sources, src_lang = read_side(Path(request.src), 0, request.layout)
        if len(sources) != len(hypotheses):
            raise DataError(
                f"{request.src} has {len(sources)} lines, but there are {len(hypotheses)} translations. Give the "
                "test's source."
            )
    return EvaluationTexts(sources, found.references, src_lang, found.tgt_lang), hypotheses


def check_test_languages(test: EvaluationTexts, src: str, ref: str, progress: Progress = QUIET) -> None:
    """Raise DataError if a side of the test is clearly in another language than it should be in.

    `src` and `ref` are the names of the files. Similar languages are only warned about.
    """
    _check_side(test.sources, test.src_lang, src, progress, test.tgt_lang)
    _check_side(test.references, test.tgt_lang, ref, progress, test.src_lang)


def _check_side(lines: Sequence[str], stated: str, file: str, progress: Progress, other: str = "") -> None:
    if note := check_side(lines, stated, file, SKIP_FLAG, other):
        progress.note(f"warning: {note}")


def _open_training_text(request: EvaluationRequest, test: EvaluationTexts) -> list[Iterator[str]]:
    """The sources of each training text. Raises DataError for a text that cannot be read."""
    languages = test.src_lang, test.tgt_lang
    return [prefetch_first(texts_of_side(Path(path), 0, *languages, request.layout)) for path in request.train]


def _places_without_leaks(sources: Sequence[str], training: Sequence[Iterator[str]], progress: Progress) -> list[int]:
    """The places of the sources that training text does not have. Notes how many it has."""
    overlap = Overlap(sources)
    for chunk in chunks(chain.from_iterable(training), _CHUNK_LINES):
        overlap.add(chunk)
    lines = overlap.near()
    leaked, exact = int((lines > 0).sum()), int((overlap.exact() > 0).sum())
    progress.note(
        f"{leaked:,} of {len(sources):,} test sources ({leaked / len(sources):.1%}) are in the training "
        f"text, {exact:,} exactly and the others but for a word, case or punctuation"
    )
    return [place for place, line in enumerate(lines.tolist()) if not line]

"""Scores of a model, or of a file of translations, on a test set (`dragoman evaluate`).

The metrics are in `dragoman.evaluation.metrics`. This module reads the test, checks its languages, translates it, and
scores it a second time without the sentences that training text contains.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from dragoman.config.loading import flag_of
from dragoman.display import Facts, ShownRecord
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation.checklists import PhenomenonCount, check_phenomena
from dragoman.evaluation.metrics import Evaluation, score_outputs, tokenizer_for, without_columns, writing_differences
from dragoman.text.corpus import opening, splitting
from dragoman.text.corpus.layout import PLAIN, Layout
from dragoman.text.corpus.splitting import Overlap
from dragoman.text.doctor.languages import check_same_language, check_side
from dragoman.text.doctor.slides import compare_sides
from dragoman.text.documents.terms import Terms
from dragoman.text.lines import prefetch_first
from dragoman.workflows.models import ModelRequest, load_model
from dragoman.workflows.progress import QUIET, Progress

_CHUNK_LINES = 1 << 13


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredTest:
    """A test, how to read it, and what to check before its scores are computed.

    Parameters
    ----------
    src, ref
        The files of the sources and the references. Of files with both sides, the source or target is read: `src` and
        `ref` may be one file.
    layout
        Columns and encoding of the files.
    tokenize
        SacreBLEU's tokenizer for BLEU. "" chooses the tokenizer by the target language.
    check_languages
        Whether a text that is clearly in another language than expected is an error.
    check_lines
        Whether translations that shift against the references by lines are an error.
    """

    src: str = ""
    ref: str
    layout: Layout = PLAIN
    tokenize: str = ""
    check_languages: bool = True
    check_lines: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest(ScoredTest):
    """A test, and the model or the translations to score on it.

    Set either `model` and `src`, or `hyp`.

    Parameters
    ----------
    hyp
        A file of translations to score instead of a model.
    model
        The model, and how to translate with it.
    train
        Files of training text. The scores are then also computed without the test sentences that these files contain.
        Needs `src`.
    terms
        A file of required translations for the model to use.
    checklist
        Whether to count the model's mistakes with numbers, names, negation and similar phenomena
        (`dragoman.evaluation.checklists`). Needs a model.
    """

    hyp: str = ""
    model: ModelRequest = field(default_factory=ModelRequest)
    train: tuple[str, ...] = ()
    terms: str = ""
    checklist: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class EvaluationReport(ShownRecord):
    """The scores of a model or of translations on a test.

    Parameters
    ----------
    whole
        The scores on the whole test, with confidence intervals.
    without_leaks
        The scores on the sentences that the training text does not contain. None if no training text is named, or if
        it contains the whole test.
    checklist
        The counts of mistakes, or () if not requested.
    """

    whole: Evaluation
    without_leaks: Evaluation | None = None
    checklist: tuple[PhenomenonCount, ...] = ()

    @property
    def evaluations(self) -> list[tuple[str, Evaluation]]:
        """The scores of the whole test, named "", and those "without leaks" if there are some."""
        return [("", self.whole)] + ([("without leaks", self.without_leaks)] if self.without_leaks else [])

    @property
    def scores(self) -> dict[str, float]:
        """The scores on the whole test by metric, such as ``scores["BLEU"]``. `whole` also has their signatures."""
        return {score.name: score.value for score in self.whole.scores}

    def _facts(self) -> Facts:
        for name, evaluation in self.evaluations:
            for score in evaluation.scores:
                yield score.name, name + str(score).removeprefix(score.name)
            yield from (("warning", warning) for warning in evaluation.warnings)
        yield "[ ]", "95 % interval"
        for one in self.checklist:
            result = f"{one.passed} of {one.asked}" if one.asked else "none"
            yield one.name, f"{result}: {one.note or one.check}"

    def __str__(self) -> str:
        lines = [f"{name} {score}".lstrip() for name, evaluation in self.evaluations for score in evaluation.scores]
        for one in self.checklist:
            result = f"{one.passed:>5} of {one.asked:<5}" if one.asked else f"{'none':>5}{'':9}"
            lines.append(f"{one.name:<13}{result} {one.note or one.check}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class EvaluationTexts:
    """The sources and references of a test, and the languages found in the files or their names, or ""."""

    sources: Sequence[str]
    references: Sequence[str]
    src_lang: str
    tgt_lang: str


def evaluate_test(request: EvaluationRequest, progress: Progress = QUIET) -> EvaluationReport:
    """Score a model, or a file of translations, on a test.

    Files that cannot be read raise an error before anything is translated.

    Parameters
    ----------
    request
        The test, and the model or translations to score.
    progress
        Receives notes about the model folder, suspicious languages and leaked test sentences.

    Returns
    -------
    EvaluationReport
        BLEU, chrF and TER with signatures and confidence intervals, and the checklist.

    Raises
    ------
    ConfigError
        If the request names both a model and translations, or neither, or if a setting is invalid.
    DataError
        If a file cannot be read or is clearly in the wrong language, or if files differ in length or shift by lines.
    ModelError
        If the model is missing or damaged.
    """
    _check(request)
    findings: list[PhenomenonCount] = []
    if request.hyp:
        test, hypotheses = _read_translated_test(request, progress)
        training = _open_training_text(request, test)
        if request.check_languages:
            _check_side(test.references, test.tgt_lang, request.ref, progress)
            others = request.src, request.ref
            check_translations(hypotheses, test.references, request.hyp, others, request.layout)
    else:
        terms = Terms.load(request.terms, request.layout.encoding) if request.terms else None
        model = load_model(request.model, progress)
        test = read_test(request.src, request.ref, request.layout, known=(model.src_lang, model.tgt_lang))
        opening.check_direction(Path(request.src), Path(request.ref), model.src_lang, model.tgt_lang)
        languages = model.src_lang or test.src_lang, model.tgt_lang or test.tgt_lang
        test = EvaluationTexts(test.sources, test.references, *languages)
        if terms and not any(map(terms.find, test.sources)):
            count = f"{len(terms.pairs):,} terms in {request.terms}"
            progress.note(f"the test has none of the {count}; check their columns")
        training = _open_training_text(request, test)
        if request.check_languages:
            check_test_languages(test, request, progress)
        translate = partial(model.translator.translate, terms=terms)
        with progress.counting("translating", len(test.sources)):
            hypotheses = translate(test.sources)
        if request.checklist:
            findings = check_phenomena(test.sources, test.references, hypotheses, translate, *languages)
    names = request.hyp or f"the translated {request.src}", request.ref
    check_outputs(hypotheses, test.references, names, request.check_lines, progress)
    score = partial(score_outputs, tokenize=request.tokenize or tokenizer_for(test.tgt_lang), intervals=True)
    whole, rest = score(hypotheses, test.references), None
    if training:
        places = _places_without_leaks(test, training, progress)
        if places:
            rest = score([hypotheses[place] for place in places], [test.references[place] for place in places])
        else:
            progress.note(
                "warning: the training text contains every test sentence, so the score means nothing. Use another test."
            )
    return EvaluationReport(whole, rest, tuple(findings))


def _check(request: EvaluationRequest) -> None:
    """Raise ConfigError if the request names both a model and translations, or neither."""
    src, ref, hyp = request.src, request.ref, request.hyp
    if not hyp:
        if not request.model.paths and request.model.translator is None:
            raise ConfigError(
                "MODEL with `--src`, or `--hyp`, is missing. `dragoman evaluate --help` says what goes where."
            )
        if not src:
            raise ConfigError("`--src` is missing. `dragoman evaluate --help` says what goes where.")
        return
    if request.train and not src:
        raise ConfigError("`--train` needs `--src`, because leaks are found in the test's sources. Give both.")
    if request.model.paths:
        raise ConfigError("MODEL and `--hyp` must not both be given. Leave one out.")
    if os.path.exists(ref) and os.path.exists(hyp) and os.path.samefile(hyp, ref):
        raise ConfigError(f"`--hyp` and `--ref` must not be the same file, but both are {ref}.")
    if overrides := list(request.model.overrides):
        raise ConfigError(f"`{flag_of(overrides[0])}` needs a model, but `--hyp` is given. Leave one out.")
    if request.terms:
        raise ConfigError("`--terms` needs a model to translate with them. Give MODEL and `--src`, not `--hyp`.")
    if request.checklist:
        raise ConfigError("`--checklist` needs a model to translate more texts. Give MODEL and `--src`, not `--hyp`.")


def read_test(
    first: str, second: str, layout: Layout, sides: tuple[int, int] = (0, 1), known: tuple[str, str] = ("", "")
) -> EvaluationTexts:
    """Read the sources and references of a test from two files. Raises DataError if their lengths differ.

    Of a file with both sides, only one side is read: `sides` has 0 for the source and 1 for the target. If `first` and
    `second` are the same file, it has both sides, and the languages in `known` tell which is which.
    """
    paths = Path(first), Path(second)
    if first == second and all(known) and opening.has_both_sides(paths[0]):
        src, tgt = (list(opening.texts_of_side(paths[0], side, *known, layout)) for side in sides)
        return EvaluationTexts(src, tgt, *known)
    if first == second or not any(map(opening.format_of, paths)):
        if first == second:
            corpus = opening.open_corpus(first, layout=layout)
        else:
            corpus = opening.open_aligned(*paths, encoding=layout.encoding)
        pairs = list(corpus.pairs())
        sources, references = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
        return EvaluationTexts(sources, references, corpus.src_lang, corpus.tgt_lang)
    one, one_lang = opening.read_side(paths[0], sides[0], layout)
    other, other_lang = opening.read_side(paths[1], sides[1], layout)
    if len(one) != len(other):
        raise DataError(f"{first} has {len(one)} texts, but {second} has {len(other)}. Give files of the same test.")
    return EvaluationTexts(one, other, one_lang, other_lang)


def _read_translated_test(request: EvaluationRequest, progress: Progress) -> tuple[EvaluationTexts, Sequence[str]]:
    """Read the test and the translations in `hyp`. The test has sources only if `src` is given."""
    hypotheses: Sequence[str]
    if request.src == request.ref:
        test = read_test(request.src, request.ref, request.layout)
        hypotheses, _ = opening.read_side(Path(request.hyp), 1, request.layout)
    else:
        found = read_test(request.hyp, request.ref, request.layout, (1, 1))
        sources, src_lang = list[str](), ""
        if request.src:
            sources, src_lang = opening.read_side(Path(request.src), 0, request.layout)
        test, hypotheses = replace(found, sources=sources, src_lang=src_lang), found.sources
    if request.src and len(test.sources) != len(hypotheses):
        raise DataError(
            f"{request.src} has {len(test.sources)} lines, but {request.hyp} has {len(hypotheses)} translations. Give "
            "the source of the same test."
        )
    return test, without_columns(hypotheses, request.hyp, progress.note)


def check_translations(
    texts: Sequence[str], references: Sequence[str], name: str, others: Sequence[str], layout: Layout
) -> None:
    """Raise DataError if the translations in the file `name` are clearly in another language than the references.

    `others` are the other files that the command reads with the same layout.
    """
    advice = "Name the right files"
    if _is_table(name) and not any(map(_is_table, others)):
        advice = f"Name the column of the translations, `--columns {','.join(reversed(layout.columns or ('1', '2')))}`"
    check_same_language(texts, references, name, advice)


def _is_table(name: str) -> bool:
    return opening.format_of(Path(name)) in ("tsv", "csv")


def check_outputs(
    outputs: Sequence[str], references: Sequence[str], names: tuple[str, str], check_lines: bool, progress: Progress
) -> None:
    """Raise DataError if outputs and references shift against each other by lines. Note differences in writing.

    `names` has the names of the outputs and of the references.
    """
    for difference in writing_differences(outputs, references, names):
        progress.note(f"warning: {difference}")
    count = len(outputs)
    if check_lines and (slides := compare_sides(lambda: (outputs, references), count, count).slides):
        start, end = slides[0].line, slides[1].line - 1 if len(slides) > 1 else count
        raise DataError(
            f"from about line {start:,} to {end:,}, line n of {names[0]} belongs to line n{slides[0].after:+d} of "
            f"{names[1]}, so scores mean nothing. Correct the files there; if they are right, add `--no-line-check`."
        )


def check_test_languages(test: EvaluationTexts, request: ScoredTest, progress: Progress) -> None:
    """Raise DataError if a side of the test is clearly in another language than stated.

    Similar languages are only a note.
    """
    src, ref = request.src, request.ref
    if src == ref:
        choice = "" if opening.format_of(Path(src)) == "tmx" else " (choose with `--columns`)"
        src, ref = (f"the {side} of {src}{choice}" for side in ("source", "target"))
    _check_side(test.sources, test.src_lang, src, progress, test.tgt_lang)
    _check_side(test.references, test.tgt_lang, ref, progress, test.src_lang)


def _check_side(lines: Sequence[str], stated: str, file: str, progress: Progress, other: str = "") -> None:
    if note := check_side(lines, stated, file, other):
        progress.note(f"warning: {note}")


def _open_training_text(request: EvaluationRequest, test: EvaluationTexts) -> list[tuple[Iterator[str], bool]]:
    """The texts of each training file, and whether they are only one side. Raises DataError for an unreadable file."""
    found = []
    for path in map(Path, request.train):
        sides = (0, 1) if opening.has_both_sides(path) else (0,)
        texts = [opening.texts_of_side(path, side, test.src_lang, test.tgt_lang, request.layout) for side in sides]
        found.append((prefetch_first(chain.from_iterable(texts)), len(sides) == 1))
    return found


def _places_without_leaks(
    test: EvaluationTexts, training: Sequence[tuple[Iterator[str], bool]], progress: Progress
) -> list[int]:
    """Return the indices of the test sentences that the training text does not contain. Notes how many it contains.

    The sources decide, as in training: many share a reference. A file of one side may also contain the references.
    """
    overlaps = {"sources": Overlap(test.sources), "references": Overlap(test.references)}
    for texts, is_one_side in training:
        for chunk in splitting.chunks(texts, _CHUNK_LINES):
            for overlap in list(overlaps.values())[: 1 + is_one_side]:
                overlap.add(chunk)
    near = {name: overlap.near() > 0 for name, overlap in overlaps.items()}
    exact = np.any([overlap.exact() > 0 for overlap in overlaps.values()], axis=0)
    lines = near["sources"] | near["references"]
    leaked, count = int(lines.sum()), len(lines)
    names = " or ".join(name for name, found in near.items() if found.any()) or "sources"
    progress.note(
        f"{leaked:,} of {count:,} test {names} ({leaked / count:.1%}) are in the training text, {int(exact.sum()):,} "
        "exactly and the others except for a word, case or punctuation"
    )
    return np.flatnonzero(~lines).tolist()

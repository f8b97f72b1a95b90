"""Comparison of two translation systems on the same test (`dragoman compare`).

A system is a model or a file of translations. The metrics and significance tests are in
`dragoman.evaluation.comparison`; this module reads the test, translates it and checks the languages.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.bundle import is_built_in, resolve_model_folder
from dragoman.bundle.card import read_card
from dragoman.config.loading import flag_of
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation.comparison import Comparison, compare_outputs
from dragoman.evaluation.metrics import tokenizer_for, without_columns
from dragoman.languages import name_with_code
from dragoman.text.corpus import opening
from dragoman.text.doctor.languages import LANGUAGE_SAMPLE_LINES, SKIP_FLAG, check_same_language, language_of_side
from dragoman.text.lines import prefetch_first
from dragoman.workflows import evaluation
from dragoman.workflows.models import ModelRequest, load_model
from dragoman.workflows.progress import QUIET, Progress

if TYPE_CHECKING:
    from dragoman.inference.translator import Translator

# Training text is the source side if it has at least this share of the sources' words, and more than twice the share of
# the references' words.
_LEAST_KNOWN, _MUCH_MORE = 0.1, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest(evaluation.ScoredTest):
    """Two systems and the test to compare them on.

    Parameters
    ----------
    a, b
        The systems: each a model folder, a run, a loaded translator, or a file with one translation per line.
    models
        How to translate with the systems that are models. Its `paths` are not used.
    train
        A file of training text in the target language, or with both sides. It tells which words are rare.
    """

    a: "str | Translator"
    b: "str | Translator"
    models: ModelRequest = field(default_factory=ModelRequest)
    train: str = ""


@dataclass(frozen=True, slots=True)
class _Output:
    """The translations of a system, and the target language of its model, or "" if unknown."""

    texts: Sequence[str]
    lang: str = ""


def compare_systems(request: ComparisonRequest, progress: Progress = QUIET) -> Comparison:
    """Compare two systems on a test, with significance tests.

    Files that cannot be read raise an error before anything is translated.

    Parameters
    ----------
    request
        The systems and the test.
    progress
        Receives notes about model folders and suspicious languages.

    Returns
    -------
    Comparison
        The metrics of both systems with their differences, and where the systems differ.

    Raises
    ------
    ConfigError
        If a setting is invalid, or is meant for a model while both systems are files.
    DataError
        If a file is missing, has another number of lines than the test, shifts against the references, or is clearly in
        the wrong language.
    ModelError
        If a model is missing or damaged.
    """
    test = evaluation.read_test(request.src, request.ref, request.layout, known=_model_languages(request))
    training_text = _open_training_text(request, test) if request.train else None
    systems = request.a, request.b
    written = [_read_translations(system, request, len(test.sources), progress) for system in systems]
    if None not in written and (overrides := list(request.models.overrides)):
        raise ConfigError(f"`{flag_of(overrides[0])}` needs a model, but both systems are files. Leave it out.")
    a, b = (
        output or _translate(system, test, request, progress) for system, output in zip(systems, written, strict=True)
    )
    lang = a.lang or b.lang or test.tgt_lang
    if request.check_languages:
        if not a.lang and not b.lang:
            evaluation.check_test_languages(test, request, progress)
        for name, output in zip(systems, written, strict=True):
            if output is not None:  # a model's output is never the wrong file, however bad it is
                others = [request.src, request.ref, *(str(each) for each in systems if each != name)]
                evaluation.check_translations(output.texts, test.references, str(name), others, request.layout)
    for name, output, found in zip(systems, (a, b), written, strict=True):
        names = str(name) if found else f"{request.src} translated by {name}", request.ref
        evaluation.check_outputs(output.texts, test.references, names, request.check_lines, progress)
    tokenize = request.tokenize or tokenizer_for(lang)
    return compare_outputs(test.sources, test.references, a.texts, b.texts, tokenize, training_text)


def _model_languages(request: ComparisonRequest) -> tuple[str, str]:
    """The languages of the first system that is a model folder or a run, or ("", "")."""
    for path in (Path(system) for system in (request.a, request.b) if isinstance(system, str)):
        if path.is_dir() or is_built_in(path):
            card = read_card(resolve_model_folder(path))
            return card.src_lang, card.tgt_lang
    return "", ""


def _open_training_text(request: ComparisonRequest, test: evaluation.EvaluationTexts) -> Iterator[str]:
    """Open the target side of the training text. Raises DataError if its first lines are the source side instead."""
    languages = test.src_lang, test.tgt_lang
    lines = prefetch_first(opening.texts_of_side(Path(request.train), 1, *languages, request.layout))
    sample = list(islice(lines, LANGUAGE_SAMPLE_LINES))
    if request.check_languages:
        seen = _distinct_words(sample)
        of_src, of_ref = (
            len(words & seen) / max(len(words), 1) for words in map(_distinct_words, (test.sources, test.references))
        )
        if of_src > _LEAST_KNOWN and of_src > _MUCH_MORE * of_ref:
            language = language_of_side(sample).language
            looks = f"looks like {f'{name_with_code(language)}, ' if language else ''}the source side"
            raise DataError(
                f"{request.train} {looks}: it has {of_src:.0%} of the words of the sources, but {of_ref:.0%} of those "
                f"of the references. Name the target side with `--train`; if it is right, add {SKIP_FLAG}."
            )
        check_same_language(sample, test.references, request.train)
    return chain(sample, lines)


def _distinct_words(lines: Sequence[str]) -> set[str]:
    return {word for line in lines for word in line.casefold().split()}


def _read_translations(
    system: "str | Translator", request: ComparisonRequest, num_sources: int, progress: Progress
) -> _Output | None:
    """Read the translations of a system, or return None for a model."""
    if not isinstance(system, str):
        return None
    path = Path(system)
    if path.is_dir() or is_built_in(path):
        resolve_model_folder(path)
        return None
    if not path.exists():
        raise DataError(f"{path} does not exist. Name a model folder, a run, or a file with one translation per line.")
    outputs, _ = opening.read_side(path, 1, request.layout)
    if len(outputs) != num_sources:
        raise DataError(
            f"{path} has {len(outputs)} lines, but {request.src} has {num_sources}. Give one translation per "
            "line, or name a model folder."
        )
    return _Output(without_columns(outputs, system, progress.note))


def _translate(
    system: "str | Translator", test: evaluation.EvaluationTexts, request: ComparisonRequest, progress: Progress
) -> _Output:
    named: dict[str, Any] = {"paths": (system,)} if isinstance(system, str) else {"translator": system}
    model = load_model(replace(request.models, **named), progress)
    opening.check_direction(Path(request.src), Path(request.ref), model.src_lang, model.tgt_lang)
    if request.check_languages:
        languages = {"src_lang": model.src_lang, "tgt_lang": model.tgt_lang}
        evaluation.check_test_languages(replace(test, **languages), request, progress)
    with progress.counting(f"translating with {system}", len(test.sources)):
        return _Output(model.translator.translate(test.sources), model.tgt_lang)

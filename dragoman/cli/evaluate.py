"""``dragoman evaluate``: BLEU, chrF and TER of a model on a test, or of translations that are there already."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path

from dragoman.cli.arguments import ArgumentParser, add_layout_flags, file_name, layout_from, overrides_of
from dragoman.cli.models import add_model_flags, check_search_flags, model_request
from dragoman.cli.progress import TerminalProgress
from dragoman.config.loading import flag_of
from dragoman.errors import ConfigError, DataError
from dragoman.evaluation.checklists import PhenomenonCount, check_phenomena
from dragoman.evaluation.metrics import Evaluation, evaluate, tokenizer_for
from dragoman.kernels.compiling import announce_compiling
from dragoman.messages import say
from dragoman.text.corpus.layout import PLAIN, Layout
from dragoman.text.corpus.opening import check_direction, holds_pairs, open_aligned, read_side, texts_of_side
from dragoman.text.corpus.splitting import chunks
from dragoman.text.doctor.languages import SKIP_FLAG, check_same_language, check_side
from dragoman.text.doctor.overlap import Overlap
from dragoman.text.lines import prefetch_first
from dragoman.workflows.models import load_model

_CHUNK_LINES = 1 << 13


def run(arguments: Sequence[str]) -> int:
    """Print the scores. Returns the exit code."""
    options = _parser().parse(arguments)
    _check(options)
    check_search_flags(options)
    announce_compiling()
    layout = layout_from(options)
    findings: list[PhenomenonCount] = []
    if options.hyp:
        hypotheses, references, _, lang = read_pairs(options.hyp, options.ref, layout, sides=(1, 1))
        sources, src_lang = _sources(options.src, len(hypotheses), layout) if options.src else ([], "")
        training = _training(options, layout, src_lang, lang)
        if options.check_languages:
            _check_side(references, lang, options.ref)
            check_same_language(hypotheses, references, options.hyp, SKIP_FLAG)
    else:
        sources, references, src_lang, lang = read_pairs(options.src, options.ref, layout)
        model = load_model(model_request([options.model], options), TerminalProgress())
        check_direction(Path(options.src), Path(options.ref), model.src_lang, model.tgt_lang)
        src_lang, lang = model.src_lang or src_lang, model.tgt_lang or lang
        training = _training(options, layout, src_lang, lang)
        if options.check_languages:
            check_test_languages(sources, references, (src_lang, lang), (options.src, options.ref))
        hypotheses = model.translator.translate(sources, **model.overrides)
        if options.checklist:
            translate = partial(model.translator.translate, **model.overrides)
            findings = check_phenomena(sources, references, hypotheses, translate, src_lang, lang)
    tokenize = options.tokenize or tokenizer_for(lang)
    evaluations = [("", evaluate(hypotheses, references, tokenize, intervals=True))]
    if training:
        rest = _places_without_leaks(sources, training)
        kept = [hypotheses[place] for place in rest], [references[place] for place in rest]
        if rest:
            evaluations.append(("without leaks ", evaluate(*kept, tokenize, intervals=True)))
        else:
            say("warning: all of the test is in the training text: its score says nothing. Take another test.")
    _print(evaluations, findings, options.json)
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser("evaluate", "Scores a model on a test, or translations that are there already.")
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a model folder or a run")
    parser.add_flag("--src", "F", "the test's source side, a sentence a line", file_name)
    parser.add_flag("--ref", "F", "the test's target side, a sentence a line", file_name, required=True)
    text = "training text, one file with both sides or the source side: scores also without what it has of the test"
    parser.add_argument("--train", metavar="FILE", nargs="+", help=text)
    parser.add_flag("--hyp", "F", "translations to score instead of a model's", file_name)
    text = "also counts what the model stumbles over: numbers, names, negation, capitals, a missing dot ..."
    parser.add_switch("--checklist", text)
    parser.add_switch("--json", "one JSON object instead of lines")
    add_scoring_flags(parser)
    return parser


def check_test_languages(
    sources: Sequence[str], references: Sequence[str], languages: tuple[str, str], files: tuple[str, str]
) -> None:
    """Raises DataError where a side of a test is clearly in another language than the model's, or than its file says.

    Near languages are warned about.
    """
    sides = zip((sources, references), languages, languages[::-1], files, strict=True)
    for lines, stated, other, file in sides:
        _check_side(lines, stated, file, other)


def _check_side(lines: Sequence[str], stated: str, file: str, other: str = "") -> None:
    if note := check_side(lines, stated, file, SKIP_FLAG, other):
        say(f"warning: {note}")


def add_scoring_flags(parser: ArgumentParser) -> None:
    """Flags for BLEU, the language check, the test's files and the model."""
    text = "sacreBLEU's tokenizer for BLEU (default: by the target language)"
    parser.add_choice("--tokenize", ("13a", "intl", "zh", "char", "none"), text)
    text = "do not stop where a file looks like another language than it should be in"
    parser.add_argument("--no-language-check", dest="check_languages", action="store_false", help=text)
    add_layout_flags(parser)
    add_model_flags(parser)


def _check(options: argparse.Namespace) -> None:
    if options.hyp:
        if options.train and not options.src:
            raise ConfigError(
                "`--train` is given, but `--src` is not: leaks are found in the test's sources. Give both."
            )
        for name, given in (("MODEL", options.model), ("`--src`", options.src and not options.train)):
            if given:
                raise ConfigError(f"{name} and `--hyp` must not both be given. Leave one out.")
        if os.path.exists(options.ref) and os.path.exists(options.hyp) and os.path.samefile(options.hyp, options.ref):
            raise ConfigError(f"`--hyp` and `--ref` must not be the same file, but both are {options.ref}.")
        if given := list(overrides_of(options)):
            raise ConfigError(
                f"`{flag_of(given[0])}` is for a model that translates, but `--hyp` is given. Leave one out."
            )
        if options.checklist:
            raise ConfigError("`--checklist` asks a model for more translations. Give MODEL and `--src`, not `--hyp`.")
    elif not options.model:
        raise ConfigError(
            "MODEL with `--src`, or `--hyp`, is missing. `dragoman evaluate --help` says what goes where."
        )
    elif not options.src:
        raise ConfigError("`--src` is missing. `dragoman evaluate --help` says what goes where.")


def read_pairs(
    first: str, second: str, layout: Layout = PLAIN, sides: tuple[int, int] = (0, 1)
) -> tuple[list[str], list[str], str, str]:
    """The texts of both files, and their languages as the files or their names tell them, or "".

    Of files with both sides, such as tables, `sides` are taken. Raises DataError where one has more texts.
    """
    if not any(map(holds_pairs, (Path(first), Path(second)))):
        corpus = open_aligned(first, second, encoding=layout.encoding)
        pairs = list(corpus.pairs())
        return [pair.src for pair in pairs], [pair.tgt for pair in pairs], corpus.src_lang, corpus.tgt_lang
    (one, one_lang), (other, other_lang) = (
        read_side(Path(path), side, layout) for path, side in zip((first, second), sides, strict=True)
    )
    if len(one) != len(other):
        raise DataError(f"{first} has {len(one)} texts, but {second} has {len(other)}. Give files of one test.")
    return one, other, one_lang, other_lang


def _sources(path: str, wanted: int, layout: Layout) -> tuple[list[str], str]:
    sources, lang = read_side(Path(path), 0, layout)
    if len(sources) != wanted:
        raise DataError(
            f"{path} has {len(sources)} lines, but there are {wanted} translations. Give the test's source."
        )
    return sources, lang


def _training(options: argparse.Namespace, layout: Layout, src_lang: str, tgt_lang: str) -> list[Iterator[str]]:
    """The sources of each training text; what cannot be read is said now, before anything is translated."""
    return [prefetch_first(texts_of_side(Path(path), 0, src_lang, tgt_lang, layout)) for path in options.train or ()]


def _places_without_leaks(sources: Sequence[str], training: Sequence[Iterator[str]]) -> list[int]:
    """The places of the sources that training text does not have. Reports how many it has."""
    overlap = Overlap(sources)
    for chunk in chunks(chain.from_iterable(training), _CHUNK_LINES):
        overlap.add(chunk)
    lines = overlap.near()
    leaked, exact = int((lines > 0).sum()), int((overlap.exact() > 0).sum())
    say(
        f"{leaked:,} of {len(sources):,} test sources ({leaked / len(sources):.1%}) are in the training "
        f"text, {exact:,} exactly and the others but for a word, case or punctuation"
    )
    return [place for place, line in enumerate(lines.tolist()) if not line]


def _print(evaluations: Sequence[tuple[str, Evaluation]], findings: Sequence[PhenomenonCount], as_json: bool) -> None:
    """The evaluation, and those after it under their names: in JSON with ``_`` for spaces, as keys of the first."""
    for name, evaluation in evaluations:
        for warning in evaluation.warnings:
            say(f"warning: {name}{': ' if name else ''}{warning}".replace(" : ", ": "))
    if as_json:
        (_, first), *others = evaluations
        content = asdict(first) | {name.strip().replace(" ", "_"): asdict(other) for name, other in others}
        content |= {"checklist": [asdict(each) for each in findings]} if findings else {}
        print(json.dumps(content, ensure_ascii=False))
        return
    for name, evaluation in evaluations:
        sys.stdout.writelines(f"{name}{score}\n" for score in evaluation.scores)
    for one in findings:
        result = f"{one.passed:>5} of {one.asked:<5}" if one.asked else f"{'none':>5}{'':9}"
        print(f"{one.name:<13}{result} {one.note or one.check}")

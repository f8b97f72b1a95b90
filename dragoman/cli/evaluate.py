"""``dragoman evaluate``: BLEU, chrF and TER of a model on a test, or of translations that are there already."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from dragoman.cli.arguments import ArgumentParser, one_of
from dragoman.cli.models import add_model_flags, check_search_flags, load_model, say
from dragoman.errors import ConfigError, DataError
from dragoman.evaluate.metrics import Evaluation, evaluate, tokenizer_for
from dragoman.text.corpus import has_both_sides, open_aligned, open_corpus
from dragoman.text.doctor.overlap import Overlap
from dragoman.text.lines import read_lines
from dragoman.text.splitting import chunks

_CHUNK_LINES = 1 << 13


def run(arguments: Sequence[str]) -> int:
    """Prints the scores; returns the exit code."""
    options = _parser().parse(arguments)
    _check(options)
    check_search_flags(options)
    if options.hyp:
        hypotheses, references, lang = _read_pairs(options.hyp, options.ref)
        sources = _sources(options.src, len(hypotheses)) if options.src else []
    else:
        sources, references, lang = _read_pairs(options.src, options.ref)
        model = load_model([options.model], options)
        hypotheses = model.translator.translate(sources, **model.overrides)
        lang = model.tgt_lang or lang
    tokenize = options.tokenize or tokenizer_for(lang)
    evaluation = evaluate(hypotheses, references, tokenize)
    if not options.train:
        _print([("", evaluation)], options.json)
        return 0
    leaked = _leaked(sources, options.train)
    rest = [place for place in range(len(sources)) if place not in leaked]
    if not rest:
        raise DataError(f"All {len(sources)} test sources are in the training text. Take another test.")
    without = evaluate([hypotheses[place] for place in rest], [references[place] for place in rest], tokenize)
    say(
        f"{len(leaked):,} of {len(sources):,} test sources ({len(leaked) / len(sources):.1%}) are in the training "
        f"text, {sum(leaked.values()):,} exactly and the others but for a word, case or punctuation"
    )
    _print([("", evaluation), ("without leaks ", without)], options.json)
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser("evaluate", "Scores a model on a test, or translations that are there already.")
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a model folder or a run")
    parser.add_argument("--src", metavar="F", help="the test's source side, a sentence a line")
    parser.add_argument("--ref", metavar="F", required=True, help="the test's target side, a sentence a line")
    parser.add_argument(
        "--train",
        metavar="FILE",
        nargs="+",
        help="training text, one file with both sides or the source side: scores also without what it has of the test",
    )
    parser.add_argument("--hyp", metavar="F", help="translations to score instead of a model's")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument(
        "--tokenize",
        type=one_of("13a", "intl", "zh", "char", "none"),
        metavar="13a|intl|zh|char|none",
        help="sacreBLEU's tokenizer for BLEU (default: by the target language)",
    )
    add_model_flags(parser)
    return parser


def _check(options: argparse.Namespace) -> None:
    if options.hyp:
        if options.train and not options.src:
            raise ConfigError(
                "`--train` is given, but `--src` is not: leaks are found in the test's sources. Give both."
            )
        for name, given in (("MODEL", options.model), ("`--src`", options.src and not options.train)):
            if given:
                raise ConfigError(f"{name} and `--hyp` must not both be given. Leave one out.")
    elif not options.model:
        raise ConfigError(
            "MODEL with `--src`, or `--hyp`, is missing. `dragoman evaluate --help` says what goes where."
        )
    elif not options.src:
        raise ConfigError("`--src` is missing. `dragoman evaluate --help` says what goes where.")


def _read_pairs(first: str, second: str) -> tuple[list[str], list[str], str]:
    corpus = open_aligned(Path(first), Path(second))
    pairs = list(corpus.pairs())
    return [pair.src for pair in pairs], [pair.tgt for pair in pairs], corpus.tgt_lang


def _sources(path: str, wanted: int) -> list[str]:
    sources = list(read_lines(Path(path)))
    if len(sources) != wanted:
        raise DataError(
            f"{path} has {len(sources)} lines, but there are {wanted} translations. Give the test's source."
        )
    return sources


def _leaked(sources: Sequence[str], training: Sequence[str]) -> dict[int, bool]:
    """The sources that training text has too: place -> whether exactly."""
    overlap = Overlap(sources)
    for name in training:
        path = Path(name)
        texts = open_corpus(path).sides()[0]() if has_both_sides(path) else read_lines(path)
        for chunk in chunks(texts, _CHUNK_LINES):
            overlap.add(chunk)
    near, exact = overlap.near(), overlap.exact()
    return {int(place): bool(exact[place]) for place in near.nonzero()[0]}


def _print(evaluations: Sequence[tuple[str, Evaluation]], as_json: bool) -> None:
    """The evaluation, and those after it under their names: in JSON with ``_`` for spaces, as keys of the first."""
    for name, evaluation in evaluations:
        for warning in evaluation.warnings:
            say(f"warning: {name}{': ' if name else ''}{warning}".replace(" : ", ": "))
    if as_json:
        (_, first), *others = evaluations
        named = {name.strip().replace(" ", "_"): asdict(evaluation) for name, evaluation in others}
        json.dump(asdict(first) | named, sys.stdout, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        for name, evaluation in evaluations:
            sys.stdout.writelines(f"{name}{score}\n" for score in evaluation.scores)

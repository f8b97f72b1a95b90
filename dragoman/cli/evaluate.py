"""``dragoman evaluate``: BLEU, chrF and TER of a model on a test, or of translations that are there already."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from dragoman.cli.arguments import ArgumentParser, one_of
from dragoman.cli.models import add_model_flags, check_search_flags, load_model, say
from dragoman.errors import ConfigError
from dragoman.evaluate.checklists import Finding, check_phenomena
from dragoman.evaluate.metrics import Evaluation, evaluate, tokenizer_for
from dragoman.text.corpus import open_aligned


def run(arguments: Sequence[str]) -> int:
    """Prints the scores; returns the exit code."""
    options = _parser().parse(arguments)
    _check(options)
    check_search_flags(options)
    findings: list[Finding] = []
    if options.hyp:
        hypotheses, references, _, lang = read_pairs(options.hyp, options.ref)
    else:
        sources, references, src_lang, lang = read_pairs(options.src, options.ref)
        model = load_model([options.model], options)
        hypotheses = model.translator.translate(sources, **model.overrides)
        lang = model.tgt_lang or lang
        if options.checklist:
            overrides, translator = model.overrides, model.translator
            findings = check_phenomena(
                sources,
                references,
                hypotheses,
                lambda texts: translator.translate(texts, **overrides),
                model.src_lang or src_lang,
                lang,
            )
    tokenize = options.tokenize or tokenizer_for(lang)
    _print(evaluate(hypotheses, references, tokenize, intervals=True), findings, options.json)
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser("evaluate", "Scores a model on a test, or translations that are there already.")
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a model folder or a run")
    parser.add_argument("--src", metavar="F", help="the test's source side, a sentence a line")
    parser.add_argument("--ref", metavar="F", required=True, help="the test's target side, a sentence a line")
    parser.add_argument("--hyp", metavar="F", help="translations to score instead of a model's")
    parser.add_argument(
        "--checklist",
        action="store_true",
        help="also counts what the model stumbles over: numbers, names, negation, capitals, a missing dot ...",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    add_tokenize_flag(parser)
    add_model_flags(parser)
    return parser


def add_tokenize_flag(parser: ArgumentParser) -> None:
    """``--tokenize``, for BLEU."""
    parser.add_argument(
        "--tokenize",
        type=one_of("13a", "intl", "zh", "char", "none"),
        metavar="13a|intl|zh|char|none",
        help="sacreBLEU's tokenizer for BLEU (default: by the target language)",
    )


def _check(options: argparse.Namespace) -> None:
    if options.hyp:
        for name, given in (("MODEL", options.model), ("`--src`", options.src)):
            if given:
                raise ConfigError(f"{name} and `--hyp` must not both be given. Leave one out.")
        if options.checklist:
            raise ConfigError("`--checklist` asks a model for more translations. Give MODEL and `--src`, not `--hyp`.")
    elif not options.model:
        raise ConfigError(
            "MODEL with `--src`, or `--hyp`, is missing. `dragoman evaluate --help` says what goes where."
        )
    elif not options.src:
        raise ConfigError("`--src` is missing. `dragoman evaluate --help` says what goes where.")


def read_pairs(first: str, second: str) -> tuple[list[str], list[str], str, str]:
    """The lines of both files, and their languages as the file names tell them, or ""."""
    corpus = open_aligned(Path(first), Path(second))
    pairs = list(corpus.pairs())
    return [pair.src for pair in pairs], [pair.tgt for pair in pairs], corpus.src_lang, corpus.tgt_lang


def _print(evaluation: Evaluation, findings: Sequence[Finding], as_json: bool) -> None:
    for warning in evaluation.warnings:
        say(f"warning: {warning}")
    if as_json:
        content = asdict(evaluation) | ({"checklist": [asdict(each) for each in findings]} if findings else {})
        json.dump(content, sys.stdout, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        sys.stdout.writelines(f"{score}\n" for score in evaluation.scores)
        for one in findings:
            result = f"{one.passed:>5} of {one.asked:<5}" if one.asked else f"{'none':>5}{'':9}"
            print(f"{one.name:<13}{result} {one.note or one.check}")

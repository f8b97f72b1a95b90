"""``dragoman evaluate``: score a model on a test, or a file of translations, with BLEU, chrF and TER."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from dragoman.cli.arguments import ArgumentParser, add_layout_flags, file_name, layout_from
from dragoman.cli.models import add_model_flags, model_request
from dragoman.kernels.compiling import announce_compiling
from dragoman.messages import say
from dragoman.workflows.evaluation import EvaluationReport, EvaluationRequest, evaluate_test
from dragoman.workflows.progress import TerminalProgress


def run(arguments: Sequence[str]) -> int:
    """Print the scores. Returns the exit code."""
    options = build_parser().parse(arguments)
    request = EvaluationRequest(
        ref=options.ref,
        src=options.src or "",
        hyp=options.hyp or "",
        model=model_request([options.model] if options.model else [], options),
        train=tuple(options.train or ()),
        layout=layout_from(options),
        tokenize=options.tokenize or "",
        check_languages=options.check_languages,
        checklist=options.checklist,
    )
    announce_compiling()
    _print(evaluate_test(request, TerminalProgress()), options.json)
    return 0


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman evaluate``."""
    parser = ArgumentParser(
        "evaluate",
        "dragoman evaluate run --src test.en --ref test.de",
        "dragoman evaluate --hyp translations.txt --ref test.de",
    )
    parser.add_argument("model", nargs="?", metavar="MODEL", help="Model folder or run")
    parser.add_flag("--src", "FILE", "Source side of the test, one sentence per line", file_name)
    parser.add_flag("--ref", "FILE", "Target side of the test, one sentence per line", file_name, required=True)
    parser.add_flag("--hyp", "FILE", "Translations to score, instead of a model", file_name)
    text = "Training text (source or both sides); adds scores without leaks"
    parser.add_argument("--train", metavar="FILE", nargs="+", help=text)
    parser.add_switch("--checklist", "Count errors by kind: numbers, names, negation, capitals, final dots")
    parser.add_switch("--json", "Print JSON instead of lines")
    add_scoring_flags(parser)
    return parser


def add_scoring_flags(parser: ArgumentParser) -> None:
    """Flags for BLEU, the language check, the files of the test, and the model."""
    parser.start_section("More flags")
    text = "Tokenizer of sacreBLEU for BLEU [default: by target language]"
    parser.add_choice("--tokenize", ("13a", "intl", "zh", "char", "none"), text)
    text = "Accept files that seem to be in the wrong language"
    parser.add_argument("--no-language-check", dest="check_languages", action="store_false", help=text)
    add_layout_flags(parser)
    add_model_flags(parser)


def _print(report: EvaluationReport, as_json: bool) -> None:
    """Print the scores, then the scores without leaks and the checklist; in JSON under their own keys."""
    for name, evaluation in report.evaluations:
        for warning in evaluation.warnings:
            say(f"warning: {name}{': ' if name else ''}{warning}")
    if as_json:
        content = asdict(report.whole)
        content |= {"without_leaks": asdict(report.without_leaks)} if report.without_leaks else {}
        content |= {"checklist": [asdict(each) for each in report.checklist]} if report.checklist else {}
        print(json.dumps(content, ensure_ascii=False))
        return
    print(report)

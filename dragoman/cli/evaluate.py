"""``dragoman evaluate``: score a model on a test, or a file of translations, with BLEU, chrF and TER."""

from dataclasses import asdict
from typing import Any

from dragoman.cli.arguments import ArgumentParser, Options, file_name
from dragoman.display import json_text, say
from dragoman.errors import ConfigError
from dragoman.workflows.evaluation import EvaluationRequest, evaluate_test
from dragoman.workflows.progress import TerminalProgress


def run(options: Options) -> None:
    """Print the scores."""
    request = EvaluationRequest(
        **scored_test(options, "--ref"),
        hyp=options.hyp or "",
        model=options.model_request(*filter(None, [options.model])),
        train=tuple(options.train or ()),
        terms=options.terms or "",
        checklist=options.checklist,
    )
    report = evaluate_test(request, TerminalProgress())
    for name, evaluation in report.evaluations:
        for warning in evaluation.warnings:
            say(f"warning: {name}{': ' if name else ''}{warning}")
    if not options.json:
        print(report)
        return
    content = asdict(report.whole)
    content |= {"without_leaks": asdict(report.without_leaks)} if report.without_leaks else {}
    content |= {"checklist": [asdict(each) for each in report.checklist]} if report.checklist else {}
    print(json_text(content))


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman evaluate``."""
    parser = ArgumentParser(
        "evaluate",
        "dragoman evaluate run --src test.en --ref test.de",
        "dragoman evaluate --hyp translations.txt --data test.tsv",
    )
    parser.add_argument("model", nargs="?", metavar="MODEL", help="Model folder or run")
    add_test_flags(parser, "--tgt", "--ref")
    parser.add_flag("--hyp", "FILE", "Translations to score, instead of a model", file_name)
    parser.add_argument("--train", metavar="FILE", nargs="+", help="Training text; adds scores without leaks")
    parser.add_flag("--terms", "FILE", "Terminology: lines of source<TAB>translation", file_name)
    parser.add_switch("--checklist", "Count errors by kind: numbers, names, negation, capitals, final dots")
    parser.add_switch("--json", "Print JSON instead of lines")
    add_scoring_flags(parser)
    return parser


def add_test_flags(parser: ArgumentParser, *target: str, of: str = " of the test") -> None:
    """``--src``, the names of the flag for the target side, and ``--data``. `of` says what the sides belong to."""
    parser.add_flag("--src", "FILE", f"Source side{of}, one sentence per line", file_name)
    text = f"Target side{of}, one sentence per line"
    parser.add_argument(*target, metavar="FILE", help=text, type=file_name, dest="ref")
    parser.add_flag("--data", "FILE", "File with both sides: .tsv, .csv, .jsonl or .tmx, plain or .gz", file_name)


def test_files(options: Options, *needed: str) -> tuple[str, str]:
    """The files of the sources and the references, twice the same one for ``--data``, or "". Raises ConfigError."""
    if options.data and (options.src or options.ref):
        raise ConfigError("`--data` has both sides, so no other file of the test can be given. Leave one out.")
    src, ref = options.data or options.src or "", options.data or options.ref or ""
    if missing := [flag for flag in needed if not (src if flag == "--src" else ref)]:
        flags = ", ".join(f"`{flag}`" for flag in missing)
        advice = "Name two aligned files, or one file with both sides as `--data`."
        raise ConfigError(f"{flags} {'are' if len(missing) > 1 else 'is'} missing. {advice}")
    return src, ref


def scored_test(options: Options, *needed: str) -> dict[str, Any]:
    """The fields of a `ScoredTest`, from the flags of `add_test_flags` and `add_scoring_flags`."""
    src, ref = test_files(options, *needed)
    checks = {"check_languages": options.check_languages, "check_lines": options.check_lines}
    return {"src": src, "ref": ref, "layout": options.layout(), "tokenize": options.tokenize or "", **checks}


def add_scoring_flags(parser: ArgumentParser) -> None:
    """Flags for BLEU, the language check, the files of the test, and the model."""
    parser.start_section("More flags")
    text = "Tokenizer of sacreBLEU for BLEU [default: by target language]"
    parser.add_choice("--tokenize", ("13a", "intl", "zh", "char", "none"), text)
    text = "Accept files that seem to be in the wrong language"
    parser.add_argument("--no-language-check", dest="check_languages", action="store_false", help=text)
    text = "Accept translations that seem to shift against the references by lines"
    parser.add_argument("--no-line-check", dest="check_lines", action="store_false", help=text)
    parser.add_layout_flags()
    parser.add_model_flags()

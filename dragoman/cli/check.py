"""``dragoman check``: examine a corpus before you train on it."""

import sys
from dataclasses import asdict

from dragoman.cli.arguments import ArgumentParser, Options
from dragoman.display import json_text
from dragoman.errors import ConfigError
from dragoman.workflows.corpus import check_files
from dragoman.workflows.progress import QUIET, TerminalProgress

_WRONG = 2


def run(options: Options) -> int:
    """Print the findings. Returns exit code 2 if one is serious, else 0."""
    sides = [file for file in (options.src, options.tgt) if file]
    named = [files for files in (options.files, sides, [options.data] * bool(options.data)) if files]
    if len(named) != 1 or len(sides) == 1:
        raise ConfigError(
            "Either SRC and TGT or `--data` must be given. Name two aligned files, or one file with both sides."
        )
    held_out, languages = {"dev": options.dev, "test": options.test}, (options.src_lang, options.tgt_lang)
    progress = TerminalProgress() if sys.stderr.isatty() else QUIET
    examination = check_files(named[0], held_out, languages, options.layout(), progress)
    print(json_text(asdict(examination)) if options.json else examination)
    return _WRONG if examination.serious else 0


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman check``."""
    parser = ArgumentParser(
        "check", "dragoman check train.en train.de --test test.en test.de", "dragoman check --data memory.tmx"
    )
    parser.add_argument("files", nargs="*", metavar="SRC TGT", help="Two aligned files, one sentence per line")
    parser.add_flag("--src", "FILE", "Source side of two aligned files, like SRC")
    parser.add_flag("--tgt", "FILE", "Target side of two aligned files, like TGT")
    parser.add_flag("--data", "FILE", "File with both sides: .tsv, .csv, .jsonl or .tmx, plain or .gz")
    for part, name in (("dev", "Validation"), ("test", "Test")):
        text = f"{name} data, one file or two, to look for in the training text"
        parser.add_argument(f"--{part}", nargs="+", default=(), metavar="FILE", help=text)
    parser.add_languages(", code or name [default: from file names or data]", default="")
    parser.add_switch("--json", "Print JSON instead of a report")
    parser.start_section("More flags")
    parser.add_layout_flags()
    return parser

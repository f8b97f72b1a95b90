"""``dragoman check``: examine a corpus before you train on it."""

import sys
from dataclasses import asdict

from dragoman.cli.arguments import ArgumentParser, Options
from dragoman.cli.train import add_corpus_flags, given_corpora
from dragoman.display import json_text
from dragoman.errors import ConfigError
from dragoman.workflows.corpus import check_files
from dragoman.workflows.progress import QUIET, TerminalProgress

_WRONG = 2


def run(options: Options) -> int:
    """Print the findings. Returns exit code 2 if one is serious, else 0."""
    given = given_corpora(options)
    named = [*([options.files] if options.files else []), *(list(one.values()) for one in given)]
    if not named or (given and options.files) or any(one.keys() < {"src", "tgt"} for one in given):
        raise ConfigError(
            "Either SRC and TGT or `--data` must be given. Name two aligned files, or one file with both sides."
        )
    held_out, languages = {"dev": options.dev, "test": options.test}, (options.src_lang, options.tgt_lang)
    progress = TerminalProgress() if sys.stderr.isatty() else QUIET
    examinations = check_files(named, held_out, languages, options.layout(), progress)
    facts = [asdict(one) for one in examinations]
    print(json_text(facts if len(facts) > 1 else facts[0]) if options.json else "\n\n\n".join(map(str, examinations)))
    return _WRONG if any(one.serious for one in examinations) else 0


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman check``."""
    parser = ArgumentParser(
        "check",
        "dragoman check train.en train.de --test test.en test.de",
        "dragoman check --data memory.tmx --data crawl.tsv",
    )
    parser.add_argument("files", nargs="*", metavar="SRC TGT", help="Two aligned files, one sentence per line")
    add_corpus_flags(parser)
    for part, name in (("dev", "Validation"), ("test", "Test")):
        text = f"{name} data, one file or two, to look for in the training text"
        parser.add_argument(f"--{part}", nargs="+", default=(), metavar="FILE", help=text)
    parser.add_languages(", code or name [default: from file names or data]", default="")
    parser.add_switch("--json", "Print JSON instead of a report")
    parser.start_section("More flags")
    parser.add_layout_flags()
    return parser

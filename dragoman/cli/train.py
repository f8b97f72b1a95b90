"""``dragoman train``: train a model on parallel text. If the folder holds a run, continue it."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

from dragoman.cli.arguments import ArgumentParser, Options, argument_type, file_name, path_name
from dragoman.config import CORPUS_SETTINGS
from dragoman.config.checking import check_sides
from dragoman.config.corpora import read_corpora
from dragoman.config.loading import flag_of
from dragoman.config.recipes import chosen_keys
from dragoman.display import say, text_table
from dragoman.errors import ConfigError
from dragoman.signals import Interrupted, interrupts
from dragoman.workflows.api.keywords import CORPUS_KEYWORDS
from dragoman.workflows.progress import FinalScores, PairCounts, ScoreChange, TerminalProgress
from dragoman.workflows.training.settings import RunRequest, resolve_run

_COMMON = (
    "data.dev",
    "data.test",
    "tokenizer.vocab_size",
    "model.preset",
    "train.max_minutes",
    "train.patience",
    "train.device",
    "train.seed",
)
_WEIGHT = CORPUS_SETTINGS["corpora.weight"]
# Short flags and the settings that they set.
_DATA_FLAGS = {
    "from": "train.start_from",
    **{name: f"data.{name}" for name in ("src_lang", "tgt_lang", "columns", "header", "encoding")},
}


def run(options: Options) -> int:
    """Train until a limit or patience ends the run, and print its scores. Returns the exit code."""
    return run_training(run_request(options, options.out))


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman train``."""
    parser = ArgumentParser(
        "train",
        "dragoman train --src train.en --tgt train.de --out run",
        "dragoman train --data memory.tmx --train.max-minutes 60",
        "dragoman train --data memory.tmx --weight 3 --data crawl.tsv --weight 1",
        "dragoman train --from run --data new.tsv --out tuned",
    )
    parser.add_flag("--out", "RUN", "Folder of the run [default: runs/NAME]", path_name)
    add_data_flags(parser)
    return parser


def add_data_flags(parser: ArgumentParser) -> None:
    """Add configuration files, short flags for data and languages, and a flag for each setting."""
    parser.add_argument(
        "configs", metavar="CONFIG", nargs="*", type=path_name, help="TOML files with settings; later files win"
    )
    add_corpus_flags(parser)
    text = "How often a pair of this corpus is taken, relative to others; one for each corpus, in their order"
    parser.add_argument("--weight", action="append", metavar="X", help=text, type=argument_type(_WEIGHT), default=[])
    parser.add_languages(", code or name [default: from file names or data]")
    parser.add_flag("--from", "MODEL", "Model folder or run to fine-tune", file_name)
    parser.start_section("More flags")
    parser.add_layout_flags()
    by_size = dict.fromkeys(chosen_keys(), "by corpus size")
    parser.add_settings(
        "data", "tokenizer", "model", "train", "validate", "inference", common=_COMMON, defaults=by_size
    )


def add_corpus_flags(parser: ArgumentParser) -> None:
    """Add ``--data``, ``--src`` and ``--tgt``, which `given_corpora` reads. Each may be given once per corpus."""
    for flag, text in (
        ("--data", "File with both sides: .tsv, .csv, .jsonl or .tmx, plain or .gz; repeat it for more corpora"),
        ("--src", "Source side of two aligned files; repeat both for more corpora"),
        ("--tgt", "Target side of two aligned files"),
    ):
        parser.add_argument(flag, action=_AddFile, metavar="FILE", help=text, type=file_name, default=())


class _AddFile(argparse.Action):
    """Adds a pair of flag and file to `options.corpora`, which keeps the order of different flags."""

    def __call__(
        self, parser: argparse.ArgumentParser, options: argparse.Namespace, value: Any, flag: str | None = None
    ) -> None:
        options.corpora = [*getattr(options, "corpora", ()), (self.dest, value)]


def given_corpora(options: Options) -> list[dict[str, str]]:
    """The corpora of the flags, in their order, each as ``data``, or as ``src`` and ``tgt``.

    Raises ConfigError if the numbers of sources and targets differ.
    """
    found: list[dict[str, str]] = []
    given = getattr(options, "corpora", ())
    targets = iter([file for name, file in given if name == "tgt"])
    for name, file in given:
        if name == "data":
            found.append({"data": file})
        elif name == "src":
            target = next(targets, None)
            found.append({"src": file, "tgt": target} if target else {"src": file})
    found += [{"tgt": target} for target in targets]
    if len(found) > 1 and (alone := next((each for each in found if len(each) == 1 and "data" not in each), None)):
        [(name, file)] = alone.items()
        other = {"src": "tgt", "tgt": "src"}[name]
        raise ConfigError(f"`--{name} {file}` has no `--{other}`. Give both for each corpus, or one file as `--data`.")
    return found


def run_request(options: Options, out: Path | None = None) -> RunRequest:
    """The request for a run, from the parsed flags of `add_data_flags`. Short flags set their settings.

    Raises ConfigError if flags contradict each other.
    """
    corpora, weights = given_corpora(options), options.weight
    one = corpora[0] if len(corpora) == 1 else {}
    if not options.configs:
        check_sides(one.get("src"), one.get("tgt"), ["`--src`", "`--tgt`", "`--data`"])
    if weights and not corpora:
        raise ConfigError("`--weight` needs `--data`, or `--src` and `--tgt`. A file has `weight` below [[corpora]].")
    if len(weights) not in (0, len(corpora)) or (weights and one):
        count = (
            f"{len(corpora)} corpora. Give it once for each of them"
            if len(corpora) != 1
            else "one corpus. Leave it out"
        )
        raise ConfigError(f"`--weight` is given {len(weights)} time{'s' * (len(weights) > 1)}, for {count}.")
    tables = [{**each, "weight": weight} for each, weight in zip(corpora, weights or [1.0] * len(corpora), strict=True)]
    several = read_corpora(tables) if len(tables) > 1 else ()
    short = {key: getattr(options, flag) for flag, key in _DATA_FLAGS.items() if getattr(options, flag) is not None}
    short |= {CORPUS_KEYWORDS[name]: file for name, file in one.items()}
    long = options.overrides()
    for flag, key in {**_DATA_FLAGS, **CORPUS_KEYWORDS}.items():
        if key in short and long.get(key, short[key]) != short[key]:
            raise ConfigError(
                f"`{flag_of(flag)}` and `{flag_of(key)}` are one setting, but are {short[key]} and {long[key]}. "
                "Leave one out."
            )
    return RunRequest(tuple(options.configs), long | short, out, corpora=several)


def run_training(request: RunRequest) -> int:
    """Train, or continue the run in `request.out`. Checks settings and data before torch is imported."""
    out = request.folder
    interrupts.last_words = lambda: _last_words(out)
    progress = _TrainingProgress()
    run = resolve_run(replace(request, out=out), progress)
    from dragoman.workflows.training.training import train_run

    try:
        model = train_run(run, progress)
    except Interrupted as stop:
        interrupts.has_saved()
        return stop.exit_code
    if model is not None:
        say(f"the model is {model}; translate with `dragoman translate {quote(str(out))}`")
    interrupts.last_words = None
    return 0


class _TrainingProgress(TerminalProgress):
    """Prints the table of cleaning to stderr, and scores to stdout."""

    def result(self, part: object) -> None:
        super().result(part)
        match part:
            case PairCounts():
                _print_counts(part)
            case FinalScores():
                print(part.verdict)
                for each in part.parts:
                    for score in each.scores:
                        print(f"{each.part} ({each.num_sentences} sentences, beam {each.beam_size}): {score}")
                sys.stdout.flush()
                if part.changes:
                    _print_changes(part.changes)


def _print_counts(counts: PairCounts) -> None:
    rows = [(name, f"{count:,}", f"{share:.1%}") for name, count, share in counts.cleaning.rows()]
    rows.append(("validation", f"{counts.dev:,}", ""))
    if counts.test is not None:
        rows.append(("test", f"{counts.test:,}", ""))
    print(*text_table(("cleaning", "pairs", "share"), rows), sep="\n", file=sys.stderr)
    if counts.corpora:
        reports = [(each.name, each.cleaning) for each in counts.corpora]
        rows = [(name, f"{report.read:,}", f"{report.kept:,}") for name, report in reports]
        print(*text_table(("corpus", "read", "kept"), rows), sep="\n", file=sys.stderr)


def _print_changes(changes: Sequence[ScoreChange]) -> None:
    """Print the scores before and after fine-tuning, and the signature of each metric."""
    rows = []
    for one in changes:
        before, after = one.before.value, one.after.value
        scores = (f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}")
        rows.append((f"{one.data} ({one.num_sentences} sentences)", one.before.name, *scores))
    print(*text_table(("data", "metric", "before", "after", "difference"), rows), sep="\n")
    for name, signature in {one.before.name: one.before.signature for one in changes}.items():
        print(f"{name}: {signature}")
    sys.stdout.flush()


def _last_words(out: Path) -> str:
    """The last line of a run that could not save: where the same command continues."""
    steps = sorted(path.name for path in (out / "checkpoints").glob("step_*"))
    if not steps:
        return "stopped without saving. There is no checkpoint yet, so the same command starts from the beginning."
    return f"stopped without saving. The same command continues from {out / 'checkpoints' / steps[-1]}."

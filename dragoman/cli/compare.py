"""``dragoman compare``: compare two models, or two files of translations, on one test, with significance tests."""

import sys
from collections.abc import Iterator
from dataclasses import asdict

from dragoman.cli.arguments import ArgumentParser, Options, file_name
from dragoman.cli.evaluate import add_scoring_flags, add_test_flags, scored_test
from dragoman.display import json_text, say, text_table
from dragoman.evaluation.comparison import Comparison, MetricComparison, RarityGroup
from dragoman.evaluation.metrics import RESAMPLES, SEED, TRIALS
from dragoman.workflows.comparison import ComparisonRequest, compare_systems
from dragoman.workflows.progress import TerminalProgress


def run(options: Options) -> None:
    """Print the comparison."""
    test, models = scored_test(options, "--src", "--ref"), options.model_request()
    request = ComparisonRequest(a=options.a, b=options.b, models=models, train=options.train or "", **test)
    comparison = compare_systems(request, TerminalProgress())
    for warning in comparison.warnings:
        say(f"warning: {warning}")
    if options.json:
        names = {"a": options.a, "b": options.b, "verdict": comparison.verdict}
        print(json_text({**names, **asdict(comparison)}))
    else:
        sys.stdout.writelines(f"{line}\n" for line in _page(comparison, options))


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman compare``."""
    parser = ArgumentParser(
        "compare",
        "dragoman compare run-a run-b --src test.en --ref test.de",
        "dragoman compare a.txt b.txt --src test.en --ref test.de",
    )
    text = "Model folder, run, or file with one translation per line"
    for name in ("a", "b"):
        parser.add_argument(name, metavar=name.upper(), help=text)
    add_test_flags(parser, "--tgt", "--ref")
    parser.add_flag("--train", "FILE", "Target side of the training text, to group words by frequency", file_name)
    parser.add_switch("--json", "Print JSON instead of tables")
    add_scoring_flags(parser)
    return parser


def _page(found: Comparison, options: Options) -> Iterator[str]:
    yield f"A  {options.a}"
    yield f"B  {options.b}"
    yield f"{found.num_sentences:,} sentences; in brackets 95 % of {RESAMPLES:,} resampled tests (seed {SEED})"
    yield ""
    yield from text_table(
        ("", "A", "B", "B - A", "p bootstrap", f"p of {TRIALS:,} shuffles", ""), map(_metric_row, found.metrics)
    )
    yield ""
    yield found.verdict
    yield f"By sentence (chrF2) B wins {found.b_wins:,}, loses {found.b_losses:,}; {found.ties:,} are equal."
    yield ""
    rows = []
    for one in found.by_length:
        counts = f"{one.a_chrf:.1f}", f"{one.b_chrf:.1f}", f"{one.b_wins:,}", f"{one.b_losses:,}"
        rows.append((f"{one.shortest} to {one.longest}", f"{one.sentences:,}", *counts))
    yield from text_table(("source characters", "sentences", "A chrF2", "B chrF2", "B wins", "B loses"), rows)
    yield ""
    shares = [
        (_times(one), f"{one.words:,}", f"{one.a_found / one.words:.1%}", f"{one.b_found / one.words:.1%}")
        for one in found.by_rarity
    ]
    yield from text_table((f"words seen in {options.train or 'the references'}", "words", "A has", "B has"), shares)
    for change in found.changes:
        yield from ("", f"line {change.line}, source     {change.src}", f"  reference  {change.reference}")
        yield f"  A {change.a_chrf:5.1f}    {change.a}"
        yield f"  B {change.b_chrf:5.1f}    {change.b}"
    yield ""
    yield from (f"{metric.a.name}: {metric.a.signature}" for metric in found.metrics)


def _metric_row(metric: MetricComparison) -> tuple[str, ...]:
    intervals = [(one.value, *one.interval) for one in (metric.a, metric.b) if one.interval]
    scores = [f"{value:.2f} [{low:.2f}, {high:.2f}]" for value, low, high in intervals]
    found = metric.significance
    difference = f"{found.difference:+.2f} [{found.interval[0]:+.2f}, {found.interval[1]:+.2f}]"
    verdict = f"{metric.better} is better" if metric.better else "no difference shown"
    return metric.a.name, *scores, difference, f"{found.p_bootstrap:.3f}", f"{found.p_randomisation:.4f}", verdict


def _times(group: RarityGroup) -> str:
    if group.at_most is None:
        return f"more than {group.at_least - 1} times"
    if group.at_most <= 1:
        return ("never", "once")[group.at_most]
    return f"{group.at_least} to {group.at_most} times"

"""``dragoman plan``: estimate time, memory and disk space of `train` from a few measured steps on this machine."""

from dataclasses import asdict

from dragoman.cli.arguments import ArgumentParser, Options
from dragoman.cli.train import add_data_flags, run_request
from dragoman.display import json_text
from dragoman.signals import Interrupted
from dragoman.workflows.progress import TerminalProgress


def run(options: Options) -> int:
    """Print the plan. Returns the exit code."""
    request = run_request(options)
    from dragoman.workflows.training.planning import plan_run  # torch: only once the flags are right

    try:
        plan = plan_run(request, TerminalProgress())
    except Interrupted as stop:
        return stop.exit_code
    if not options.json:
        print(plan)
        return 0
    parts = {"rule": asdict(plan.recipe), "measured": asdict(plan.measured), "forecast": asdict(plan.forecast)}
    print(json_text(asdict(plan.size) | parts))
    return 0


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman plan``."""
    parser = ArgumentParser("plan", "dragoman plan --src train.en --tgt train.de")
    add_data_flags(parser)
    parser.add_switch("--json", "Print JSON instead of a table")
    return parser

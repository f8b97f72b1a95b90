"""``dragoman report RUN``: writes the report of a run again, as training did when it ended."""

from collections.abc import Sequence

from dragoman.cli.arguments import ArgumentParser, path_name
from dragoman.cli.progress import TerminalProgress
from dragoman.workflows.runs import report_run


def run(arguments: Sequence[str]) -> int:
    """Translate the run's test, or its validation data, again. Prints the report's path on stdout."""
    parser = ArgumentParser("report", "Writes the report of a run again: RUN/report.html, and card.md beside it.")
    parser.add_argument("run", metavar="RUN", type=path_name, help="a folder that `dragoman train` has made")
    parser.add_device()
    given = parser.parse(arguments)
    print(report_run(given.run, given.device, TerminalProgress()))
    return 0

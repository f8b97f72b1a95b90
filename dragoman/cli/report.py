"""``dragoman report RUN``: write the report of a run again, as training did at its end."""

from dragoman.cli.arguments import ArgumentParser, Options, path_name
from dragoman.workflows.progress import TerminalProgress
from dragoman.workflows.runs import report_run


def run(options: Options) -> None:
    """Translate the test or validation data of the run and print the path of the report."""
    print(report_run(options.run, options.device, TerminalProgress()))


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman report``."""
    parser = ArgumentParser("report", "dragoman report runs/demo")
    parser.add_argument("run", metavar="RUN", type=path_name, help="Folder of a run")
    parser.add_device()
    return parser

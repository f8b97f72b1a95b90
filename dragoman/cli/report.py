"""``dragoman report RUN``: writes the report of a run again, as training did when it ended."""

from collections.abc import Sequence

from dragoman.cli.arguments import ArgumentParser, path_name
from dragoman.messages import say
from dragoman.workflows.models import require_model


def run(arguments: Sequence[str]) -> int:
    """Translate the run's test, or its validation data, again. Prints the report's path on stdout."""
    parser = ArgumentParser("report", "Writes the report of a run again: RUN/report.html, and card.md beside it.")
    parser.add_argument("run", metavar="RUN", type=path_name, help="a folder that `dragoman train` has made")
    parser.add_device()
    given = parser.parse(arguments)
    require_model(given.run)
    from dragoman.bundle import resolve_model_folder  # torch: only once the arguments are right
    from dragoman.model.trained import TrainedModel
    from dragoman.visualization.report.report import write_report
    from dragoman.visualization.report.run_facts import read_run
    from dragoman.workflows.report import translate_test

    folder = resolve_model_folder(given.run)
    read_run(given.run)  # what is no run is said before anything is loaded or translated
    say(f"the model is {folder}")
    print(write_report(given.run, translate_test(given.run, TrainedModel.load(folder, given.device))))
    return 0

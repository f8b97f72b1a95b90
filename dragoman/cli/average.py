"""``dragoman average RUN``: the mean of a run's last checkpoints as a model of its own."""

from collections.abc import Sequence

from dragoman.cli.arguments import ArgumentParser, path_name, whole_number
from dragoman.messages import say
from dragoman.workflows.runs import average_run


def run(arguments: Sequence[str]) -> int:
    """Prints the new model folder on stdout."""
    parser = ArgumentParser("average", "Averages the weights of a run's checkpoints into a model.")
    parser.add_argument("run", metavar="RUN", type=path_name, help="the folder of a run")
    parser.add_flag("--last", "N", "how many of the newest checkpoints (default 5)", whole_number(1), default=5)
    parser.add_flag("--out", "FOLDER", "the model folder to write (default RUN/mean, which is replaced)", path_name)
    given = parser.parse(arguments)
    mean = average_run(given.run, given.last, given.out)
    say(f"averaged the checkpoints after steps {', '.join(map(str, mean.steps))}")
    print(mean.folder)
    return 0

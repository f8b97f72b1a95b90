"""``dragoman average RUN``: write the mean of the last checkpoints of a run as a model folder."""

from dragoman.bundle.card import read_card
from dragoman.cli.arguments import ArgumentParser, Options, path_name, whole_number
from dragoman.display import say
from dragoman.workflows.runs import average_run


def run(options: Options) -> None:
    """Print the path of the new model folder."""
    mean = average_run(options.run, options.last, options.out)
    say(f"averaged the checkpoints after steps {', '.join(map(str, read_card(mean).averaged_steps))}")
    print(mean)


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman average``."""
    parser = ArgumentParser("average", "dragoman average run --last 10 --out averaged")
    parser.add_argument("run", metavar="RUN", type=path_name, help="Folder of a run")
    parser.add_flag("--last", "N", "Newest checkpoints to average [default: 5]", whole_number(1), default=5)
    parser.add_flag("--out", "FOLDER", "Model folder to write [default: RUN/mean, replaced if it exists]", path_name)
    return parser

"""``dragoman average RUN``: the mean of a run's last checkpoints as a model of its own."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dragoman.bundle import load_bundle, save_bundle
from dragoman.cli.arguments import ArgumentParser
from dragoman.cli.models import say
from dragoman.errors import CheckpointError, ConfigError
from dragoman.files import check_new_folder
from dragoman.train.averaging import averaged_weights
from dragoman.train.checkpoint import RunFolder, set_weights


def run(arguments: Sequence[str]) -> int:
    """Prints the new model folder on stdout."""
    parser = ArgumentParser("average", "Averages the weights of a run's checkpoints into a model.")
    parser.add_argument("run", metavar="RUN", type=Path, help="the folder of a run")
    parser.add_argument("--last", metavar="N", type=int, default=5, help="how many checkpoints, the newest (default 5)")
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, help="the model folder to write (default RUN/mean, which is replaced)"
    )
    given = parser.parse(arguments)
    if given.last < 1:
        raise ConfigError(f"`--last` must be at least 1, but is {given.last}.")
    folder = RunFolder(given.run)
    steps = folder.steps()[-given.last :]
    if not steps:
        raise CheckpointError(f"{given.run} has no checkpoints. Name the folder of a run of `dragoman train`.")
    out = given.out or folder.path / "mean"
    if given.out is not None:
        check_new_folder(out)
    folders = [folder.step_folder(step) for step in steps]
    bundle = load_bundle(folders[-1], "cpu")
    set_weights(bundle.model, averaged_weights(folders, bundle.model))
    save_bundle(replace(bundle, card=replace(bundle.card, averaged_steps=tuple(steps), scores=())), out)
    say(f"averaged the checkpoints after steps {', '.join(map(str, steps))}")
    print(out)
    return 0

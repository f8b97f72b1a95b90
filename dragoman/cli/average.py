"""``dragoman average RUN``: the mean of a run's last checkpoints as a model of its own."""

from collections.abc import Sequence
from dataclasses import replace

from dragoman.cli.arguments import ArgumentParser, path_name, whole_number
from dragoman.errors import CheckpointError
from dragoman.files import check_new_folder
from dragoman.messages import say
from dragoman.workflows.models import require_model


def run(arguments: Sequence[str]) -> int:
    """Prints the new model folder on stdout."""
    parser = ArgumentParser("average", "Averages the weights of a run's checkpoints into a model.")
    parser.add_argument("run", metavar="RUN", type=path_name, help="the folder of a run")
    parser.add_flag("--last", "N", "how many of the newest checkpoints (default 5)", whole_number(1), default=5)
    parser.add_flag("--out", "FOLDER", "the model folder to write (default RUN/mean, which is replaced)", path_name)
    given = parser.parse(arguments)
    require_model(given.run)
    from dragoman.model.trained import TrainedModel  # torch: only once the arguments are right
    from dragoman.training.averaging import averaged_weights
    from dragoman.training.run.checkpoint import RunFolder, set_weights

    folder = RunFolder(given.run)
    steps = folder.steps()[-given.last :]
    if not steps:
        raise CheckpointError(f"{given.run} has no checkpoints. Name the folder of a run of `dragoman train`.")
    out = given.out or folder.path / "mean"
    if given.out is not None:
        check_new_folder(out)
    folders = [folder.step_folder(step) for step in steps]
    trained = TrainedModel.load(folders[-1], "cpu")
    set_weights(trained.model, averaged_weights(folders, trained.model))
    replace(trained, card=replace(trained.card, averaged_steps=tuple(steps), scores=())).save(out)
    say(f"averaged the checkpoints after steps {', '.join(map(str, steps))}")
    print(out)
    return 0

"""Looking at one translation from inside the model."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.config import WITHOUT_SAMPLING, Config, read_config
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.workflows.models import find_folder, require_model
from dragoman.workflows.progress import QUIET, Progress

if TYPE_CHECKING:
    from dragoman.visualization.inspection.inspection import Inspection


@dataclass(frozen=True, slots=True)
class InspectionRequest:
    """A model folder or run, and a text to translate, or the number of a test sentence of the run, from 1.

    `overrides` are settings of the search by key as text.
    """

    model: str
    text: str = ""
    test_sentence: int | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    device: str = "auto"


def inspect_model(request: InspectionRequest, progress: Progress = QUIET) -> "Inspection":
    """Translate the text and keep what happens inside the model. Raises ConfigError, DataError, ModelError."""
    text, reference = request.text, ""
    if request.test_sentence is not None:
        text, reference = _test_sentence(Path(request.model), request.test_sentence)
    if not text.strip():
        raise DataError("the text is empty. Give a sentence to look at, in quotes.")
    require_model(request.model)
    from dragoman.model.trained import TrainedModel
    from dragoman.visualization.inspection.inspector import inspect_text

    folder = find_folder(request.model, progress)
    trained = TrainedModel.load(folder, request.device)
    own = trained.config.inference
    if own.sample or own.mbr_samples:
        progress.note(f"{folder} is looked at in beam search, though it draws its translations")
    searched = Config(inference=replace(own, n_best=1, **WITHOUT_SAMPLING))
    settings = read_config([], request.overrides, searched).config.inference
    return inspect_text(trained, text, settings, name=str(folder), reference=reference)


def _test_sentence(run: Path, number: int) -> tuple[str, str]:
    """The text and its reference. Raises ModelError if the run has no test sentences, ConfigError if it has fewer."""
    from dragoman.data.store import PairStore

    folder = run / "data" / "test"
    if not folder.is_dir():
        raise ModelError(
            f"{run} has no test sentences: it is no run, or was trained without `data.test` and `data.test_fraction`. "
            "Give a text instead."
        )
    store = PairStore(folder)
    if not 1 <= number <= len(store):
        raise ConfigError(f"`--test` must be from 1 to {len(store)}, the test sentences of {run}, but is {number}.")
    return store.src_text(number - 1), store.tgt_text(number - 1)

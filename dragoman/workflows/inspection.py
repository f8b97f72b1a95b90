"""One translation from inside the model: attention, probabilities and search (`dragoman inspect`).

The measurements are in `dragoman.visualization.inspection`; this module finds the model and the text.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.bundle import resolve_model_folder
from dragoman.config import WITHOUT_SAMPLING, Config, read_config
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.workflows.models import ModelRequest, load_trained
from dragoman.workflows.progress import QUIET, Progress

if TYPE_CHECKING:
    from dragoman.visualization.inspection.inspection import Inspection


@dataclass(frozen=True, slots=True)
class InspectionRequest:
    """A model and a text to inspect.

    Parameters
    ----------
    model
        One model, and the settings of the search.
    text
        The text to translate.
    test_sentence
        Number of a sentence of the run's test set, counted from 1. It replaces `text`, and its reference is shown.
    """

    model: ModelRequest
    text: str = ""
    test_sentence: int | None = None


def inspect_model(request: InspectionRequest, progress: Progress = QUIET) -> "Inspection":
    """Translate a text with beam search, and record what happens inside the model.

    Parameters
    ----------
    request
        The model and the text.
    progress
        Receives notes about the model folder and the search.

    Returns
    -------
    Inspection
        The tokens, attention weights, probabilities and beams of the translation.

    Raises
    ------
    ConfigError
        If a setting is invalid, or if the run has no test sentence with this number.
    DataError
        If the text is empty.
    ModelError
        If the model is missing or damaged, or if the run has no test sentences.
    """
    text, reference = request.text, ""
    if request.test_sentence is not None:
        text, reference = _test_sentence(Path(request.model.paths[0]), request.test_sentence)
    if not text.strip():
        raise DataError("the text is empty. Give a sentence to inspect, in quotes.")
    model = load_trained(request.model, progress)[0]
    from dragoman.visualization.inspection.inspector import inspect_text

    name = str(resolve_model_folder(Path(request.model.paths[0]))) if request.model.paths else "the model"
    own = model.config.inference
    if own.sample or own.mbr_samples:
        progress.note(f"inspecting {name} with beam search, although its settings sample translations")
    searched = Config(inference=replace(own, n_best=1, **WITHOUT_SAMPLING))
    settings = read_config([], request.model.overrides, searched).config.inference
    return inspect_text(model, text, settings, name=name, reference=reference)


def _test_sentence(run: Path, number: int) -> tuple[str, str]:
    """Return a test sentence of a run and its reference. `number` counts from 1.

    Raises ModelError if the run has no test sentences, and ConfigError if it has fewer than `number`.
    """
    from dragoman.data.store import PairStore

    folder = run / "data" / "test"
    if not folder.is_dir():
        raise ModelError(
            f"{run} has no test sentences: it is not a run, or was trained without `data.test` and "
            "`data.test_fraction`. Give a text instead."
        )
    store = PairStore(folder)
    if not 1 <= number <= len(store):
        raise ConfigError(f"`--test` must be from 1 to {len(store)}, the test sentences of {run}, but is {number}.")
    return store.src_text(number - 1), store.tgt_text(number - 1)

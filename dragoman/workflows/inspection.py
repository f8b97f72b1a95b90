"""Look into a model: the summary of its parts, and one translation from inside."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.bundle import Card, Model, resolve_model_folder
from dragoman.config import WITHOUT_SAMPLING, Config, read_config, read_given
from dragoman.config.loading import flag_of
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.model.shapes import ParameterTable, expected_parameters, parameter_rows
from dragoman.workflows.models import ModelRequest, load_models, require_model
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
    model = load_models(request.model, progress)[0]
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


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """What to summarize: a model folder or a run, or a configuration.

    Parameters
    ----------
    path
        A model folder, a run or a TOML file. None for a configuration of `overrides` alone.
    overrides
        Settings of a configuration as text by key, such as ``model.preset``.
    src_vocab_size, tgt_vocab_size
        Entries of the vocabularies of a configuration. 0 for `tokenizer.vocab_size`.
    """

    path: Path | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    src_vocab_size: int = 0
    tgt_vocab_size: int = 0


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """All parameters, their number by the formula, the configuration, and the card of a trained model."""

    rows: ParameterTable
    formula: int
    config: Config
    card: Card | None

    @property
    def total(self) -> int:
        """The number of parameters."""
        return self.rows.total


def summarize_model(request: SummaryRequest, progress: Progress = QUIET) -> ModelSummary:
    """List the parameters of a model. A quantized model has the parameters of the model that it was made from.

    Parameters
    ----------
    request
        The model or the configuration.
    progress
        Receives a note if a configuration does not set the size of the model.

    Raises
    ------
    ConfigError
        If the configuration is invalid, or if the request changes settings of a trained model.
    ModelError
        If the model is missing or damaged.
    """
    path = request.path
    if path is not None and path.suffix != ".toml":
        require_model(path)
    card = None
    if path is not None and (path.is_dir() or path.suffix != ".toml"):
        _refuse_settings(path, request)
        model = Model.load(resolve_model_folder(path), "cpu")  # compares the tensors with the settings
        config, card = model.config, model.card
        sizes = model.tokenizers.src.vocab_size, model.tokenizers.tgt.vocab_size
    else:
        config, sizes = _configuration(request, progress)
    return ModelSummary(parameter_rows(config.model, *sizes), expected_parameters(config.model, *sizes), config, card)


def _refuse_settings(path: Path, request: SummaryRequest) -> None:
    """Raise ConfigError for settings of a configuration, because a trained model cannot change."""
    sizes = {"--src-vocab-size": request.src_vocab_size, "--tgt-vocab-size": request.tgt_vocab_size}
    if flags := [*map(flag_of, request.overrides), *(flag for flag, size in sizes.items() if size)]:
        raise ConfigError(f"`{flags[0]}` is for a configuration, but {path} is a trained model. Leave it out.")


def _configuration(request: SummaryRequest, progress: Progress) -> tuple[Config, tuple[int, int]]:
    """The configuration and the sizes of its vocabularies. Raises ConfigError for contradicting sizes."""
    given = read_given([request.path] if request.path else [], request.overrides)
    base = Config().model
    if not given.unchecked_over(Config()).tokenizer.joint:
        base = replace(base, tie="decoder")  # as in every recipe
    config = given.over(Config(model=base)).config
    one_size = (request.src_vocab_size or request.tgt_vocab_size) if config.model.tie == "all" else 0
    src_size = request.src_vocab_size or one_size or config.tokenizer.vocab_size
    tgt_size = request.tgt_vocab_size or one_size or config.tokenizer.vocab_size
    if config.model.tie == "all" and src_size != tgt_size:
        raise ConfigError(
            f'`--src-vocab-size` and `--tgt-vocab-size` must be equal if `model.tie` is "all", but are {src_size} and '
            f"{tgt_size}. Give one size, or `--model.tie decoder`."
        )
    if not given.keys & {"model.preset", "model.d_model"}:
        progress.note(
            "the size of the model is not given: this is the default; `train` chooses a size by the amount of text"
        )
    return config, (src_size, tgt_size)

"""Loading the models that a workflow uses."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.config import Config, InferenceSettings, read_config, read_given
from dragoman.errors import ConfigError, ModelError
from dragoman.workflows.progress import QUIET, Progress

if TYPE_CHECKING:
    from dragoman.inference.translator import Translator
    from dragoman.model.trained import TrainedModel

ENGINES = ("dragoman", "ctranslate2")


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A model folder or run, or several as an ensemble, and how to translate with it.

    `overrides` are settings by key as text, such as ``inference.beam_size``. `hint` is added to the error about a path
    that does not exist.
    """

    paths: tuple[str, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)
    device: str = "auto"
    engine: str = ENGINES[0]
    hint: str = ""

    def check(self) -> None:
        """Raise ConfigError for overrides that no model could have, before time goes into loading one."""
        read_given([], self.overrides)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A translator, its settings with the overrides applied, the overrides alone, and the languages or ""."""

    translator: "Translator"
    settings: InferenceSettings
    overrides: dict[str, Any]
    tgt_lang: str
    src_lang: str = ""


def require_model(path: str | Path, hint: str = "") -> None:
    """Raise ModelError, with `hint` after it, if nothing is at a path: before time goes into imports."""
    if not os.path.exists(path):
        raise ModelError(f"{path} does not exist. Name a model folder, or a run of `dragoman train`.{hint}")


def find_folder(path: str | Path, progress: Progress = QUIET) -> Path:
    """The model folder at a path, which may be a run. Notes which folder of a run it is. Raises ModelError."""
    from dragoman.bundle import resolve_model_folder

    folder = resolve_model_folder(Path(path))
    if folder != Path(path):
        progress.note(f"the model is {folder}")
    return folder


def load_model(request: ModelRequest, progress: Progress = QUIET) -> LoadedModel:
    """Load the models and make their translator. Notes which folder of a run it takes.

    Raises ModelError, and ConfigError for what the engine cannot do.
    """
    for path in request.paths:
        require_model(path, request.hint)
    from dragoman.devices.device import keep_freed_memory
    from dragoman.inference.translator import Translator
    from dragoman.model.trained import TrainedModel

    keep_freed_memory()
    folders = [find_folder(path, progress) for path in request.paths]
    trained_models = [TrainedModel.load(folder, request.device) for folder in folders]
    loaded = read_config([], request.overrides, Config(inference=trained_models[0].config.inference))
    settings = loaded.config.inference
    if request.engine == "ctranslate2":
        translator = _with_ctranslate2(trained_models, settings)
    else:
        translator = Translator.from_trained(trained_models)
    names = sorted(key.removeprefix("inference.") for key in loaded.given)
    card, data = trained_models[0].card, trained_models[0].config.data
    src_lang, tgt_lang = card.src_lang or data.src_lang, card.tgt_lang or data.tgt_lang
    return LoadedModel(translator, settings, {name: getattr(settings, name) for name in names}, tgt_lang, src_lang)


def _with_ctranslate2(trained_models: "Sequence[TrainedModel]", settings: InferenceSettings) -> "Translator":
    from dragoman.exchange.ctranslate2_engine import ctranslate2_translator

    if len(trained_models) > 1:
        raise ConfigError(
            f"`--engine` is ctranslate2, which takes one model, but here are {len(trained_models)}. Name one."
        )
    return ctranslate2_translator(trained_models[0], settings.precision)

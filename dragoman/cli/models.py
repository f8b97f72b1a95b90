"""What every verb that uses a model has in common: its flags, loading it, and saying which one it was."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from dragoman.cli.arguments import ArgumentParser, overrides_of
from dragoman.config import Config, InferenceSettings, read_config, read_given
from dragoman.errors import ConfigError, ModelError
from dragoman.messages import say

if TYPE_CHECKING:
    from dragoman.inference.translator import Translator
    from dragoman.model.trained import TrainedModel


ENGINES = ("dragoman", "ctranslate2")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A translator, its settings with the flags applied, what the flags gave, and the languages or ""."""

    translator: "Translator"
    settings: InferenceSettings
    overrides: dict[str, Any]
    tgt_lang: str
    src_lang: str = ""


def add_model_flags(parser: ArgumentParser, without: Sequence[str] = ()) -> None:
    """``--device`` and the settings of the search, but for the keys in `without`."""
    parser.add_device()
    parser.add_settings("inference", without=without, defaults_from="the model's own")


def require_model(path: str | Path, hint: str = "") -> None:
    """Raises ModelError, with `hint` after it, where nothing is at a path: before time goes into imports."""
    if not os.path.exists(path):
        raise ModelError(f"{path} does not exist. Name a model folder, or a run of `dragoman train`.{hint}")


def check_search_flags(options: argparse.Namespace) -> None:
    """Raises ConfigError for flags whose values no model could have, before time goes into loading one."""
    read_given([], overrides_of(options))


def load_model(
    paths: Sequence[str], options: argparse.Namespace, engine: str = ENGINES[0], hint: str = ""
) -> LoadedModel:
    """One model, or several as an ensemble; says on stderr which folder of a run it took.

    Raises ModelError, with `hint` after it where nothing is at a path, and ConfigError for what the engine cannot do.
    """
    for path in paths:
        require_model(path, hint)
    from dragoman.bundle import resolve_model_folder
    from dragoman.devices.device import keep_freed_memory
    from dragoman.inference.translator import Translator
    from dragoman.kernels.compiling import announce_compiling
    from dragoman.model.trained import TrainedModel

    keep_freed_memory()
    folders = [resolve_model_folder(Path(path)) for path in paths]
    for path, folder in zip(paths, folders, strict=True):
        if folder != Path(path):
            say(f"the model is {folder}")
    trained_models = [TrainedModel.load(folder, options.device) for folder in folders]
    loaded = read_config([], overrides_of(options), Config(inference=trained_models[0].config.inference))
    settings = loaded.config.inference
    if engine == "ctranslate2":
        translator = _with_ctranslate2(trained_models, settings)
    else:
        translator = Translator.from_trained(trained_models)
        announce_compiling()
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


def standard_input() -> BinaryIO:
    """The binary stream of standard input. Raises ConfigError if it is closed."""
    if cast(TextIO | None, sys.stdin) is None:
        raise ConfigError("standard input is closed. Redirect a file to it, or name one with `--input`.")
    return sys.stdin.buffer

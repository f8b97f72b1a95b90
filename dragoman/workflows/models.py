"""Models of a workflow or a command: loading, and import from and export to other programs.

The checks that need no imports come first, so that a misspelt path is an error at once.
"""

import os
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dragoman.config import Config, load_config, read_given
from dragoman.errors import ConfigError, ModelError
from dragoman.files import check_new_folder, sibling_path
from dragoman.workflows.progress import QUIET, Progress

if TYPE_CHECKING:
    from dragoman.bundle import Model
    from dragoman.exchange.ctranslate2_export import Quantization
    from dragoman.inference.translator import Translator


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A model, and how to translate with it.

    Parameters
    ----------
    paths
        A model folder or a run, or several for an ensemble.
    overrides
        Settings by key, as text, such as ``{"inference.beam_size": "4"}``.
    device
        "auto", "cpu", "cuda" or another device of torch.
    hint
        A sentence to append to the error about a path that does not exist.
    translator
        A loaded translator instead of `paths` and `device`.

    Raises
    ------
    ConfigError
        If an override is invalid for every model.
    """

    paths: tuple[str, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)
    device: str = "auto"
    hint: str = ""
    translator: "Translator | None" = None

    def __post_init__(self) -> None:
        read_given([], self.overrides)


@dataclass(frozen=True, slots=True)
class LoadedTranslator:
    """A translator with the settings of the model and of the user, and its languages.

    Parameters
    ----------
    translator
        The translator.
    src_lang, tgt_lang
        Language codes from the model's card or settings, or "".
    """

    translator: "Translator"
    src_lang: str = ""
    tgt_lang: str = ""


def require_model(path: str | Path, hint: str = "") -> None:
    """Raise ModelError if a path does not exist, without slow imports. `hint` is appended to the error."""
    if os.path.exists(path):
        return
    from dragoman.bundle import is_built_in

    if not is_built_in(path):
        raise ModelError(f"{path} does not exist. Name a model folder, a run of `dragoman train`, or `demo`.{hint}")


def find_folder(path: str | Path, progress: Progress = QUIET) -> Path:
    """Return the model folder at a path, which may be a run. Notes the folder of a run. Raises ModelError."""
    from dragoman.bundle import resolve_model_folder

    folder = resolve_model_folder(Path(path))
    if folder != Path(path):
        progress.note(f"the model is {folder}")
    return folder


def load_model(request: ModelRequest, progress: Progress = QUIET) -> LoadedTranslator:
    """Load a model, or several as an ensemble, with its translator.

    Parameters
    ----------
    request
        The model, its device, and the settings to override.
    progress
        Receives a note about the model folder that is used of a run.

    Returns
    -------
    LoadedTranslator
        The translator with its languages. The settings of the request replace those of the model.

    Raises
    ------
    ModelError
        If a model is missing or damaged, or if the models of an ensemble do not fit together.
    ConfigError
        If a setting is invalid.

    Examples
    --------
    >>> model = load_model(ModelRequest(("run",), device="cpu"))
    >>> model.translator.translate(["Where is the station?"])
    """
    models, translator = load_models(request, progress), request.translator
    first = models[0]
    own = first.config.inference if translator is None else translator.settings
    settings = load_config([], request.overrides, Config(inference=own)).inference
    if translator is None:
        from dragoman.engines.choice import check_engine
        from dragoman.inference.translator import Translator

        translator = Translator.from_models(models)
        check_engine([model.weights for model in models], settings)
    translator = copy(translator)  # the caller's own keeps its settings
    translator.settings = settings
    card, data = first.card, first.config.data
    return LoadedTranslator(translator, card.src_lang or data.src_lang, card.tgt_lang or data.tgt_lang)


def load_models(request: ModelRequest, progress: Progress = QUIET) -> "Sequence[Model]":
    """Load the models of a request, or return those of its translator. Raises ModelError."""
    if request.translator is not None:
        return request.translator.models or [request.translator.model]
    for path in request.paths:
        require_model(path, request.hint)
    from dragoman.bundle import Model

    return [Model.load(find_folder(path, progress), request.device) for path in request.paths]


def convert_model(model: str, out: str | os.PathLike[str] | None = None, progress: Progress = QUIET) -> Path:
    """Convert a Marian (OPUS-MT) model in Hugging Face format into a model folder.

    Parameters
    ----------
    model
        A folder, or a name on the Hugging Face hub such as ``Helsinki-NLP/opus-mt-de-en``.
    out
        The model folder to write. By default, ``models/NAME``.
    progress
        Receives notes about the download and the conversion.

    Returns
    -------
    Path
        The model folder.

    Raises
    ------
    ModelError
        If `out` exists, or if the model is missing, damaged or not supported.
    """
    from dragoman.exchange.marian import import_marian

    name = Path(model).resolve().name
    path = check_new_folder(Path("models") / name if out is None else out)
    folder = _find_marian(model, progress)
    imported = import_marian(folder, name if folder == Path(model) else model)
    imported.model.save(path)
    for note in imported.notes:
        progress.note(note)
    return path


def _find_marian(model: str, progress: Progress) -> Path:
    from dragoman.exchange.hub import fetch_model, is_hub_name

    if Path(model).is_dir():
        return Path(model)
    if Path(model).exists() or not is_hub_name(model):
        raise ModelError(
            f"{model} is not a folder. Give the folder of a Marian model in Hugging Face format, or its name on the "
            "hub, such as Helsinki-NLP/opus-mt-de-en."
        )
    progress.note(f"downloading {model}")
    return fetch_model(model)


def export_model(
    request: ModelRequest,
    to: Literal["int8", "ctranslate2", "marian"],
    out: str | os.PathLike[str] | None = None,
    quantization: "Quantization" = "float32",
    embeddings: Literal["float32", "int8"] = "float32",
    progress: Progress = QUIET,
) -> Path:
    """Write a model with int8 weights, for CTranslate2, or in the Hugging Face format of Marian.

    Parameters
    ----------
    request
        One model, or a loaded translator.
    to
        The format. "int8" is a model folder whose matrices are stored as integers.
    out
        The folder to write. By default, the path of the model with ``-`` and the format after it.
    quantization
        The number format of the weights for CTranslate2.
    embeddings
        The number format of the embeddings for "int8". With float32, the model translates exactly as the original does
        with int8. With int8, it is smaller.
    progress
        Receives notes about the model folder, and about what a format cannot hold.

    Returns
    -------
    Path
        The new folder.

    Raises
    ------
    ConfigError
        If `quantization` or `embeddings` does not fit the format.
    ModelError
        If `out` exists, or if the model is missing, damaged, or cannot be written in this format.
    """
    for flag, value, fitting in (("quantization", quantization, "ctranslate2"), ("embeddings", embeddings, "int8")):
        if to != fitting and value != "float32":
            raise ConfigError(f"`--{flag}` is for {fitting}, but `--to` is {to}. Leave it out.")
    if out is None and not request.paths:
        raise ConfigError("`--out` is missing. Name the folder to write, because a loaded translator has no path.")
    folder = check_new_folder(sibling_path(Path(request.paths[0]), f"-{to}") if out is None else out)
    loaded = request.translator.model if request.translator else load_models(request, progress)[0]
    if to == "int8":
        loaded.quantize("int8", embeddings == "int8").save(folder)
        return folder
    from dragoman.exchange.ctranslate2_export import export_ctranslate2
    from dragoman.exchange.marian import export_marian

    if to == "marian":
        for note in export_marian(loaded, folder):
            progress.note(note)
    else:
        export_ctranslate2(loaded, folder, quantization)
    return folder

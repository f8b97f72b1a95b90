"""Convert models from and to the formats of other toolkits."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dragoman.bundle import Model
from dragoman.errors import ConfigError, ModelError
from dragoman.files import check_new_folder, sibling_path
from dragoman.workflows.models import find_folder, require_model
from dragoman.workflows.progress import QUIET, Progress

if TYPE_CHECKING:
    from dragoman.exchange.ctranslate2_export import Quantization


def import_model(model: str, out: Path | None = None, progress: Progress = QUIET) -> Path:
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
    from dragoman.exchange.marian_import import import_marian

    name = Path(model).resolve().name
    path = out or Path("models") / name
    check_new_folder(path)
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
    model: str | Path,
    to: Literal["int8", "ctranslate2", "marian"],
    out: Path | None = None,
    quantization: "Quantization" = "float32",
    embeddings: Literal["float32", "int8"] = "float32",
    progress: Progress = QUIET,
) -> Path:
    """Write a model with int8 weights, for CTranslate2, or in the Hugging Face format of Marian.

    Parameters
    ----------
    model
        A model folder or a run.
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
    folder = out or sibling_path(Path(model), f"-{to}")
    check_new_folder(folder)
    require_model(model)
    loaded = Model.load(find_folder(model, progress), "cpu")
    if to == "int8":
        loaded.quantize("int8", embeddings == "int8").save(folder)
        return folder
    from dragoman.exchange.ctranslate2_export import export_ctranslate2
    from dragoman.exchange.marian_export import export_marian

    if to == "marian":
        for note in export_marian(loaded, folder):
            progress.note(note)
    else:
        export_ctranslate2(loaded, folder, quantization)
    return folder

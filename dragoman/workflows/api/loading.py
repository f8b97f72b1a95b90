"""`dragoman.load`, apart from the other functions, so that a program that only translates starts quickly."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dragoman.errors import ModelError
from dragoman.files import hash_json, sha256_of, user_cache_folder
from dragoman.workflows.api.keywords import check_path, naming_keywords
from dragoman.workflows.api.notebook import default_progress, show_counts_in_notebooks

if TYPE_CHECKING:
    from dragoman.inference.translator import Translator
    from dragoman.workflows.api.run import Run
    from dragoman.workflows.training.settings import RunRequest

PathName: TypeAlias = str | os.PathLike[str]


@naming_keywords()
def load(model: "PathName | Run", *models: "PathName | Run", device: str = "auto") -> "Translator":
    """Load a translator: from a model folder, from a run, or from the Hugging Face hub.

    Parameters
    ----------
    model : str, Path or Run
        A model folder, a run, the folder of a Marian (OPUS-MT) model in Hugging Face format, or ``owner/name`` of such
        a model on the hub, which needs the extra ``hub``. A Marian model is imported once, into ``~/.cache/dragoman``.
    *models
        Further models with the same tokenizers. Together they are an ensemble.
    device : str
        Name of a torch device. "auto" takes the first of cuda, mps and cpu.

    Returns
    -------
    Translator

    Raises
    ------
    ModelError
        If a model is missing or damaged, or if the models of an ensemble have different tokenizers.

    Examples
    --------
    >>> translator = load("run")
    >>> translator("Where is the station?")
    'Wo ist der Bahnhof?'
    """
    from dragoman.inference.translator import Translator

    show_counts_in_notebooks()
    return Translator.load_ensemble([_folder_of(each) for each in (model, *models)], device)


def _folder_of(model: "PathName | Run") -> Path:
    """The folder of a model. A model of the hub is imported first. Raises ModelError."""
    path = check_path("model", model, ", a run, or a model of the hub as owner/name")
    from dragoman.bundle import is_built_in

    if path.exists() or not isinstance(model, str | Path) or is_built_in(path):
        return imported_folder(path)
    from dragoman.exchange.hub import is_hub_name

    name = path.as_posix()
    if not is_hub_name(name):
        raise ModelError(f"{path} does not exist. Name a model folder, a run, or a model of the hub as owner/name.")
    return _cached(name, name.replace("/", "--"))


def imported_folder(path: Path) -> Path:
    """The path, or if it is a Marian model in Hugging Face format, the model folder that it is imported into.

    The folder is in the user's cache. Its name has the hash of the model's files. A pickle is refused, because only
    `dragoman.import_model` may read it. Raises ModelError.
    """
    from dragoman.bundle import is_hugging_face

    if not is_hugging_face(path):
        return path
    from dragoman.exchange.hub import FILES
    from dragoman.exchange.marian_weights import PICKLED, SAFETENSORS

    if (path / PICKLED).is_file() and not (path / SAFETENSORS).is_file():
        raise ModelError(
            f"{path} has its weights in {PICKLED}, a pickle, which is not read automatically. Import it: "
            f'`dragoman.import_model("{path}", "FOLDER")`, and load the folder.'
        )
    files = sorted(file for pattern in (*FILES, SAFETENSORS) for file in path.glob(pattern) if file.is_file())
    digest = hash_json([(file.name, sha256_of(file)) for file in files])[:16]
    return _cached(str(path), f"{path.resolve().name}-{digest}")


def import_start(request: "RunRequest") -> "RunRequest":
    """The request for a run, which starts from the model folder that a Marian model is imported into."""
    if not (start := request.overrides.get("train.start_from")):
        return request
    imported = {"train.start_from": str(imported_folder(Path(start)))}
    return replace(request, overrides={**request.overrides, **imported})


def _cached(model: str, name: str) -> Path:
    """The folder in the user's cache that holds a Marian model, which is imported if it is not there yet."""
    from dragoman.workflows.models import convert_model

    folder = user_cache_folder("models") / name
    if not folder.exists():
        progress = default_progress()
        progress.note(f"importing {model}, once, into {folder}")
        convert_model(model, folder, progress)
    return folder

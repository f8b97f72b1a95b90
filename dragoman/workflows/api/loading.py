"""`dragoman.load`, apart from the other functions, so that a program that only translates starts quickly."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dragoman.errors import ModelError
from dragoman.files import user_cache_folder
from dragoman.workflows.api.keywords import check_path
from dragoman.workflows.api.notebook import default_progress, show_counts_in_notebooks

if TYPE_CHECKING:
    from dragoman.inference.translator import Translator
    from dragoman.workflows.api.run import Run

PathName: TypeAlias = str | os.PathLike[str]


def load(model: "PathName | Run", *models: "PathName | Run", device: str = "auto") -> "Translator":
    """Load a translator: from a model folder, from a run, or from the Hugging Face hub.

    Parameters
    ----------
    model : str, Path or Run
        A model folder, a run, or ``owner/name`` of a Marian (OPUS-MT) model on the hub. A model of the hub is imported
        once, into ``~/.cache/dragoman``. It needs the extra ``hub``.
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
        return path
    from dragoman.exchange.hub import is_hub_name
    from dragoman.workflows.models import import_model

    name = path.as_posix()
    if not is_hub_name(name):
        raise ModelError(f"{path} does not exist. Name a model folder, a run, or a model of the hub as owner/name.")
    folder = user_cache_folder("models") / name.replace("/", "--")
    if not folder.exists():
        import_model(name, folder, default_progress())
    return folder

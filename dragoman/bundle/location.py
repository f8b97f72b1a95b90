"""Find the model folder that a path refers to: itself, the best model of a run, or the target of a pointer file.

Every command that takes a model calls `resolve_model_folder`. A run (`training/run/run_folder.py`) has these entries:

- `averaged/`: a model folder with averaged weights, kept if they score at least as high as the best checkpoint.
- `best`, `last`: pointer files, one line with a path such as ``checkpoints/step_0012000``. They are files and not
  symbolic links, so that a run can be copied to any file system and packed into any archive.

A folder of another program is recognized by its files, so that the error can name the command to use.
"""

import contextlib
from pathlib import Path

from dragoman.errors import ModelError
from dragoman.files import MANIFEST

CTRANSLATE2_WEIGHTS = "model.bin"
_BUILT_IN = {"demo": Path(__file__).parents[1] / "demo" / "model"}
# What a run offers as its model, in order of preference. Averaged weights are only kept if they are not worse.
POINTERS = ("averaged", "best")
_HUGGING_FACE_CONFIG = "config.json"
# Characters read from a pointer: the usual limit on the length of a path.
_LONGEST_POINTER = 4096


def resolve_model_folder(path: Path) -> Path:
    """The model folder that `path` refers to: itself, or the averaged model of a run, else its best checkpoint.

    Parameters
    ----------
    path
        A model folder, a run, or a pointer file in a run. ``demo`` is the model that comes with Dragoman, unless the
        working directory has a ``demo`` of its own.

    Raises
    ------
    ModelError
        If there is no model. The message tells what `path` is instead, and what to do.
    """
    if is_built_in(path):
        return _BUILT_IN[str(path)]
    if not path.exists():
        raise ModelError(f"{path} does not exist. Name a model folder, a run of `dragoman train`, or `demo`.")
    if path.is_file():
        return _followed(path)
    if (path / CTRANSLATE2_WEIGHTS).is_file():
        raise ModelError(
            f"{path} is a model exported for CTranslate2. Name the model that it was exported from, or translate with "
            "CTranslate2 as its README.md shows."
        )
    if (path / MANIFEST).exists():
        return path
    for name in POINTERS:
        if (path / name).is_dir():
            return path / name
        if (path / name).is_file():
            return _followed(path / name)
    if (path / _HUGGING_FACE_CONFIG).is_file():
        raise ModelError(
            f"{path} is a model in Hugging Face format. Import it first: `dragoman import {path} --out MODEL`."
        )
    if (path / "checkpoints").is_dir():
        raise ModelError(f"{path} is a run without a finished validation, so it has no model yet. Let it train longer.")
    hint = "Name a folder that `dragoman train` wrote."
    if str(path) in _BUILT_IN:
        hint = f"It hides the model `{path}` that comes with Dragoman. Rename it, or work in another folder."
    raise ModelError(f"{path} is neither a model folder (it has no {MANIFEST}) nor a run. {hint}")


def is_built_in(path: str | Path) -> bool:
    """Whether a path names a model that comes with Dragoman."""
    return str(path) in _BUILT_IN and not Path(path).exists()


def _followed(pointer: Path) -> Path:
    """The folder that a pointer names: a one-line file with a path below its own folder.

    A path that leads out of that folder is refused, because a run may come from another person.
    """
    target, leads = pointer, False
    with contextlib.suppress(OSError, ValueError):  # another text file may be named by mistake
        with pointer.open(encoding="utf-8") as stream:
            target = (pointer.parent / stream.read(_LONGEST_POINTER).strip()).resolve()
        leads = (target / MANIFEST).exists() and target.is_relative_to(pointer.parent.resolve())
    if not leads:
        raise ModelError(
            f"{pointer} does not lead to a model folder. Name a model folder, or a run of `dragoman train`."
        )
    return target

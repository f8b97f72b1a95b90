"""Which model folder a path means: itself, a run, or a pointer file."""

import contextlib
from pathlib import Path

from dragoman.errors import ModelError
from dragoman.files import MANIFEST

CTRANSLATE2_WEIGHTS = "model.bin"
POINTERS = ("averaged", "best")
_HUGGING_FACE_CONFIG = "config.json"
_LONGEST_POINTER = 4096


def resolve_model_folder(path: Path) -> Path:
    """The model folder that `path` means: itself, or a run's averaged model, or else its best checkpoint.

    Raises ModelError where there is none.
    """
    if not path.exists():
        raise ModelError(f"{path} does not exist. Name a model folder, or a run of `dragoman train`.")
    if path.is_file():
        return _followed(path)
    if (path / CTRANSLATE2_WEIGHTS).is_file():
        raise ModelError(
            f"{path} is a model exported for CTranslate2. Name the model it was made from, with `--engine ctranslate2` "
            "where `dragoman translate` is to use CTranslate2."
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
            f"{path} is a model in Hugging Face form. Make one of ours of it: `dragoman import {path} --out MODEL`."
        )
    if (path / "checkpoints").is_dir():
        raise ModelError(f"{path} is a run without a finished validation. Let it train on, for there is no model yet.")
    raise ModelError(
        f"{path} is neither a model folder (it has no {MANIFEST}) nor a run. Name one that `dragoman train` wrote."
    )


def _followed(pointer: Path) -> Path:
    """A pointer is a one-line file that names a folder below its own."""
    target, leads = pointer, False
    with contextlib.suppress(OSError, ValueError):  # a text, given in place of a model, is no name of a file
        with pointer.open(encoding="utf-8") as stream:
            target = (pointer.parent / stream.read(_LONGEST_POINTER).strip()).resolve()
        leads = (target / MANIFEST).exists() and target.is_relative_to(pointer.parent.resolve())
    if not leads:
        raise ModelError(
            f"{pointer} does not lead to a model folder. Name a model folder, or a run of `dragoman train`."
        )
    return target

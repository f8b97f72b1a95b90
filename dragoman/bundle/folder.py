"""Find, write and read model folders. Reading executes nothing, and checks every file against the manifest first.

`Model.load` and `save` call this module, and so does every checkpoint, which is a model folder with two more
files. manifest.json, which `dragoman.files` writes last, has these keys:

| key | value |
|---|---|
| `files` | file name -> `bytes` and `sha256` |
| `format` | `FORMAT`, the version of the layout |
| `versions` | package -> version that wrote the folder |
| `sha256` | hash of the other keys |

A folder may have no other files. The checks find damage and mixed-up files, not forgery: the manifest has no signature.
An untrusted folder is safe to read because each part is parsed as data, within limits of size.

Every command that takes a model calls `resolve_model_folder`. A run (`training/run/run_folder.py`) has these entries:

- `averaged/`: a model folder with averaged weights, kept if they score at least as high as the best checkpoint.
- `best`, `last`: pointer files, one line with a path such as ``checkpoints/step_0012000``. They are files and not
  symbolic links, so that a run can be copied to any file system and packed into any archive.

A folder of another program is recognized by its files, so that the error can name the command to use.
"""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle.card import Card
from dragoman.bundle.weights import SCALE, WEIGHTS, is_embedding, read_weights, stored_precision
from dragoman.config import Config, config_from_dict, dump_config
from dragoman.config.checking import limit_folder
from dragoman.config.fields import quote_value
from dragoman.config.loading import MOST_TOML_BYTES, parse_toml
from dragoman.errors import ConfigError, ModelError
from dragoman.files import MANIFEST, VerifiedFolder, read_regular_file, verify_folder, write_folder
from dragoman.model.shapes import Arrays, Shapes
from dragoman.text.lexicon import LEXICON
from dragoman.version import __version__

FORMAT = 1
"""Version of the layout of a model folder. Raise it when earlier versions cannot read what this one writes."""
QUANTIZED_FORMAT = 2
"""Version of the layout of a model whose matrices are integers."""
SMALLEST_FORMAT = 3
"""Version of the layout of a model whose matrices and embeddings are integers."""
CONTROLS_FORMAT = 4
"""Version of the layout of a model whose tokenizer has control tokens of corpora, in any precision."""
# tests/data/models has a folder of each format, which later versions must read.
_CONFIG = "config.toml"
_ARRAYS = (".safetensors",)
"""Endings of the large files: the weights, and in a checkpoint the state of the optimizer."""
_MAX_BYTES = 64 << 20
"""Limit for every other file: three times the largest known tokenizer."""

_CTRANSLATE2_WEIGHTS = "model.bin"
_BUILT_IN = {"demo": Path(__file__).parents[1] / "demo" / "model"}
# What a run offers as its model, in order of preference. Averaged weights are only kept if they are not worse.
_POINTERS = ("averaged", "best")
_HUGGING_FACE_CONFIG = "config.json"
_OF_OTHERS = (_CONFIG, _CTRANSLATE2_WEIGHTS)
"""Files of a model folder, a run and a model for CTranslate2, which a model in Hugging Face format does not have."""
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
    if (path / _CTRANSLATE2_WEIGHTS).is_file():
        raise ModelError(
            f"{path} is a model exported for CTranslate2. Name the model that it was exported from, or translate with "
            "CTranslate2 as its README.md shows."
        )
    if is_hugging_face(path):  # before the manifest, which `dragoman export` adds to one
        raise ModelError(
            f"{path} is a model in Hugging Face format. Import it first: `dragoman import {path} --out MODEL`."
        )
    if (path / MANIFEST).exists():
        return path
    for name in _POINTERS:
        if (path / name).is_dir():
            return path / name
        if (path / name).is_file():
            return _followed(path / name)
    if (path / "checkpoints").is_dir():
        raise ModelError(f"{path} is a run without a finished validation, so it has no model yet. Let it train longer.")
    hint = "Name a folder that `dragoman train` wrote."
    if str(path) in _BUILT_IN:
        hint = f"It hides the model `{path}` that comes with Dragoman. Rename it, or work in another folder."
    raise ModelError(f"{path} is neither a model folder (it has no {MANIFEST}) nor a run. {hint}")


def is_built_in(path: str | Path) -> bool:
    """Whether a path names a model that comes with Dragoman."""
    return str(path) in _BUILT_IN and not Path(path).exists()


def is_in_package(folder: Path) -> bool:
    """Whether a folder is that of a model that comes with Dragoman."""
    return folder.resolve() in [built_in.resolve() for built_in in _BUILT_IN.values()]


def is_hugging_face(path: Path) -> bool:
    """Whether a path is the folder of a model in Hugging Face format."""
    return (path / _HUGGING_FACE_CONFIG).is_file() and not any((path / name).exists() for name in _OF_OTHERS)


def _followed(pointer: Path) -> Path:
    """The folder that a pointer names: a one-line file with a path below its own folder.

    A path that leads out of that folder is refused, because a run may come from another person.
    """
    target, leads = pointer, False
    with suppress(OSError, ValueError):  # another text file may be named by mistake
        with pointer.open(encoding="utf-8") as stream:
            target = (pointer.parent / stream.read(_LONGEST_POINTER).strip()).resolve()
        leads = (target / MANIFEST).exists() and target.is_relative_to(pointer.parent.resolve())
    if not leads:
        raise ModelError(
            f"{pointer} does not lead to a model folder. Name a model folder, or a run of `dragoman train`."
        )
    return target


def manifest_facts(version: int = FORMAT) -> dict[str, Any]:
    """The facts that a manifest records besides its files: format and versions.

    The version of torch is that of the installed package. It is left out where only translating is installed.
    """
    from importlib import metadata  # takes 2 MB, and reading needs no versions

    versions = {"dragoman": __version__}
    with suppress(metadata.PackageNotFoundError):
        versions["torch"] = metadata.version("torch")
    return {"format": version, "versions": versions}


def layout_version(arrays: Arrays) -> int:
    """The lowest version of the layout that holds these arrays."""
    if stored_precision(arrays) == "float32":
        return FORMAT
    return (
        SMALLEST_FORMAT if any(is_embedding(name) and name + SCALE in arrays for name in arrays) else QUANTIZED_FORMAT
    )


def replace_card(folder: Path, card: Card, config: Config | None = None, lexicon: bytes = b"") -> None:
    """Replace the card of a model folder, and its settings and lexicon if they are given. The other files stay.

    The folder is written again as a whole, so that a reader never sees a card that does not match the manifest. The
    manifest keeps its format and versions.

    Raises
    ------
    ModelError
        If the folder is damaged.
    """
    manifest = verify_folder(folder)
    facts = {name: value for name, value in manifest.items() if name != "files"}
    with write_folder(folder, facts) as temporary:
        for name in manifest["files"]:
            shutil.copyfile(folder / name, temporary / name)
        write_card(card, temporary)
        if config is not None:
            write_settings(config, temporary)
        if lexicon:
            (temporary / LEXICON).write_bytes(lexicon)


def write_settings(config: Config, folder: Path) -> None:
    """Write config.toml."""
    (folder / _CONFIG).write_text(dump_config(config), encoding="utf-8")


def write_card(card: Card, folder: Path) -> None:
    """Write card.json and card.md."""
    (folder / "card.json").write_text(card.to_json(), encoding="utf-8")
    (folder / "card.md").write_text(card.to_markdown(), encoding="utf-8")


def open_folder(folder: Path) -> VerifiedFolder:
    """Open a folder and check its manifest and its small files. Raises ModelError that names a damaged file."""
    return VerifiedFolder(folder, _ARRAYS, _MAX_BYTES)


def parse_settings(checked: VerifiedFolder) -> Config:
    """The settings of an open model folder. Raises ModelError, also for another format or if there are no weights."""
    folder = checked.path
    if (found := checked.manifest.get("format")) not in range(FORMAT, CONTROLS_FORMAT + 1):
        raise ModelError(
            f"{folder} has model format {quote_value(found)}, but this version of Dragoman reads {FORMAT} to "
            f"{CONTROLS_FORMAT}. Update Dragoman, or copy or download the model again."
        )
    if WEIGHTS not in checked.manifest["files"]:
        raise ModelError(f"{folder / WEIGHTS} is missing. Copy or download the model again.")
    return _settings_in(checked.read(_CONFIG), folder / _CONFIG)


def mean_weights(folders: Sequence[Path], shapes: Shapes) -> dict[str, NDArray[np.float32]]:
    """The mean of each parameter over some model folders, summed in float64.

    Parameters
    ----------
    folders
        At least one model folder.
    shapes
        The names and shapes that each must have.

    Raises
    ------
    ModelError
        If a folder is damaged or of another model. The message names the file.
    """
    sums: dict[str, NDArray[np.float64]] = {}
    for folder in folders:
        verify_folder(folder)
        for name, array in read_weights(folder / WEIGHTS, shapes).items():
            sums[name] = sums[name] + array if name in sums else array.astype(np.float64)
    return {name: (total / len(folders)).astype(np.float32) for name, total in sums.items()}


def read_settings(folder: Path) -> Config:
    """Read the settings of a model folder, without the manifest and the other files.

    Fine-tuning and distillation read the settings of their models before they load one. Raises ModelError.
    """
    path = folder / _CONFIG
    try:
        return _settings_in(read_regular_file(path, MOST_TOML_BYTES), path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from None
    except ConfigError as error:
        raise ModelError(str(error)) from None


def _settings_in(content: bytes, path: Path) -> Config:
    try:
        return limit_folder(config_from_dict(parse_toml(content, str(path)), str(path)), str(path))
    except ValueError as error:
        raise ModelError(f"{path} cannot be read: {error}.") from None
    except ConfigError as error:
        raise ModelError(str(error)) from None

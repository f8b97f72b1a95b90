"""Write and read model folders. Reading executes nothing, and checks every file against the manifest first.

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
"""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle.card import Card
from dragoman.bundle.weights import (
    SCALE,
    WEIGHTS,
    is_embedding,
    read_weights,
    stored_precision,
)
from dragoman.config import Config, config_from_dict, dump_config
from dragoman.config.checking import limit_folder
from dragoman.config.fields import quote_value
from dragoman.config.toml import MOST_TOML_BYTES, parse_toml
from dragoman.errors import ConfigError, ModelError
from dragoman.files import VerifiedFolder, read_regular_file, verify_folder, write_folder
from dragoman.model.shapes import Arrays, Shapes
from dragoman.version import __version__

FORMAT = 1
"""Version of the layout of a model folder. Raise it when earlier versions cannot read what this one writes."""
QUANTIZED_FORMAT = 2
"""Version of the layout of a model whose matrices are integers."""
SMALLEST_FORMAT = 3
"""Version of the layout of a model whose matrices and embeddings are integers."""
# tests/data/models has a folder of each format, which later versions must read.
_CONFIG = "config.toml"
_ARRAYS = (".safetensors",)
"""Endings of the large files: the weights, and in a checkpoint the state of the optimizer."""
_MAX_BYTES = 64 << 20
"""Limit for every other file: three times the largest known tokenizer."""


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


def replace_card(folder: Path, card: Card, config: Config | None = None) -> None:
    """Replace the card of a model folder, and its settings if `config` is set. The other files stay.

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


def check_format(checked: VerifiedFolder, folder: Path) -> None:
    """Raise ModelError if this version cannot read the format, or if there are no weights."""
    if (found := checked.manifest.get("format")) not in (FORMAT, QUANTIZED_FORMAT, SMALLEST_FORMAT):
        raise ModelError(
            f"{folder} has model format {quote_value(found)}, but this version of Dragoman reads {FORMAT} to "
            f"{SMALLEST_FORMAT}. "
            "Update Dragoman, or copy or download the model again."
        )
    if WEIGHTS not in checked.manifest["files"]:
        raise ModelError(f"{folder / WEIGHTS} is missing. Copy or download the model again.")


def parse_settings(checked: VerifiedFolder, folder: Path) -> Config:
    """The settings of an open model folder. Raises ModelError."""
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

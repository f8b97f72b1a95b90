"""Write and read model folders. Reading executes nothing, and checks every file against the manifest first.

`TrainedModel.load` and `save` call this module, and so does every checkpoint, which is a model folder with two more
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle.card import Card, read_card
from dragoman.bundle.parameters import Shapes, parameter_shapes
from dragoman.bundle.weights import (
    SCALE,
    WEIGHTS,
    Arrays,
    check_file_size,
    is_embedding,
    parse_weights,
    read_weights,
    stored_precision,
    write_tensors,
)
from dragoman.config import Config, config_from_dict, dump_config
from dragoman.config.checking import limit_folder
from dragoman.config.fields import quote_value
from dragoman.config.toml import MOST_TOML_BYTES, parse_toml
from dragoman.errors import ConfigError, ModelError, ResourceError
from dragoman.files import VerifiedFolder, read_regular_file, verify_folder, write_folder
from dragoman.text.tokenization.tokenizer import TokenizerPair
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


@dataclass(frozen=True, slots=True)
class Bundle:
    """A model as numpy arrays, with everything needed to translate text.

    Attributes
    ----------
    arrays
        Every distinct parameter by name, as in `parameter_shapes`.
    tokenizers
        The tokenizers of both sides, whose vocabulary sizes determine shapes of the arrays.
    config
        The settings: `config.model` describes the arrays, `config.inference` the default search.
    card
        The facts for people.
    """

    arrays: Arrays
    tokenizers: TokenizerPair
    config: Config
    card: Card
    fingerprint: str = ""
    """The beginning of the manifest's hash of the folder that was read, else ""."""
    folder: Path | None = None
    """The folder that was read, else None."""


def manifest_facts(version: int = FORMAT) -> dict[str, Any]:
    """The facts that a manifest records besides its files: format and versions.

    The version of torch is that of the installed package. It is left out where only translating is installed.
    """
    from importlib import metadata  # takes 2 MB, and reading needs no versions

    versions = {"dragoman": __version__}
    with suppress(metadata.PackageNotFoundError):
        versions["torch"] = metadata.version("torch")
    return {"format": version, "versions": versions}


def save_bundle(bundle: Bundle, folder: Path) -> None:
    """Write a model folder atomically. An existing folder is replaced.

    Raises ResourceError if the disk is full.
    """
    with write_folder(folder, manifest_facts(_format_of(bundle.arrays))) as temporary:
        write_bundle_files(bundle, temporary)


def _format_of(arrays: Arrays) -> int:
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
        _write_card(card, temporary)
        if config is not None:
            _write_config(config, temporary)


def write_bundle_files(bundle: Bundle, folder: Path) -> None:
    """Write the files of a model folder, without the manifest.

    A checkpoint adds its own files to `folder` afterwards. Both are inside `write_folder`, which writes the manifest.
    """
    _write_config(bundle.config, folder)
    _write_card(bundle.card, folder)
    bundle.tokenizers.save(folder)
    write_tensors(bundle.arrays, folder / WEIGHTS)


def _write_config(config: Config, folder: Path) -> None:
    (folder / _CONFIG).write_text(dump_config(config), encoding="utf-8")


def _write_card(card: Card, folder: Path) -> None:
    (folder / "card.json").write_text(card.to_json(), encoding="utf-8")
    (folder / "card.md").write_text(card.to_markdown(), encoding="utf-8")


def load_bundle(folder: Path) -> Bundle:
    """Read a model folder. The arrays are copies: the folder may change or disappear afterwards.

    Parameters
    ----------
    folder
        The model folder itself. `resolve_model_folder` finds it from a path of the user.

    Returns
    -------
    Bundle
        The model with its fingerprint.

    Raises
    ------
    ModelError
        If the format is another one, or a file is missing, damaged, or does not fit the others. The message names it.
    """
    checked = VerifiedFolder(folder, _ARRAYS, _MAX_BYTES)
    if (found := checked.manifest.get("format")) not in (FORMAT, QUANTIZED_FORMAT, SMALLEST_FORMAT):
        raise ModelError(
            f"{folder} has model format {quote_value(found)}, but this version of Dragoman reads {FORMAT} to "
            f"{SMALLEST_FORMAT}. "
            "Update Dragoman, or copy or download the model again."
        )
    path = folder / WEIGHTS
    if WEIGHTS not in checked.manifest["files"]:
        raise ModelError(f"{path} is missing. Copy or download the model again.")
    config = _settings_in(checked.read(_CONFIG), folder / _CONFIG)
    tokenizers = TokenizerPair.load(folder)
    try:
        shapes = parameter_shapes(config.model, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
    except ValueError as error:
        raise ModelError(
            f"{folder} has a config.toml that does not fit its tokenizer: {error}. Copy or download the model again."
        ) from None
    check_file_size(path, shapes)
    # The weights are hashed from the content that is parsed, so that a large file is read only once.
    try:
        arrays = parse_weights(checked.read(WEIGHTS), path, shapes)
    except MemoryError:
        size = f"{checked.manifest['files'][WEIGHTS]['bytes']:,}"
        raise ResourceError(f"{path} has {size} bytes, which do not fit into memory. Use a smaller model.") from None
    card = read_card(folder)
    VerifiedFolder(folder, _ARRAYS)  # nothing changed while the other files were read
    return Bundle(arrays, tokenizers, config, card, checked.fingerprint, folder.absolute())


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

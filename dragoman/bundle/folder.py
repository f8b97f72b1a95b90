"""Write and read model folders. Reading executes nothing, and checks every file against the manifest first."""

import shutil
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from dragoman.bundle.card import Card, read_card
from dragoman.bundle.parameters import parameter_shapes
from dragoman.bundle.weights import WEIGHTS, Arrays, check_file_size, parse_weights, write_tensors
from dragoman.config import Config, config_from_dict, dump_config
from dragoman.config.fields import quote_value
from dragoman.config.toml import parse_toml, toml_bytes
from dragoman.errors import ConfigError, ModelError
from dragoman.files import VerifiedFolder, verify_folder, write_folder
from dragoman.text.tokenization.tokenizer import TokenizerPair
from dragoman.version import __version__

FORMAT = 1
"""Version of the layout of a model folder. Raise it when earlier versions cannot read what this one writes."""
_CONFIG = "config.toml"
_MAX_BYTES = 64 << 20
"""Limit for every file except the weights: three times the largest known tokenizer."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A model as numpy arrays, with everything needed to translate text."""

    arrays: Arrays
    tokenizers: TokenizerPair
    config: Config
    card: Card
    fingerprint: str = ""
    """The beginning of the manifest's hash of the folder that was read, else ""."""


def manifest_facts() -> dict[str, Any]:
    """The facts that a manifest records besides its files: format and versions."""
    versions = {"dragoman": __version__}
    with suppress(PackageNotFoundError):
        versions["torch"] = installed_version("torch")
    return {"format": FORMAT, "versions": versions}


def save_bundle(bundle: Bundle, folder: Path) -> None:
    """Write a model folder atomically. An existing folder is replaced."""
    with write_folder(folder, manifest_facts()) as temporary:
        write_bundle_files(bundle, temporary)


def replace_card(folder: Path, card: Card, config: Config | None = None) -> None:
    """Replace the card of a model folder, and its settings if `config` is set. The other files stay."""
    manifest = verify_folder(folder)
    facts = {name: value for name, value in manifest.items() if name != "files"}
    with write_folder(folder, facts) as temporary:
        for name in manifest["files"]:
            shutil.copyfile(folder / name, temporary / name)
        _write_card(card, temporary)
        if config is not None:
            _write_config(config, temporary)


def write_bundle_files(bundle: Bundle, folder: Path) -> None:
    """Write the files of a model folder, without the manifest."""
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

    Raises ModelError that names the file that is missing, damaged, or does not fit the others.
    """
    checked = VerifiedFolder(folder, {WEIGHTS}, _MAX_BYTES)
    if (found := checked.manifest.get("format")) != FORMAT:
        raise ModelError(
            f"{folder} has model format {quote_value(found)}, but this version of Dragoman reads {FORMAT}. "
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
    arrays = parse_weights(checked.read(WEIGHTS), path, shapes)
    card = read_card(folder)
    VerifiedFolder(folder, {WEIGHTS})  # nothing changed while the other files were read
    return Bundle(arrays, tokenizers, config, card, checked.fingerprint)


def read_settings(folder: Path) -> Config:
    """Read the settings of a model folder. Raises ModelError."""
    path = folder / _CONFIG
    try:
        return _settings_in(toml_bytes(path), path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error}.") from None
    except ConfigError as error:
        raise ModelError(str(error)) from None


def _settings_in(content: bytes, path: Path) -> Config:
    try:
        return config_from_dict(parse_toml(content, str(path)), str(path))
    except ValueError as error:
        raise ModelError(f"{path} cannot be read: {error}.") from None
    except ConfigError as error:
        raise ModelError(str(error)) from None

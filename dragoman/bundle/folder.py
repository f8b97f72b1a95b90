"""Writing and reading model folders. Reading executes nothing and checks every file against the manifest first."""

import contextlib
import errno
import math
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, deserialize
from safetensors.torch import save_file

from dragoman.bundle.card import Card, read_card
from dragoman.config import Config, ModelSettings, config_from_dict, dump_config
from dragoman.config.toml import parsed_toml, toml_bytes
from dragoman.devices.device import build_without_values, resolve_device
from dragoman.errors import ConfigError, ModelError
from dragoman.files import MANIFEST, CheckedFolder, checked_manifest, written_folder
from dragoman.model.transformer import Transformer
from dragoman.text.tokenization.tokenizer import TokenizerPair
from dragoman.version import __version__

WEIGHTS = "model.safetensors"
CTRANSLATE2_WEIGHTS = "model.bin"
POINTERS = ("averaged", "best")
_HUGGING_FACE_CONFIG = "config.json"
_LONGEST_POINTER = 4096
_CONFIG = "config.toml"
_MOST_BYTES = 64 << 20
"""Of a file that is not the weights: three times the largest tokeniser known."""
_MOST_HEADER_BYTES = 1 << 10
"""Of a tensor: its name, shape and place take some hundred bytes."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A model with all it takes to translate text."""

    model: Transformer
    tokenizers: TokenizerPair
    config: Config
    card: Card
    fingerprint: str = ""
    """Of the folder that it was read from: the beginning of the manifest's hash."""


def manifest_facts() -> dict[str, Any]:
    """What a manifest says besides its files."""
    return {"format": 1, "versions": {"dragoman": __version__, "torch": torch.__version__}}


def save_bundle(bundle: Bundle, folder: Path) -> None:
    """Writes a model folder at once; an existing one is replaced."""
    with written_folder(folder, manifest_facts()) as temporary:
        write_bundle_files(bundle, temporary)


def replace_card(folder: Path, card: Card, config: Config | None = None) -> None:
    """Gives a model folder another card, and other settings where given; everything else stays as it is."""
    manifest = checked_manifest(folder)
    facts = {name: value for name, value in manifest.items() if name != "files"}
    with written_folder(folder, facts) as temporary:
        for name in manifest["files"]:
            shutil.copyfile(folder / name, temporary / name)
        _write_card(card, temporary)
        if config is not None:
            _write_config(config, temporary)


def write_bundle_files(bundle: Bundle, folder: Path) -> None:
    """The files of a model folder without the manifest. A tensor shared by several names is written once."""
    _write_config(bundle.config, folder)
    _write_card(bundle.card, folder)
    bundle.tokenizers.save(folder)
    write_tensors(weights_of(bundle.model), folder / WEIGHTS)


def write_tensors(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """A safetensors file. Raises OSError, as everything else that writes, where the library has an error of its own."""
    try:
        save_file(tensors, path, metadata)
    except SafetensorError as error:
        found = re.search(r"os error (\d+)", str(error))
        code = int(found[1]) if found else errno.EIO
        raise OSError(code, os.strerror(code), str(path)) from error


def _write_config(config: Config, folder: Path) -> None:
    (folder / _CONFIG).write_text(dump_config(config), encoding="utf-8")


def _write_card(card: Card, folder: Path) -> None:
    (folder / "card.json").write_text(card.to_json(), encoding="utf-8")
    (folder / "card.md").write_text(card.to_markdown(), encoding="utf-8")


def weights_of(model: Transformer) -> dict[str, torch.Tensor]:
    """Every distinct parameter by its first name, on the CPU."""
    return {name: parameter.detach().cpu().contiguous() for name, parameter in model.named_parameters()}


def load_bundle(folder: Path, device: str = "auto") -> Bundle:
    """Reads a model folder, in eval mode on `device`. The model is in memory of its own: the folder may change or go.

    Raises ModelError that names the file which is missing, damaged or does not fit the others.
    """
    checked = CheckedFolder(folder, {WEIGHTS}, _MOST_BYTES)
    path = folder / WEIGHTS
    if WEIGHTS not in checked.manifest["files"]:
        raise ModelError(f"{path} is missing. Restore the folder from where it came.")
    config = _settings_in(checked.read(_CONFIG), folder / _CONFIG)
    _check_size(config.model, folder)
    tokenizers = TokenizerPair.load(folder)
    # Shapes are compared on the meta device, so that no memory is taken for a model that does not fit its weights.
    with build_without_values():
        model = _build(config, tokenizers, folder)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    _check_most(path, shapes)
    model = filled(model, _tensors_in(checked.read(WEIGHTS), path, shapes))
    card = read_card(folder)
    CheckedFolder(folder, {WEIGHTS})  # what was read in between is of the same model
    return Bundle(model.to(resolve_device(device)).eval(), tokenizers, config, card, checked.fingerprint)


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


def read_weights(path: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    """The float32 tensors of a safetensors file, which must have exactly the given names and shapes.

    All numbers must be finite. Names, shapes and types are compared before any tensor is made. The tensors are no part
    of the file any more, so that nothing happens to them when it is changed or truncated. Raises ModelError.
    """
    _check_most(path, shapes)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} is not a readable safetensors file: {error}.") from None
    return _tensors_in(content, path, shapes)


def _check_most(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """Raises ModelError where a file has more bytes than such tensors take: it is read into memory as a whole."""
    most = sum(4 * math.prod(shape) + _MOST_HEADER_BYTES for shape in shapes.values())
    size = path.stat().st_size if path.exists() else 0
    if size > most:
        raise ModelError(
            f"{path} has {size} bytes, but the model in config.toml takes at most {most}. "
            "The file is of another model than config.toml."
        )


def _tensors_in(content: bytes, path: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    try:
        found = dict(deserialize(content))  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ModelError(f"{path} is not a readable safetensors file: {error}.") from None
    for name in sorted(found.keys() ^ shapes.keys()):
        problem = "is missing" if name in shapes else "does not belong to this model"
        raise ModelError(f"{path}: tensor `{name}` {problem}. The file is of another model than config.toml.")
    for name, shape in shapes.items():
        kind, own_shape = found[name]["dtype"], tuple(found[name]["shape"])
        if own_shape != shape or kind != "F32":
            raise ModelError(
                f"{path}: tensor `{name}` is {kind} {own_shape} instead of F32 {shape}. "
                "The file is of another model than config.toml."
            )
    tensors = {
        name: torch.frombuffer(found[name]["data"], dtype=torch.float32).reshape(shape)
        for name, shape in shapes.items()
    }
    for name, tensor in tensors.items():
        if not math.isfinite(tensor.sum()) and not tensor.isfinite().all():
            raise ModelError(f"{path}: tensor `{name}` holds numbers that are not finite. Take an earlier model.")
    return tensors


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


def read_settings(folder: Path) -> Config:
    """The settings a model folder was made with. Raises ModelError."""
    path = folder / _CONFIG
    try:
        return _settings_in(toml_bytes(path), path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error}.") from None
    except ConfigError as error:
        raise ModelError(str(error)) from None


def _settings_in(content: bytes, path: Path) -> Config:
    try:
        return config_from_dict(parsed_toml(content, str(path)), str(path))
    except ValueError as error:
        raise ModelError(f"{path} cannot be read: {error}.") from None
    except ConfigError as error:
        raise ModelError(str(error)) from None


def _check_size(settings: ModelSettings, folder: Path) -> None:
    """Raises ModelError where the weights cannot be those of so large a model: even its frame would take too long."""
    width, layers = settings.d_model, settings.num_encoder_layers + settings.num_decoder_layers
    positions = settings.max_positions * width if settings.positions == "learned" else 0
    least = 4 * (layers * (4 * width * width + 2 * width * settings.d_ff) + positions)
    size = (folder / WEIGHTS).stat().st_size if (folder / WEIGHTS).exists() else 0
    if least > size:
        raise ModelError(
            f"{folder / WEIGHTS} has {size} bytes, but the model in config.toml needs {least} and more. "
            "The file is of another model than config.toml."
        )


def _build(config: Config, tokenizers: TokenizerPair, folder: Path) -> Transformer:
    try:
        return Transformer(config.model, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
    except ValueError as error:
        raise ModelError(f"{folder}: config.toml and tokenizer do not fit each other: {error}.") from None


def filled(model: Transformer, tensors: dict[str, torch.Tensor]) -> Transformer:
    """The model with these tensors, one for each distinct parameter, in place of its (meta) ones, tied as before."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters = {name: torch.nn.Parameter(tensor) for name, tensor in tensors.items()}
    for module in model.modules():
        for key, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[key] = parameters[names[id(parameter)]]
    return model

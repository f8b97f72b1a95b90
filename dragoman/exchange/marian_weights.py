"""Names of the tensors of a Marian model in Hugging Face format, and reading them from an untrusted file.

The names are those of `MarianMTModel.state_dict()` in transformers (`models/marian/modeling_marian.py`):

| Marian | Dragoman |
|---|---|
| `model.encoder.layers.N.self_attn.{q,k,v}_proj` | `encoder.layers.N.self_attn.in_`, the three stacked |
| `model.decoder.layers.N.encoder_attn.{q,k,v}_proj` | `decoder.layers.N.cross_attn.in_` |
| `...out_proj`, `...self_attn_layer_norm` | `...out`, `...self_attn_residual.norm` |
| `...fc1`, `...fc2`, `...final_layer_norm` | `...feed_forward.inner`, `...outer`, `...feed_forward_residual.norm` |
| `model.shared`, `model.{encoder,decoder}.embed_tokens` | `src_embedding`, `tgt_embedding` |
| `lm_head`, `final_logits_bias` | `projection.weight`, `projection.bias` |
| `model.{encoder,decoder}.embed_positions` | none: the positions are computed |

A pickle can run code when it is loaded. So the file is only loaded with `weights_only`, and only if it is not
compressed: a small compressed file could expand to fill the memory. Shapes are compared with config.json before a
tensor is copied. The import reads with this module, and the export writes with the same names. Only pickles
need torch.
"""

import json
import math
import pickle
import zipfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from dragoman.config import ModelSettings
from dragoman.errors import ModelError, require_torch

SAFETENSORS, PICKLED = "model.safetensors", "pytorch_model.bin"
BIAS = "final_logits_bias"
SHARED = "model.shared.weight"
PROJECTION = "lm_head.weight"
EMBEDDINGS = {side: f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")}
POSITIONS = tuple(f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder"))
_ATTENTIONS = {
    "encoder": {"self_attn": "self_attn"},
    "decoder": {"self_attn": "self_attn", "cross_attn": "encoder_attn"},
}
_FEED_FORWARD = {
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}
"""Parts of our layers, and Marian's names of them."""
# safetensors' names, and what numpy reads them as. It has no bfloat16, the upper half of a float32.
_STORED = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class _Safetensors:
    """A safetensors file. Only its header is read at first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with safe_open(path, framework="np"):  # checks the header
                pass
            with path.open("rb") as stream:
                size = int.from_bytes(stream.read(8), "little")
                header = json.loads(stream.read(size))
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{path} is not a readable safetensors file: {error}. Download the model again.") from None
        self._start = 8 + size
        self._header = {name: one for name, one in sorted(header.items()) if name != "__metadata__"}
        if strange := [name for name, one in self._header.items() if one["dtype"] not in _STORED]:
            raise ModelError(f"{path}: tensor `{strange[0]}` has no float type. Such a model cannot be imported.")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(one["shape"]) for name, one in self._header.items()}

    def tensor(self, name: str) -> NDArray[np.float32]:
        one = self._header[name]
        kind, shape, offset = one["dtype"], one["shape"], self._start + one["data_offsets"][0]
        stored = np.fromfile(self.path, _STORED[kind], math.prod(shape), offset=offset).reshape(shape)
        if kind == "BF16":
            return (stored.astype(np.uint32) << 16).view(np.float32)
        return stored.astype(np.float32, copy=False)


class _Pickled:
    """A file in torch's pickle format. With `weights_only`, unpickling cannot create anything but tensors."""

    def __init__(self, path: Path) -> None:
        require_torch(str(path))
        import torch

        self.path = path
        try:
            archive = zipfile.is_zipfile(path)
            if archive:
                _refuse_compressed(path)
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=archive)
        except (pickle.UnpicklingError, RuntimeError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            reason = str(error).split("\n")[0][:200]
            raise ModelError(f"{path} does not hold tensors alone: {reason}. Use {SAFETENSORS} instead.") from None
        if not isinstance(content, dict) or not all(_is_plain(name, value) for name, value in content.items()):
            raise ModelError(f"{path} does not hold a table of tensors. Use {SAFETENSORS} instead.")
        self._content: dict[str, Any] = content

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in self._content.items()}

    def tensor(self, name: str) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._content[name].detach().float().contiguous().numpy()
        return found


TensorFile = _Safetensors | _Pickled
"""The tensors of a file: their shapes by name, without memory for the tensors, and each tensor in float32."""


def open_tensors(folder: Path) -> TensorFile:
    """Open the weights of a folder, safetensors before pickle. Raises ModelError if they are missing or invalid."""
    if (folder / SAFETENSORS).is_file():
        return _Safetensors(folder / SAFETENSORS)
    if (folder / PICKLED).is_file():
        return _Pickled(folder / PICKLED)
    raise ModelError(
        f"{folder} has neither {SAFETENSORS} nor {PICKLED}. Name the complete folder of a model in Hugging Face format."
    )


def _refuse_compressed(path: Path) -> None:
    """Raise ValueError for a compressed archive. torch itself never writes one."""
    with zipfile.ZipFile(path) as archive:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise ValueError("it is compressed")


def _is_plain(name: Any, value: Any) -> bool:
    """Whether this is a float tensor that fits into its storage, so not a small one expanded by strides of 0."""
    import torch

    return (
        isinstance(name, str)
        and isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and value.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and value.numel() * value.element_size() <= value.untyped_storage().nbytes()
    )


def layer_tensors(settings: ModelSettings) -> dict[str, tuple[str, ...]]:
    """Marian's names for each of our tensors in the layers. Several of Marian's are stacked to one of ours."""
    names: dict[str, tuple[str, ...]] = {}
    for side, count in (("encoder", settings.num_encoder_layers), ("decoder", settings.num_decoder_layers)):
        for index, part in product(range(count), ("weight", "bias")):
            layer = f"{side}.layers.{index}"
            for ours, theirs in _ATTENTIONS[side].items():
                stacked = tuple(f"model.{layer}.{theirs}.{which}_proj.{part}" for which in "qkv")
                names[f"{layer}.{ours}.in_{part}"] = stacked
                names[f"{layer}.{ours}.out.{part}"] = (f"model.{layer}.{theirs}.out_proj.{part}",)
                names[f"{layer}.{ours}_residual.norm.{part}"] = (f"model.{layer}.{theirs}_layer_norm.{part}",)
            for ours, theirs in _FEED_FORWARD.items():
                names[f"{layer}.{ours}.{part}"] = (f"model.{layer}.{theirs}.{part}",)
    return names


def require_shapes(tensors: TensorFile, expected: dict[str, tuple[int, ...]], allowed: frozenset[str]) -> None:
    """Raise ModelError unless the file has exactly these tensors with these shapes, and maybe the allowed ones."""
    found = tensors.shapes()
    for name, shape in expected.items():
        if name not in found:
            raise ModelError(f"{tensors.path}: tensor `{name}` is missing. Download the model again.")
        if found[name] != shape:
            raise ModelError(
                f"{tensors.path}: tensor `{name}` must have the shape {shape}, but has {found[name]}. The file and "
                "config.json are of different models."
            )
    for name in sorted(found.keys() - expected.keys() - allowed):
        raise ModelError(
            f"{tensors.path}: tensor `{name}` is unknown to Dragoman's Transformer. Such a model cannot be imported."
        )

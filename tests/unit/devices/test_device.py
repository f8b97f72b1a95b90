"""Building modules without values, and resolving device names."""

import subprocess
import sys

import pytest
import torch

from dragoman.config import ModelSettings
from dragoman.devices.device import build_without_values, resolve_device
from dragoman.errors import ConfigError
from dragoman.model.transformer import Transformer

SMALL = ModelSettings(
    preset="custom", d_model=8, d_ff=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, positions="learned"
)


def test_model_built_without_values_has_the_same_shapes() -> None:
    with build_without_values():
        model = Transformer(SMALL, 7, 7)
        layer = torch.nn.Linear(2, 3)
    assert {name: one.shape for name, one in model.named_parameters()} == {
        name: one.shape for name, one in Transformer(SMALL, 7, 7).named_parameters()
    }
    assert all(one.is_meta for one in [*model.parameters(), *layer.parameters()])
    assert not torch.nn.Linear(2, 3).weight.is_meta


def test_building_without_values_does_not_import_the_compiler_of_torch() -> None:
    """The import takes longer than everything else in loading a model."""
    program = (
        "import sys; from dragoman.config import ModelSettings\n"
        "from dragoman.devices.device import build_without_values\n"
        "from dragoman.model.transformer import Transformer\n"
        "with build_without_values(): Transformer(ModelSettings(positions='learned'), 7, 7)\n"
        "sys.exit('torch._dynamo was imported' if 'torch._dynamo' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["cuda:99", "meta", "gpu", "cpu:x", ""])
def test_missing_device_raises_with_the_name_of_its_setting(name: str) -> None:
    with pytest.raises(ConfigError, match=f"`train.device` is {name!r}"):
        resolve_device(name, "train.device")


def test_gpu_device_turns_cudnn_attention_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN attention compiles a plan for each new shape of a batch."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        torch.backends.cuda.enable_cudnn_sdp(True)
        assert resolve_device("cpu").type == "cpu"
        assert torch.backends.cuda.cudnn_sdp_enabled()
        assert [resolve_device("auto"), resolve_device("cuda:1")] == [torch.device("cuda"), torch.device("cuda:1")]
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)

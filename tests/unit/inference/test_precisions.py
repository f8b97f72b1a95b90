"""The precision that `inference.precision` selects on processors of several kinds."""

from typing import Any

import pytest
import torch

from dragoman.errors import ConfigError
from dragoman.inference.tensors.products import resolve_inference_precision

tiles = pytest.importorskip("dragoman.kernels.tiles", reason="numba compiles for the processor at hand")
CPU = torch.device("cpu")
OLD: dict[str, bool] = {}
NEW = {"avx512_vnni": True, "avx512_bf16": True}


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Any:
    def of_kind(capabilities: dict[str, bool], multiplies_shorts: bool) -> None:
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
        monkeypatch.setattr(tiles, "HAS_SHORT_PRODUCTS", multiplies_shorts)

    return of_kind


@pytest.mark.parametrize(
    ("capabilities", "multiplies_shorts", "fastest"),
    [
        (NEW, True, "int8"),
        (OLD, True, "int16"),
        ({"bf16": True}, False, "bfloat16"),
        (OLD, False, "float32"),
    ],
)
def test_auto_is_the_fastest_supported_precision(
    processor: Any, capabilities: dict[str, bool], multiplies_shorts: bool, fastest: str
) -> None:
    processor(capabilities, multiplies_shorts)
    assert resolve_inference_precision("auto", CPU) == fastest
    assert resolve_inference_precision("float32", CPU) == "float32"


def test_bfloat16_becomes_float32_on_a_cpu_without_bfloat16(processor: Any) -> None:
    processor(OLD, True)
    assert resolve_inference_precision("bfloat16", CPU) == "float32"
    processor(NEW, True)
    assert resolve_inference_precision("bfloat16", CPU) == "bfloat16"


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_unsupported_integers_raise_with_one_line(processor: Any, precision: str) -> None:
    processor(OLD, False)
    with pytest.raises(ConfigError, match=rf"^`inference.precision` is {precision}, .* Use auto, .* float32\.$"):
        resolve_inference_precision(precision, CPU)

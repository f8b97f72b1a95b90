"""The precision that `inference.precision` selects on processors of several kinds."""

from typing import Any

import pytest

from dragoman.devices.without_torch import resolve_inference_precision
from dragoman.errors import ConfigError
from dragoman.kernels import library

CPU = "cpu"
OLD: set[str] = set()
NEW = {"avx512vnni", "avx512bf16"}


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Any:
    def of_kind(features: set[str], multiplies_shorts: bool) -> None:
        monkeypatch.setattr("dragoman.kernels.processor.FEATURES", features)
        monkeypatch.setattr(library, "is_available", lambda: True)
        monkeypatch.setattr("dragoman.kernels.processor.HAS_BYTE_PRODUCTS", "avx512vnni" in features)
        monkeypatch.setattr("dragoman.kernels.processor.HAS_SHORT_PRODUCTS", multiplies_shorts)

    return of_kind


@pytest.mark.parametrize(
    ("features", "multiplies_shorts", "fastest"),
    [
        (NEW, True, "int8"),
        (OLD, True, "int16"),
        ({"bf16"}, False, "bfloat16"),
        (OLD, False, "float32"),
    ],
)
def test_auto_is_the_fastest_supported_precision(
    processor: Any, features: set[str], multiplies_shorts: bool, fastest: str
) -> None:
    processor(features, multiplies_shorts)
    assert resolve_inference_precision("auto", CPU) == fastest
    assert resolve_inference_precision("float32", CPU) == "float32"


def test_bfloat16_becomes_float32_on_a_cpu_without_bfloat16(processor: Any) -> None:
    processor(OLD, True)
    assert resolve_inference_precision("bfloat16", CPU) == "float32"
    processor(NEW, True)
    assert resolve_inference_precision("bfloat16", CPU) == "bfloat16"


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_machine_code_multiplies_integers_on_old_processors(processor: Any, precision: str) -> None:
    processor(OLD, False)
    assert resolve_inference_precision(precision, CPU) == precision


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_unsupported_integers_raise_with_one_line(
    processor: Any, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor(OLD, False)
    monkeypatch.setattr("dragoman.kernels.processor.HAS_FMA", False)
    with pytest.raises(ConfigError, match=rf"^`inference.precision` is {precision}, .* Use auto, .* float32\.$"):
        resolve_inference_precision(precision, CPU)


def test_machine_code_and_torch_know_the_same_precisions(monkeypatch: pytest.MonkeyPatch) -> None:
    found = resolve_inference_precision("bfloat16", CPU)
    monkeypatch.setattr(library, "is_available", lambda: False)
    assert resolve_inference_precision("bfloat16", CPU) == found
    assert resolve_inference_precision("auto", CPU) != "int16"

"""What is computed at once: as asked, or what fits; an asked value that does not fit is refused with one that does."""

import re
from dataclasses import replace

import pytest
import torch

from dragoman.config import PRESETS, TrainSettings
from dragoman.errors import ResourceError
from dragoman.model.transformer import Transformer
from dragoman.train import memory
from dragoman.train.memory import choose_micro_batch_tokens, memory_errors

SETTINGS = TrainSettings(batch_tokens=4096)


@pytest.fixture
def model() -> Transformer:
    return Transformer(PRESETS["tiny"], 300, 300)


def _choose(model: Transformer, settings: TrainSettings, smallest: int = 50) -> int:
    return choose_micro_batch_tokens(model, settings, smallest, torch.float32)


def test_with_enough_memory_the_setting_or_what_is_fast(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 64 << 30)
    assert _choose(model, SETTINGS) == 4096
    assert _choose(model, replace(SETTINGS, batch_tokens=1000)) == 1000
    assert _choose(model, replace(SETTINGS, micro_batch_tokens=123)) == 123
    assert _choose(model, SETTINGS, smallest=9000) == 9000
    monkeypatch.setattr(memory, "free_bytes", lambda device: None)
    assert _choose(model, SETTINGS) == 4096


def test_with_less_memory_less_is_computed_at_once(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 200 << 20)
    fitting = _choose(model, SETTINGS)
    assert 50 <= fitting < 4096
    with pytest.raises(ResourceError, match=r"`train\.micro_batch_tokens` is 5000") as error:
        _choose(model, replace(SETTINGS, micro_batch_tokens=5000))
    stated = re.search(r"at most (\d+)", str(error.value))
    assert stated is not None
    assert _choose(model, replace(SETTINGS, micro_batch_tokens=int(stated[1]))) == int(stated[1])


def test_a_model_too_large_for_one_pair_is_refused(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 20 << 20)
    with pytest.raises(ResourceError, match=r"smaller `model\.preset`"):
        _choose(model, SETTINGS)


@pytest.mark.parametrize(
    "failure",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_a_failed_allocation_names_a_value_to_try(failure: Exception) -> None:
    with pytest.raises(ResourceError, match=r"`train\.micro_batch_tokens` to 2048"), memory_errors(4096):
        raise failure


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="shape"), memory_errors(4096):
        raise RuntimeError("shape mismatch")

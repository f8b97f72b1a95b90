"""What is computed at once: as asked, in as many parts as fit; what cannot fit is refused with a value to set."""

from dataclasses import replace

import pytest
import torch

from dragoman.config import PRESETS, TrainSettings
from dragoman.data.pairs import InMemoryPairs
from dragoman.errors import ResourceError
from dragoman.model.transformer import Transformer
from dragoman.train import memory
from dragoman.train.gradients import Gradients
from dragoman.train.memory import MemoryPlan, is_out_of_memory, memory_errors, plan_memory

SETTINGS = TrainSettings(batch_tokens=4096, precision="float32", device="cpu", workers=1)
PAIRS = InMemoryPairs([[5] * 49] * 90, [[6] * 39] * 90)


def _plan(free: int | None, monkeypatch: pytest.MonkeyPatch, settings: TrainSettings = SETTINGS) -> MemoryPlan:
    monkeypatch.setattr(memory, "free_bytes", lambda device: free)
    with Gradients(Transformer(replace(PRESETS["tiny"], dropout=0.1), 300, 300), settings) as gradients:
        return plan_memory(gradients, settings, PAIRS)


def test_with_enough_memory_the_setting_or_what_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for free in (64 << 30, None):
        plan = _plan(free, monkeypatch)
        assert (plan.micro_batch_tokens, plan.parts) == (4096, 1)
    assert len(plan.largest.src_lengths) == 4096 // 50
    assert _plan(64 << 30, monkeypatch, replace(SETTINGS, micro_batch_tokens=123)).micro_batch_tokens == 123
    assert _plan(64 << 30, monkeypatch, replace(SETTINGS, batch_tokens=1000)).micro_batch_tokens == 1000


def test_with_less_memory_the_same_is_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    roomy = _plan(None, monkeypatch)
    tight = _plan(roomy.need_bytes - 1, monkeypatch)
    assert tight.micro_batch_tokens == roomy.micro_batch_tokens
    assert tight.parts == 2
    assert tight.need_bytes < roomy.need_bytes


def test_a_model_too_large_for_one_pair_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ResourceError, match=r"one pair of 50 tokens.*smaller `model\.preset`"):
        _plan(20 << 20, monkeypatch)


@pytest.mark.parametrize(
    "failure",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_a_failed_allocation_is_recognised_and_says_what_to_set(failure: Exception) -> None:
    assert is_out_of_memory(failure)
    with pytest.raises(ResourceError, match=r"while validating\. Lower `x`"), memory_errors("validating", "Lower `x`."):
        raise failure


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="shape"), memory_errors("training", ""):
        raise RuntimeError("shape mismatch")

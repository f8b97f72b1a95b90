"""Memory plans: the configured micro-batch if it fits, smaller ones otherwise, and an error if nothing fits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.config import PRESETS, TrainSettings
from dragoman.data.batching import epoch_batches, micro_batches
from dragoman.data.store import InMemoryPairs
from dragoman.errors import ResourceError
from dragoman.model.transformer import Transformer
from dragoman.training.step import memory
from dragoman.training.step.gradients import Gradients
from dragoman.training.step.memory import (
    MemoryPlan,
    is_out_of_memory,
    memory_errors,
    micro_batch_tokens,
    padding_slack,
    plan_memory,
)

SETTINGS = TrainSettings(batch_tokens=4096, precision="float32", device="cpu", threads=1)
PAIRS = InMemoryPairs([[5] * 49] * 90, [[6] * 39] * 90)


def _plan(free: int | None, monkeypatch: pytest.MonkeyPatch, settings: TrainSettings = SETTINGS) -> MemoryPlan:
    monkeypatch.setattr(memory, "free_bytes", lambda device: free)
    with Gradients(Transformer(replace(PRESETS["tiny"], dropout=0.1), 300, 300), settings) as gradients:
        return plan_memory(gradients, settings, PAIRS)


def test_enough_memory_gives_the_configured_or_the_fastest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    for free in (64 << 30, None):
        plan = _plan(free, monkeypatch)
        assert (plan.micro_batch_tokens, plan.splits) == (4096, 1)
    assert len(plan.largest.src_lengths) == 4096 // 50
    assert _plan(64 << 30, monkeypatch, replace(SETTINGS, micro_batch_tokens=123)).micro_batch_tokens == 123
    assert _plan(64 << 30, monkeypatch, replace(SETTINGS, batch_tokens=1000)).micro_batch_tokens == 1000


@pytest.mark.parametrize(("device", "most"), [("cuda", 1.2), ("cpu", 4.5)])
def test_a_gpu_computes_a_small_step_at_once(device: str, most: float) -> None:
    random = np.random.default_rng(1)
    tgt_counts = np.clip(np.rint(random.lognormal(2.5, 0.35, 6000)), 3, 60).astype(int)
    src_counts = np.clip(tgt_counts + random.integers(-3, 4, 6000), 2, 60)
    pairs = InMemoryPairs(*([[5] * count for count in counts] for counts in (src_counts, tgt_counts)))
    settings, chip = TrainSettings(batch_tokens=4096), torch.device(device)
    limit, steps = micro_batch_tokens(settings, pairs, chip), epoch_batches(pairs, 4096, 1, 0)
    cuts = [
        micro_batches(src_counts[rows], tgt_counts[rows], limit, padding_slack(chip))
        for rows in (steps[step] for step in range(len(steps)))
    ]
    assert most / 2 < sum(map(len, cuts)) / len(cuts) <= most


def test_less_memory_gives_more_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    roomy = _plan(None, monkeypatch)
    tight = _plan(roomy.need_bytes - 1, monkeypatch)
    assert tight.micro_batch_tokens == roomy.micro_batch_tokens
    assert tight.splits == 2
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
def test_a_failed_allocation_is_an_error_that_names_a_setting(failure: Exception) -> None:
    assert is_out_of_memory(failure)
    with pytest.raises(ResourceError, match=r"while validating\. Lower `x`"), memory_errors("validating", "Lower `x`."):
        raise failure


def test_other_errors_are_not_changed() -> None:
    with pytest.raises(RuntimeError, match="shape"), memory_errors("training", ""):
        raise RuntimeError("shape mismatch")


def _group(folder: Path, limit: str, used: int, **stat: int) -> None:
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text(limit)
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text("".join(f"{name} {value}\n" for name, value in stat.items()))


def test_cached_pages_of_files_count_as_free_in_a_container(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/\n")
    root = tmp_path / "root"
    _group(root, "8000\n", 7900, anon=1000, file=6900, inactive_file=6000, active_file=500, slab_reclaimable=50)
    assert memory._control_group(root, own) == 8000 - 7900 + 6550
    (root / "memory.max").write_text("max\n")
    assert memory._control_group(root, own) is None


def test_the_smallest_limit_of_the_enclosing_groups_counts(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("1:name=old:/elsewhere\n0::/work.slice/job.scope\n")
    root = tmp_path / "root"
    root.mkdir()
    _group(root / "work.slice", "500\n", 400, anon=400)
    _group(root / "work.slice" / "job.scope", "9000\n", 300, anon=300)
    assert memory._control_group(root, own) == 100
    own.unlink()
    assert memory._control_group(root, own) is None

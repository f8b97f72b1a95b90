"""Memory that runs out, and how close the forecast of memory is to the peak."""

import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from dragoman.config import PRESETS, TrainSettings
from dragoman.data.store import InMemoryPairs
from dragoman.data.stream import BatchStream, StepPlan
from dragoman.devices.without_torch import keep_freed_memory
from dragoman.model.transformer import Transformer
from dragoman.training.step import gradients as gradients_module
from dragoman.training.step import memory as memory_module
from dragoman.training.step import replica as replica_module
from dragoman.training.step.memory import plan_memory
from dragoman.training.step.optimizer import build_optimizer
from dragoman.training.trainer import fit
from tests.soak.conftest import Report
from tests.soak.processes import exit_status, fork, memory_bytes, run_in_new_process
from tests.soak.runs import loss_gap, make_session, override_train, phrasebook_texts

MOST_GAP = 1e-4
FORECAST_ERROR = 0.2


def test_a_step_that_does_not_fit_is_computed_in_parts(tmp_path: Path, report: Report) -> None:
    fit(make_session(tmp_path / "whole", phrasebook_texts(), override_train(max_steps=40)))
    original, calls = replica_module.losses, iter(range(10**6))

    def limited(model: Transformer, batch: Any, *rest: Any, **options: Any) -> Any:
        if next(calls) >= 30 and torch.is_grad_enabled() and len(batch.src_lengths) > 6:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.")
        return original(model, batch, *rest, **options)

    session = make_session(tmp_path / "parts", phrasebook_texts(), override_train(max_steps=40))
    with mock.patch.object(replica_module, "losses", limited):
        fit(session)
    gap, parts = loss_gap(tmp_path / "whole", tmp_path / "parts"), session.state.micro_batch_splits
    broken = [gap] * (parts == 1 or gap >= MOST_GAP)
    report("allocations fail from some step on", 1, broken, f"{parts} parts, losses within {gap:.1e}, dropout on")


@pytest.mark.parametrize("megabytes", [120, 80])
def test_little_address_space_is_survived(megabytes: int, tmp_path: Path, report: Report) -> None:
    for name, limit in (("all", 0), ("little", megabytes << 20)):
        assert exit_status(fork(lambda name=name, limit=limit: train_limited(tmp_path / name, limit))) == 0  # type: ignore[misc]
    gap, parts = loss_gap(tmp_path / "all", tmp_path / "little"), int((tmp_path / "little" / "parts").read_text())
    broken = [gap] * (parts == 1 or gap >= MOST_GAP)
    report(f"RLIMIT_AS, {megabytes} MB more", 1, broken, f"{parts} parts, losses within {gap:.1e}")


def train_limited(run: Path, limit_bytes: int) -> None:
    """Take steps of 6,000 tokens in one micro-batch, with at most `limit_bytes` more address space than now."""
    texts = phrasebook_texts()
    long = replace(texts, src=[(row * 12)[:120] for row in texts.src], tgt=[(row * 12)[:120] for row in texts.tgt])
    config = override_train(max_steps=3, batch_tokens=6_000, micro_batch_tokens=6_000, checkpoint_every_steps=0)
    config = replace(config, model=replace(config.model, d_model=128, d_ff=512, num_heads=4))
    session = make_session(run, long, config)
    if limit_bytes:
        pages = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (pages + limit_bytes, resource.RLIM_INFINITY))
        memory_module.free_bytes = lambda device: None  # only the failed allocation shows it
    fit(session)
    (run / "parts").write_text(str(session.state.micro_batch_splits))


FORECASTS = [
    ("tiny", 4000, 4096, "bfloat16", 20, 1),
    ("tiny", 4000, 4096, "float32", 60, 1),
    ("tiny", 16000, 2048, "float32", 20, 2),
    ("small", 8000, 4096, "bfloat16", 20, 1),
    ("small", 16000, 4096, "float32", 40, 1),
    ("base", 16000, 2048, "float32", 20, 1),
]
"""Preset, vocabulary, tokens of a step, precision, mean tokens of a sentence, threads."""


@pytest.mark.parametrize("case", FORECASTS, ids=lambda case: " ".join(map(str, case)))
def test_the_forecast_is_near_the_peak(
    case: tuple[str, int, int, str, int, int], scaled: Callable[[int], int], report: Report
) -> None:
    preset, vocab_size, batch_tokens, precision, mean_tokens, threads = case
    settings = TrainSettings(precision=precision, batch_tokens=batch_tokens, device="cpu", threads=threads)
    forecast, peak = run_in_new_process(forecast_and_peak, preset, vocab_size, mean_tokens, settings, scaled(6))
    error = forecast / peak - 1
    figures = f"{forecast / 1e6:.0f} MB, peak {peak / 1e6:.0f} MB, {error:+.0%}"
    report(f"forecast: {' '.join(map(str, case))}", 1, [error] * (abs(error) > FORECAST_ERROR), figures)


def forecast_and_peak(
    preset: str, vocab_size: int, mean_tokens: int, settings: TrainSettings, steps: int
) -> tuple[int, int]:
    """Forecast and measured bytes of a run on random pairs."""
    rng = np.random.default_rng(1)
    lengths = rng.gamma(3, mean_tokens / 3, 4 * settings.batch_tokens // mean_tokens).astype(int) + 1
    lengths = np.minimum(127, lengths)
    others = np.clip((lengths * rng.uniform(0.8, 1.25, len(lengths))).astype(int), 1, 127)
    pairs = InMemoryPairs(
        *([rng.integers(4, vocab_size, size).tolist() for size in sizes] for sizes in (lengths, others))
    )
    model = Transformer(PRESETS[preset], vocab_size, vocab_size).train()
    keep_freed_memory()
    before = memory_bytes("VmRSS")
    optimizer = build_optimizer(model, settings)
    with gradients_module.Gradients(model, settings) as gradients:
        plan = plan_memory(gradients, settings, pairs)
        with BatchStream(pairs, StepPlan(settings.batch_tokens, plan.micro_batch_tokens, 1)) as stream:
            for number in range(steps):
                step = next(stream)
                gradients.compute(step.batches, (1, number), step.num_tgt_tokens)
                optimizer.step()
                optimizer.zero_grad()
    return plan.need_bytes, memory_bytes("VmHWM") - before

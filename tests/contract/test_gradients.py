"""The fast gradient of a step equals the plain gradient: threads, copies in working precision, split batches."""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from dragoman.config import ModelSettings, TrainSettings
from dragoman.data.batch import Batch
from dragoman.data.batching import micro_batches
from dragoman.data.store import InMemoryPairs
from dragoman.data.stream import load_batch
from dragoman.model.transformer import Transformer
from dragoman.records import PAD_ID
from dragoman.training.step.gradients import Gradients, num_threads, shares
from dragoman.training.step.helpers import Helpers
from dragoman.training.step.loss import smoothed_cross_entropy
from dragoman.training.step.replica import losses

VOCAB_SIZE = 90
MODEL = ModelSettings(
    preset="custom", d_model=32, d_ff=48, num_heads=4, num_encoder_layers=2, num_decoder_layers=2, dropout=0.0
)
SETTINGS = TrainSettings(precision="float32", device="cpu", label_smoothing=0.1)
SEED = (3, 14)
needs_helpers = pytest.mark.skipif(not Helpers.are_supported(), reason="only Linux has anonymous files to share")


def _batches(num_pairs: int = 60, limit: int = 300) -> list[Batch]:
    random = torch.Generator().manual_seed(5)
    src, tgt = (
        [
            torch.randint(4, VOCAB_SIZE, (int(torch.randint(1, 25, (), generator=random)),), generator=random).tolist()
            for _ in range(num_pairs)
        ]
        for _ in range(2)
    )
    pairs = InMemoryPairs(src, tgt)
    pieces = micro_batches(pairs.src_counts, pairs.tgt_counts, limit, padding_slack=64)
    return [load_batch(pairs, piece) for piece in pieces]


def _model(**changes: object) -> Transformer:
    torch.manual_seed(2)
    return Transformer(replace(MODEL, **changes), VOCAB_SIZE, VOCAB_SIZE)  # type: ignore[arg-type]


def _num_tokens(batches: list[Batch]) -> int:
    return sum(batch.num_tgt_tokens for batch in batches)


def _plain(model: Transformer, batches: list[Batch]) -> tuple[dict[str, torch.Tensor], float, float]:
    """Gradients, loss and nll by a plain forward pass: logits of all positions, one loss."""
    model.zero_grad()
    sums = torch.zeros(2)
    for batch in batches:
        logits = model(batch.src_ids, batch.src_lengths, batch.decoder_input)
        counted = batch.labels != PAD_ID
        loss, nll = smoothed_cross_entropy(logits[counted], batch.labels[counted], 0.1, PAD_ID)
        (loss / _num_tokens(batches)).backward()
        sums += torch.stack((loss.detach(), nll))
    return _gradients(model), float(sums[0]), float(sums[1])


def _computed(
    model: Transformer, batches: list[Batch], settings: TrainSettings, seed: tuple[int, int] = SEED
) -> tuple[dict[str, torch.Tensor], float, float]:
    with Gradients(model, settings) as gradients:
        loss, nll = gradients.compute(batches, seed, _num_tokens(batches)).tolist()
    return _gradients(model), loss, nll


def _gradients(model: Transformer) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize(
    "changes",
    [{}, {"norm_first": False, "tie": "none", "projection_bias": False}, {"tie": "decoder", "positions": "learned"}],
    ids=["default", "post-norm untied", "learned positions"],
)
def test_float32_gradients_equal_the_plain_ones_for_every_number_of_threads(
    workers: int, changes: dict[str, object]
) -> None:
    model, batches = _model(**changes), _batches()
    expected, loss, nll = _plain(model, batches)
    ours, our_loss, our_nll = _computed(model, batches, replace(SETTINGS, threads=workers))
    assert ours.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(ours[name], gradient, atol=1e-6, rtol=1e-5, msg=lambda text, name=name: name + text)
    assert our_loss == pytest.approx(loss, rel=1e-6)
    assert our_nll == pytest.approx(nll, rel=1e-6)


def test_gradients_with_a_sampled_softmax_are_on_average_the_plain_ones() -> None:
    model, batches, steps = _model(), _batches(4), 100
    expected, loss, _ = _plain(model, batches)
    losses_found: list[float] = []
    found: list[dict[str, torch.Tensor]] = []
    with Gradients(model, replace(SETTINGS, threads=1, sampled_softmax=0.2)) as gradients:
        for step in range(steps):
            losses_found.append(gradients.compute(batches, (1, step), _num_tokens(batches))[0].item())
            found.append(_gradients(model))
    assert len(set(losses_found)) == steps
    assert sum(losses_found) / steps == pytest.approx(loss, rel=0.01)
    for name, gradient in expected.items():
        errors = torch.stack([each[name] - gradient for each in found])
        assert errors.mean(0).norm() < 0.3 * errors.norm() / steps**0.5, name


@pytest.mark.parametrize("workers", [1, 2])
def test_bfloat16_gradients_point_the_same_way_and_are_float32(workers: int) -> None:
    model, batches = _model(), _batches()
    expected, loss, _ = _plain(model, batches)
    settings = replace(SETTINGS, precision="bfloat16", threads=workers)
    ours, our_loss, _ = _computed(model, batches, settings)
    assert ours.keys() == expected.keys()
    assert our_loss == pytest.approx(loss, rel=2e-3)
    for name, gradient in expected.items():
        assert ours[name].dtype == torch.float32
        assert ((ours[name] - gradient).norm() / gradient.norm()).item() < 0.05, name


@pytest.mark.slow
def test_small_gradients_of_many_batches_are_not_lost_in_their_sum() -> None:
    # In bfloat16, a sum of equal terms stops growing after 256 terms.
    model, batch = _model(), _batches(4, 10**6)[0]
    settings = replace(SETTINGS, precision="bfloat16", threads=1)
    once, _, _ = _computed(model, [batch], settings)
    often, _, _ = _computed(model, [batch] * 1024, settings)
    for name, gradient in once.items():
        assert ((often[name] - gradient).norm() / gradient.norm()).item() < 0.05, name


@pytest.mark.parametrize(
    ("rates", "share", "num_pairs"),
    [((0.3, 0.2, 0.1), 1.0, 60), ((0.0, 0.0, 0.0), 0.2, 10)],
    ids=["dropout", "softmax"],
)
def test_random_numbers_depend_on_the_seed_alone(rates: tuple[float, ...], share: float, num_pairs: int) -> None:
    names = ("dropout", "attention_dropout", "activation_dropout")
    model, batches = _model(**dict(zip(names, rates, strict=True))), _batches(num_pairs)
    settings = replace(SETTINGS, threads=2, sampled_softmax=share)
    with Gradients(model, settings) as gradients:
        first: list[dict[str, torch.Tensor]] = []
        for seed in ((1, 1), (1, 2), (1, 1)):
            torch.manual_seed(len(first))
            gradients.compute(batches, seed, 100)
            first.append(_gradients(model))
    again, _, _ = _computed(model, batches, settings, (1, 2))
    name = "encoder.layers.0.self_attn.in_weight"
    assert torch.equal(first[0][name], first[2][name])
    assert not torch.equal(first[0][name], first[1][name])
    scaled = again[name] * (_num_tokens(batches) / 100)
    torch.testing.assert_close(scaled, first[1][name], rtol=1e-4, atol=1e-6)


def test_an_update_of_the_weights_reaches_the_next_step() -> None:
    model, batches = _model(), _batches()
    settings = replace(SETTINGS, precision="bfloat16", threads=2)
    with Gradients(model, settings) as gradients:
        gradients.compute(batches, SEED, 100)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.5)
        loss = gradients.compute(batches, SEED, 100)[0].item()
    expected, other = _computed(model, batches, settings)[1], _computed(_model(), batches, settings)[1]
    assert loss == expected
    assert abs(loss - other) > 1


def test_an_error_in_a_thread_reaches_the_caller_and_all_threads_are_restored(computing_on: Any) -> None:
    model, batches = _model(), _batches()
    bad = replace(batches[0], src_ids=batches[0].src_ids + VOCAB_SIZE)
    with computing_on(3), Gradients(model, replace(SETTINGS, threads=2)) as gradients:
        with pytest.raises(IndexError):
            gradients.compute([bad, *batches[1:]], SEED, 100)
        assert torch.get_num_threads() == 3


@pytest.mark.parametrize(("precision", "share"), [("float32", 1.0), ("bfloat16", 1.0), ("float32", 0.2)])
@needs_helpers
def test_helpers_compute_the_gradients_of_threads_bit_for_bit_and_may_be_killed(precision: str, share: float) -> None:
    model, batches = _model(dropout=0.2), _batches()
    settings = replace(SETTINGS, threads=3, precision=precision, sampled_softmax=share)

    def compute(gradients: Gradients, step: int) -> tuple[float, dict[str, torch.Tensor]]:
        loss = gradients.compute(batches, (1, step), 100, splits=1 + step % 2)[0].item()
        return loss, _gradients(model)

    with Gradients(model, settings) as gradients:
        expected = [compute(gradients, step) for step in range(4)]
    with Gradients(model, settings) as gradients:
        gradients.start_helpers()
        for step, (loss, gradient) in enumerate(expected):
            found = compute(gradients, step)  # the first one before the helpers have started
            assert found[0] == loss
            assert all(torch.equal(found[1][name], each) for name, each in gradient.items())
            if step == 0:
                _wait_for_helpers(gradients)
            elif step == 2:
                psutil.Process().children()[0].kill()
        assert gradients.helpers is not None
        assert gradients.helpers.count_ready() == 1
    assert not psutil.Process().children()


@needs_helpers
def test_an_error_in_a_helper_reaches_the_caller() -> None:
    model, batches = _model(), _batches()
    bad = replace(batches[-1], src_ids=batches[-1].src_ids + VOCAB_SIZE)
    with Gradients(model, replace(SETTINGS, threads=2)) as gradients:
        gradients.start_helpers()
        _wait_for_helpers(gradients)
        with pytest.raises(IndexError):
            gradients.compute([*batches[:-1], bad], SEED, 100)


@needs_helpers
def test_helpers_end_with_their_parent() -> None:
    program = (
        "import os, signal, psutil, tests.contract.test_gradients as t\n"
        "from dragoman.training.step.gradients import Gradients\n"
        "gradients = Gradients(t._model(), t.replace(t.SETTINGS, threads=2)).__enter__()\n"
        "gradients.start_helpers()\n"
        "print(psutil.Process().children()[0].pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    helper = int(done.stdout)
    _wait_until(lambda: not psutil.pid_exists(helper) or psutil.Process(helper).status() == psutil.STATUS_ZOMBIE)


def _wait_for_helpers(gradients: Gradients) -> None:
    helpers = gradients.helpers
    assert helpers is not None
    _wait_until(lambda: helpers.count_ready() == gradients.threads - 1)


def _wait_until(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shares_are_even_and_contain_every_row_once_in_order(count: int) -> None:
    batches = _batches(200, 500)
    dealt = shares(batches, count)
    assert len(dealt) == count
    rows = [(ids, lengths) for share in dealt for batch in share for ids, lengths in _rows(batch)]
    assert rows == [row for batch in batches for row in _rows(batch)]
    positions = [sum(b.src_ids.numel() + b.decoder_input.numel() for b in share) for share in dealt]
    assert max(positions) - min(positions) < 256


def _rows(batch: Batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [
        (tuple(src[:src_length]), tuple(tgt[: tgt_length + 1]))
        for src, src_length, tgt, tgt_length in zip(
            batch.src_ids.tolist(), batch.src_lengths.tolist(), batch.tgt_ids.tolist(), batch.tgt_lengths.tolist(),
            strict=True,
        )
    ]  # fmt: skip


def test_small_steps_are_not_split() -> None:
    assert len(shares(_batches(2), 4)) == 1


def test_other_devices_use_one_thread_and_cpus_at_most_four_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    assert num_threads(SETTINGS, torch.device("cpu")) == 4
    assert num_threads(replace(SETTINGS, threads=9), torch.device("cpu")) == 9
    assert num_threads(replace(SETTINGS, threads=9), torch.device("cuda")) == 1


def test_losses_count_no_padding() -> None:
    model, batch = _model().eval(), _batches(10, 10**6)[0]
    together = torch.stack(losses(model, batch, 0.1))
    apart = sum(torch.stack(losses(model, batch.part(row, row + 1), 0.1)) for row in range(len(batch.src_lengths)))
    torch.testing.assert_close(together, apart, rtol=1e-5, atol=1e-4)


@pytest.mark.slow
def test_compiled_layers_give_the_same_gradients() -> None:
    # In a separate process, because the shape checks that are active in tests cannot be traced.
    script = "import test_gradients; test_gradients.compare_compiled()"
    subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, check=True, timeout=280)


def compare_compiled() -> None:
    """Trace and differentiate as for a GPU, but run in torch, which needs no C++ compiler and only a few seconds."""
    compile_module, compiled = torch.nn.Module.compile, []

    def traced(module: torch.nn.Module, **options: object) -> None:
        compiled.append(module)
        compile_module(module, backend="aot_eager", **options)

    torch.nn.Module.compile = traced  # type: ignore[assignment, method-assign]
    model, batches = _model(), _batches(20, 200)
    expected, loss, _ = _plain(model, batches)
    ours, our_loss, _ = _computed(model, batches, replace(SETTINGS, compile=True, threads=1))
    assert len(compiled) == 2
    for name, gradient in expected.items():
        torch.testing.assert_close(ours[name], gradient, atol=1e-6, rtol=1e-5)
    assert our_loss == pytest.approx(loss, rel=1e-6)

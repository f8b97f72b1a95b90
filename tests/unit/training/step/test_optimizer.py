"""Muon for matrices, Adam for other parameters, and the running mean of weights, against their formulas."""

from dataclasses import replace

import pytest
import torch

from dragoman.config import ModelSettings, TrainSettings
from dragoman.model.transformer import Transformer
from dragoman.training.step.optimizer import EMA, build_optimizer, optimizer_tensors, orthogonalize, restore_optimizer

MODEL = ModelSettings(preset="custom", d_model=16, d_ff=24, num_heads=2, num_encoder_layers=1, num_decoder_layers=1)
MUON = TrainSettings(optimizer="muon", ema_decay=0.99, weight_decay=0.01)


def _model() -> Transformer:
    torch.manual_seed(7)
    return Transformer(MODEL, 40, 40)


def _step(model: Transformer, optimizer: torch.optim.Optimizer, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=random)
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    optimizer.step()


def test_muon_updates_the_matrices_of_layers_and_adam_the_other_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compare in float32. Torch's Muon always uses bfloat16, so the test replaces the conversion."""
    monkeypatch.setattr("dragoman.training.step.optimizer.resolve_precision", lambda name, device: torch.float32)
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    ours, theirs = _model(), _model()
    within = [each for part in (theirs.encoder, theirs.decoder) for each in part.parameters() if each.ndim == 2]
    others = [each for each in theirs.parameters() if all(each is not matrix for matrix in within)]
    mine = build_optimizer(ours, MUON)
    muon = torch.optim.Muon(within, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    adam = torch.optim.AdamW(others, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.01)
    for seed in (1, 2):
        _step(ours, mine, seed)
        _step(theirs, muon, seed)
        _step(theirs, adam, seed)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=2e-6, rtol=2e-5)
    assert len(within) > 8


@pytest.mark.parametrize("shape", [(16, 40), (40, 16), (24, 24)])
def test_singular_values_become_nearly_one_and_directions_are_kept(shape: tuple[int, int]) -> None:
    matrices = (
        torch.randn((3, *shape), generator=torch.Generator().manual_seed(3))
        * torch.tensor([1e-3, 1.0, 1e3])[:, None, None]
    )
    left, values, right = torch.linalg.svd(matrices, full_matrices=False)
    found = orthogonalize(matrices).float()
    shares = torch.einsum("nrk,nrc,nkc->nk", left, found, right)  # found = left diag(shares) right
    torch.testing.assert_close(left * shares[:, None] @ right, found, atol=0.02, rtol=0)
    large = values > 0.05 * values[:, :1]
    assert large.float().mean() > 0.8
    assert shares[large].min() > 0.65
    assert shares.max() < 1.25


@pytest.mark.parametrize("settings", [MUON, replace(MUON, optimizer="adam"), replace(MUON, ema_decay=0.0)])
def test_a_restored_optimizer_continues_bit_for_bit(settings: TrainSettings) -> None:
    straight, resumed = _model(), _model()
    optimizer = build_optimizer(straight, settings)
    for seed in (1, 2):
        _step(straight, optimizer, seed)
    resumed.load_state_dict(straight.state_dict())
    saved = {name: tensor.clone() for name, tensor in optimizer_tensors(straight, optimizer).items()}
    again = build_optimizer(resumed, settings)
    restore_optimizer(resumed, again, saved)
    for seed in (3, 4):
        _step(straight, optimizer, seed)
        _step(resumed, again, seed)
    mine, theirs = optimizer_tensors(straight, optimizer), optimizer_tensors(resumed, again)
    assert mine.keys() == theirs.keys() == saved.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert all(torch.equal(*pair) for pair in zip(straight.parameters(), resumed.parameters(), strict=True))
    lost = next(name for name in saved if name.endswith(("momentum_buffer", "exp_avg")))
    del saved[lost]
    with pytest.raises(KeyError):
        restore_optimizer(resumed, again, saved)


def test_the_running_mean_follows_its_formula_and_forgets_the_first_weights() -> None:
    model = _model()
    optimizer = build_optimizer(model, replace(MUON, optimizer="adam", ema_decay=0.5))
    name, parameter = next(iter(model.named_parameters()))
    expected = None
    for step in range(12):
        _step(model, optimizer, step)
        decay = min(0.5, (1 + step) / (10 + step))
        current = parameter.detach().double()
        expected = current if expected is None else decay * expected + (1 - decay) * current
    mean = optimizer_tensors(model, optimizer)[f"{name}:{EMA}"]
    torch.testing.assert_close(mean.double(), expected, atol=1e-6, rtol=1e-5)


def test_a_running_mean_that_has_not_started_is_saved_and_starts_with_the_first_weights() -> None:
    """Steps without a finite gradient are skipped, so a checkpoint may come before the first update."""
    model = _model()
    optimizer = build_optimizer(model, MUON)
    kept = optimizer_tensors(model, optimizer)
    again = _model()
    other = build_optimizer(again, MUON)
    restore_optimizer(again, other, kept)
    _step(again, other, 1)
    for parameter in again.parameters():
        torch.testing.assert_close(other.state[parameter][EMA], parameter.detach(), atol=0, rtol=0)

"""Dropout keeps the expectation, drops the stated share, and backpropagates through what it kept."""

import pytest
import torch

from dragoman.model.dropout import Dropout, byte_rate


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.001])
def test_share_dropped_and_expectation(rate: float) -> None:
    torch.manual_seed(0)
    ones = torch.ones(1000, 1003)
    dropped = Dropout(rate).train()(ones)
    share = (dropped == 0).double().mean().item()
    deviation = 4 * (byte_rate(rate) * (1 - byte_rate(rate)) / ones.numel()) ** 0.5
    assert abs(share - byte_rate(rate)) < deviation
    assert abs(byte_rate(rate) - rate) <= 1 / 256
    assert dropped.double().mean().item() == pytest.approx(1, abs=2 * deviation / (1 - rate))
    assert dropped.unique().numel() == 2


def test_every_position_of_a_drawn_word_is_as_likely() -> None:
    torch.manual_seed(0)
    share = (Dropout(0.5).train()(torch.ones(200_000, 8)) == 0).double().mean(0)
    assert (share - 0.5).abs().max().item() < 4 * 0.5 / 200_000**0.5


def test_gradient_flows_through_what_was_kept() -> None:
    hidden = torch.randn(50, 60, requires_grad=True)
    dropped = Dropout(0.25).train()(hidden)
    dropped.sum().backward()
    torch.testing.assert_close(hidden.grad, (dropped != 0).float() / 0.75)


def test_does_nothing_outside_training_or_at_rate_zero() -> None:
    hidden = torch.randn(5)
    assert Dropout(0.5).eval()(hidden) is hidden
    assert Dropout(0.0).train()(hidden) is hidden


def test_same_generator_state_same_mask_and_bfloat16_stays() -> None:
    hidden = torch.randn(7, 9, dtype=torch.bfloat16)
    layer = Dropout(0.3).train()
    torch.manual_seed(5)
    first = layer(hidden)
    torch.manual_seed(5)
    assert torch.equal(first, layer(hidden))
    assert first.dtype == torch.bfloat16

"""Dropout keeps the expectation, drops the configured share, and backpropagates through the kept values."""

import pytest
import torch

from dragoman.training.step.accelerated import Dropout, Randomness, accelerate, kept_share


def dropout(rate: float) -> Dropout:
    module = Dropout(rate).train()
    module.randomness = Randomness()
    return module


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.001])
def test_share_dropped_and_expectation(rate: float) -> None:
    torch.manual_seed(0)
    ones = torch.ones(1000, 1003)
    dropped = dropout(rate)(ones)
    share = (dropped == 0).double().mean().item()
    deviation = 4 * (rate * (1 - rate) / ones.numel()) ** 0.5
    assert abs(share - rate) < deviation
    assert abs(1 - kept_share(rate) - rate) <= 1 / 65536
    assert dropped.double().mean().item() == pytest.approx(1, abs=2 * deviation / (1 - rate))
    assert dropped.unique().numel() == 2


def test_every_position_of_a_random_word_is_equally_likely() -> None:
    torch.manual_seed(0)
    share = (dropout(0.5)(torch.ones(200_000, 8)) == 0).double().mean(0)
    assert (share - 0.5).abs().max().item() < 4 * 0.5 / 200_000**0.5


def test_gradients_flow_through_kept_values_only() -> None:
    hidden = torch.randn(50, 60, requires_grad=True)
    dropped = dropout(0.25)(hidden)
    dropped.sum().backward()
    torch.testing.assert_close(hidden.grad, (dropped != 0).float() / 0.75)


def test_does_nothing_outside_training_or_at_rate_zero() -> None:
    hidden = torch.randn(5)
    assert dropout(0.5).eval()(hidden) is hidden
    assert dropout(0.0)(hidden) is hidden


def test_the_same_generator_state_gives_the_same_mask_and_bfloat16_stays_bfloat16() -> None:
    hidden = torch.randn(7, 9, dtype=torch.bfloat16)
    layer = dropout(0.3)
    layer.randomness.seed(5)
    first = layer(hidden)
    layer.randomness.seed(5)
    assert torch.equal(first, layer(hidden))
    assert first.dtype == torch.bfloat16


def test_rates_below_the_smallest_step_still_drop() -> None:
    assert kept_share(1e-9) < 1


def test_the_seeded_generator_is_independent_of_torch_and_shared_by_the_modules_of_a_model() -> None:
    hidden = torch.ones(64, 65)
    model = torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.Dropout(0.5)).train()
    randomness = Randomness()
    accelerate(model, randomness)
    outputs: list[torch.Tensor] = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(outputs))  # torch's generator must not matter
        randomness.seed(7, seed)
        outputs.append(model(hidden))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    first, second = (model[0](hidden) != 0, model[1](hidden) != 0)
    agreement = (first == second).double().mean().item()  # 0.7 * 0.5 + 0.3 * 0.5 if the masks are independent
    assert abs(agreement - 0.5) < 4 * 0.5 / hidden.numel() ** 0.5


def test_seeded_bits_are_uniform_at_every_position_of_a_word() -> None:
    randomness = Randomness()
    randomness.seed(3)
    bits = randomness.sample_bits(400_001)
    assert bits.dtype == torch.int16
    assert bits.numel() == 400_001
    share = (bits[:400_000].view(-1, 4) >= 0).double().mean(0)
    assert (share - 0.5).abs().max().item() < 4 * 0.5 / 100_000**0.5


def test_compiled_random_words_equal_numpys() -> None:
    pytest.importorskip("numba", reason="needs numba")
    import numpy as np

    from dragoman.training.step.fused import random_words

    numpys, ours = (np.random.SFC64(np.random.SeedSequence([3, 1])) for _ in range(2))
    for count in (1, 1000, 7):
        np.testing.assert_array_equal(random_words(ours, count).numpy().view(np.uint64), numpys.random_raw(count))
    assert str(ours.state) == str(numpys.state)

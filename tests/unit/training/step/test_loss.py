"""Label smoothing against the loss of torch and a closed form, and the sliced loss against the plain loss."""

import math

import pytest
import torch
from torch.nn import functional

from dragoman.training.step import fused
from dragoman.training.step import loss as loss_module
from dragoman.training.step.loss import (
    PreparedProjection,
    TokenSample,
    projected_cross_entropy,
    smoothed_cross_entropy,
)


def _smoothed_targets(labels: torch.Tensor, vocab_size: int, epsilon: float, pad_id: int) -> torch.Tensor:
    """Return the target distribution: 1 - epsilon on the label, epsilon evenly over the other tokens except padding."""
    targets = torch.full((labels.numel(), vocab_size), epsilon / (vocab_size - 1))
    targets[:, pad_id] = 0
    targets[torch.arange(labels.numel()), labels] += 1 - epsilon
    return targets


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.9])
def test_equals_torch_cross_entropy_with_the_explicit_distribution(epsilon: float) -> None:
    logits, labels = torch.randn(40, 13) * 3, torch.randint(1, 13, (40,))
    expected = functional.cross_entropy(logits, _smoothed_targets(labels, 13, epsilon, 0), reduction="sum")
    loss, nll = smoothed_cross_entropy(logits, labels, epsilon, pad_id=0)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, functional.cross_entropy(logits, labels, reduction="sum"))


def test_closed_form_minimum() -> None:
    # The loss is smallest if the model predicts the smoothed distribution. Its value is then the entropy:
    # -(1 - e + e/(V-1)) ln(1 - e + e/(V-1)) - (V-2) e/(V-1) ln(e/(V-1)).
    vocab_size, epsilon = 11, 0.1
    targets = _smoothed_targets(torch.tensor([5]), vocab_size, epsilon, 0)
    share = epsilon / (vocab_size - 1)
    peak = 1 - epsilon + share
    entropy = -peak * math.log(peak) - (vocab_size - 2) * share * math.log(share)
    logits = targets.clamp(min=1e-30).log().requires_grad_()
    loss, _ = smoothed_cross_entropy(logits, torch.tensor([5]), epsilon, 0)
    assert loss.item() == pytest.approx(entropy, abs=1e-5)
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.abs().max().item() < 1e-6


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 17])
@pytest.mark.parametrize("scale", [1, 20], ids=["safe logits", "logits that may overflow"])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "torch"])
def test_sliced_loss_and_gradients_equal_the_plain_ones(
    bias: bool, rows: int, scale: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(fused, "can_compute", lambda _: False)
    monkeypatch.setitem(loss_module._ROWS_PER_SLICE, "cpu", 5)
    torch.manual_seed(rows)
    tensors = [torch.randn(rows, 6) * scale, torch.randn(19, 6), torch.randn(19)][: 3 if bias else 2]
    labels = torch.randint(1, 19, (rows,))
    results = []
    for sliced in (True, False):
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        hidden, weight, offset = leaves[0], leaves[1], leaves[2] if bias else None
        if sliced:
            loss, nll = projected_cross_entropy(hidden, weight, offset, labels, 0.1)
        else:
            loss, nll = smoothed_cross_entropy(functional.linear(hidden, weight, offset), labels, 0.1, 0)
        (loss / 3).backward()
        results.append([loss.detach(), nll, *(leaf.grad for leaf in leaves)])
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-5, rtol=1e-5)


def test_without_gradients_only_the_sums_are_computed() -> None:
    hidden, weight, labels = torch.randn(7, 4), torch.randn(9, 4, requires_grad=True), torch.randint(1, 9, (7,))
    with torch.no_grad():
        loss, nll = projected_cross_entropy(hidden, weight, None, labels, 0.1)
    expected, expected_nll = smoothed_cross_entropy(hidden @ weight.t(), labels, 0.1, 0)
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(nll, expected_nll)
    assert not loss.requires_grad


def test_equals_torchs_own_cross_entropy_within_a_millionth() -> None:
    # torch spreads epsilon over the whole vocabulary. Without smoothing, the two losses are the same.
    torch.manual_seed(0)
    hidden, weight, labels = torch.randn(200, 32), torch.randn(500, 32), torch.randint(1, 500, (200,))
    loss, nll = projected_cross_entropy(hidden, weight, None, labels, 0.0)
    expected = functional.cross_entropy(hidden @ weight.t(), labels, reduction="sum")
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(nll, expected, rtol=1e-6, atol=0)


def test_logits_far_apart_neither_overflow_nor_lose_the_loss() -> None:
    hidden, weight, labels = torch.eye(2) * 300, torch.tensor([[0.0, 0], [1, 0], [0, 1]]), torch.tensor([1, 1])
    loss, nll = projected_cross_entropy(hidden.requires_grad_(), weight, None, labels, 0.0)
    assert nll.item() == pytest.approx(300)
    loss.backward()
    torch.testing.assert_close(hidden.grad, torch.tensor([[0.0, 0], [-1, 1]]))


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_bfloat16_states_change_loss_and_gradients_only_by_their_rounding(epsilon: float) -> None:
    torch.manual_seed(1)
    hidden, weight, offset = torch.randn(600, 64) / 4, torch.randn(300, 64) / 4, torch.randn(300)
    labels = torch.randint(1, 300, (600,))
    results: list[list[torch.Tensor]] = []
    for working in (torch.float32, torch.bfloat16):
        leaves = [tensor.clone().requires_grad_() for tensor in (hidden, weight, offset)]
        loss, nll = projected_cross_entropy(leaves[0].to(working), leaves[1], leaves[2], labels, epsilon)
        loss.backward()
        results.append([loss.detach(), nll, *(leaf.grad for leaf in leaves if leaf.grad is not None)])
    (loss, nll, *grads), (rough_loss, rough_nll, *rough_grads) = results
    assert rough_loss.dtype == torch.float32
    assert rough_grads[1].dtype == torch.float32
    assert rough_loss.item() == pytest.approx(loss.item(), rel=1e-3)
    assert rough_nll.item() == pytest.approx(nll.item(), rel=1e-3)
    for grad, rough in zip(grads, rough_grads, strict=True):
        assert ((grad - rough).norm() / grad.norm()).item() < 0.01


def _sampled(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, labels: torch.Tensor, sample: TokenSample
) -> tuple[list[torch.Tensor | None], float]:
    """Loss, nll and gradients with a sample of the vocabulary, and the number of tokens in the sample."""
    leaf, labels = hidden.clone().requires_grad_(), labels.clone()
    projection = PreparedProjection(weight, bias, torch.float32, sample=sample)
    loss, nll = projected_cross_entropy(leaf, weight, bias, labels, 0.1, projection)
    loss.backward()  # type: ignore[no-untyped-call]
    return [loss.detach(), nll, leaf.grad, *projection.finish()], len(sample.ids)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("share", [1.0, 0.25])
def test_a_sample_of_the_vocabulary_has_the_loss_of_a_softmax_with_weights(bias: bool, share: float) -> None:
    torch.manual_seed(3)
    hidden, weight, labels = torch.randn(9, 6), torch.randn(29, 6), torch.randint(1, 29, (9,))
    offset = torch.randn(29) if bias else None
    others = torch.rand(29) < share
    found, size = _sampled(hidden, weight, offset, labels, TokenSample.of([labels[:4], labels[4:]], others, share))

    counts = others / share
    counts[[0, *labels.tolist()]] = 1.0
    assert size == int((counts > 0).sum())
    leaves = [each.clone().requires_grad_() for each in (hidden, weight, offset) if each is not None]
    logits = functional.linear(*leaves)
    nll = (logits.exp() @ counts).log().sum() - logits.gather(1, labels[:, None]).sum()
    spread = (logits.exp() @ counts).log().sum() - logits[:, 1:].sum() / 28
    (0.9 * nll + 0.1 * spread).backward()
    expected = [0.9 * nll + 0.1 * spread, nll, *(leaf.grad for leaf in leaves)]
    for ours, plain in zip(found[: len(expected)], expected, strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-5, rtol=1e-5)
    if share == 1:
        whole, _ = smoothed_cross_entropy(functional.linear(hidden, weight, offset), labels, 0.1, 0)
        torch.testing.assert_close(found[0], whole)


def test_the_sum_of_the_softmax_over_samples_is_on_average_that_of_the_vocabulary() -> None:
    torch.manual_seed(4)
    logits, labels = torch.randn(1, 60), torch.tensor([7])
    sums = []
    for _ in range(3000):
        sample = TokenSample.of([labels], torch.rand(60) < 0.2, 0.2)
        assert sample.ids[sample.places[7]] == 7
        (_, nll, *_), _ = _sampled(torch.ones(1, 1), logits.t(), None, labels, sample)
        sums.append((nll + logits[0, 7]).exp())
    mean, error = torch.stack(sums).mean(), torch.stack(sums).std() / math.sqrt(len(sums))
    assert abs(mean - logits.exp().sum()) < 4 * error
    assert error < 0.02 * mean

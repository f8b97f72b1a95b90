"""Accelerated modules on a CPU, compared with the same modules in operations of torch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

pytest.importorskip("numba", reason="needs numba")

from dragoman.config import ModelSettings
from dragoman.model.attention import MultiHeadAttention, causal_mask, padding_mask
from dragoman.model.embedding import Embedding
from dragoman.model.layers import FeedForward, Residual
from dragoman.model.transformer import Transformer
from dragoman.training.step import fused
from dragoman.training.step.accelerated import Dropout, Randomness, accelerate

RATES = [0.0, 0.3]
Results = list[Tensor]


def results(module: torch.nn.Module, compute: Callable[..., Tensor], *inputs: Tensor, seed: int = 1) -> Results:
    """Return the output, and the gradients of a fixed function of the output for inputs and parameters."""
    randomness = Randomness()
    randomness.seed(seed)
    accelerate(module, randomness)
    module.zero_grad()
    given_ = [each.clone().requires_grad_(each.is_floating_point()) for each in inputs]
    output = compute(*given_)
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(2))
    (output.float() * weights).sum().backward()
    grads = [each.grad for each in given_ if each.requires_grad]
    parameters = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    return [output.detach(), *(each.clone() for each in (*grads, *parameters))]


def assert_same_in_one_pass(
    monkeypatch: pytest.MonkeyPatch, module: torch.nn.Module, compute: Callable[..., Tensor], *inputs: Tensor
) -> None:
    """Compare both ways: in float32 up to the order of sums, in bfloat16 as close to float32 as torch's operations."""
    exact = plain(monkeypatch, module, compute, *inputs)
    for one, other in zip(results(module, compute, *inputs), exact, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-5)
    rough = [each.bfloat16() if each.is_floating_point() else each for each in inputs]
    module.bfloat16()
    exact = plain(
        monkeypatch, module.float(), compute, *(each.float() if each.is_floating_point() else each for each in rough)
    )
    module.bfloat16()
    rounded = plain(monkeypatch, module, compute, *rough)
    for ours, torchs, wanted in zip(results(module, compute, *rough), rounded, exact, strict=True):
        assert ours.dtype == torchs.dtype
        assert distance(ours, wanted) <= 1.2 * distance(torchs, wanted) + 2e-3


def plain(monkeypatch: pytest.MonkeyPatch, module: torch.nn.Module, *rest: Any) -> Results:
    with monkeypatch.context() as patch:
        patch.setattr(fused, "can_compile", lambda: False)
        return results(module, *rest)


def distance(one: Tensor, other: Tensor) -> float:
    return float((one.float() - other.float()).norm() / (other.float().norm() + 1e-6))


def filled(module: torch.nn.Module, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) / max(1, parameter.size(-1)) ** 0.5
    return module.train()


def numbers(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("shape", [(1, 1, 2), (3, 5, 32), (2, 37, 50)])
def test_residual_and_norm(monkeypatch: pytest.MonkeyPatch, rate: float, norm_first: bool, shape: Any) -> None:
    module = filled(Residual(shape[-1], rate, norm_first))

    def compute(hidden: Tensor, output: Tensor) -> Tensor:
        return module(hidden, lambda read: read + output)  # type: ignore[no-any-return]

    assert_same_in_one_pass(monkeypatch, module, compute, numbers(*shape), numbers(*shape, seed=4))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("shape", [(1, 1, 2), (3, 5, 32), (2, 64, 6)])
def test_feed_forward(monkeypatch: pytest.MonkeyPatch, rate: float, activation: str, shape: Any) -> None:
    module = filled(FeedForward(shape[-1], 2 * shape[-1] + 1, rate, activation))
    assert_same_in_one_pass(monkeypatch, module, module, numbers(*shape))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize(("length", "bias"), [(1, True), (7, False), (16, True), (33, True)])
def test_causal_self_attention(
    monkeypatch: pytest.MonkeyPatch, rate: float, heads: int, length: int, bias: bool
) -> None:
    module = filled(MultiHeadAttention(32, heads, rate, bias))
    mask = causal_mask(length, torch.device("cpu"))
    assert_same_in_one_pass(
        monkeypatch, module, lambda hidden: module(hidden, hidden, hidden, mask), numbers(3, length, 32)
    )


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (9, 5), (5, 17), (3, 128), (2, 129)])
def test_attention_to_rows_of_any_length(monkeypatch: pytest.MonkeyPatch, rate: float, queries: int, keys: int) -> None:
    module = filled(MultiHeadAttention(32, 2, rate, bias=True))
    mask = padding_mask(torch.tensor([keys, 1, (keys + 1) // 2]), keys)
    hidden, memory = numbers(3, queries, 32), numbers(3, keys, 32, seed=5)
    assert_same_in_one_pass(
        monkeypatch, module, lambda hidden, memory: module(hidden, memory, memory, mask), hidden, memory
    )


def test_attention_without_a_mask_sees_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    module = filled(MultiHeadAttention(32, 2, 0.0, bias=True))
    assert_same_in_one_pass(monkeypatch, module, lambda hidden: module(hidden, hidden, hidden), numbers(2, 6, 32))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_embedding(monkeypatch: pytest.MonkeyPatch, rate: float, positions: str) -> None:
    module = filled(Embedding(11, 6, rate, positions, 20))
    ids = torch.tensor([[1, 5, 5, 10], [0, 1, 2, 3]])
    exact = plain(monkeypatch, module, module, ids)
    for one, other in zip(results(module, module, ids), exact, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-5)
    accelerate(module, Randomness(), torch.bfloat16)
    torch.manual_seed(0)
    rounded = module(ids)
    torch.manual_seed(0)
    assert rounded.dtype == torch.bfloat16
    accelerate(module, Randomness())
    torch.testing.assert_close(rounded.float(), module(ids), rtol=8e-3, atol=2e-5)


@pytest.mark.parametrize("wrong", [-1, 11])
def test_an_id_without_an_embedding_is_an_error(wrong: int) -> None:
    embedding = Embedding(11, 6, 0.1).train()
    accelerate(embedding, Randomness())
    with pytest.raises(IndexError, match=f"{wrong}.* do not fit 11 embeddings"):
        embedding(torch.tensor([[1, wrong]]))


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=6),
    st.integers(1, 20),
    st.sampled_from([(32, 2), (48, 3), (16, 1), (24, 3)]),
    st.booleans(),
    st.sampled_from([0.0, 0.2]),
)
def test_a_whole_model_learns_the_same(
    lengths: list[int], length: int, width: tuple[int, int], norm_first: bool, rate: float
) -> None:
    """Torch computes attention with heads of 8, and machine code the other parts of the same model."""
    torch.manual_seed(0)
    shape = {"d_model": width[0], "num_heads": width[1], "d_ff": 20, "num_encoder_layers": 1, "num_decoder_layers": 1}
    rates = {"dropout": rate, "attention_dropout": rate, "activation_dropout": rate}
    model = Transformer(ModelSettings(preset="custom", norm_first=norm_first, **shape, **rates), 30, 30).train()
    src_lengths = torch.tensor(lengths)
    src_ids = torch.randint(4, 30, (len(lengths), max(lengths)))
    tgt_ids = torch.randint(4, 30, (len(lengths), length))
    with pytest.MonkeyPatch.context() as patch:
        exact = plain(patch, model, lambda: model(src_ids, src_lengths, tgt_ids))
    for one, other in zip(results(model, lambda: model(src_ids, src_lengths, tgt_ids)), exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_values_that_are_not_finite_stay_visible(dtype: torch.dtype, wrong: float) -> None:
    hidden = torch.ones(1, 3, 32, dtype=dtype, requires_grad=True)
    bad = torch.ones(1, 3, 32, dtype=dtype).index_fill_(1, torch.tensor([1]), wrong).requires_grad_()
    residual, layer = (module.to(dtype) for module in (Residual(32, 0.1, True), FeedForward(32, 8, 0.0, "relu")))
    attention = MultiHeadAttention(32, 2, 0.0, bias=True).to(dtype)
    torch.nn.init.ones_(layer.inner.weight)
    for module in (residual, layer, attention):
        accelerate(module, Randomness())
    outputs = (
        residual(hidden, lambda read: bad),
        residual(bad, lambda read: read),
        layer(bad),
        attention(bad, bad, bad),
    )
    for output in outputs:
        assert not output.isfinite().all()


@pytest.mark.parametrize("kind", ["any key", "no key", "later keys"])
def test_any_boolean_mask_is_computed_as_the_definition_does(kind: str) -> None:
    """Machine code supports only masks that allow the first N keys."""
    mask = torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(1)) < 0.6
    if kind == "no key":
        mask[1, 0, 2] = False
    elif kind == "later keys":
        mask = torch.ones(5, 7, dtype=torch.bool).triu(1)
    module = filled(MultiHeadAttention(32, 2, 0.0, bias=True))
    hidden, memory = numbers(2, 5, 32).requires_grad_(), numbers(2, 7, 32, seed=5).requires_grad_()
    expected = module(hidden, memory, memory, mask)
    accelerate(module, Randomness())
    found = module(hidden, memory, memory, mask)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    weights = torch.randn(expected.shape)
    grads = [torch.autograd.grad((each * weights).sum(), (hidden, memory)) for each in (found, expected)]
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)
    assert all(bool(each.isfinite().all()) for each in grads[0])


def test_masks_of_the_model_are_computed_by_machine_code() -> None:
    hidden = torch.ones(1, 9, 32)
    for mask in (None, padding_mask(torch.tensor([9, 1]), 9), causal_mask(9, torch.device("cpu"))):
        assert fused.attention_active(hidden, mask, 16)


def test_dropout_samples_the_same_bits_with_and_without_machine_code() -> None:
    module = Dropout(0.4).train()
    module.randomness = Randomness()
    module.randomness.seed(0)
    kept = module(torch.ones(7, 9)) != 0
    module.randomness.seed(0)
    bits = module.bits(7, 9)
    assert torch.equal(bits.bits >= bits.first_kept, kept)
    assert not module.eval().bits(7, 9).drops


def test_torch_computes_without_gradients_and_for_other_dtypes() -> None:
    hidden = torch.ones(1, 2, 32)
    assert fused.active(hidden)
    assert not fused.active(hidden.double())
    assert not fused.active(hidden.to("meta"))
    with torch.no_grad():
        assert not fused.active(hidden)
    assert not fused.attention_active(torch.ones(1, 129, 32), None, 16)
    assert not fused.attention_active(hidden, None, 8)


def test_acceleration_changes_classes_only() -> None:
    """Parameters, their names, hooks and the sizes that `print` shows stay the same."""
    model = Transformer(ModelSettings(preset="custom", d_model=16, num_heads=2, d_ff=20), 30, 30)
    names, shown = [name for name, _ in model.named_parameters()], repr(model)
    called = []
    model.encoder.layers[0].self_attn.register_forward_hook(lambda *_: called.append(True))  # type: ignore[union-attr]
    accelerate(model, Randomness())
    assert [name for name, _ in model.named_parameters()] == names
    assert repr(model).count("bias=True") == shown.count("bias=True")
    ids = torch.tensor([[5, 6]])
    model(ids, torch.tensor([2]), ids)
    assert called


# Padded products


@pytest.mark.parametrize("shape", [(1, 6), (63, 6), (64, 6), (65, 6), (5, 13, 6), (8, 8, 6)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_equal_torchs_linear_and_its_gradients(shape: tuple[int, ...], bias: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(6, 10, bias=bias).to(dtype)
    inputs, weights = torch.randn(shape, dtype=dtype), torch.randn(*shape[:-1], 10, dtype=dtype)
    found = []
    for product in (fused.linear, functional.linear):
        layer.zero_grad()
        rows = inputs.clone().requires_grad_()
        output = product(rows, layer.weight, layer.bias)
        (output * weights).sum().backward()
        grads = [parameter.grad.clone() for parameter in layer.parameters() if parameter.grad is not None]
        found.append([output.detach(), rows.grad, *grads])
    for ours, torchs in zip(*found, strict=True):
        torch.testing.assert_close(ours, torchs)


def test_products_in_bfloat16_have_few_shapes() -> None:
    counts = range(1, 2049)
    rough, exact = torch.empty(0, dtype=torch.bfloat16), torch.empty(0)
    assert len({count + fused.missing_rows(count, rough) for count in counts}) == 32
    assert all(0 <= fused.missing_rows(count, rough) < 64 for count in counts)
    assert not any(fused.missing_rows(count, exact) for count in counts)

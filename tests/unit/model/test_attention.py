"""Multi-head attention against weights computed by hand and `torch.nn.MultiheadAttention`."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman.errors import DataError
from dragoman.model.attention import MultiHeadAttention, attention_weights


def random_attention(bias: bool = True, dropout: float = 0.0) -> MultiHeadAttention:
    torch.manual_seed(0)
    attention = MultiHeadAttention(24, 3, dropout, bias)
    for parameter in attention.parameters():
        nn.init.normal_(parameter, std=0.5)
    return attention.eval()


def torch_attention(attention: MultiHeadAttention) -> nn.MultiheadAttention:
    """A `torch.nn.MultiheadAttention` with the same weights."""
    bias = attention.in_bias is not None
    oracle = nn.MultiheadAttention(24, 3, bias=bias, batch_first=True)
    names = {"in_weight": "in_proj_weight", "in_bias": "in_proj_bias"}
    state = {
        names.get(name, name.replace("out.", "out_proj.")): value for name, value in attention.state_dict().items()
    }
    oracle.load_state_dict(state)
    return oracle.eval()


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = ((2, 5, 24), (2, 7, 24), (2, 7, 24))
    query, key, value = (torch.randn(shape, generator=generator) for shape in shapes)
    return query, key, value


def test_weights_equal_hand_computed_ones() -> None:
    # softmax(Q K^T / sqrt(2)) for two queries and two keys.
    query = torch.tensor([[[[1.0, 0.0], [0.0, 2.0]]]])
    key = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
    first = torch.exp(torch.tensor(2**-0.5))
    second = torch.exp(torch.tensor(2 * 2**-0.5))
    expected = torch.stack(
        [torch.stack([first, torch.tensor(1.0)]) / (first + 1), torch.stack([torch.tensor(1.0), second]) / (second + 1)]
    )
    torch.testing.assert_close(attention_weights(query, key, None)[0, 0], expected)
    masked = attention_weights(query, key, torch.tensor([[True, False], [True, True]]))[0, 0]
    torch.testing.assert_close(masked[0], torch.tensor([1.0, 0.0]))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_output_equals_torch_for_different_query_key_and_value(bias: bool, masked: bool) -> None:
    attention, mask = random_attention(bias), None
    if masked:
        mask = torch.rand(5, 7, generator=torch.Generator().manual_seed(2)) < 0.5
        mask[:, 3] = True
    weights: list[Tensor] = []
    forbidden = None if mask is None else ~mask  # torch's mask is True where a query may not attend
    expected, expected_weights = torch_attention(attention)(*inputs(), attn_mask=forbidden, average_attn_weights=False)
    torch.testing.assert_close(attention(*inputs(), mask), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(attention(*inputs(), mask, weights), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(weights[0], expected_weights, atol=1e-5, rtol=0)


@pytest.mark.parametrize("with_weights", [True, False])
def test_query_without_keys_gets_zeros_before_the_output_projection(with_weights: bool) -> None:
    attention = random_attention()
    mask = torch.ones(2, 1, 5, 7, dtype=torch.bool)
    mask[1, 0, 2] = False
    query, key, value = (each.requires_grad_() for each in inputs())
    weights: list[Tensor] | None = [] if with_weights else None
    output = attention(query, key, value, mask, weights)
    torch.testing.assert_close(output[1, 2], attention.out.bias)
    assert weights is None or not weights[0][1, :, 2].any()
    grads = torch.autograd.grad(output.square().sum(), (query, key, value, *attention.parameters()))
    assert all(bool(each.isfinite().all()) for each in grads)
    others = attention(query, key, value)
    others[1, 2] = output[1, 2]
    torch.testing.assert_close(output, others, atol=1e-5, rtol=0)


def test_dropout_acts_on_the_weights_with_and_without_returning_them() -> None:
    attention = random_attention(dropout=0.5)
    with torch.no_grad():
        attention.in_weight *= 0.2  # keeps the variance of the outputs small
    expected = attention(*inputs())
    attention.train()
    for with_weights in (True, False):
        outputs = torch.stack([attention(*inputs(), None, [] if with_weights else None) for _ in range(1000)])
        deviation = outputs.std(0)
        assert deviation.min() > 0.01
        assert ((outputs.mean(0) - expected).abs() < 5 * deviation / 1000**0.5).all()


@settings(max_examples=25)
@given(st.integers(2, 4), st.sampled_from([1, 2, 3]), st.booleans(), st.integers(0, 99))
def test_a_mask_of_three_dimensions_is_refused_and_the_two_lines_mean_what_they_say(
    num_sentences: int, num_heads: int, per_sentence: bool, seed: int
) -> None:
    """The library's masks (B * H, T, S) are the oracle: each of them has its own rows."""
    generator = torch.Generator().manual_seed(seed)
    attention = MultiHeadAttention(6, num_heads).eval()
    x = torch.randn(num_sentences, 5, 6, generator=generator)
    count = num_sentences if per_sentence else num_heads
    mask = torch.rand(count, 5, 5, generator=generator).lt(0.5) | torch.eye(5, dtype=torch.bool)
    if count > 1:
        with pytest.raises(DataError, match=r"`mask\[:, None\]` .* sentence, or `mask\[None\]` .* head\.$"):
            attention(x, x, x, mask)
    else:
        torch.testing.assert_close(attention(x, x, x, mask), attention(x, x, x, mask[0]), rtol=0, atol=1e-5)
    oracle = nn.MultiheadAttention(6, num_heads, batch_first=True)
    oracle.load_state_dict(dict(zip(oracle.state_dict(), attention.state_dict().values(), strict=True)))
    one = mask[:, None] if per_sentence else mask[None]
    of_each = one.expand(num_sentences, num_heads, 5, 5).flatten(0, 1)
    expected, _ = oracle(x, x, x, attn_mask=~of_each)
    torch.testing.assert_close(attention(x, x, x, one), expected, atol=1e-5, rtol=0)

"""Recorded attention weights are the weights used, compared with `torch.nn.MultiheadAttention`."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dragoman.config import ModelSettings
from dragoman.model.attention import MultiHeadAttention, causal_mask, padding_mask
from dragoman.model.transformer import Transformer

SETTINGS = ModelSettings(
    preset="custom", d_model=24, d_ff=32, num_heads=3, num_encoder_layers=3, num_decoder_layers=2, tie="none"
)
LENGTHS = torch.tensor([9, 4])


@pytest.fixture(params=[True, False], ids=["norm_first", "norm_last"])
def model(request: pytest.FixtureRequest) -> Transformer:
    torch.manual_seed(1)
    model = Transformer(replace(SETTINGS, norm_first=request.param), 20, 20).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def _inputs() -> tuple[Tensor, Tensor]:
    return torch.randint(4, 20, (2, 9)), torch.randint(4, 20, (2, 7))


def _library(attention: MultiHeadAttention) -> nn.MultiheadAttention:
    """Return torch's module with the same weights."""
    oracle = nn.MultiheadAttention(24, 3, batch_first=True)
    oracle.in_proj_weight.data.copy_(attention.in_weight)
    oracle.in_proj_bias.data.copy_(attention.in_bias)
    oracle.out_proj.weight.data.copy_(attention.out.weight)
    oracle.out_proj.bias.data.copy_(attention.out.bias)
    return oracle.eval()


def _record(model: Transformer, kind: str) -> list[tuple[MultiHeadAttention, Any, Tensor]]:
    """Record each attention module of a kind with its inputs and output in the next pass."""
    calls: list[tuple[MultiHeadAttention, Any, Tensor]] = []
    for name, module in model.named_modules():
        if (
            isinstance(module, MultiHeadAttention)
            and name.startswith(kind.split()[0])
            and name.endswith(kind.split()[1])
        ):
            module.register_forward_hook(lambda module, given, output: calls.append((module, given, output)))
    return calls


@torch.no_grad()
def test_weights_of_all_layers_equal_torchs_and_produce_the_outputs(model: Transformer) -> None:
    src, tgt = _inputs()
    logits = model(src, LENGTHS, tgt)
    kinds = ("encoder self_attn", "decoder self_attn", "decoder cross_attn")
    calls = [_record(model, kind) for kind in kinds]
    shown = model.attention(src, LENGTHS, tgt)
    padding, future = ~padding_mask(LENGTHS, 9)[:, 0, 0], ~causal_mask(7, torch.device("cpu"))
    for made, found, masks in zip(
        calls,
        (shown.encoder_self, shown.decoder_self, shown.cross),
        ({"key_padding_mask": padding}, {"attn_mask": future}, {"key_padding_mask": padding}),
        strict=True,
    ):
        for (attention, given, output), weights in zip(made, found, strict=True):
            expected, expected_weights = _library(attention)(*given[:3], **masks, average_attn_weights=False)
            torch.testing.assert_close(weights, expected_weights, atol=1e-5, rtol=0)
            torch.testing.assert_close(output, expected, atol=1e-5, rtol=0)
    last: list[Tensor] = []
    model.decoder.register_forward_hook(lambda module, given, output: last.append(output))
    model.attention(src, LENGTHS, tgt)
    torch.testing.assert_close(model.projection(last[0]), logits, atol=1e-4, rtol=0)


@torch.no_grad()
def test_rows_sum_to_one_masked_weights_are_zero_and_no_state_remains(model: Transformer) -> None:
    src, tgt = _inputs()
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    shown = model.attention(src, LENGTHS, tgt)
    for weights in (*shown.encoder_self, *shown.decoder_self, *shown.cross):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5, rtol=0)
    for weights in (*shown.encoder_self, *shown.cross):
        assert (weights.masked_select(~padding_mask(LENGTHS, 9)) == 0).all()
    for weights in shown.decoder_self:
        assert (weights.masked_select(~causal_mask(7, torch.device("cpu"))) == 0).all()
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before

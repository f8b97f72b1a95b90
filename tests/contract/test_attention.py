"""Attention that is shown is attention that was used: every layer's output follows from the weights it returns."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from dragoman.config import ModelSettings
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.masks import causal_mask, padding_mask
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
    """torch's own module with the same weights."""
    oracle = nn.MultiheadAttention(24, 3, batch_first=True)
    oracle.in_proj_weight.data.copy_(attention.in_weight)
    oracle.in_proj_bias.data.copy_(attention.in_bias)
    oracle.out_proj.weight.data.copy_(attention.out.weight)
    oracle.out_proj.bias.data.copy_(attention.out.bias)
    return oracle.eval()


@torch.no_grad()
def test_weights_of_all_layers_are_the_librarys_and_make_the_layers_outputs(model: Transformer) -> None:
    src, tgt = _inputs()
    shown = model.attention(src, LENGTHS, tgt)
    src_mask, self_mask = padding_mask(LENGTHS, 9), causal_mask(7, torch.device("cpu"))
    hidden_src, future = ~src_mask[:, 0, 0], ~self_mask
    hidden = model.src_embedding(src)
    for layer, weights in zip(model.encoder.layers, shown.encoder_self, strict=True):
        read = layer.self_attn_residual.enter(hidden)
        output, expected = _library(layer.self_attn)(
            read, read, read, key_padding_mask=hidden_src, average_attn_weights=False
        )
        torch.testing.assert_close(weights, expected, atol=1e-5, rtol=0)
        value = layer.self_attn.project(read)[2]
        torch.testing.assert_close(layer.self_attn.merge(weights @ value), output, atol=1e-5, rtol=0)
        shell, between = layer.feed_forward_residual, layer.self_attn_residual.leave(hidden, output)
        hidden = layer(hidden, src_mask)
        torch.testing.assert_close(
            shell.leave(between, layer.feed_forward(shell.enter(between))), hidden, atol=1e-5, rtol=0
        )
    memory = model.encoder.norm(hidden)
    hidden = model.tgt_embedding(tgt)
    for layer, own, cross in zip(model.decoder.layers, shown.decoder_self, shown.cross, strict=True):
        read = layer.self_attn_residual.enter(hidden)
        _, expected = _library(layer.self_attn)(read, read, read, attn_mask=future, average_attn_weights=False)
        torch.testing.assert_close(own, expected, atol=1e-5, rtol=0)
        between = layer.self_attn_residual.leave(hidden, layer.self_attn.merge(own @ layer.self_attn.project(read)[2]))
        read = layer.cross_attn_residual.enter(between)
        _, expected = _library(layer.cross_attn)(
            read, memory, memory, key_padding_mask=hidden_src, average_attn_weights=False
        )
        torch.testing.assert_close(cross, expected, atol=1e-5, rtol=0)
        value = layer.cross_attn.project_memory(memory)[1]
        between = layer.cross_attn_residual.leave(between, layer.cross_attn.merge(cross @ value))
        shell = layer.feed_forward_residual
        hidden = layer(hidden, memory, self_mask, src_mask)
        torch.testing.assert_close(
            shell.leave(between, layer.feed_forward(shell.enter(between))), hidden, atol=1e-5, rtol=0
        )


@torch.no_grad()
def test_rows_sum_to_one_masked_weights_are_zero_and_nothing_stays_behind(model: Transformer) -> None:
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

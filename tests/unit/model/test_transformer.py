"""The model against torch.nn.Transformer with the same weights, and what its parts promise."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from dragoman.config import PRESETS, ModelSettings
from dragoman.model.attention import attention_weights
from dragoman.model.embedding import Embedding, marian_positions, sinusoidal_positions
from dragoman.model.masks import causal_mask, padding_mask
from dragoman.model.transformer import Transformer

SMALL = ModelSettings(
    preset="custom",
    d_model=32,
    d_ff=48,
    num_heads=4,
    num_encoder_layers=3,
    num_decoder_layers=2,
    dropout=0.0,
    tie="none",
)
SRC_LENGTHS = torch.tensor([9, 4, 1, 7])


def _inputs(seed: int = 0, vocab_size: int = 20) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(4, vocab_size, (4, 9), generator=generator)
    src[torch.arange(9) >= SRC_LENGTHS[:, None]] = 0
    return src, torch.randint(4, vocab_size, (4, 8), generator=generator)


def _randomised(model: Transformer, seed: int = 1) -> Transformer:
    """Every parameter, biases and norms too, away from its initial value."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model


def _oracle(model: Transformer, settings: ModelSettings) -> nn.Transformer:
    """torch.nn.Transformer with the layers' weights of `model`, without the final norms that post-norm lacks."""
    oracle = nn.Transformer(
        settings.d_model,
        settings.num_heads,
        settings.num_encoder_layers,
        settings.num_decoder_layers,
        settings.d_ff,
        dropout=0.0,
        activation=settings.activation,
        batch_first=True,
        norm_first=settings.norm_first,
    )
    if not settings.norm_first:
        oracle.encoder.norm = oracle.decoder.norm = None
    renamed = {}
    for name, value in {**_stack(model, "encoder"), **_stack(model, "decoder")}.items():
        parts = {
            "self_attn.in_weight": "self_attn.in_proj_weight",
            "self_attn.in_bias": "self_attn.in_proj_bias",
            "self_attn.out": "self_attn.out_proj",
            "cross_attn.in_weight": "multihead_attn.in_proj_weight",
            "cross_attn.in_bias": "multihead_attn.in_proj_bias",
            "cross_attn.out": "multihead_attn.out_proj",
            "feed_forward.inner": "linear1",
            "feed_forward.outer": "linear2",
            "self_attn_residual.norm": "norm1",
            "cross_attn_residual.norm": "norm2",
            "feed_forward_residual.norm": "norm2" if name.startswith("encoder") else "norm3",
        }
        for ours, theirs in parts.items():
            name = name.replace(f".{ours}", f".{theirs}") if f".{ours}" in name else name
        renamed[name] = value
    oracle.load_state_dict(renamed)
    return oracle.eval()


def _stack(model: Transformer, name: str) -> dict[str, Tensor]:
    return {f"{name}.{key}": value for key, value in getattr(model, name).state_dict().items()}


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_equals_torch_transformer_with_padding_and_causal_masks(norm_first: bool, activation: str) -> None:
    settings = replace(SMALL, norm_first=norm_first, activation=activation)
    model = _randomised(Transformer(settings, 20, 23)).eval()
    oracle = _oracle(model, settings)
    src, tgt = _inputs()
    padding = src == 0
    src_embedded, tgt_embedded = model.src_embedding(src), model.tgt_embedding(tgt)
    expected = model.projection(
        oracle(
            src_embedded,
            tgt_embedded,
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(tgt.size(1)),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
    )
    torch.testing.assert_close(model(src, SRC_LENGTHS, tgt), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("norm_first", [True, False])
def test_gradients_equal_those_of_torch_transformer(norm_first: bool) -> None:
    settings = replace(SMALL, norm_first=norm_first)
    model = _randomised(Transformer(settings, 20, 23))
    oracle = _oracle(model, settings).train()
    src, tgt = _inputs()
    mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
    states = oracle(
        model.src_embedding(src),
        model.tgt_embedding(tgt),
        None,
        mask,
        None,
        src == 0,
        None,
        src == 0,
        tgt_is_causal=True,
    )
    states.square().sum().backward()
    expected = [layer.linear1.weight.grad for layer in (*oracle.encoder.layers, *oracle.decoder.layers)]
    model.zero_grad()
    model.decode(tgt, model.encode(src, SRC_LENGTHS), SRC_LENGTHS).square().sum().backward()
    layers = (*model.encoder.layers, *model.decoder.layers)
    for layer, grad in zip(layers, expected, strict=True):
        torch.testing.assert_close(layer.feed_forward.inner.weight.grad, grad, atol=1e-3, rtol=1e-4)


def test_long_sequences_take_the_fused_path_to_the_same_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _randomised(Transformer(SMALL, 20, 20)).eval()
    src, tgt = _inputs()
    plain = model(src, SRC_LENGTHS, tgt)
    monkeypatch.setattr("dragoman.model.attention.PLAIN_MAX_KEYS_ON_CPU", 0)
    torch.testing.assert_close(model(src, SRC_LENGTHS, tgt), plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize("norm_first", [True, False])
def test_attention_weights_are_those_the_forward_pass_used(norm_first: bool) -> None:
    model = _randomised(Transformer(replace(SMALL, norm_first=norm_first), 20, 20)).eval()
    src, tgt = _inputs()
    attention = model.attention(src, SRC_LENGTHS, tgt)
    assert len(attention.encoder_self) == 3
    assert len(attention.decoder_self) == len(attention.cross) == 2
    for weights in (*attention.encoder_self, *attention.decoder_self, *attention.cross):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5, rtol=0)
    hidden_from = ~padding_mask(SRC_LENGTHS, 9)
    assert all(
        (weights.masked_select(hidden_from) == 0).all() for weights in (*attention.encoder_self, *attention.cross)
    )
    future = ~causal_mask(8, torch.device("cpu"))
    assert all((weights.masked_select(future) == 0).all() for weights in attention.decoder_self)
    # The first encoder layer's output, recomputed from the returned weights.
    layer = model.encoder.layers[0]
    embedded = model.src_embedding(src)
    _, _, value = layer.self_attn.project(layer.self_attn_residual.enter(embedded))
    output = layer.self_attn.merge(attention.encoder_self[0] @ value)
    hidden = layer.self_attn_residual.leave(embedded, output)
    shell = layer.feed_forward_residual
    expected = shell.leave(hidden, layer.feed_forward(shell.enter(hidden)))
    torch.testing.assert_close(layer(embedded, padding_mask(SRC_LENGTHS, 9)), expected, atol=1e-5, rtol=0)


def test_attention_by_hand() -> None:
    # softmax(Q K^T / sqrt(2)) for two queries and two keys, worked out with pencil and paper.
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


def test_positions_are_the_papers_at_any_length_and_start() -> None:
    table = sinusoidal_positions(5000, 16)
    for position, dimension in [(0, 0), (1, 0), (3, 4), (4999, 14)]:
        angle = position / 10000 ** (dimension / 16)
        assert table[position, dimension].item() == pytest.approx(
            torch.sin(torch.tensor(angle, dtype=torch.float64)).item(), abs=2e-3
        )
        assert table[position, dimension + 1].item() == pytest.approx(
            torch.cos(torch.tensor(angle, dtype=torch.float64)).item(), abs=2e-3
        )
    torch.testing.assert_close(sinusoidal_positions(3, 16, start=700), table[700:703])


def test_embeddings_are_scaled_by_the_root_of_the_width() -> None:
    embedding = Embedding(10, 64, dropout=0.0).eval()
    ids = torch.tensor([[7, 3]])
    expected = embedding.weight[[7, 3]] * 8 + sinusoidal_positions(2, 64)
    torch.testing.assert_close(embedding(ids)[0], expected)
    assert 0.7 < (Embedding(4000, 64, 0.0).weight * 8).std().item() < 1.3


def test_learned_positions_end_where_they_end() -> None:
    model = Transformer(replace(SMALL, positions="learned", max_positions=8), 20, 20).eval()
    src, tgt = _inputs()
    with pytest.raises(ValueError, match="position 9 is beyond the 8 learned"):
        model.encode(src, SRC_LENGTHS)
    model.decode(tgt, model.encode(src[:, :8], SRC_LENGTHS.clamp(max=8)), SRC_LENGTHS.clamp(max=8))


@pytest.mark.parametrize(("tie", "distinct"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_ties_are_one_tensor(tie: str, distinct: int) -> None:
    model = Transformer(replace(SMALL, tie=tie), 20, 20)
    tensors = [model.src_embedding.weight, model.tgt_embedding.weight, model.projection.weight]
    assert len({id(tensor) for tensor in tensors}) == distinct
    model(*_forward_inputs()).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert len({tensor.data_ptr() for tensor in tensors}) == distinct


def _forward_inputs() -> tuple[Tensor, Tensor, Tensor]:
    src, tgt = _inputs()
    return src, SRC_LENGTHS, tgt


def test_one_tensor_cannot_embed_two_vocabularies() -> None:
    with pytest.raises(ValueError, match="20 and 21"):
        Transformer(replace(SMALL, tie="all"), 20, 21)


def test_matrices_start_xavier_uniform_block_by_block() -> None:
    torch.manual_seed(0)
    model = Transformer(replace(PRESETS["base"], num_encoder_layers=1, num_decoder_layers=1), 50, 50)
    layer = model.encoder.layers[0]
    for matrix in (*layer.self_attn.in_weight.chunk(3), layer.self_attn.out.weight, layer.feed_forward.inner.weight):
        bound = (6 / sum(matrix.shape)) ** 0.5
        assert bound * 0.99 < matrix.abs().max().item() <= bound
        assert matrix.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)
    assert layer.self_attn.in_bias.abs().max() == layer.feed_forward.inner.bias.abs().max() == 0


def test_untrained_tied_model_has_logits_of_about_unit_variance() -> None:
    torch.manual_seed(0)
    model = Transformer(PRESETS["small"], 1000, 1000).eval()
    src, tgt = _inputs(vocab_size=1000)
    assert 0.7 < model(src, SRC_LENGTHS, tgt).std().item() < 1.5


def test_marian_positions_are_the_same_numbers_in_halves():
    table, interleaved = marian_positions(700, 16, start=5), sinusoidal_positions(700, 16, start=5)
    assert torch.equal(table[:, :8], interleaved[:, 0::2])
    assert torch.equal(table[:, 8:], interleaved[:, 1::2])
    embedding = Embedding(10, 16, 0.0, "marian")
    expected = embedding.weight[[7, 3]] * 4 + marian_positions(2, 16, start=9)
    torch.testing.assert_close(embedding(torch.tensor([[7, 3]]), start=9)[0], expected)

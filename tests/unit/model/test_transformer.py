"""Positions, embeddings, ties, hooks and initialization of the Transformer.

tests/contract/test_one_transformer.py compares its outputs with `torch.nn.Transformer`.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from dragoman.config import PRESETS, ModelSettings
from dragoman.errors import ConfigError, DataError
from dragoman.model.embedding import Embedding, marian_positions, sinusoidal_positions
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


def _randomize(model: Transformer, seed: int = 1) -> Transformer:
    """The model with noise added to every parameter, biases and norms included."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model


def test_positions_follow_the_paper_at_any_length_and_start() -> None:
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


def test_embeddings_are_scaled_by_the_square_root_of_d_model() -> None:
    embedding = Embedding(10, 64, dropout=0.0).eval()
    ids = torch.tensor([[7, 3]])
    expected = embedding.weight[[7, 3]] * 8 + sinusoidal_positions(2, 64)
    torch.testing.assert_close(embedding(ids)[0], expected)
    assert 0.7 < (Embedding(4000, 64, 0.0).weight * 8).std().item() < 1.3


def test_sequence_longer_than_the_learned_positions_raises() -> None:
    model = Transformer(replace(SMALL, positions="learned", max_positions=8), 20, 20).eval()
    src, tgt = _inputs()
    with pytest.raises(DataError, match=r"at most 8 tokens, the learned positions .`max_positions`., but has 9"):
        model.encode(src, SRC_LENGTHS)
    model.decode(tgt, model.encode(src[:, :8], SRC_LENGTHS.clamp(max=8)), SRC_LENGTHS.clamp(max=8))


@pytest.mark.parametrize(("tie", "distinct"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_tied_weights_are_one_tensor(tie: str, distinct: int) -> None:
    model = Transformer(replace(SMALL, tie=tie), 20, 20)
    tensors = [model.src_embedding.weight, model.tgt_embedding.weight, model.projection.weight]
    assert len({id(tensor) for tensor in tensors}) == distinct
    model(*_forward_inputs()).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert len({tensor.data_ptr() for tensor in tensors}) == distinct


def _forward_inputs() -> tuple[Tensor, Tensor, Tensor]:
    src, tgt = _inputs()
    return src, SRC_LENGTHS, tgt


@pytest.mark.parametrize(
    ("changes", "sizes", "message"),
    [
        ({"num_heads": 5}, (20, 20), "`model.d_model` must be a multiple of `model.num_heads` .5., but is 32"),
        ({"d_model": 33, "num_heads": 3}, (20, 20), "`model.d_model` must be even for sinusoidal positions"),
        ({"d_model": 33, "num_heads": 3, "positions": "marian"}, (20, 20), "`model.d_model` must be even"),
        ({"tie": "all"}, (20, 21), "`model.tie` must not be .all. for vocabularies of 20 and 21 entries"),
    ],
)
def test_impossible_settings_raise(changes: dict[str, object], sizes: tuple[int, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Transformer(replace(SMALL, **changes), *sizes)  # type: ignore[arg-type]


def test_learned_positions_allow_an_odd_d_model() -> None:
    model = Transformer(replace(SMALL, d_model=33, num_heads=3, positions="learned"), 20, 20)
    assert model(*_forward_inputs()).shape == (4, 8, 20)


@pytest.mark.parametrize("with_gradients", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_forward_hooks_fire_on_every_module(with_gradients: bool, norm_first: bool) -> None:
    model = Transformer(replace(SMALL, norm_first=norm_first, dropout=0.1), 20, 20)
    called: dict[str, int] = {}
    for name, module in model.named_modules():
        module.register_forward_hook(lambda *_, name=name: called.update({name: called.get(name, 0) + 1}))
    with torch.set_grad_enabled(with_gradients):
        model(*_forward_inputs())
    # scaled_dot_product_attention applies the dropout of attention weights itself. Module lists are never called.
    silent = ("self_attn.dropout", "cross_attn.dropout", "layers")
    assert called == {name: 1 for name, _ in model.named_modules() if not name.endswith(silent)}


def test_print_shows_the_sizes() -> None:
    shown = repr(Transformer(replace(SMALL, positions="learned", max_positions=40), 20, 23))
    for part in (
        "(src_embedding): Embedding(\n    20, 32, positions=40 learned",
        "MultiHeadAttention(\n          d_model=32, num_heads=4, bias=True",
        "norm_first=True",
        "activation=relu",
        "(projection): Linear(in_features=32, out_features=23",
    ):
        assert part in shown, shown


def test_encoder_accepts_custom_masks() -> None:
    model = _randomize(Transformer(SMALL, 20, 20)).eval()
    src, _ = _inputs()
    mask = torch.ones(4, 1, 9, 9, dtype=torch.bool)
    mask[2, 0, 3] = False
    memory = model.encoder(model.src_embedding(src), mask)
    assert memory.isfinite().all()
    unmasked = model.encoder(model.src_embedding(src), torch.ones(9, 9, dtype=torch.bool))
    torch.testing.assert_close(memory[[0, 1, 3]], unmasked[[0, 1, 3]], atol=1e-5, rtol=0)


def test_each_block_of_a_matrix_starts_xavier_uniform() -> None:
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


def test_marian_positions_are_all_sines_then_all_cosines() -> None:
    table, interleaved = marian_positions(700, 16, start=5), sinusoidal_positions(700, 16, start=5)
    assert torch.equal(table[:, :8], interleaved[:, 0::2])
    assert torch.equal(table[:, 8:], interleaved[:, 1::2])
    embedding = Embedding(10, 16, 0.0, "marian")
    torch.testing.assert_close(embedding.table(9, 2), marian_positions(2, 16, start=9))
    torch.testing.assert_close(
        embedding(torch.tensor([[7, 3]]))[0], embedding.weight[[7, 3]] * 4 + marian_positions(2, 16)
    )

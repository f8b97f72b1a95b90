"""Models built from sizes, the trace of a forward pass, and the table of parameters."""

import pytest
import torch
from torch import Tensor, nn

from dragoman.data.batch import Batch
from dragoman.errors import ConfigError, DataError
from dragoman.model.transformer import Transformer

SIZES = {"d_model": 8, "num_heads": 8, "d_ff": 16}


def small_batch() -> Batch:
    src, tgt = torch.tensor([[4, 5, 5, 2], [4, 2, 0, 0]]), torch.tensor([[1, 4, 5, 2], [1, 5, 2, 0]])
    return Batch(src, torch.tensor([4, 2]), tgt, torch.tensor([3, 2]))


def test_a_model_is_built_from_a_preset_and_sizes() -> None:
    model = Transformer.build(src_vocab_size=6, tgt_vocab_size=6, **SIZES, tie="none")
    assert model.parameter_table().total == sum(each.numel() for each in model.parameters()) == 9206
    paper = Transformer.build(10, 10, "big").settings
    assert (paper.d_model, paper.d_ff, paper.num_heads, paper.num_encoder_layers) == (1024, 4096, 16, 6)
    assert Transformer.build(6, 9, **SIZES).settings.tie == "decoder", "two vocabularies cannot share one embedding"


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ({"d_modle": 8}, "`d_modle` is not a setting of [model]. Did you mean `d_model`?"),
        ({"d_model": "8"}, '`model.d_model` must be a whole number, but is "8".'),
        ({"d_model": 9, "num_heads": 8}, "`model.d_model` must be a multiple of `model.num_heads` (8), but is 9."),
        ({"preset": "huge"}, '`model.preset` must be one of tiny, small, base, big, custom, but is "huge".'),
    ],
)
def test_sizes_that_make_no_model_are_refused(sizes: dict[str, object], error: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Transformer.build(6, 6, **sizes)  # type: ignore[arg-type]
    assert str(refusal.value).startswith(error)


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_trace_has_every_tensor_of_the_pass_in_order(norm_first: bool) -> None:
    model = Transformer.build(6, 6, **SIZES, num_encoder_layers=2, num_decoder_layers=1, norm_first=norm_first).eval()
    batch = small_batch()
    trace = model.trace(batch)
    inputs = batch.src_ids, batch.src_lengths, batch.decoder_input
    with torch.no_grad():
        assert torch.equal(trace["logits"], model(*inputs))
        weights = model.attention(*inputs)
        memory = model.encode(*inputs[:2])
    assert torch.equal(trace["encoder"], memory)
    named = [(f"encoder.layers.{n}.self_attn.weights", each) for n, each in enumerate(weights.encoder_self)]
    named += [("decoder.layers.0.self_attn.weights", weights.decoder_self[0])]
    named += [("decoder.layers.0.cross_attn.weights", weights.cross[0])]
    for name, expected in named:
        torch.testing.assert_close(trace[name], expected)
    tokens, positions = trace["src_embedding.tokens"], trace["src_embedding.positions"]
    assert torch.equal(tokens + positions, trace["src_embedding"])
    attention = "decoder.layers.0.cross_attn"
    scores = trace[f"{attention}.queries"] @ trace[f"{attention}.keys"].transpose(-2, -1) / (8 / 8) ** 0.5
    torch.testing.assert_close(trace[f"{attention}.scores"], scores)
    heads = trace[f"{attention}.heads"].transpose(1, 2).flatten(2)
    torch.testing.assert_close(model.decoder.layers[0].cross_attn.out(heads), trace[attention])
    assert list(trace)[-1] == "logits"
    assert list(trace).index("encoder.layers.0") < list(trace).index("encoder.layers.1.self_attn.queries")
    assert trace["decoder.layers.0.cross_attn.scores"].shape == (2, 8, 3, 4)


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
@pytest.mark.parametrize("positions", ["sinusoidal", "marian", "learned"])
def test_a_trace_of_every_kind_of_model_has_all_shapes(positions: str, tie: str) -> None:
    """B = 2 sentences, S = 4, T = 3, H = 8 heads of width 1, D = 8, F = 16, V = 6."""
    sizes = {**SIZES, "num_encoder_layers": 1, "num_decoder_layers": 1, "max_positions": 20}
    model = Transformer.build(6, 6, **sizes, positions=positions, tie=tie).eval()
    trace, attention = model.trace(small_batch()), dict[str, tuple[int, ...]]()
    for name, num_queries, num_keys in (("encoder.self", 4, 4), ("decoder.self", 3, 3), ("decoder.cross", 3, 4)):
        side, kind = name.split(".")
        part, queries, keys = f"{side}.layers.0.{kind}_attn", (2, 8, num_queries, 1), (2, 8, num_keys, 1)
        scores, output = (2, 8, num_queries, num_keys), (2, num_queries, 8)
        attention |= {f"{part}.queries": queries, f"{part}.keys": keys, f"{part}.values": keys}
        attention |= {f"{part}.scores": scores, f"{part}.weights": scores, f"{part}.heads": queries, part: output}
        attention |= {f"{part}_residual": output, f"{part}_residual.norm": output}
    expected = attention | {"logits": (2, 3, 6)}
    for side, length in (("src", 4), ("tgt", 3)):
        stack = "encoder" if side == "src" else "decoder"
        names = ["", ".layers.0", ".layers.0.feed_forward_residual", ".layers.0.feed_forward_residual.norm", ".norm"]
        names += [".layers.0.feed_forward", ".layers.0.feed_forward.outer"]
        expected |= {f"{stack}{name}": (2, length, 8) for name in names}
        expected[f"{stack}.layers.0.feed_forward.inner"] = (2, length, 16)
        expected |= {f"{side}_embedding": (2, length, 8), f"{side}_embedding.tokens": (2, length, 8)}
        expected[f"{side}_embedding.positions"] = (length, 8)
    assert {name: tuple(tensor.shape) for name, tensor in trace.items()} == expected
    page = trace._repr_html_()
    assert all(f'<td style="text-align: left">{name}</td>' in page for name in expected)
    table = model.parameter_table()
    names = [name for row in table for name in (row.name, *row.shared_with)]
    assert sorted(names) == sorted(name for name, _ in model.named_parameters(remove_duplicate=False))
    assert table.total == sum(each.numel() for each in model.parameters())
    assert all(row.name in table._repr_html_() for row in table)


def test_a_batch_is_made_of_lists_of_ids_and_prints_its_shapes() -> None:
    batch = Batch.from_ids([[4, 5, 5], (4,)], [[4, 5], torch.tensor([5])])
    assert repr(batch) == "<Batch: src_ids 2 x 4, src_lengths 2, tgt_ids 2 x 4, tgt_lengths 2>"
    expected = small_batch()
    for name in ("src_ids", "src_lengths", "tgt_ids", "tgt_lengths"):
        assert torch.equal(getattr(batch, name), getattr(expected, name))
    assert Batch.from_ids([[4], [5, 5]]).decoder_input.tolist() == [[1], [1]]
    assert batch.to("cpu").src_ids.equal(batch.src_ids)


def test_a_trace_leaves_no_hook_behind_even_after_an_error() -> None:
    model = Transformer.build(6, 6, **SIZES)
    with pytest.raises(DataError, match="the largest is 99"):
        model.trace(Batch(torch.tensor([[99]]), torch.tensor([1]), torch.tensor([[1, 2]]), torch.tensor([1])))
    model.trace(small_batch())
    assert not any(module._forward_hooks for module in model.modules())


def test_tables_list_names_and_shapes() -> None:
    model = Transformer.build(6, 6, **SIZES, num_encoder_layers=1, num_decoder_layers=1)
    assert "decoder.layers.0.cross_attn.scores" in repr(model.trace(small_batch()))
    assert "<td" in model.trace(small_batch())._repr_html_()
    table = model.parameter_table()
    assert "also src_embedding.weight" in repr(table) or "also tgt_embedding.weight" in repr(table)
    assert f"{table.total:,}" in table._repr_html_()


def test_hooks_of_users_still_fire_while_a_trace_is_taken() -> None:
    model = Transformer.build(6, 6, **SIZES)
    seen: list[nn.Module] = []

    def note(module: nn.Module, _: tuple[Tensor, ...], __: Tensor) -> None:
        seen.append(module)

    model.projection.register_forward_hook(note)
    model.trace(small_batch())
    assert seen == [model.projection]

"""Diagrams have the shapes of a trace, the numbers of the parameter table, and the order of the model."""

import re

import pytest
import torch
from matplotlib.figure import Figure

from dragoman import visualization
from dragoman.bundle import Model
from dragoman.config import ModelSettings
from dragoman.data.batch import Batch
from dragoman.display import shape_text
from dragoman.model.attention import causal_mask, padding_mask
from dragoman.model.transformer import Transformer
from dragoman.visualization.inspection.inspector import inspect_text

LETTERS = {2: "B", 7: "S", 5: "T"}
SIZES = {"d_model": 12, "num_heads": 3, "d_ff": 20, "num_encoder_layers": 2, "num_decoder_layers": 3, "tie": "none"}


@pytest.fixture(scope="module")
def model() -> Transformer:
    return Transformer.build(13, 11, **SIZES)


@pytest.fixture(scope="module")
def shapes(model: Transformer) -> dict[str, str]:
    """The shape of every tensor of a pass, with letters for the batch and the lengths."""
    batch = Batch(torch.full((2, 7), 4), torch.tensor([7, 6]), torch.full((2, 6), 4), torch.tensor([5, 5]))
    trace = model.trace(batch)
    return {name: shape_text(LETTERS.get(size, size) for size in tensor.shape) for name, tensor in trace.items()}


def texts(figure: Figure) -> list[str]:
    """Texts from bottom to top."""
    return [text.get_text() for text in sorted(figure.axes[0].texts, key=lambda text: text.get_position()[1])]


def blocks(figure: Figure) -> list[str]:
    """The first line of every block, from bottom to top."""
    found: dict[str, str] = {}
    inside = [text for text in figure.axes[0].texts if text.get_gid()]
    for text in sorted(inside, key=lambda text: -text.get_position()[1]):
        found.setdefault(text.get_gid(), text.get_text())
    return list(found.values())[::-1]


def has_shape(figure: Figure, shape: str) -> bool:
    return any(re.search(rf"(^|\s){re.escape(shape)}$", text) for text in texts(figure))


def test_the_whole_model_has_the_shapes_of_a_trace(model: Transformer, shapes: dict[str, str]) -> None:
    figure = visualization.plot_transformer(model)
    for name in ("src_embedding", "tgt_embedding", "encoder", "decoder", "logits"):
        assert has_shape(figure, shapes[name]), name
    for figure in (visualization.plot_layer(model, "decoder"), visualization.plot_next_token(model)):
        assert has_shape(figure, shapes["decoder"])
    assert has_shape(visualization.plot_layer(model, "encoder"), shapes["encoder.layers.0.feed_forward.inner"])
    assert has_shape(visualization.plot_next_token(model), f"logits  {shapes['logits']}")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("cross", "decoder.layers.0.cross_attn"),
        ("decoder_self", "decoder.layers.0.self_attn"),
        ("encoder_self", "encoder.layers.0.self_attn"),
    ],
)
def test_attention_has_the_shapes_of_a_trace(model: Transformer, shapes: dict[str, str], kind: str, name: str) -> None:
    steps, heads = visualization.plot_attention(model, kind), visualization.plot_multi_head_attention(model, kind)
    for part in ("queries", "keys", "values", "scores", "weights", "heads"):
        assert has_shape(steps, shapes[f"{name}.{part}"]), part
    for part in ("queries", "keys", "values", "heads"):
        assert has_shape(heads, shapes[f"{name}.{part}"]), part
    assert has_shape(heads, shapes[name])
    mask = causal_mask(5, torch.device("cpu")) if kind == "decoder_self" else padding_mask(torch.tensor([7, 6]), 7)
    assert shape_text(LETTERS.get(size, size) for size in mask.shape) in texts(steps)


@pytest.mark.parametrize(
    ("tie", "norm_first", "positions"),
    [("all", True, "sinusoidal"), ("decoder", False, "learned"), ("none", True, "learned")],
)
def test_the_numbers_of_the_whole_model_add_up(tie: str, norm_first: bool, positions: str) -> None:
    model = Transformer.build(11, 11, **SIZES | {"tie": tie, "norm_first": norm_first, "positions": positions})
    table = model.parameter_table()
    figure = visualization.plot_transformer(model)
    assert f"Transformer with {table.total:,} parameters" in texts(figure)
    frames = [patch.get_window_extent() for patch in figure.axes[0].patches if patch.get_zorder() == 0]
    layers = dict(zip(frames, (2, 3), strict=True))
    total = 0
    for text in figure.axes[0].texts:
        place = text.get_window_extent()
        times = next((times for frame, times in layers.items() if frame.overlaps(place)), 1)
        if found := re.search(r": (?:shared)?([\d,+ ]*)$", text.get_text()):
            total += times * sum(int(number.replace(",", "")) for number in found[1].split("+") if number.strip())
    assert total == table.total


def test_every_block_of_a_layer_has_its_number_of_parameters(model: Transformer) -> None:
    rows = model.parameter_table()
    drawn = " ".join(texts(visualization.plot_layer(model, "decoder")))
    for part in ("self_attn", "cross_attn", "feed_forward.inner", "feed_forward.outer", "cross_attn_residual.norm"):
        count = sum(row.count for row in rows if row.name.startswith(f"decoder.layers.0.{part}."))
        assert f": {count:,}" in drawn, part
    drawn = " ".join(texts(visualization.plot_multi_head_attention(model)))
    assert f"queries: {12 * 12 + 12:,}" in drawn
    assert f"output: {sum(p.numel() for p in model.decoder.layers[0].cross_attn.out.parameters()):,}" in drawn


def test_norm_first_changes_the_order() -> None:
    first, last = (ModelSettings(preset="base", norm_first=norm_first) for norm_first in (True, False))
    norm, dropout = "Layer norm: 1,024", "Dropout 0.1"
    inner = ["Linear: 1,050,624", "ReLU", "Linear: 1,049,088"]
    attention = "Multi-head"
    assert blocks(visualization.plot_layer(first)) == [norm, attention, dropout, norm, *inner, dropout]
    assert blocks(visualization.plot_layer(last)) == [attention, dropout, norm, *inner, dropout, norm]
    whole = blocks(visualization.plot_transformer(last))
    assert whole.count("Add & norm: 1,024") == 5
    assert "Layer norm: 1,024" not in whole
    assert blocks(visualization.plot_transformer(first)).count("Layer norm: 1,024") == 7


def test_every_layer_of_a_stack_is_drawn_up_to_eight() -> None:
    few = ModelSettings(preset="tiny", num_encoder_layers=8, num_decoder_layers=1)
    assert {f"layer {number}" for number in range(1, 9)} <= set(texts(visualization.plot_stacks(few)))
    many = texts(visualization.plot_stacks(ModelSettings(preset="tiny", num_encoder_layers=9, num_decoder_layers=1)))
    assert [text for text in many if text.startswith("layer ") or text == "..."] == [
        "layer 1", "layer 1", "layer 2", "layer 3", "...", "layer 9",
    ]  # fmt: skip


def test_the_next_token_is_that_of_the_inspection(trained: Model) -> None:
    inspection = inspect_text(trained, "one two three")
    for position, step in enumerate(inspection.steps[:3], 1):
        drawn = texts(visualization.plot_next_token(trained, "one two three", position))
        assert f"{step.probability:.1%}, chosen" in drawn
        assert step.token in drawn
        likeliest = max(step.alternatives, key=lambda one: one.probability)
        assert f"{likeliest.probability:.1%}" in drawn
        assert likeliest.token in drawn


def test_the_tree_of_a_search_has_the_tokens_of_the_translation(trained: Model) -> None:
    inspection = inspect_text(trained, "one two three")
    drawn = texts(visualization.plot_beam_tree(trained, "one two three"))
    assert "Beam search with beam size 3" in drawn
    assert {node.token for node in inspection.beam if node.best} <= set(drawn)
    assert f"{inspection.beam[0].log_prob:.2f}" in drawn

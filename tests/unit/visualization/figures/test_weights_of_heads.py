"""Weights of any origin: a folder, a Transformer without tokenizers, and tensors and lists of any shape."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

import dragoman
from dragoman import visualization
from dragoman.errors import ConfigError, DragomanError

KINDS: tuple[Any, ...] = ("cross", "encoder_self", "decoder_self")
SIZES = {"d_model": 16, "d_ff": 16, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 2}
ROWS = [[5, 6, 7], [8]]


def image_of(axes: Any) -> Any:
    return np.asarray(axes.images[0].get_array())


def labels_of(labels: Any) -> list[str]:
    return [label.get_text() for label in labels]


def heads_of(*arguments: Any, **keywords: Any) -> Any:
    """The figure. Fails if the arguments are refused."""
    try:
        return visualization.plot_heads(*arguments, **keywords)
    except DragomanError as error:
        pytest.fail(f"refused: {error}")


def test_a_folder_has_the_heads_of_its_translator() -> None:
    of_translator = visualization.plot_heads(dragoman.load("demo", device="cpu"), "Where is the station?", layer=1)
    of_folder = heads_of("demo", "Where is the station?", layer=1)
    np.testing.assert_array_equal(image_of(of_folder.axes[0]), image_of(of_translator.axes[0]))
    with pytest.raises(DragomanError, match=r"^nowhere does not exist\."):
        visualization.plot_heads("nowhere", "Where is the station?")


def test_a_transformer_takes_a_batch_or_ids() -> None:
    torch.manual_seed(3)
    model = dragoman.Transformer.build(20, 20, "custom", **SIZES, dropout=0.5)  # in training, as after a step
    batch = dragoman.Batch.from_ids(ROWS, [[7, 8], [9]])
    figures = {kind: heads_of(model, batch, layer=1, kind=kind) for kind in KINDS}
    assert model.training
    attention = model.eval().attention(batch.src_ids, batch.src_lengths, batch.decoder_input)
    for kind, figure in figures.items():
        np.testing.assert_allclose(image_of(figure.axes[1]), getattr(attention, kind)[0][0, 1].detach(), atol=0.002)
    assert labels_of(figures["cross"].axes[0].get_yticklabels()) == ["<s>", "7", "8"]
    assert labels_of(figures["cross"].axes[0].get_xticklabels()) == ["5", "6", "7", "</s>"]
    second = heads_of(model, batch.part(1, 2)).axes[0]
    assert labels_of(second.get_xticklabels()) == ["8", "</s>"]
    for without_target in (ROWS[0], np.array(ROWS[0]), dragoman.Batch.from_ids(ROWS[:1])):
        written = labels_of(heads_of(model, without_target).axes[0].get_yticklabels())
        [target] = dragoman.greedy(model, dragoman.Batch.from_ids(ROWS[:1]), 8)
        assert written == ["<s>", *map(str, target)]
    with pytest.raises(ConfigError, match=r"^`text` must have at least one sentence, but is an empty batch\.$"):
        visualization.plot_heads(model, dragoman.Batch.from_ids([]))


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((2, 3), list),
        ((1, 2, 3), torch.float32),
        ((4, 2, 3), np.float16),
        ((1, 4, 2, 3), torch.bfloat16),
        ((12, 12), torch.float16),
        ((1, 2, 30, 40), np.float16),
    ],
)
def test_weights_of_any_kind_are_plotted_with_numbers_where_they_fit(shape: tuple[int, ...], kind: Any) -> None:
    assert "plot_weights" in visualization.__all__
    values = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    given: Any = values.tolist() if kind is list else values.numpy().astype(np.float16)
    if isinstance(kind, torch.dtype):
        given = values.clone().to(kind).requires_grad_()
    queries, keys = ([f"{side}{place}" for place in range(shape[at])] for side, at in (("q", -2), ("k", -1)))
    figure = visualization.plot_weights(given, queries, keys)
    heads = values.reshape(-1, *shape[-2:])
    panels = [axes for axes in figure.axes if axes.images][: len(heads)]
    for axes, head in zip(panels, heads, strict=True):
        np.testing.assert_allclose(image_of(axes), head, atol=0.005)
        written = [text.get_text() for text in axes.texts]
        if heads.shape[-1] < 30:
            assert [float(text) for text in written] == pytest.approx(head.flatten().tolist(), abs=0.011)
        else:
            assert written == []
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in panels[0].texts]
    assert not any(first.overlaps(second) for first, second in pairwise(boxes)), "numbers are readable"
    assert labels_of(panels[0].get_yticklabels())[:2] == queries[:2]


def test_weights_without_labels_have_positions_and_labels_must_fit() -> None:
    assert "plot_weights" in visualization.__all__
    axes = visualization.plot_weights([[0.0, 1.0]]).axes[0]
    assert labels_of((*axes.get_yticklabels(), *axes.get_xticklabels())) == ["0", "0", "1"]
    with pytest.raises(
        ConfigError, match=r"^`weights` must have the shape 1 x 3 \(`queries` x `keys`\), but has 1 x 2\.$"
    ):
        visualization.plot_weights([[0.0, 1.0]], ["q"], ["a", "b", "c"])
    with pytest.raises(ConfigError, match=r"has 2 x 4 x 3 x 3\. Choose one layer and one sentence: `weights\[0\]`\.$"):
        visualization.plot_weights(np.zeros((2, 4, 3, 3)))


SHAPES = (
    r"^`weights` must have the shape \(queries, keys\), \(heads, queries, keys\) or \(1, heads, queries, keys\), but "
)


def test_an_error_says_what_is_given_and_how_to_choose_a_layer() -> None:
    model = dragoman.Transformer.build(20, 20, "custom", **SIZES).eval()
    batch = dragoman.Batch.from_ids(ROWS, ROWS)
    attention = model.attention(batch.src_ids, batch.src_lengths, batch.decoder_input)
    with pytest.raises(ConfigError, match=r"but is an AttentionWeights\. Choose one layer: `weights\.cross\[0\]`\.$"):
        visualization.plot_weights(attention)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"but is a tuple of Tensors\. Choose one layer: `weights\[0\]`\.$"):
        visualization.plot_weights(attention.cross)
    with pytest.raises(ConfigError, match=SHAPES + r"has 2\.$"):
        visualization.plot_weights([0.5, 0.5])
    with pytest.raises(ConfigError, match=r"^`text` must be a list of ids or .*, but is a list of lists\.$"):
        visualization.plot_heads(model, ROWS)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^`translator` must be a translator or a Transformer, but is a Model"):
        visualization.plot_heads(model.settings, batch)  # type: ignore[arg-type]

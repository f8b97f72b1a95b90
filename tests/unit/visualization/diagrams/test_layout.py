"""Diagrams are readable: texts fit their blocks, nothing overlaps, arrows go around blocks, and colours differ."""

import math
from collections.abc import Callable
from itertools import combinations, pairwise

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from dragoman import visualization
from dragoman.bundle import Model
from dragoman.config import ModelSettings
from dragoman.visualization.diagrams.drawing import BLOCK_COLORS
from dragoman.visualization.figures.figure import svg_of

BASE = ModelSettings(preset="base")
LARGEST = ModelSettings(
    preset="big", d_model=65536, num_heads=1024, d_ff=1 << 20, norm_first=False, attention_dropout=0.15,
    activation_dropout=0.15, num_encoder_layers=100, num_decoder_layers=1,
)  # fmt: skip
SMALLEST = ModelSettings(
    preset="custom", d_model=2, num_heads=1, d_ff=1, num_encoder_layers=1, num_decoder_layers=9, positions="learned",
    tie="none", attention_bias=False, projection_bias=False,
)  # fmt: skip
SHAPES = {
    "base": BASE,
    "largest": LARGEST,
    "smallest": SMALLEST,
}
DIAGRAMS: dict[str, Callable[[ModelSettings], Figure]] = {
    "model": visualization.plot_transformer,
    "stacks": visualization.plot_stacks,
    "encoder": visualization.plot_layer,
    "decoder": lambda model: visualization.plot_layer(model, "decoder"),
    "attention": visualization.plot_attention,
    "causal": lambda model: visualization.plot_attention(model, "decoder_self"),
    "heads": visualization.plot_multi_head_attention,
    "self": lambda model: visualization.plot_multi_head_attention(model, "encoder_self"),
    "token": visualization.plot_next_token,
}


def extents(figure: Figure) -> list[tuple[str, str, Bbox]]:
    """The text, the id and the place of every text in pixels."""
    found = [text for text in figure.axes[0].texts if text.get_text()]
    return [(text.get_text(), text.get_gid() or "", text.get_window_extent()) for text in found]


def blocks(figure: Figure) -> dict[str, Bbox]:
    named = {patch.get_gid() or "": patch for patch in figure.axes[0].patches}
    return {name: patch.get_window_extent() for name, patch in named.items() if name.startswith("block")}


def check_texts(figure: Figure) -> None:
    texts, places = extents(figure), blocks(figure)
    for (one, _, first), (other, _, second) in combinations(texts, 2):
        assert not overlap(first, second), f"{one!r} and {other!r}"
    for text, gid, place in texts:
        assert contains(figure.bbox, place), text
        assert not gid or contains(places[gid.removeprefix("text-of-")], place), text


def contains(outer: Bbox, inner: Bbox) -> bool:
    return outer.x0 <= inner.x0 and inner.x1 <= outer.x1 and outer.y0 <= inner.y0 and inner.y1 <= outer.y1


def overlap(first: Bbox, second: Bbox, least: float = 0.5) -> bool:
    """Whether more than half a pixel lies in both."""
    across = min(first.x1, second.x1) - max(first.x0, second.x0)
    return across > least and min(first.y1, second.y1) - max(first.y0, second.y0) > least


def check_arrows(figure: Figure) -> None:
    obstacles = [*blocks(figure).values(), *(place for _, _, place in extents(figure))]
    arrows = [patch for patch in figure.axes[0].patches if patch.get_gid() == "arrow"]
    assert arrows
    for arrow in arrows:
        line, *_ = arrow.get_path().to_polygons(closed_only=False)  # the rest is the head
        for start, end in pairwise(figure.axes[0].transData.transform(line)):
            for share in np.linspace(0, 1, max(2, math.ceil(np.hypot(*(end - start)) / 2))):
                x, y = start + share * (end - start)
                crossed = [box for box in obstacles if box.x0 + 1 < x < box.x1 - 1 and box.y0 + 1 < y < box.y1 - 1]
                assert not crossed, (x, y)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", DIAGRAMS)
def test_texts_have_room_and_arrows_go_around_blocks(name: str, shape: str) -> None:
    figure = DIAGRAMS[name](SHAPES[shape])
    check_texts(figure)
    check_arrows(figure)


def test_texts_of_a_translation_have_room(trained: Model) -> None:
    text = "one two three " * 6
    check_texts(visualization.plot_next_token(trained, text, 3))
    check_texts(visualization.plot_beam_tree(trained, text))


def test_equal_models_give_equal_pictures() -> None:
    for name in ("heads", "token"):
        assert svg_of(DIAGRAMS[name](BASE)) == svg_of(DIAGRAMS[name](BASE))


# Simulations of the three kinds of colour blindness in linear RGB (Machado et al. 2009, severity 1).
VISIONS = {
    "all colours": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


@pytest.mark.parametrize("vision", VISIONS)
def test_kinds_of_blocks_differ_for_every_kind_of_colour_vision(vision: str) -> None:
    colors = {kind: fill for kind, (fill, _) in BLOCK_COLORS.items() if kind not in ("data", "layer")}
    places = {kind: perceived(color, np.array(VISIONS[vision])) for kind, color in colors.items()}
    for one, other in combinations(places, 2):
        assert np.linalg.norm(places[one] - places[other]) > 12, (one, other)


def perceived(color: str, vision: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of a colour as somebody sees it."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(vision @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ seen
    x, y, z = np.cbrt(xyz / (0.9505, 1.0, 1.089))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

"""The vocabulary of the diagrams: blocks, arrows, labels and frames on a sheet, in inches from the bottom left.

A `Drawing` grows upwards, as information flows in the figures of the paper. A `Tower` stacks blocks and joins them with
arrows. Text that is too wide for its block gets a smaller font.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, PathPatch
from matplotlib.path import Path
from matplotlib.textpath import text_to_path

from dragoman.visualization.figures.figure import OWN_FONT, new_figure

Point = tuple[float, float]

# The fill and the edge of each kind of block: the paper's hues, as tints of the colours of Okabe and Ito (2008). The
# tints differ most for people who do not see red, green or blue.
BLOCK_COLORS = {
    "embedding": ("#e0afca", "#b0578a"),
    "attention": ("#eebc4d", "#a86c00"),
    "feed_forward": ("#bbe1f6", "#2f86b8"),
    "norm": ("#f9f4b3", "#a39a12"),
    "linear": ("#a697c8", "#4d3a86"),
    "softmax": ("#33b18f", "#006b50"),
    "data": ("#ffffff", "#8a8a8a"),
    "layer": ("#f3f3f3", "#9a9a9a"),
}
INK, SOFT, MEMORY = "#1c1c1c", "#5a5a5a", "#0072b2"
TITLE_POINTS, BLOCK_POINTS, NOTE_POINTS = 11.0, 9.0, 7.5
_LINE = 1.3 / 72  # inches per point of a line of text
_ROOM = 0.08  # inches between a text and the side of its block
_ROUND, _CARD = 0.07, 0.07  # inches: the radius of corners, and between the cards of a stack


@dataclass(frozen=True, slots=True)
class Block:
    """The place of a drawn block: its centre and size in inches."""

    x: float
    y: float
    width: float
    height: float

    @property
    def top(self) -> float:
        """The upper edge."""
        return self.y + self.height / 2

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y - self.height / 2

    @property
    def left(self) -> float:
        """The left edge."""
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.width / 2


@contextmanager
def new_drawing(width: float) -> Iterator["Drawing"]:
    """A sheet of a fixed width in inches. Draw inside the block, which has the style of the figures."""
    with new_figure(width, 1.0) as (figure, (axes,)):
        figure.set_layout_engine("none")
        axes.set_axis_off()
        yield Drawing(figure, axes)


class Drawing:
    """A sheet of a fixed width from `new_drawing`. `finish` cuts the sheet and returns the figure."""

    def __init__(self, figure: Figure, axes: Axes) -> None:
        self.figure, self.axes = figure, axes
        self.width, self._height, self._blocks = figure.get_figwidth(), 0.0, 0

    def block(
        self, foot: Point, text: str, kind: str, note: str = "", size: Point = (2.0, 0.0), cards: int = 1
    ) -> Block:
        """Draw a block with a text and a note. `foot` is the middle of its lower edge. A height of 0 fits the text.

        `cards` draws it as a stack of cards, for things that exist several times.
        """
        (x, y), (width, height) = foot, size
        block_lines = [(line, BLOCK_POINTS, INK) for line in text.split("\n") if line]
        block_lines += [(line, NOTE_POINTS, SOFT if kind == "data" else INK) for line in note.split("\n") if line]
        needed = sum(points * _LINE for _, points, _ in block_lines)
        block = Block(x, y + max(height, needed + 0.12) / 2, width, max(height, needed + 0.12))
        self._blocks += 1
        for card in reversed(range(cards)):
            shift = _CARD * card
            self._rectangle((block.left + shift, block.bottom + shift), (width, block.height), BLOCK_COLORS[kind], 2)
        self.axes.patches[-1].set_gid(f"block-{self._blocks}")
        # All lines shrink alike, if one is too wide.
        widest = max([_width_of(line, points) for line, points, _ in block_lines], default=0.0)
        shrink = min(1.0, (width - 2 * _ROOM) / max(1e-6, widest))
        above = block.y + needed / 2
        for line, points, color in block_lines:
            drawn = self._text((x, above - points * _LINE / 2), line, points * shrink, color, "center")
            drawn.set(parse_math="$" in line, gid=f"text-of-block-{self._blocks}")
            above -= points * _LINE
        self._grow(block.top + _CARD * (cards - 1))
        return block

    def label(
        self, place: Point, text: str, align: str = "left", points: float = NOTE_POINTS, color: str = SOFT
    ) -> None:
        """Write lines of text whose middle is at `place`, aligned "left", "center" or "right"."""
        x, y = place
        lines = text.split("\n")
        for index, line in enumerate(lines):
            above = ((len(lines) - 1) / 2 - index) * points * _LINE
            self._text((x, y + above), line, points, color, align)
        self._grow(y + len(lines) * points * _LINE / 2)

    def token(self, place: Point, text: str, fonts: Sequence[str], width: float, align: str = "center") -> None:
        """Write a text of any script with these fonts, at most `width` inches wide."""
        drawn = self._text(place, text, BLOCK_POINTS, INK, align)
        drawn.set_fontfamily(list(fonts))
        needed = drawn.get_window_extent().width / self.figure.dpi
        drawn.set_fontsize(BLOCK_POINTS * min(1.0, width / max(1e-6, needed)))

    def title(
        self, text: str, notes: str = "", left_top: float | None = None, fonts: Sequence[str] = (OWN_FONT,)
    ) -> None:
        """Write the title and notes below it, above all blocks.

        `left_top` is the height of the blocks at the left. If the title fits above these, it stays beside the others.
        """
        lines = notes.count("\n") + 1 if notes else 0
        needed = 0.25 + 1.15 * lines * NOTE_POINTS * _LINE
        is_beside = left_top is not None and left_top + needed + 0.2 <= self._height
        y = self._height - 0.1 if is_beside else self._height + needed
        self._text((0.05, y), text, TITLE_POINTS, INK, "left").set_fontweight("bold")
        self._grow(y + 0.1)
        for index, line in enumerate(notes.split("\n")):
            drawn = self._text((0.05, y - 0.2 - index * NOTE_POINTS * _LINE), line, NOTE_POINTS, SOFT, "left")
            drawn.set_fontfamily(list(fonts))

    def arrow(self, *points: Point, color: str = SOFT, head: bool = True) -> None:
        """Draw a line through the points, with an arrow head at its end."""
        style = "-|>,head_length=0.45,head_width=0.22" if head else "-"
        patch = FancyArrowPatch(path=Path(points), arrowstyle=style, mutation_scale=10, color=color)
        patch.set(linewidth=1.1, zorder=1, joinstyle="round", capstyle="butt", gid="arrow", fill=head)
        self.axes.add_patch(patch)

    def curve(self, start: Point, end: Point, color: str, width: float) -> None:
        """Draw a curve that leaves `start` and reaches `end` horizontally."""
        middle = (start[0] + end[0]) / 2
        codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
        path = Path([start, (middle, start[1]), (middle, end[1]), end], codes)
        self.axes.add_patch(PathPatch(path, fill=False, edgecolor=color, linewidth=width, zorder=1))

    def plus(self, x: float, y: float) -> Block:
        """Draw a circle with a plus, the sum of its inputs, whose lower edge is at `y`."""
        block = Block(x, y + 0.1, 0.2, 0.2)
        self.axes.add_patch(Circle((x, block.y), 0.1, facecolor="white", edgecolor=INK, linewidth=1.0, zorder=2))
        for xs, ys in (((-0.055, 0.055), (0, 0)), ((0, 0), (-0.055, 0.055))):
            self.axes.plot([x + dx for dx in xs], [block.y + dy for dy in ys], color=INK, linewidth=1.0, zorder=3)
        self._grow(block.top)
        return block

    def wave(self, x: float, y: float) -> None:
        """Draw a circle with a sine wave, the sign of positional encodings, around (x, y)."""
        self.axes.add_patch(Circle((x, y), 0.15, facecolor="white", edgecolor=INK, linewidth=1.0, zorder=2))
        across = np.linspace(-0.1, 0.1, 40)
        self.axes.plot(x + across, y + 0.07 * np.sin(across * np.pi / 0.1), color=INK, linewidth=1.0, zorder=3)

    def frame(self, left: float, right: float, bottom: float, top: float) -> None:
        """Draw the grey ground of a layer behind its blocks."""
        self._rectangle((left, bottom), (right - left, top - bottom), BLOCK_COLORS["layer"], 0)
        self._grow(top)

    def finish(self) -> Figure:
        """Cut the sheet at the highest thing drawn, and return the figure."""
        height = self._height + 0.1
        self.figure.set_size_inches(self.width, height)
        self.axes.set_position((0, 0, 1, 1))
        self.axes.set(xlim=(0, self.width), ylim=(0, height))
        return self.figure

    def _rectangle(self, corner: Point, size: Point, colors: tuple[str, str], level: int) -> None:
        """Draw a rectangle with round corners. What has a higher `level` is drawn above it."""
        inner = (corner[0] + _ROUND, corner[1] + _ROUND), size[0] - 2 * _ROUND, size[1] - 2 * _ROUND
        patch = FancyBboxPatch(*inner, f"round,pad={_ROUND}", facecolor=colors[0], edgecolor=colors[1], zorder=level)
        self.axes.add_patch(patch)

    def _text(self, place: Point, text: str, points: float, color: str, align: str) -> Any:
        return self.axes.text(
            *place, text, fontsize=points, color=color, ha=align, va="center_baseline", zorder=4, parse_math=False
        )

    def _grow(self, top: float) -> None:
        self._height = max(self._height, top)


class Tower:
    """Blocks above one another at `x`, each joined to the one below by an arrow, which starts at `top`."""

    def __init__(self, drawing: Drawing, x: float, top: float, width: float = 2.0) -> None:
        self.drawing, self.x, self.top, self.width = drawing, x, top, width

    def block(self, text: str, kind: str, note: str = "", shape: str = "", gap: float = 0.24) -> Block:
        """Add a block after an arrow of `gap` inches. `shape` is written beside a longer arrow."""
        if shape:
            gap = max(gap, 0.32)
            self.drawing.label((self.x + 0.09, self.top + gap / 2 - 0.015), shape)
        block = self.drawing.block((self.x, self.top + gap), text, kind, note, (self.width, 0.0))
        self.join(block)
        return block

    def plus(self, gap: float = 0.2) -> Block:
        """Add a plus after an arrow of `gap` inches."""
        block = self.drawing.plus(self.x, self.top + gap)
        self.join(block)
        return block

    def attention(self, text: str, note: str, memory: Sequence[Point] = ()) -> Block:
        """Add attention, whose values, keys and queries are three arrows.

        All come from below, or values and keys through the points of `memory`, a line from the encoder.
        """
        drawing, x = self.drawing, self.x
        side, fork = 0.28 * self.width, self.top + 0.22
        bottom = fork + (0.36 if memory else 0.26)
        block = drawing.block((x, bottom), text, "attention", note, (self.width, 0.0))
        if memory:
            level = fork + 0.13
            drawing.arrow((x, self.top), (x, fork), (x + side, fork), (x + side, bottom))
            drawing.arrow(*memory, (memory[-1][0], level), (x, level), (x, bottom), color=MEMORY)
            drawing.arrow((x - side, level), (x - side, bottom), color=MEMORY)
        else:
            drawing.arrow((x, self.top), (x, bottom))
            for place in (x - side, x + side):
                drawing.arrow((x, fork), (place, fork), (place, bottom))
        for letter, place in (("V", x - side), ("K", x), ("Q", x + side)):
            drawing.label((place + 0.07, bottom - 0.1), letter, points=6.5)
        self.top = block.top
        return block

    def pass_by(self, start: float, end: Block, side: float) -> None:
        """Draw a residual connection: from the tower at height `start`, by the side, to `end`. `side` is -1 or 1."""
        beside = self.x + side * (self.width / 2 + 0.13)
        edge = self.x + side * end.width / 2
        self.drawing.arrow((self.x, start), (beside, start), (beside, end.y), (edge, end.y))

    def finish(self, text: str, gap: float = 0.26) -> None:
        """Draw the last arrow, to a text."""
        end = self.top + gap
        self.drawing.arrow((self.x, self.top), (self.x, end))
        self.drawing.label((self.x, end + 0.1), text, "center", 8.5, INK)

    def rise(self, gap: float, shape: str = "") -> None:
        """Draw a line of `gap` inches upwards, and beside it the shape of what flows."""
        if shape:
            self.drawing.label((self.x + 0.09, self.top + gap / 2), shape)
        self.drawing.arrow((self.x, self.top), (self.x, self.top + gap), head=False)
        self.top += gap

    def join(self, block: Block) -> None:
        """Draw the arrow to a block, which is the new top."""
        self.drawing.arrow((self.x, self.top), (self.x, block.bottom))
        self.top = block.top


def _width_of(text: str, points: float) -> float:
    """The width of a line of text, or of a formula, in inches in the diagrams' font."""
    font = FontProperties(family=OWN_FONT, size=points)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, "$" in text)
    return width / 72

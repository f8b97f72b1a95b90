"""The curve of a run in training, as a small SVG picture.

It is drawn after every progress line, and takes less than a millisecond. `Run.plot` draws all curves with matplotlib,
which takes half a second.
"""

import math
from collections.abc import Sequence

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 460, 150, 52, 22
_MOST_POINTS = 400

_Points = Sequence[tuple[float, float]]  # (step, perplexity)


def svg_curve(training: _Points, validation: _Points) -> str:
    """Plot perplexity over steps, on a logarithmic scale: training as a line, validations as dots.

    Points that are not finite are left out. Returns "" for fewer than two points.
    """
    curves = [
        [point for point in curve if math.isfinite(point[1]) and point[1] > 0] for curve in (training, validation)
    ]
    points = [point for curve in curves for point in curve]
    if len(points) < 2:
        return ""
    last_step = max(step for step, _ in points)
    low, high = min(value for _, value in points), max(value for _, value in points)
    span = math.log(high / low) or 1.0

    def place(point: tuple[float, float]) -> tuple[float, float]:
        step, value = point
        across = _LEFT + (_WIDTH - _LEFT - 8) * step / max(last_step, 1)
        return across, 6 + (_HEIGHT - _BOTTOM - 12) * math.log(high / value) / span

    line, dots = ([place(point) for point in _thin(curve)] for curve in curves)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
    marks = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="#d55e00"/>' for x, y in dots)
    middle = (6 + _HEIGHT - _BOTTOM - 6) / 2
    labels = (
        _label(_LEFT - 6, 12, f"{high:,.3g}", "end"),
        _label(_LEFT - 6, _HEIGHT - _BOTTOM - 2, f"{low:,.3g}", "end"),
        _label(_WIDTH - 8, _HEIGHT - 6, f"step {last_step:,.0f}", "end"),
        _label(_LEFT, _HEIGHT - 6, "perplexity: line training, dots validation", "start"),
    )
    frame = f"M{_LEFT} 6V{_HEIGHT - _BOTTOM}H{_WIDTH - 8}"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="perplexity of training and validation" style="display: block">'
        f'<path d="{frame}M{_LEFT} {middle}h-4" fill="none" stroke="#888888"/>'
        f'<polyline points="{path}" fill="none" stroke="#0072b2" stroke-width="1.6"/>{marks}{"".join(labels)}</svg>'
    )


def _thin(curve: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Up to about `_MOST_POINTS` points, evenly spaced, with the last one."""
    every = -(-len(curve) // _MOST_POINTS)
    return curve[::-1][:: max(1, every)][::-1]


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="11" font-family="sans-serif" '
        f'fill="currentColor">{text}</text>'
    )

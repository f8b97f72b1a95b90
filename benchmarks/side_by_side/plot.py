"""Draws the results: one bar per tool in its fastest precision, and one panel per size of training and of translation.

`run.py` draws what it measured. In the folder benchmarks, `python -m side_by_side.plot FILE.json` draws recorded
results.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from side_by_side.contenders import OURS
from side_by_side.results import Row, Spread, Table
from side_by_side.shapes import SIZES

OURS_COLOR, THEIRS_COLOR = "#0b6e4f", "#9aa5b1"
SHOWN = (("training", 0), ("translation", 5))


def draw(tables: Sequence[Table], path: Path) -> bool:
    """Write an SVG. Return False if there is nothing to draw, or no matplotlib."""
    sizes = list(SIZES)
    shown = [table for table in tables if (table.part, table.beam) in SHOWN]
    shown.sort(key=lambda table: (SHOWN.index((table.part, table.beam)), sizes.index(table.size)))
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        return False
    if not shown:
        return False
    mpl.rcParams["svg.hashsalt"] = "dragoman"  # the same numbers give the same file
    columns = min(2, len(shown))
    groups = [shown[start : start + columns] for start in range(0, len(shown), columns)]
    heights = [1.5 + max(len(fastest(table)) for table in group) for group in groups]
    figure = Figure(figsize=(5.5 * columns, 0.3 * sum(heights)), layout="constrained")
    panels = figure.subplots(len(groups), columns, squeeze=False, height_ratios=heights).flatten()
    for panel, table in zip(panels, shown, strict=False):
        _draw_panel(panel, table)
    for panel in panels[len(shown) :]:
        panel.remove()
    figure.savefig(path, metadata={"Date": None})
    return True


def fastest(table: Table) -> list[Row]:
    """Return the row of each tool in its fastest precision. Dropout as in the paper is less work, so it is left out."""
    rows = sorted(table.rows, key=lambda row: -row.speed.median)
    best: dict[str, Row] = {}
    for row in rows:
        if "dropout" not in row.contender:
            best.setdefault(_tool(row), row)
    return list(best.values())


def _tool(row: Row) -> str:
    return row.contender.split(",")[0].replace("transformers Marian", "Marian in transformers")


def _draw_panel(panel: Any, table: Table) -> None:
    rows = fastest(table)[::-1]
    speeds = [row.speed for row in rows]
    names = [f"{_tool(row)}, {row.precision}" for row in rows]
    errors = [[each.median - each.least for each in speeds], [each.most - each.median for each in speeds]]
    colors = [OURS_COLOR if _tool(row) == OURS else THEIRS_COLOR for row in rows]
    panel.barh(names, [each.median for each in speeds], xerr=errors, color=colors, ecolor="#444444", capsize=2)
    for place, each in enumerate(speeds):
        panel.annotate(
            f"{each.median:,.0f}", (each.most, place), (5, 0), textcoords="offset points", va="center", fontsize=8
        )
    panel.set_xlim(right=1.12 * max(each.most for each in speeds))
    beam = f", beam {table.beam}" if table.beam else ""
    panel.set_title(f"{table.part}, {table.size}{beam}: {rows[0].unit}", fontsize=10)
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)


def read(path: Path) -> list[Table]:
    """The tables of a results file."""

    def row(fields: dict[str, Any]) -> Row:
        spreads = {name: fields[name] and Spread(**fields[name]) for name in ("speed", "ratio")}
        return Row(**{**fields, **spreads})

    found = json.loads(path.read_text(encoding="utf-8"))["tables"]
    return [Table(each["part"], each["size"], each["beam"], tuple(map(row, each["rows"]))) for each in found]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        draw(read(Path(name)), Path(name).with_suffix(".svg"))

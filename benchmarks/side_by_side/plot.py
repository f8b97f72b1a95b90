"""Draws the results: one bar per contender, and one panel per size of training and of translation.

`run.py` draws what it measured. In the folder benchmarks, `python -m side_by_side.plot FILE.json` draws recorded
results.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from side_by_side.results import Row, Spread, Table

OURS_COLOUR, THEIRS_COLOUR = "#0b6e4f", "#9aa5b1"
SHOWN = (("training", 0), ("translation", 5))


def draw(tables: Sequence[Table], path: Path) -> bool:
    """Write an SVG. Return False if there is nothing to draw, or no matplotlib."""
    shown = [table for table in tables if (table.part, table.beam) in SHOWN]
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        return False
    if not shown:
        return False
    mpl.rcParams["svg.hashsalt"] = "dragoman"  # the same numbers give the same file
    columns = min(2, len(shown))
    lines = -(-len(shown) // columns)
    figure = Figure(figsize=(6 * columns, 0.6 + 3.0 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).flatten()
    for panel, table in zip(panels, shown, strict=False):
        rows = table.rows[::-1]
        medians = [row.speed.median for row in rows]
        errors = [
            [row.speed.median - row.speed.least for row in rows],
            [row.speed.most - row.speed.median for row in rows],
        ]
        colours = [OURS_COLOUR if row.contender.startswith("Dragoman") else THEIRS_COLOUR for row in rows]
        panel.barh([row.contender for row in rows], medians, xerr=errors, color=colours, ecolor="#444444", capsize=2)
        beam = f", beam {table.beam}" if table.beam else ""
        panel.set_title(f"{table.part}, {table.size}{beam}", fontsize=10)
        panel.set_xlabel(rows[0].unit, fontsize=9)
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[len(shown) :]:
        panel.remove()
    figure.savefig(path, metadata={"Date": None})
    return True


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

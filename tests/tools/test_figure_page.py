"""The reference page of the figures names every function of `dragoman.visualization` and shows every picture."""

import re
from pathlib import Path

from PIL import Image

from dragoman import visualization
from tools.figure_page import sheet_of

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_has_every_function_and_every_picture() -> None:
    page = (DOCS / "reference" / "figures.md").read_text(encoding="utf-8")
    assert [name for name in visualization.__all__ if not re.search(rf"`{name}\b", page)] == []
    shown = {DOCS / "images" / "figures" / f"{name}.png" for name in re.findall(r"figures/(\w+)\.png", page)}
    assert shown == set((DOCS / "images" / "figures").iterdir())
    assert sum(path.stat().st_size for path in shown) < 400_000


def test_a_sheet_has_every_image() -> None:
    colors = {"red": (255, 0, 0), "blue": (0, 0, 255), "black": (0, 0, 0), "lime": (0, 255, 0), "cyan": (0, 255, 255)}
    sheet = sheet_of([Image.new("RGB", (800, 400), color) for color in colors])
    counts = {color: count for count, color in sheet.getcolors(1000)}
    assert len({counts[color] for color in colors.values()}) == 1, "no image covers another"

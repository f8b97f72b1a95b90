"""All figures of the guide on one sheet, small: runs the chapters and draws what they drew.

python docs/guide/contact_sheet.py docs/images/figures.png
"""

import io
import sys
from pathlib import Path

from build import chapters
from PIL import Image

from dragoman.visualization.figures.figure import png_of

_WIDTH, _GAP, _COLUMNS, _COLORS = 1500, 18, 3, 224


def contact_sheet(images: list[Image.Image]) -> Image.Image:
    """Images in columns of one width, each under the lowest column's last."""
    width = (_WIDTH - _GAP * (_COLUMNS + 1)) // _COLUMNS
    heights, placed = [_GAP] * _COLUMNS, []
    for image in images:
        small = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
        column = heights.index(min(heights))
        placed.append((small, (_GAP + column * (width + _GAP), heights[column])))
        heights[column] += small.height + _GAP
    sheet = Image.new("RGB", (_WIDTH, max(heights)), "white")
    for small, place in placed:
        sheet.paste(small, place)
    return sheet.quantize(_COLORS)


if __name__ == "__main__":
    drawn = []
    for chapter in chapters():
        chapter.render()
        drawn += [Image.open(io.BytesIO(png_of(figure))).convert("RGB") for figure in chapter.figures]
    out = Path(sys.argv[1])
    contact_sheet(drawn).save(out, optimize=True)
    print(f"{len(drawn)} figures, {out.stat().st_size / 1000:.0f} kB: {out}")

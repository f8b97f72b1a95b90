"""Takes screenshots of a page in light, in dark and on a phone, and joins them into one image with few colors.

python docs/images/screenshots.py inspect page.html docs/images/inspect.png
python docs/images/screenshots.py review review.html docs/images/review.png
python docs/images/screenshots.py serve http://127.0.0.1:5000 docs/images/serve.png
"""

import io
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

TEXT = (
    "Where is the train station?\n"
    "The express train to Milan leaves from platform 18.\n"
    "I would like a coffee with milk, please."
)


@dataclass(frozen=True)
class Picture:
    """A kind of page: `ready` opens it and makes it show something; sizes are in pixels, and `scale` is the image's."""

    ready: Callable[[Any, str], None]
    wide: int
    narrow: int
    height: int
    scale: float


def inspected(page: Any, file: str) -> None:
    """Open an inspection page and select a word of the translation."""
    page.goto(Path(file).resolve().as_uri())
    page.locator("#tgt .word").nth(1).click()


def reviewed(page: Any, file: str) -> None:
    """Open a bilingual page, with flagged segments first."""
    page.goto(Path(file).resolve().as_uri())
    page.get_by_role("button", name="Flagged first").click()
    page.evaluate("scrollTo(0, 0)")


def served(page: Any, address: str) -> None:
    """Open the page of a server, translate a text and select a word of the translation."""
    page.goto(f"{address}/?source=en&target=de")
    page.locator("#text").fill(TEXT)
    page.locator("#output:not(.stale) .word").nth(3).click()


PICTURES = {
    "inspect": Picture(inspected, 1000, 390, 1300, 1 / 2),
    "review": Picture(reviewed, 860, 390, 760, 2 / 3),
    "serve": Picture(served, 860, 360, 620, 2 / 3),
}


def main(kind: str, address: str, file: str) -> None:
    """Write screenshots of the page at `address` to the image `file`; `kind` is a key of `PICTURES`."""
    picture = PICTURES[kind]
    contexts: list[dict[str, Any]] = [
        {"viewport": {"width": picture.wide, "height": picture.height}, "color_scheme": "light"},
        {"viewport": {"width": picture.wide, "height": picture.height}, "color_scheme": "dark"},
        {"viewport": {"width": picture.narrow, "height": picture.height}, "is_mobile": True, "has_touch": True},
    ]
    shots = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for context in contexts:
            page = browser.new_context(**context).new_page()
            picture.ready(page, address)
            shots.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
        browser.close()
    together = Image.new("RGB", (sum(shot.width for shot in shots), picture.height), "white")
    left = 0
    for shot in shots:
        together.paste(shot, (left, 0))
        left += shot.width
    size = round(together.width * picture.scale), round(together.height * picture.scale)
    few = together.resize(size, Image.Resampling.LANCZOS).quantize(250, Image.Quantize.MAXCOVERAGE, kmeans=1)
    few.save(file, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:4])

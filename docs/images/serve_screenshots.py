"""Makes serve.png: the page of `dragoman serve` in light, in dark and on a phone, side by side."""

import io
import shutil
import sys

from PIL import Image
from playwright.sync_api import sync_playwright

TEXT = (
    "Where is the train station?\n"
    "The express train to Milan leaves from platform 18.\n"
    "I would like a coffee with milk, please."
)
HEIGHT = 620
CONTEXTS = (
    {"viewport": {"width": 860, "height": HEIGHT}, "color_scheme": "light"},
    {"viewport": {"width": 860, "height": HEIGHT}, "color_scheme": "dark"},
    {"viewport": {"width": 360, "height": HEIGHT}, "color_scheme": "light", "is_mobile": True, "has_touch": True},
)


def main(address: str, picture: str) -> None:
    """Photographs the page three times, pointing at a word of the translation."""
    shots = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for context in CONTEXTS:
            page = browser.new_context(**context).new_page()
            page.goto(f"{address}/?source=en&target=de")
            page.locator("#text").fill(TEXT)
            page.locator("#output:not(.stale) .word").nth(3).click()
            shots.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
        browser.close()
    together = Image.new("RGB", (sum(shot.width for shot in shots), HEIGHT), "white")
    left = 0
    for shot in shots:
        together.paste(shot, (left, 0))
        left += shot.width
    size = (together.width * 2 // 3, together.height * 2 // 3)
    together.resize(size, Image.Resampling.LANCZOS).quantize(250, Image.Quantize.MAXCOVERAGE, kmeans=1).save(
        picture, optimize=True
    )


if __name__ == "__main__":
    main(*sys.argv[1:3])

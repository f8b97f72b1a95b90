"""Makes inspect.png: an inspection page in light, in dark and on a phone, side by side, half size, few colours."""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

HEIGHT = 1300
CONTEXTS = (
    {"viewport": {"width": 1000, "height": HEIGHT}, "color_scheme": "light"},
    {"viewport": {"width": 1000, "height": HEIGHT}, "color_scheme": "dark"},
    {"viewport": {"width": 390, "height": HEIGHT}, "color_scheme": "light", "is_mobile": True, "has_touch": True},
)


def main(page_file: str, picture: str) -> None:
    """Photographs the page three times, with a word of the translation kept."""
    shots = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for context in CONTEXTS:
            page = browser.new_context(**context).new_page()
            page.goto(Path(page_file).resolve().as_uri())
            page.locator("#tgt .word").nth(1).click()
            shots.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
        browser.close()
    together = Image.new("RGB", (sum(shot.width for shot in shots), HEIGHT), "white")
    left = 0
    for shot in shots:
        together.paste(shot, (left, 0))
        left += shot.width
    together = together.resize((together.width // 2, together.height // 2), Image.Resampling.LANCZOS)
    together.quantize(160).save(picture, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])

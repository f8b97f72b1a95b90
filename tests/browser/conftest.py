"""Pages in Chromium, driven by Playwright. Without either, these tests are skipped with a reason."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dragoman.bundle import Model
from dragoman.visualization.inspection.inspection import Inspection, inspection_page
from dragoman.visualization.inspection.inspector import inspect_text

TEXT = "one two three. four Bahnhof"


@dataclass
class Opened:
    """A page in a browser, with its network requests and its errors."""

    page: Any
    inspection: Inspection
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def note(self, message: Any) -> None:
        """Messages of the console, except advice about reading pixels, which these tests do."""
        if not message.text.startswith("Canvas2D:"):
            self.problems.append(message.text)

    def dismiss(self, dialog: Any) -> None:
        """Our pages open no dialogs."""
        self.problems.append(dialog.message)
        dialog.dismiss()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed (apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def inspection(small_bundle: Model) -> Inspection:
    """An inspection of one translation."""
    return inspect_text(small_bundle, TEXT, name="model", reference="eins zwei")


@pytest.fixture
def open_page(browser: Any, inspection: Inspection, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Open a page; keywords go to Playwright's browser context (viewport, color_scheme ...)."""
    contexts = []

    def opening(shown: Inspection = inspection, **context: Any) -> Opened:
        contexts.append(browser.new_context(**{"viewport": {"width": 1100, "height": 900}} | context))
        opened = Opened(contexts[-1].new_page(), shown)
        path = tmp_path / "page.html"
        path.write_text(inspection_page(shown), encoding="utf-8")
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.on("pageerror", lambda error: opened.problems.append(str(error)))
        opened.page.on("console", opened.note)
        opened.page.on("dialog", opened.dismiss)
        opened.page.goto(path.as_uri())
        assert opened.requests == [path.as_uri()], "the page itself, and nothing else"
        return opened

    yield opening
    for context in contexts:
        context.close()

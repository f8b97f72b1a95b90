"""The page of both sides in a browser: hostile text stays text, and flagged text comes first if the reader likes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.main import run_command
from tests.browser.opened_files import open_file

HOSTILE = '</td></table><script>window.hacked=1</script><img src=x onerror="window.hacked=1"> \u202etwo'
LINES = ["It is late.", "Xqzzy blorf wug.", "", "Where is the station?", HOSTILE, "مرحبا بالعالم"]


@pytest.fixture
def review(browser: Any, tmp_path: Path) -> Iterator[Callable[..., tuple[Any, list[str]]]]:
    """Open a page that the command has written; the list has its requests, the page first, and its errors."""
    contexts = []
    text, page_path = tmp_path / "lines.txt", tmp_path / "both.html"

    def opening(lines: list[str] = LINES, **context: Any) -> tuple[Any, list[str]]:
        text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        files = "--input", text, "--output", tmp_path / "out.txt", "--bilingual", page_path
        assert run_command(["translate", "demo", *map(str, files)]) == 0
        contexts.append(browser.new_context(**{"viewport": {"width": 1100, "height": 900}} | context))
        return open_file(contexts[-1], page_path)

    yield opening
    for context in contexts:
        context.close()


def numbers(page: Any) -> list[int]:
    return list(map(int, page.locator("tbody td:first-child").all_text_contents()))


def test_flagged_text_comes_first_and_nothing_hostile_runs(review: Callable[..., tuple[Any, list[str]]]) -> None:
    page, events = review()
    sources = page.locator("tbody td:nth-child(2)")
    assert sources.all_text_contents() == [line for line in LINES if line]
    assert page.locator("tbody img, tbody script").count() == 0
    assert numbers(page) == [1, 2, 4, 5, 6]
    flags = [row.locator(".flag").count() for row in page.locator("tbody tr").all()]
    assert min(flags[0], flags[2]) == 0 < flags[1]
    page.get_by_role("button", name="Flagged first").click()
    by_flags = sorted(zip((1, 2, 4, 5, 6), flags, strict=True), key=lambda row: -row[1])
    assert numbers(page) == [number for number, _ in by_flags] != [1, 2, 4, 5, 6]
    page.get_by_role("button", name="As in the document").click()
    assert numbers(page) == [1, 2, 4, 5, 6]
    assert sources.last.evaluate("node => getComputedStyle(node).direction") == "rtl"
    assert (page.evaluate("window.hacked"), events) == (None, [])


def test_the_page_works_without_scripts_on_a_phone_in_the_dark(review: Callable[..., tuple[Any, list[str]]]) -> None:
    page, events = review(java_script_enabled=False, color_scheme="dark", viewport={"width": 380, "height": 800})
    assert numbers(page) == [1, 2, 4, 5, 6]
    assert page.locator("button:visible").count() == 0
    summary, table = page.locator("footer").bounding_box(), page.locator("table").bounding_box()
    assert summary["y"] + summary["height"] <= table["y"], "the summary is above the rows"
    for cell in page.locator("tbody td:visible").all():
        box = cell.bounding_box()
        assert 0 <= box["x"] < box["x"] + box["width"] <= 380
    assert page.locator("body").evaluate("node => getComputedStyle(node).backgroundColor") == "rgb(20, 24, 28)"
    assert events == []


def test_a_page_without_flags_has_nothing_to_sort(review: Callable[..., tuple[Any, list[str]]]) -> None:
    page, events = review(LINES[:1])
    assert page.locator("footer").text_content().strip() == "1 segment: none flagged, none lost a placeholder or term."
    assert (page.locator("button").count(), events) == (0, [])

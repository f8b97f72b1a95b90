"""The report in a browser: its policy allows its styles only, and words are shaded without a script."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.bundle import Card
from dragoman.config import Config
from dragoman.visualization.report.report import ReportedTest, WordWeights, report_html
from dragoman.visualization.report.run_facts import RunFacts, TrainingLog
from tests.browser.opened_files import open_file

WORDS = WordWeights(("one", " two", "?"), ("eins", " zwei"), ((0.9, 0.05, 0.0), (0.1, 0.4, 0.2)))
HOSTILE = "</style><script>window.hacked=1</script><img src=x onerror=window.hacked=1> \u202etwo"
CLEAR = "rgba(0, 0, 0, 0)"


@pytest.fixture
def report(browser: Any, tmp_path: Path) -> Iterator[Callable[..., tuple[Any, list[str]]]]:
    """Open a report; the list has its requests, the page first, and its errors."""
    contexts = []

    def opening(**context: Any) -> tuple[Any, list[str]]:
        curve = ((10.0, 3.0), (20.0, 2.0))
        log = TrainingLog({"loss": curve, "perplexity": curve}, {"loss": curve, "chrf": curve})
        lengths = np.array([1, 1, 1, 2])
        facts = RunFacts(tmp_path, Config(), HOSTILE, Card("en", "de"), log, (), (lengths, lengths))
        sentences = ["one two?", HOSTILE]
        test = ReportedTest("test", sentences, ["eins zwei", "x"], ["eins zwei", HOSTILE], [], list, lambda *_: WORDS)
        path = tmp_path / "report.html"
        path.write_text(report_html(facts, test), encoding="utf-8")
        contexts.append(browser.new_context(**{"viewport": {"width": 1000, "height": 900}} | context))
        return open_file(contexts[-1], path)

    yield opening
    for context in contexts:
        context.close()


def shade(page: Any, word: str) -> str:
    found: str = page.locator(f"#s1 .{word}").evaluate("node => getComputedStyle(node).backgroundColor")
    return found


def test_nothing_hostile_runs_and_nothing_is_requested_from_the_network(
    report: Callable[..., tuple[Any, list[str]]],
) -> None:
    page, events = report()
    assert page.evaluate("window.hacked") is None
    assert HOSTILE in page.locator("pre").first.text_content()
    assert events == []
    assert page.locator("svg.chart:visible").count() == 2
    assert page.locator("main").evaluate("node => getComputedStyle(node).maxWidth") != "none", "the style is let in"


def test_pointing_at_a_word_shades_the_words_it_attends_to_and_the_reverse(
    report: Callable[..., tuple[Any, list[str]]],
) -> None:
    page, _ = report()
    assert shade(page, "t0") == shade(page, "o0") != CLEAR
    page.locator("#s1 .t1").hover()
    assert [shade(page, word) == CLEAR for word in ("o0", "o1", "o2", "t0")] == [False, False, False, True]
    assert len({shade(page, word) for word in ("o0", "o1", "o2")}) == 3
    page.locator("#s1 .o1").hover()
    assert (shade(page, "t0"), shade(page, "o0")) == (CLEAR, CLEAR)
    assert shade(page, "t1") != CLEAR
    page.mouse.move(2, 2)
    page.locator("#s1 .t0").focus()
    assert [shade(page, word) == CLEAR for word in ("o0", "o1", "t1")] == [False, True, True]


def test_the_report_follows_dark_mode_and_fits_a_phone(report: Callable[..., tuple[Any, list[str]]]) -> None:
    ground = "node => getComputedStyle(node).backgroundColor"
    page, _ = report(color_scheme="dark")
    assert page.locator("body").evaluate(ground) == "rgb(20, 24, 28)"
    page, _ = report(viewport={"width": 380, "height": 800})
    assert page.locator("body").evaluate(ground) == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 380


def test_on_a_phone_the_check_list_and_the_curves_are_inside_the_screen(
    report: Callable[..., tuple[Any, list[str]]],
) -> None:
    page, _ = report(viewport={"width": 390, "height": 800}, is_mobile=True, has_touch=True)
    shown = page.locator(".checks td p, .checks td:last-child, .chart")
    boxes = [box for box in (one.bounding_box() for one in shown.all()) if box is not None]
    assert page.locator(".failure p").count() > 0
    assert len(boxes) > page.locator(".failure p").count()
    for box in boxes:
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    assert min(page.locator(".failure p").evaluate_all("all => all.map((one) => one.clientWidth)")) > 250
    assert page.locator(".checks").evaluate("node => node.scrollWidth <= node.clientWidth")


@pytest.mark.parametrize("width", [390, 1000])
def test_the_letters_of_charts_are_large_enough(report: Callable[..., tuple[Any, list[str]]], width: int) -> None:
    """Letters have 9 points in the view box; their size on screen depends on the width of the figure."""
    page, _ = report(viewport={"width": width, "height": 800})
    charts = page.locator("svg.chart:visible")
    assert charts.count() == 2
    for chart in charts.all():
        points = float(chart.get_attribute("viewBox").split()[2])
        assert 9 * chart.bounding_box()["width"] / points >= 8

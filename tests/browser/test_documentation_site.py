"""The documentation site: built without warnings, all links lead somewhere, and it works in a browser from files.

Search, keyboard, notebooks and small screens are tested in Chromium, with the files of the built site and no server.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("sphinx", reason="the extra docs is not installed")

ROOT = Path(__file__).resolve().parents[2]

QUESTIONS = {
    "install pip": "docs/how-to/install.html",
    "tokenize text": "docs/faq.html",
    "blank lines lost": "docs/faq.html",
    "BLEU lower than paper": "docs/faq.html",
    "resume training": "docs/how-to/resume-a-run.html",
    "checkpoint corrupted": "docs/faq.html",
    "CUDA out of memory": "docs/how-to/use-a-gpu.html",
    "RAM large corpus": "docs/faq.html",
    "always the same sentence": "docs/faq.html",
    "unk in the output": "docs/faq.html",
    "vocabulary mismatch": "docs/faq.html",
    "result depends on batch size": "docs/how-to/verify-a-model.html",
    "repeated words": "docs/faq.html",
    "capital letters": "docs/faq.html",
    "long sentences cut": "docs/faq.html",
    "placeholders": "docs/how-to/protect-text.html",
    "glossary": "docs/how-to/protect-text.html",
    "loss is NaN": "docs/faq.html",
    "multi-GPU": "docs/how-to/train-in-several-processes.html",
    "early stopping": "docs/faq.html",
    "fine-tune": "docs/how-to/fine-tune.html",
    "slow server": "docs/faq.html",
    "word alignment": "docs/faq.html",
    "UnicodeDecodeError": "docs/faq.html",
}
"""What users of translation toolkits ask most, as they would type it, and a page that answers it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Warnings are errors, as in `make docs`."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-c", "docs", "-W", "--keep-going", "--quiet", ".", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


class _Page(HTMLParser):
    """The anchors of a page, and the targets that it names."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.anchors.add(value or "")
            elif name in ("href", "src") and value:
                self.targets.append(value)


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    pages = {path: _Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    assert len(pages) > 80
    broken = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            found = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[found].anchors if found in pages else None
            if not found.exists() or (
                parts.fragment and anchors is not None and unquote(parts.fragment) not in anchors
            ):
                broken.append(f"{path.relative_to(site)}: {target}")
    assert not broken


Open = Callable[..., Any]


@pytest.fixture
def open_site(browser: Any, site: Path) -> Iterator[Open]:
    """Open a page of the site from its file. Keywords go to Playwright's browser context.

    At the end, no page may have had an error, or requested anything outside the site.
    """
    contexts, problems = [], []

    def note(request: Any) -> None:
        if not request.url.startswith((site.as_uri(), "data:", "blob:")):
            problems.append(request.url)

    def opening(name: str, **context: Any) -> Any:
        contexts.append(browser.new_context(**{"viewport": {"width": 1300, "height": 900}} | context))
        page = contexts[-1].new_page()
        page.on("request", note)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.goto(f"{site.as_uri()}/{name}")
        return page

    yield opening
    for context in contexts:
        context.close()
    assert problems == []


def results_of(page: Any) -> list[str]:
    """The pages that a search found, best first."""
    page.locator("#search-results [role=status]").wait_for()
    links = page.locator("ul.search li a").evaluate_all("links => links.map((link) => link.getAttribute('href'))")
    return [link.partition("#")[0].removeprefix("./") for link in links]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_by_one_search(open_site: Open, question: str) -> None:
    page = open_site(f"search.html?q={question}")
    assert QUESTIONS[question] in results_of(page)[:3]


# Loading the page and its index for each question would take a minute longer.
SEARCH_AGAIN = (
    "question => { document.querySelector('#search-results').replaceChildren(); Search.performSearch(question); }"
)


@pytest.mark.parametrize("part", ["tuned", "held_out"])
def test_most_questions_have_a_page_that_answers_them_first(open_site: Open, part: str) -> None:
    """The ranking was tuned on `tuned`. `held_out` was written apart, but known before the last two weights."""
    path = Path(__file__).with_name("search_questions.json")
    questions: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))[part]
    page = open_site("search.html?q=a")
    results_of(page)
    wrong = []
    for question, pages in questions.items():
        page.evaluate(SEARCH_AGAIN, question)
        if not any(result.removesuffix(".html") in pages for result in results_of(page)[:1]):
            wrong.append(question)
    assert len(wrong) <= 0.15 * len(questions), wrong


def test_the_keyboard_leads_from_any_page_to_a_found_section(open_site: Open) -> None:
    page = open_site("docs/guide/08_masks.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("warmup_steps")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=warmup_steps")
    assert results_of(page)[0] == "docs/reference/settings.html"
    first = page.locator("ul.search li a").first
    first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/docs/reference/settings.html#*")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("learning rate", "docs/reference/settings.html"),
        ("inference.beam_size", "docs/reference/settings.html"),
        ("--alignment", "docs/reference/commands/translate.html"),
        ("plot_heads", "docs/reference/api/dragoman.visualization.plot_heads.html"),
        ("dragoman.train", "docs/reference/api/dragoman.train.html"),
    ],
)
def test_a_name_leads_to_its_reference(open_site: Open, name: str, expected: str) -> None:
    assert expected in results_of(open_site(f"search.html?q={name}"))[:2]


def test_a_misspelt_word_is_found_and_nonsense_is_not(open_site: Open) -> None:
    page = open_site("search.html?q=attentiom")
    assert results_of(page)
    assert page.locator("ul.search li mark").first.inner_text().lower().startswith("attention")
    assert results_of(open_site("search.html?q=qqqqzzzz")) == []


def test_the_start_page_leads_to_the_reference(open_site: Open) -> None:
    page = open_site("index.html")
    page.wait_for_url("**/docs/index.html")
    page.get_by_role("link", name="Reference", exact=True).first.click()
    page.get_by_role("link", name="Settings", exact=True).first.click()
    assert page.locator("h1").inner_text().startswith("Settings")


def test_a_notebook_shows_code_results_figures_and_formulas(open_site: Open) -> None:
    page = open_site("docs/guide/04_attention.html")
    text = page.locator("article").inner_text()
    assert "find_spec" not in text, "the cell that installs is for Jupyter"
    assert "def attention_weights" in text, "the code of the library is shown"
    assert "[0., 1., 1.]" in text
    images = page.locator(".cell_output img")
    assert images.count()
    assert images.first.evaluate("image => image.complete && image.naturalWidth > 100")
    fraction = page.locator("math mfrac").first.bounding_box()
    assert fraction["height"] > 20, "formulas are drawn"
    page.get_by_title("next page").click()
    page.wait_for_url("**/05_heads.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dark_mode_follows_the_system_and_text_has_contrast(open_site: Open, scheme: str) -> None:
    page = open_site("docs/how-to/train.html", color_scheme=scheme)
    brightness = (
        "node => getComputedStyle(node)[{}].match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 765"
    )
    text = page.locator("article p").first.evaluate(brightness.format("'color'"))
    background = page.locator("body").evaluate(brightness.format("'backgroundColor'"))
    assert (background > 0.9 and text < 0.3) if scheme == "light" else (background < 0.2 and text > 0.7)


NARROW = (
    "docs/index.html",
    "docs/guide/04_attention.html",
    "docs/reference/settings.html",
    "docs/reference/command-line.html",
    "docs/reference/commands/translate.html",
    "docs/reference/api/dragoman.Translator.html",
    "docs/reference/figures.html",
    "docs/faq.html",
    "search.html?q=resume",
)


WIDE = (
    "docs/guide/06_layers.html",
    "docs/guide/14_mistakes.html",
    "docs/how-to/check-a-corpus.html",
    "docs/reference/default-recipe.html",
    "docs/reference/api/dragoman.Transformer.html",
    "docs/tutorials/4_paper_training.html",
)


@pytest.mark.parametrize("name", WIDE)
def test_no_code_or_table_is_cut_on_a_laptop(open_site: Open, name: str) -> None:
    page = open_site(name, viewport={"width": 1400, "height": 900})
    boxes = page.locator("article pre, article .pst-scrollable-table-container")
    assert boxes.evaluate_all("all => all.filter((box) => box.scrollWidth > box.clientWidth + 1).length") == 0


def test_an_overview_of_the_api_fits_a_phone(open_site: Open) -> None:
    page = open_site("docs/reference/api.html", viewport={"width": 390, "height": 844})
    tables = page.locator("table.autosummary")
    assert tables.count() > 5
    assert tables.evaluate_all("all => all.every((table) => table.scrollWidth <= table.parentNode.clientWidth)")


@pytest.mark.parametrize("name", NARROW)
def test_a_page_fits_a_phone(open_site: Open, name: str) -> None:
    page = open_site(name, viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

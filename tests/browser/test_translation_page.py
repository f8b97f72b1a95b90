"""The page of `dragoman serve` in a browser, with a real server; some difficult answers are faked."""

import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from dragoman.bundle import Model
from dragoman.inference.translator import Translator
from dragoman.serving.http.forwarding import Deployment
from dragoman.serving.limits import ServeSettings
from dragoman.serving.models import Models, ServedModel
from dragoman.serving.service import Service
from tests.unit.serving.tagged_models import tagged_service
from tests.unit.text.documents.office.office_files import docx, odt, texts

TEXT = "one two three. Four five"
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=2> \u202eone\u202c \u2066two"
MARKS = "a" + "\u0301" * 5000


@dataclass
class Opened:
    """A page, its requests and its errors."""

    page: Any
    address: str
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def dismiss(self, dialog: Any) -> None:
        """Our pages open no dialogs."""
        self.problems.append(dialog.message)
        dialog.dismiss()

    def watch(self, page: Any) -> Any:
        """Record a page's requests and errors; a refused request is not an error of the page."""
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: None if "Failed to load" in message.text else self.dismayed(message))
        page.on("dialog", self.dismiss)
        return page

    def dismayed(self, message: Any) -> None:
        """Messages of the console, such as content that the policy forbids."""
        self.problems.append(message.text)

    def type(self, text: str) -> None:
        """Write a text and wait for its translation."""
        self.page.locator("#text").fill(text)
        self.settled()

    def settled(self) -> None:
        """Wait until the translation of the current text is shown."""
        self.page.wait_for_function("() => !document.querySelector('#output').classList.contains('stale')")

    @property
    def output(self) -> str:
        """The translation."""
        return str(self.page.locator("#output").text_content())


def service(trained: Model, folder: Path, *pairs: str, **settings: Any) -> Service:
    """A server with the same model for all pairs."""
    translator = Translator.from_models([trained])
    models = [
        ServedModel(source, target, trained, translator, {}, folder)
        for source, target in (pair.split("-") for pair in pairs or ("en-de", "de-en"))
    ]
    return Service(Models(models), ServeSettings(lanes=1, **settings))


@pytest.fixture(scope="module")
def folder(small_bundle: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model."""
    path = tmp_path_factory.mktemp("served") / "model"
    small_bundle.save(path)
    return path


@pytest.fixture(scope="module")
def address(small_bundle: Model, folder: Path, serving: Any) -> Iterator[str]:
    """The address of a server for both directions."""
    with serving(service(small_bundle, folder)) as found:
        yield found


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[Callable[..., Opened]]:
    """Open the page with a query; keywords go to Playwright's browser context. Fails after errors."""
    contexts: list[Any] = []
    all_opened: list[Opened] = []

    def opening(query: str = "?source=en&target=de", at: str = address, answer: Any = None, **context: Any) -> Opened:
        contexts.append(browser.new_context(**{"viewport": {"width": 1100, "height": 900}} | context))
        page = contexts[-1].new_page()
        opened = Opened(page, at)
        all_opened.append(opened)
        opened.watch(page)
        if answer is not None:
            page.route("**/v1/translate", answer)
        page.goto(f"{at}/{query}")
        page.wait_for_function("() => document.querySelector('#target').value")
        opened.settled()
        return opened

    yield opening
    for context in contexts:
        context.close()
    for opened in all_opened:
        assert opened.problems == []
        assert [url for url in opened.requests if not url.startswith((opened.address, "data:,"))] == []


Open = Callable[..., Opened]


def answering(*sentences: dict[str, Any], others: tuple[str, ...] = (), **more: Any) -> Callable[[Any], None]:
    """Answer every request with these sentences, joined by spaces."""
    text = " ".join(sentence["text"] for sentence in sentences)
    candidates = [{"text": one} for one in (text, *others)]
    made = {"text": text, "source": "en", "flags": [], "candidates": candidates, "sentences": sentences}
    made |= more
    return lambda route: route.fulfill(json={"translations": [made]})


TRAIN = {
    "source": "The train waits.",
    "text": "Der Zug wartet .",
    "words": [0.99, 0.35, 0.8, None],
    "alignment": [[0, 0], [1, 1], [2, 2], [2, 3]],
}
AGAIN = {"source": "Why?", "text": "Warum?", "words": [0.5], "alignment": [[0, 0]]}


def marked(page: Any, side: str) -> list[str]:
    """The words that are marked on a side."""
    place = {"source": "#mirror", "target": "#output"}[side]
    return [str(text) for text in page.locator(f"{place} .linked, {place} .here").all_inner_texts()]


def test_it_translates_when_the_user_pauses_and_shows_the_servers_translation(open_page: Open) -> None:
    opened = open_page()
    page = opened.page
    with page.expect_request("**/v1/translate") as asked:
        page.locator("#text").evaluate("""node => { for (const char of "one two") {
            node.value += char;
            node.dispatchEvent(new Event("input", { bubbles: true }));
        } }""")
        opened.settled()
    assert asked.value.post_data_json["text"] == "one two"
    assert sum(url.endswith("/v1/translate") for url in opened.requests) == 1, (
        "once for all that was typed at a stretch"
    )
    sent = {"q": "one two", "source": "en", "target": "de"}
    assert opened.output == page.request.post(f"{opened.address}/translate", data=sent).json()["translatedText"] != ""
    assert page.locator("#status").inner_text() != ""
    assert page.locator("#count").inner_text() == "7 of 5,000 characters"
    page.get_by_role("button", name="Clear").click()
    opened.settled()
    assert (opened.output, page.locator("#count").inner_text()) == ("", "0 of 5,000 characters")
    assert page.locator("#text").evaluate("node => node === document.activeElement")
    assert page.get_by_role("button", name="Copy").is_disabled()


def test_ctrl_enter_does_not_wait_for_a_pause(open_page: Open) -> None:
    opened = open_page()
    opened.page.evaluate("""() => { const set = window.setTimeout;
        window.setTimeout = (work, wait) => set(work, wait > 300 && wait < 360 ? 100000 : wait) }""")
    opened.page.locator("#text").fill("one")
    opened.page.wait_for_timeout(500)
    assert opened.output == ""
    opened.page.keyboard.press("Control+Enter")
    opened.settled()
    assert opened.output
    assert opened.page.locator("#text").input_value() == "one"


def test_swapping(open_page: Open) -> None:
    opened = open_page(answer=answering(TRAIN))
    page = opened.page
    opened.type("The train waits.")
    page.keyboard.press("Alt+s")
    assert (page.locator("#source").input_value(), page.locator("#target").input_value()) == ("de", "en")
    assert page.locator("#text").input_value() == TRAIN["text"]
    opened.settled()
    page.locator("#text").fill("not yet translated")
    page.get_by_role("button", name="Swap languages").click()
    assert page.locator("#text").input_value() == "not yet translated", "what was typed is not lost"
    page.locator("#text").press("Control+Alt+s")
    assert page.locator("#source").input_value() == "en", "AltGr writes a letter"


def test_swapping_a_detected_language(open_page: Open) -> None:
    opened = open_page("?source=auto&target=de")
    page = opened.page
    assert page.locator("#source").input_value() == "auto"
    opened.type("Where is the train station, and when does the next train to the city leave?")
    assert re.fullmatch(r"English, \d+% sure", page.locator("#detected").inner_text())
    page.get_by_role("button", name="Swap languages").click()
    assert (page.locator("#source").input_value(), page.locator("#target").input_value()) == ("de", "en")


def test_one_way_cannot_be_swapped_and_few_candidates_are_enough(
    open_page: Open, small_bundle: Model, folder: Path, serving: Any
) -> None:
    with serving(service(small_bundle, folder, "en-de", max_alternatives=0, max_chars=20)) as at:
        opened = open_page("?q=one+two", at=at)
        assert opened.output
        assert opened.page.get_by_role("button", name="Swap languages").is_disabled()
        assert opened.page.locator("#source option").all_inner_texts() == ["English"]
        assert not opened.page.locator("#others").is_visible()
        opened.page.locator("#text").fill("one " * 6)
        opened.page.locator("#status.wrong").wait_for()
        assert "exceeds text limit (20)" in opened.page.locator("#status").inner_text()
        assert "wrong" in opened.page.locator("#count").get_attribute("class")


def test_choosing_an_alternative_and_going_back(open_page: Open) -> None:
    opened = open_page()
    page = opened.page
    opened.type(TEXT)
    first, others = opened.output, page.locator("#alternatives button")
    offered = others.all_inner_texts()
    assert len(set(offered)) == len(offered) >= 1
    assert first not in offered
    words = page.locator("#output .word").count()
    others.last.click()
    assert opened.output == offered[-1]
    assert first in others.all_inner_texts()
    assert page.locator("#look").is_hidden(), "there is nothing to see inside it"
    assert others.first.evaluate("node => node === document.activeElement"), "the keyboard continues where it was"
    others.filter(has_text=re.compile(f"^{re.escape(first)}$")).click()
    assert (opened.output, page.locator("#output .word").count()) == (first, words)
    assert page.locator("#look").is_visible()


def test_pointing_at_a_word_marks_the_words_it_is_linked_to(open_page: Open) -> None:
    opened = open_page(answer=answering(TRAIN, AGAIN))
    page = opened.page
    opened.type("The train waits.\nWhy?")
    page.locator("#output .word").nth(1).hover()
    assert marked(page, "source") == ["train"]
    assert page.locator("#word").inner_text() == "\u2068Zug\u2069 ← \u2068train\u2069 · 35% sure"
    page.locator("#output .word").nth(3).hover()
    assert page.locator("#word").inner_text() == "\u2068.\u2069 ← \u2068waits.\u2069"
    box = page.locator("#mirror [data-word]").nth(2).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert (marked(page, "source"), marked(page, "target")) == (["waits."], ["wartet", "."])
    assert "80% sure" in page.locator("#word").inner_text()
    box = page.locator("#mirror [data-word]").last.bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + box["height"] / 2)
    assert marked(page, "target") == ["Warum?"], "of the second sentence"
    page.mouse.move(3, 3)
    assert marked(page, "source") == marked(page, "target") == []
    doubts = [one.evaluate("node => node.style.getPropertyValue('--doubt')") for one in page.locator(".word").all()]
    assert doubts == ["0%", "37%", "7%", "", "27%"]
    assert page.locator(".word.unsure").all_inner_texts() == ["Zug"]


def test_the_marked_words_lie_exactly_under_the_text(open_page: Open) -> None:
    long = "\n".join(f"sentence {number} is one of quite a few that wrap and scroll" for number in range(60))
    sentence = {"source": long, "text": "x", "words": [None], "alignment": [[60, 0]]}
    opened = open_page(answer=answering(sentence))
    opened.page.locator("#text").fill(long)
    opened.page.locator("#text").evaluate("node => { node.scrollTop = 500 }")
    opened.settled()
    heights = [opened.page.locator(one).evaluate("node => node.scrollHeight") for one in ("#text", "#mirror")]
    assert heights[0] == heights[1] > 900
    assert opened.page.locator("#mirror").evaluate("node => node.scrollTop") == 500
    opened.page.locator("#text").evaluate("node => { node.scrollTop = 300 }")
    opened.page.wait_for_function("() => document.querySelector('#mirror').scrollTop === 300")


def test_the_words_are_one_stop_of_the_tab_key(open_page: Open) -> None:
    opened = open_page(answer=answering(TRAIN, AGAIN))
    page = opened.page
    opened.type("The train waits. Why?")
    stops = page.locator("#output [tabindex='0']")
    page.locator("#clear").focus()
    page.keyboard.press("Tab")
    for key, word in (
        ("", "Der"), ("ArrowRight", "Zug"), ("End", "Warum?"), ("ArrowRight", "Warum?"), ("ArrowLeft", "."),
        ("Home", "Der"), ("ArrowLeft", "Der"),
    ):  # fmt: skip
        if key:
            page.keyboard.press(key)
        assert page.evaluate("document.activeElement.textContent") == word
        assert page.locator("#output .here").inner_text() == word
        assert stops.all_inner_texts() == [word]
    page.locator("#output .word").nth(2).click()
    page.keyboard.press("ArrowRight")
    assert stops.all_inner_texts() == ["."]
    page.keyboard.press("End")
    assert "Why%3F" in page.locator("#look").get_attribute("href")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "look"
    assert page.locator("#look").get_attribute("title") == "Why?", "the sentence of the word that had the focus"
    assert marked(page, "source") == []


def test_inspecting_and_choosing_another_word(open_page: Open) -> None:
    opened = open_page()
    opened.type(TEXT)
    with opened.page.expect_popup() as popup:
        opened.page.keyboard.press("Alt+l")
    look = opened.watch(popup.value)
    look.wait_for_selector("#steps tr")

    def data() -> Any:
        return json.loads(look.locator("#data").text_content())

    before = data()
    assert (before["src"]["text"], before["forced"]) == ("one two three.", 0)
    assert look.locator("#forced").is_hidden()
    place = len(before["tgt"]["ids"]) // 2
    other = before["steps"][place]["alternatives"][1]
    link = look.locator("#steps tr").nth(place + 1).locator(".alternatives a").nth(1)
    link.click()
    look.wait_for_selector("#forced:not([hidden])")
    after = data()
    assert after["forced"] == place + 1
    assert after["tgt"]["ids"][: place + 1] == [*before["tgt"]["ids"][:place], other["id"]]
    assert look.locator("#steps tr.forced").count() == place + 1
    assert (
        look.locator("#forced-text").inner_text().split()
        == "".join(after["tgt"]["tokens"][: place + 1]).replace("▁", " ").split()
    )
    look.get_by_role("link", name="Remove it").click()
    look.wait_for_selector("#forced", state="hidden")
    assert data()["tgt"] == before["tgt"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "one two.\nthree\n"),
        ("a.html", "<p>one <b>two</b></p>"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\none two\n"),
    ],
)
def test_a_file_is_translated_and_downloaded(open_page: Open, name: str, content: str) -> None:
    page = open_page().page
    file = {"name": name, "mimeType": "text/plain", "buffer": content.encode()}
    page.get_by_label("File to translate").set_input_files(file)
    link = page.get_by_role("link", name=re.compile(r"Download a_de\."))
    with page.expect_download() as download:
        link.click()
    assert download.value.suggested_filename == name.replace(".", "_de.")
    assert Path(download.value.path()).read_text(encoding="utf-8") not in ("", content)
    assert "translated" in page.locator("#jobs").inner_text()


WORD = docx("<w:p><w:r><w:t>one two three.</w:t></w:r></w:p><w:p><w:r><w:t>four five</w:t></w:r></w:p>")
OPEN = odt("<text:p>one two three.</text:p><text:p>four five</text:p>")


def choose(page: Any, *names: str, content: bytes = WORD) -> None:
    """Choose files with these names and the same content. The page then asks for their status more often."""
    page.evaluate("""() => { window.unhurried ??= window.setTimeout;
        window.setTimeout = (work, wait) => unhurried(work, wait === 500 ? 50 : wait) }""")
    all_files = [{"name": name, "mimeType": "application/octet-stream", "buffer": content} for name in names]
    page.get_by_label("File to translate").set_input_files(all_files)


def wait_for_end(page: Any) -> None:
    """Wait until all files have a download or an error."""
    page.wait_for_function("() => !document.querySelector('#jobs li:not(:has(a, .wrong))')")


def expect_words(page: Any, words: str) -> None:
    """Fail unless the newest file in the list soon shows these words."""
    expect = pytest.importorskip("playwright.sync_api").expect
    expect(page.locator("#jobs li").first).to_contain_text(words, timeout=20_000)


def status_of(opened: Opened, response: Any) -> int:
    """The HTTP status of the file that this response to an upload tells of."""
    return int(opened.page.request.get(f"{opened.address}/v1/files/{response.json()['id']}").status)


def test_documents_come_back_under_their_own_names(open_page: Open) -> None:
    """They can be downloaded again, though the server gives each once and keeps nothing."""
    opened = open_page()
    page = opened.page
    names = {
        "Prüfbericht 2024.docx": (WORD, "Prüfbericht 2024_de.docx"),
        "Prüf.bericht, (neu).ODT": (OPEN, "Prüf.bericht, (neu)_de.odt"),
        "report.txt": (WORD, "report_de.docx"),
        "Stand 2024.05": (OPEN, "Stand 2024.05_de.odt"),
    }
    started = []
    for name, (content, _) in names.items():
        with page.expect_response("**/v1/files") as response:
            choose(page, name, content=content)
        started.append(response.value)
    wait_for_end(page)
    assert page.locator("#jobs .wrong").count() == 0
    expected = []
    for text in texts(WORD):
        sent = {"q": text, "source": "en", "target": "de"}
        expected.append(page.request.post(f"{opened.address}/translate", data=sent).json()["translatedText"])
    for number, (name, (content, translated)) in enumerate(reversed(names.items())):
        item = page.locator("#jobs li").nth(number)
        assert item.inner_text().split("\n") == [
            name, "Remove", "2 segments translated", f"Download {translated}",
        ]  # fmt: skip
        for _ in range(2):
            with page.expect_download() as download:
                item.get_by_role("link", name=f"Download {translated}", exact=True).click()
            assert download.value.suggested_filename == translated
            found = Path(download.value.path()).read_bytes()
            assert (texts(found), found[:60] == content[:60]) == (expected, True), "of the same kind"
    assert [status_of(opened, response) for response in started] == [404] * 4
    assert sum("/download_file/" in url for url in opened.requests) == 4


def test_the_page_names_and_offers_the_kinds_of_files_that_the_server_translates(open_page: Open) -> None:
    opened = open_page()
    settings = opened.page.request.get(f"{opened.address}/frontend/settings").json()
    offered = opened.page.locator("#file").get_attribute("accept").split(",")
    assert offered == settings["supportedFilesFormat"]
    assert {".docx", ".odt", ".html", ".srt", ".txt"} <= set(offered)
    words = opened.page.locator("#files").inner_text()
    assert all(kind in words for kind in ("Word", "LibreOffice", "HTML", "subtitles", "plain text")), words


def test_a_file_shows_its_progress_and_why_it_failed(open_page: Open) -> None:
    opened = open_page()
    page = opened.page
    job = {"id": "x", "status": "translating", "segments": 0, "translated": 0}
    asked: list[Any] = []
    page.route("**/v1/files", lambda route: asked.append(route))
    page.route("**/v1/files/x", lambda route: asked.append(route))
    choose(page, HOSTILE)
    bar = page.get_by_role("progressbar")
    assert bar.get_attribute("aria-label").startswith("Progress of ")
    for answer, before, share in (
        ({"ahead": 1}, "Uploading", -1),
        ({}, "Waiting for 1 other file", -1),
        ({"segments": 4000}, "Reading the file", -1),
        ({"segments": 4000, "translated": 1000}, "0 of 4,000 segments", 0),
        ({"segments": 4000, "status": "error", "error": "It is broken."}, "1,000 of 4,000 segments", 0.25),
    ):
        expect_words(page, f"Cancel{before}")
        assert bar.evaluate("node => node.position") == share
        while not asked:
            page.wait_for_timeout(20)
        asked.pop().fulfill(json=job | answer)
    page.locator("#jobs .wrong").wait_for()
    assert page.locator("#jobs .wrong").inner_text() == "It is broken."
    assert page.get_by_role("button", name="Try again").count() == 0
    assert page.get_by_role("progressbar").count() == 0
    assert page.evaluate("window.hacked === undefined")


def test_six_files_at_once_wait_their_turn(open_page: Open) -> None:
    page = open_page().page
    files_ = [{"name": f"{number}.txt", "mimeType": "text/plain", "buffer": b"one two.\n" * 40} for number in range(6)]
    page.get_by_label("File to translate").set_input_files(files_)
    page.get_by_role("link", name="Download").nth(5).wait_for()
    assert page.locator("#jobs .wrong").count() == 0
    assert "busy" not in page.locator("#jobs").inner_text()


def test_a_file_waits_and_is_cancelled(open_page: Open) -> None:
    page = open_page().page
    job = {"id": "x", "status": "translating", "segments": 0, "translated": 0, "ahead": 3}
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(route.request.method)
        route.fulfill(json=job)

    page.route("**/v1/files", lambda route: route.fulfill(json=job))
    page.route("**/v1/files/x", answer)
    page.locator("#file").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"one"})
    page.get_by_text("Waiting for 3 other files").wait_for()
    with page.expect_request(lambda request: request.method == "DELETE"):
        page.get_by_role("button", name="Cancel a.txt").click()
    assert page.locator("#jobs li").inner_text().split() == ["a.txt", "Remove", "Cancelled"]
    seen = len(asked)
    page.wait_for_timeout(1200)
    assert len(asked) <= seen + 1, "it is watched no longer"
    assert page.locator("#jobs li").inner_text().split() == ["a.txt", "Remove", "Cancelled"]


LONG = docx("<w:p><w:r><w:t>one two three. four five</w:t></w:r></w:p>" * 5000)


@pytest.mark.parametrize(
    ("held", "words", "content"),
    [("v1/files", "Uploading", WORD), ("", "of 5,000 segments", LONG), ("download_file/*", "Fetching", WORD)],
    ids=["upload", "translation", "fetch"],
)
def test_a_cancelled_document_leaves_nothing_on_the_server(
    open_page: Open, held: str, words: str, content: bytes
) -> None:
    """A request in progress is held until the user cancels, except that the translation really takes seconds."""
    opened = open_page()
    page = opened.page
    requests: list[Any] = []
    if held:
        page.route(f"**/{held}", lambda route: requests.append(route))
    with page.expect_response("**/v1/files") as started:
        choose(page, "a.docx", content=content)
        expect_words(page, words)
        if held == "v1/files":
            page.get_by_role("button", name="Cancel a.docx").click()
            assert "Cancelled" in page.locator("#jobs li").inner_text(), "at once"
            requests[0].continue_()
    assert started.value.status == 200
    if held != "v1/files":
        assert status_of(opened, started.value) == 200
        page.get_by_role("button", name="Cancel a.docx").click()
    until = time.monotonic() + 10
    while status_of(opened, started.value) == 200 and time.monotonic() < until:
        page.wait_for_timeout(50)
    assert status_of(opened, started.value) == 404
    assert page.locator("#jobs li").inner_text().split() == ["a.docx", "Remove", "Cancelled"]
    assert page.get_by_role("link", name="Download").count() == 0


def test_requests_without_an_answer_can_be_tried_again(open_page: Open) -> None:
    """The page then continues with the file that the server has."""
    opened = open_page()
    page = opened.page
    page.route("**/v1/files/*", lambda route: route.abort(), times=1)
    page.route("**/download_file/*", lambda route: route.abort(), times=1)
    with page.expect_response("**/v1/files") as started:
        choose(page, "a.docx")
    for _ in range(2):
        wait_for_end(page)
        wrong = page.locator("#jobs .wrong").all_inner_texts()
        assert wrong == ["The server does not answer. Check that it is running."]
        assert status_of(opened, started.value) == 200, "the file is still there"
        # One call, because the answer to the second request may replace the button before another call.
        again = page.get_by_role("button", name="Try again")
        focused = again.evaluate("node => (node.click(), document.activeElement.getAttribute('aria-label'))")
        assert focused == "Cancel a.docx"
    page.get_by_role("link", name="Download a_de.docx").wait_for()
    assert page.locator("#jobs .wrong").count() == 0
    assert sum(url.endswith("/v1/files") for url in opened.requests) == 1, "it is not uploaded again"
    assert status_of(opened, started.value) == 404


def test_a_translation_that_the_server_has_lost_is_made_again(open_page: Open) -> None:
    """Such as one whose download broke off after its last byte was sent."""
    opened = open_page()
    page = opened.page

    def lose(route: Any) -> None:
        page.request.delete(route.request.url.replace("download_file", "v1/files"))
        route.continue_()

    page.route("**/download_file/*", lose)
    choose(page, "a.docx")
    wait_for_end(page)
    assert "half an hour" in page.locator("#jobs .wrong").inner_text()
    page.unroute("**/download_file/*")
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("link", name="Download a_de.docx").wait_for()


def test_removing_a_file_drops_its_translation(open_page: Open) -> None:
    """From the page or, if it was not fetched, from the server."""
    opened = open_page()
    page = opened.page
    page.evaluate("""() => { const revoke = URL.revokeObjectURL; window.revoked = [];
        URL.revokeObjectURL = (url) => { revoked.push(url); revoke.call(URL, url); } }""")
    choose(page, "a.docx")
    wait_for_end(page)
    page.route("**/download_file/*", lambda route: route.abort())
    with page.expect_response("**/v1/files") as started:
        choose(page, "b.docx")
    wait_for_end(page)
    assert page.get_by_role("button", name="Remove").count() == 2
    address = page.get_by_role("link", name="Download").get_attribute("href")
    with page.expect_response(lambda response: response.request.method == "DELETE"):
        page.get_by_role("button", name="Remove b.docx").click()
    assert status_of(opened, started.value) == 404
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Remove a.docx"
    assert address not in page.evaluate("window.revoked")
    page.keyboard.press("Enter")
    assert address in page.evaluate("window.revoked")
    assert page.locator("#jobs li").count() == 0
    assert page.evaluate("document.activeElement.id") == "file", "the keyboard continues there"


def test_notes_and_names_of_files_are_shown_as_text(open_page: Open) -> None:
    page = open_page().page
    choose(page, "a.docx", content=docx('<w:p><w:r><w:t>one</w:t></w:r></w:p><w:altChunk r:id="a"/>'))
    wait_for_end(page)
    below = page.locator("#jobs li p")
    assert below.all_inner_texts() == [
        "The file: text that was inserted from another file is left as it is. "
        "Open the document in Word, save it, and translate that."
    ]
    assert below.bounding_box()["y"] > page.get_by_role("link", name="Download").bounding_box()["y"]
    page.get_by_role("button", name="Remove a.docx").click()
    notes = {"notes": [HOSTILE, "two"]}
    page.route("**/v1/files/*", lambda route: route.fulfill(json=route.fetch().json() | notes))
    name = "<img src=x onerror=window.hacked=1> \u202eone"
    choose(page, f"{name}.docx", f"{MARKS[:200]}.docx")
    wait_for_end(page)
    assert below.all_text_contents() == [HOSTILE, "two"] * 2
    assert page.locator("#jobs bdi").all_text_contents()[2:] == [f"{name}.docx", f"{name}_de.docx"]
    with page.expect_download() as download:
        page.get_by_role("link", name="Download <img").click()
    assert download.value.suggested_filename.endswith("one_de.docx")
    assert (page.locator("img").count(), page.evaluate("window.hacked === undefined")) == (0, True)


def test_files_can_be_dropped_anywhere_and_other_types_are_refused(open_page: Open) -> None:
    page = open_page().page
    drop = """kind => {
        const data = new DataTransfer();
        data.items.add(new File(["one two"], "a.txt"));
        data.items.add(new File(["one two"], "b.pdf"));
        data.items.add(new File([Uint8Array.fromBase64(WORD)], "c.docx"));
        const event = new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true });
        document.querySelector("#text").dispatchEvent(event);
        return event.defaultPrevented;
    }""".replace("WORD", repr(base64.b64encode(WORD).decode()))
    assert page.evaluate(drop, "dragover"), "the browser does not leave the page for the file"
    assert page.locator("#files.over").count() == 1
    assert page.evaluate(drop, "drop")
    assert page.locator("#files.over").count() == 0
    wait_for_end(page)
    assert page.get_by_role("link").filter(has_text="Download").all_inner_texts() == [
        "Download c_de.docx",
        "Download a_de.txt",
    ]
    assert "file format not supported" in page.locator("#jobs .wrong").inner_text()


def test_the_address_keeps_languages_and_text(open_page: Open) -> None:
    opened = open_page()
    page = opened.page
    page.locator("#source").select_option("de")
    assert page.locator("#target").input_value() == "en"
    opened.type("one & two?\nthree")
    assert page.url.endswith("?source=de&target=en&q=one+%26+two%3F%0Athree")
    shown = opened.output
    again = open_page(page.url.removeprefix(opened.address + "/"))
    assert (again.page.locator("#text").input_value(), again.output) == ("one & two?\nthree", shown)
    long = "two words " * 450
    opened.type(long)
    assert page.url.endswith("?source=de&target=en"), "too long for an address"
    page.reload()
    page.wait_for_function("() => document.querySelector('#target').value")
    assert page.locator("#text").input_value() == long


@pytest.fixture(scope="module")
def tagged_address(small_bundle: Model, folder: Path, serving: Any) -> Iterator[str]:
    """The address of a server with tags from English, also through a pivot, and without tags to English."""
    pairs = {"en-de": "legal news", "de-en": "", "de-fr": "spoken"}
    tagged, _ = tagged_service(small_bundle, folder, pairs, pivot="de")
    tagged.models.all[2].overrides["tag"] = "spoken"
    with serving(tagged) as found:
        yield found


def styles(page: Any) -> list[str]:
    """The options of the menu, or none if it is hidden."""
    menu = page.get_by_label("Style")
    return [str(one) for one in menu.locator("option").all_inner_texts()] if menu.is_visible() else []


def test_a_style_is_chosen_for_texts_and_files_while_the_languages_have_it(
    open_page: Open, tagged_address: str
) -> None:
    opened = open_page(at=tagged_address)
    page = opened.page
    assert styles(page) == ["None", "legal", "news"]
    opened.type(TEXT)
    plain = opened.output
    with page.expect_request("**/v1/translate") as sent:
        page.get_by_label("Style").select_option("legal")
    assert sent.value.post_data_json["tag"] == "legal"
    opened.settled()
    legal = opened.output
    assert legal != plain
    assert "&tag=legal" in page.url
    assert "&tag=legal" in page.locator("#look").get_attribute("href")
    contents = []
    for name in ("tagged", "plain"):
        choose(page, f"{name}.txt", content=TEXT.encode())
        with page.expect_download() as download:
            page.get_by_role("link", name=f"Download {name}_de.txt").click()
        contents.append(Path(download.value.path()).read_text(encoding="utf-8"))
        page.get_by_label("Style").select_option("None")
        opened.settled()
    assert contents == [legal, plain]
    page.get_by_label("Style").select_option("legal")
    page.get_by_label("Translate to").select_option("fr")
    assert styles(page) == ["Default (spoken)", "legal", "news", "spoken"]
    assert page.get_by_label("Style").input_value() == "legal"
    page.get_by_label("Translate from").select_option("auto")
    page.get_by_label("Translate to").select_option("de")
    assert (styles(page), page.get_by_label("Style").input_value()) == (["None", "legal", "news"], "legal")
    page.get_by_label("Translate from").select_option("de")
    assert styles(page) == []
    assert "tag" not in page.url
    opened.settled()


def test_a_style_in_the_address_is_chosen_or_reported(open_page: Open, tagged_address: str) -> None:
    opened = open_page("?source=en&target=de&tag=legal&q=one+two", at=tagged_address)
    assert opened.page.get_by_label("Style").input_value() == "legal"
    assert opened.output
    sent: list[str] = []
    for query in ("?source=en&target=de&tag=medical&q=one", "?source=de&target=en&tag=legal&q=one"):
        page = open_page(query, at=tagged_address).page
        page.on("request", lambda request: sent.append(request.url))
        message = page.locator("#unknown").inner_text()
        assert message.startswith("This server has no style \u2068")
        assert message.endswith("\u2069 for these languages. Choose other languages or another style.")
        assert page.url.endswith(query)
    assert sent == []


def test_light_and_dark(open_page: Open) -> None:
    page = open_page(color_scheme="dark").page
    back = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(back)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(back)
    assert dark != light
    page.get_by_role("button", name="Dark theme").click()
    assert page.evaluate(back) == dark
    page.reload()
    page.get_by_role("button", name="Light theme").wait_for()
    assert page.evaluate(back) == dark, "what was chosen stays"
    page.get_by_role("button", name="Light theme").click()
    assert page.evaluate(back) == light


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_needs_no_horizontal_scrolling(open_page: Open, width: int) -> None:
    long = {"source": "x" * 90, "text": "ß" * 120, "words": [0.2], "alignment": [[0, 0]]}
    opened = open_page(
        answer=answering(long, TRAIN, others=("y" * 200,)),
        viewport={"width": width, "height": 800},
        is_mobile=True,
        has_touch=True,
    )
    page = opened.page
    opened.type("x" * 90 + " The train waits.")
    page.locator("#output .word").first.tap()
    assert marked(page, "source") == ["x" * 90]
    choose(page, "z" * 100 + ".pdf", "z" * 300 + ".docx", "\u202eone two.docx")
    choose(page, "x" * 100, content=b"%PDF-")
    wait_for_end(page)
    page.evaluate("document.querySelector('#key-form').hidden = false")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [320, 390, 615, 710])
def test_the_language_menus_show_whole_names(open_page: Open, width: int) -> None:
    long = [{"code": code, "name": "Chinese (traditional)", "targets": ["en", "zh"]} for code in ("en", "zh")]
    page = open_page(viewport={"width": width, "height": 800}, is_mobile=True, has_touch=True).page
    page.route("**/languages", lambda route: route.fulfill(json=long))
    page.reload()
    page.get_by_text("Chinese (traditional)").first.wait_for(state="attached")
    for name in ("#source", "#target"):
        shown, needed = page.locator(name).evaluate(
            """menu => {
                const copy = menu.cloneNode(true);
                copy.style = "width: auto; min-width: 0; position: absolute; font-weight: 600";
                menu.parentElement.append(copy);
                const needed = copy.offsetWidth;
                copy.remove();
                return [menu.offsetWidth, needed];
            }"""
        )
        assert needed <= shown, name
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_works_below_a_prefix(
    browser: Any, small_bundle: Model, folder: Path, serving: Any, tmp_path: Path
) -> None:
    """Scripts, requests, downloads and the links to a sentence stay below it, and so does the cookie with the key."""
    (tmp_path / "keys").write_text("secret\n")
    forwarded = Deployment.from_flags("/mt", "", "", "*", "")
    with serving(service(small_bundle, folder), tmp_path / "keys", deployment=forwarded) as at:
        context = browser.new_context()
        opened = Opened(context.new_page(), at)
        opened.watch(opened.page)
        page = opened.page
        page.goto(f"{at}/mt?source=en&target=de")
        page.wait_for_function("() => document.querySelector('#target').value")
        page.locator("#key").fill("secret")
        page.get_by_role("button", name="Use key").click()
        opened.type(TEXT)
        with page.expect_popup() as popup:
            page.get_by_role("link", name="Look inside").click()
        popup.value.wait_for_load_state()
        assert popup.value.url.startswith(f"{at}/mt/look?")
        assert popup.value.locator("svg").count(), "the cookie with the key was sent"
        assert [cookie["path"] for cookie in context.cookies()] == ["/mt/look"]
        page.locator("#file").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"one"})
        with page.expect_download() as download:
            page.get_by_role("link", name="Download").click()
        assert download.value.suggested_filename == "a_de.txt"
        assert any(url.startswith(f"{at}/mt/download_file/") for url in opened.requests)
        page.get_by_role("link", name="API documentation").click()
        page.get_by_role("link", name="Translation page").click()
        page.wait_for_function("() => document.querySelector('#target').value")
        assert page.url.startswith(f"{at}/mt/")
        context.close()
    own = [url for url in opened.requests if not url.startswith((f"{at}/mt", "data:,"))]
    assert (own, opened.problems) == ([], [])


def test_flags_are_shown(open_page: Open) -> None:
    opened = open_page(answer=answering(TRAIN, flags=["cut", "split", "number", "new"], lost=["{0}"]))
    opened.type("The train waits.")
    assert opened.page.get_by_role("status").inner_text() == (
        "Check the translation: it was cut at the length limit; a number is missing or different; "
        "it is missing \u2068{0}\u2069."
    )


def test_a_slow_answer_does_not_overwrite_a_newer_one(open_page: Open) -> None:
    held: list[Any] = []

    def answer(route: Any) -> None:
        if route.request.post_data_json["text"] == "old":
            held.append(route)
        else:
            answering(TRAIN)(route)

    opened = open_page(answer=answer)
    opened.page.locator("#text").fill("old")
    opened.page.get_by_text("Translating…").wait_for()
    opened.type("new")
    assert opened.output == TRAIN["text"]
    answering(AGAIN)(held[0])
    opened.page.wait_for_timeout(100)
    assert opened.output == TRAIN["text"]


@pytest.mark.parametrize("failure", ["error", "gone"])
def test_no_controls_are_shown_for_an_outdated_translation(open_page: Open, failure: str) -> None:
    opened = open_page()
    page = opened.page
    opened.type(TEXT)
    copy, look, others = page.locator("#copy"), page.locator("#look"), page.locator("#alternatives button").first
    assert (copy.is_enabled(), look.is_visible(), others.is_enabled()) == (True, True, True)
    held: list[Any] = []
    page.route("**/v1/translate", lambda route: held.append(route))
    page.locator("#text").fill("Another text")
    assert (copy.is_enabled(), look.is_visible()) == (False, False)
    while not held:
        page.wait_for_timeout(50)
    if failure == "gone":
        held[0].abort()
    else:
        held[0].fulfill(status=500, json={"error": "See the server's log."})
    page.locator("#status.wrong").wait_for()
    assert (copy.is_enabled(), look.is_visible()) == (False, False)
    page.locator("#output .word").first.click()
    assert look.is_hidden(), "nor when a word of it is chosen"
    before = opened.output
    others.evaluate("node => node.closest('[inert]') && node.focus()")
    page.keyboard.press("Enter")
    assert opened.output == before
    assert page.locator("#others").evaluate("node => node.inert")
    page.keyboard.press("Alt+s")
    assert page.locator("#text").input_value() == "Another text", "nor does it become the text"
    page.unroute_all()
    page.keyboard.press("Control+Enter")
    opened.settled()
    assert (copy.is_enabled(), look.is_visible()) == (True, True)


@pytest.mark.parametrize("text", ["one", "one two three\n" * 60])
def test_errors_are_shown_next_to_the_text(open_page: Open, text: str) -> None:
    page = open_page(viewport={"width": 390, "height": 500}, is_mobile=True, has_touch=True).page
    page.route("**/v1/translate", lambda route: route.fulfill(status=500, json={"error": "See the server's log."}))
    page.locator("#text").fill(text)
    page.locator("#status.wrong").wait_for()
    status, field = page.locator("#status").bounding_box(), page.locator("#text").bounding_box()
    assert 0 <= status["y"] <= 500 - status["height"], "inside the screen"
    assert status["y"] < field["y"] + field["height"] + 80
    assert page.locator("#text").get_attribute("aria-invalid") == "true"
    assert page.locator("#text").get_attribute("aria-describedby") == "status"


def test_a_number_alone_stays_as_it_is(open_page: Open) -> None:
    opened = open_page()
    opened.type("1,234.50")
    assert opened.output == "1,234.50"
    assert opened.page.locator("#status").inner_text().startswith("Translated in")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?source=fr&q=Bonjour", "This server does not translate from French (fr). Choose other languages."),
        ("?source=en&target=it&q=one", "This server does not translate from English (en) to Italian (it)."),
        ("?source=auto&target=it&q=one", "This server does not translate to Italian (it)."),
        ("?source=<b>&q=one", "This server does not translate from \u2068<b>\u2069."),
    ],
)
def test_unserved_languages_in_the_address_are_named(open_page: Open, query: str, words: str) -> None:
    opened = open_page(query)
    page = opened.page
    assert page.get_by_role("alert").inner_text().startswith(words)
    assert opened.output == "", "as another language it is not translated unasked"
    assert page.locator("#text").input_value() in ("Bonjour", "one")
    page.locator("#source").select_option("de")
    opened.settled()
    page.wait_for_function("() => document.querySelector('#output').textContent")
    assert page.locator("#unknown").is_hidden()


def test_the_documentation_is_in_the_pages_style(open_page: Open) -> None:
    opened = open_page(viewport={"width": 390, "height": 800})
    page = opened.page
    page.get_by_role("button", name="Dark theme").click()
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("link", name="API documentation").click()
    page.get_by_role("heading", name="POST /v1/translate").wait_for()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground, "dark, as was chosen"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    tables = page.locator("table").all_inner_texts()
    assert len(tables) == page.locator("section:has(table)").count() > 4
    page.get_by_role("link", name="Translation page", exact=True).click()
    page.wait_for_function("() => document.querySelector('#target')?.value")


def test_a_busy_server_is_retried_after_its_retry_after(open_page: Open) -> None:
    answers = iter([503, 429, 200])

    def answer(route: Any) -> None:
        if (status := next(answers)) == 200:
            answering(TRAIN)(route)
        else:
            route.fulfill(status=status, headers={"Retry-After": "1"}, json={"error": "The server is busy."})

    opened = open_page(answer=answer)
    opened.page.locator("#text").fill("one")
    opened.page.get_by_text("The server is busy; trying again in 1 second.").wait_for()
    opened.settled()
    assert opened.output == TRAIN["text"]
    assert "busy" not in opened.page.locator("#status").inner_text()


def test_errors_are_shown_in_the_servers_words(open_page: Open) -> None:
    opened = open_page()
    page, status = opened.page, opened.page.locator("#status.wrong")
    for answer, words in (
        (lambda route: route.fulfill(status=500, json={"error": "See the server's log."}), "See the server's log."),
        (lambda route: route.fulfill(status=502, body="<html>"), "The server answered 502."),
        (lambda route: route.fulfill(status=200, body='{"transl'), "The server does not answer. Check that it is"),
        (lambda route: route.abort(), "The server does not answer. Check that it is running."),
    ):
        page.unroute_all()
        page.route("**/v1/translate", answer)
        page.locator("#text").fill(f"{words} one")
        status.get_by_text(words).wait_for()
        page.locator("#text").fill("")
        page.locator("#status:not(.wrong)").wait_for()
    page.unroute_all()
    opened.type("one")
    assert opened.output
    assert status.count() == 0


def test_a_key_is_requested_kept_and_used(
    open_page: Open, small_bundle: Model, folder: Path, serving: Any, tmp_path: Path
) -> None:
    secret = "se;cret&ü="
    (tmp_path / "keys").write_text(f"{secret}\n")
    with serving(service(small_bundle, folder), tmp_path / "keys") as at:
        opened = open_page(at=at)
        page, key = opened.page, opened.page.get_by_label("API key")
        for wrong, words in (("", "API key"), ("guess", "Invalid API key")):
            if wrong:
                key.fill(wrong)
                key.press("Enter")
            page.locator("#text").fill(f"one {wrong}")
            page.locator("#status.wrong").get_by_text(words).wait_for()
            assert key.is_visible()
        page.locator("#text").fill("")
        key.fill("another guess")
        key.press("Enter")
        opened.settled()
        assert key.is_hidden(), "nothing was requested that could have been refused"
        page.locator("#file").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"one"})
        page.locator("#jobs .wrong").get_by_text("Invalid API key").wait_for()
        assert key.is_visible()
        page.locator("#text").fill("one")
        key.fill(secret)
        page.get_by_role("button", name="Use key").click()
        opened.settled()
        assert opened.output
        assert key.is_hidden()
        page.locator("#file").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"one"})
        page.get_by_role("link", name=re.compile("Download")).wait_for()
        with page.expect_popup() as popup:
            page.get_by_role("link", name="Look inside").click()
        look = opened.watch(popup.value)
        look.wait_for_selector("#steps tr")
        look.locator("#steps .alternatives a").nth(1).click()
        look.wait_for_selector("#forced:not([hidden])")
        page.reload()
        opened.settled()
        assert key.is_hidden()
        (cookie,) = page.context.cookies(f"{at}/look")
        assert cookie["name"] == f"dragoman-key-{at.rpartition(':')[2]}", "other ports have others"
        assert 0 < cookie["expires"] - time.time() <= 3600
        assert not [asked for asked in [look.url, *opened.requests] if "cret" in asked], "no address has it"


def test_a_hostile_text_stays_a_text(open_page: Open) -> None:
    opened = open_page(f"?q={HOSTILE}")
    page = opened.page
    assert page.locator("#text").input_value() == HOSTILE
    assert page.locator("#mirror").text_content() == HOSTILE
    sentence = {"source": HOSTILE, "text": HOSTILE, "words": [0.1], "alignment": [[0, 0], [99, 99]]}
    piled = {"source": MARKS, "text": MARKS, "words": [0.1], "alignment": [[0, 0]]}
    for one in (piled, sentence):
        page.unroute_all()
        page.route("**/v1/translate", answering(one, others=(HOSTILE + "!",)))
        opened.type(str(one["source"]))
        assert opened.output == one["text"]
        for word in page.locator("#output .word").all():
            word.hover()
        assert page.evaluate("document.documentElement.scrollHeight") < 1400
    page.locator("#alternatives button").click()
    assert opened.output == HOSTILE + "!"
    page.wait_for_timeout(100)
    assert page.evaluate("window.hacked === undefined")
    assert (page.locator("img").count(), page.locator("script").count()) == (0, 1)


def test_the_policy_stops_injected_scripts(open_page: Open) -> None:
    opened = open_page()
    opened.page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.hacked = 1";
        document.body.append(script);
    }""")
    opened.page.wait_for_timeout(100)
    assert opened.page.evaluate("window.hacked === undefined")
    assert len(opened.problems) == 1
    assert "Content Security Policy" in opened.problems.pop()


def test_right_to_left_text_is_set_right_to_left(open_page: Open) -> None:
    sentence = {"source": "one two", "text": "שלום עולם", "words": [0.9, 0.9], "alignment": [[0, 0], [1, 1]]}
    opened = open_page(answer=answering(sentence))
    page = opened.page
    opened.type("one two")
    first, second = (page.locator("#output .word").nth(index).bounding_box()["x"] for index in (0, 1))
    assert first > second
    page.locator("#output .word").first.focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.textContent") == "עולם", "the word on the left"
    page.keyboard.press("Alt+s")
    page.unroute_all()
    page.route("**/v1/translate", answering(sentence | {"source": sentence["text"], "text": "one two"}))
    opened.type(str(sentence["text"]))
    room = page.locator("#text").bounding_box()
    words = [page.locator("#mirror [data-word]").nth(index).bounding_box() for index in (0, 1)]
    assert words[0]["x"] > words[1]["x"] > room["x"] + room["width"] / 2, "under the text, which begins on the right"


def test_every_control_has_a_name_and_a_visible_focus(open_page: Open) -> None:
    opened = open_page(answer=answering(TRAIN, others=("Der Zug hält .",)))
    page = opened.page
    opened.type("The train waits.")
    page.locator("#file").set_input_files({"name": "a.pdf", "mimeType": "text/plain", "buffer": b"one"})
    tree = page.locator("body").aria_snapshot()
    for line in (
        'textbox "Text to translate"', 'combobox "Translate from"', 'combobox "Translate to"',
        'button "Swap languages"', 'button "Clear"', 'button "Copy"', 'button "Dark theme"', 'link "Look inside"',
        'group "Translation"', 'button "File to translate"', 'button "Der Zug hält ."', 'heading "Files"', "status",
        'heading "Dragoman" [level=1]', 'region "Translate text"', 'link "API documentation"',
    ):  # fmt: skip
        assert f"- {line}" in tree, line
    assert not re.search(r"- (button|link|textbox|combobox|progressbar)( \[[^\"]*)?:?$", tree, re.MULTILINE), "no name"
    page.locator("body").click(position={"x": 2, "y": 2})
    seen = []
    for _ in range(20):
        page.keyboard.press("Tab")
        node, outline = page.evaluate("""() => {
            const style = getComputedStyle(document.activeElement);
            return [document.activeElement.id || document.activeElement.className || document.activeElement.tagName,
                    style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth)];
        }""")
        if node == "BODY":
            break
        seen.append(node)
        assert outline >= 2, node
    assert {"theme", "source", "swap", "target", "text", "clear", "look", "copy", "file"} <= set(seen)
    assert sum("word" in node for node in seen) == 1


def luminance(channels: tuple[float, ...]) -> float:
    """Of a colour, as WCAG 2 defines it."""
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_has_enough_contrast(theme: int) -> None:
    style = files("dragoman.serving").joinpath("page", "page.css").read_text(encoding="utf-8")
    pairs = re.findall(r"--(\w+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)", style)
    colours = {name: tuple(int(both[theme][at : at + 2], 16) / 255 for at in (0, 2, 4)) for name, *both in pairs}
    (most,) = re.findall(r"var\(--unsure\) (\d+)%, transparent\)\)", style)
    share = int(most) / 100
    shaded = tuple(share * one + (1 - share) * two for one, two in zip(colours["unsure"], colours["back"], strict=True))
    grounds = colours | {"shaded": shaded}
    for ink, ground in (
        *((ink, ground) for ink in ("ink", "quiet", "accent", "wrong") for ground in ("back", "panel")),
        ("ink", "shaded"),
        ("ink", "linked"),
    ):
        light, dark = sorted((luminance(colours[ink]), luminance(grounds[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground)

"""Bilingual files with any text: readers find the texts that were written."""

from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.records import Candidate, Translation
from dragoman.text.corpus.tables import Table
from dragoman.text.corpus.tmx import ReadReport, read_tmx
from dragoman.workflows.bilingual import open_review

MODEL: Any = ("en", "ar")
AWKWARD = st.text(
    st.sampled_from("a<>&\"']]>\t\r\n\v\x00\x07\x1e\x85\u2028\ufffe\ufffc\u202eשلé字😀 \xa0"), max_size=12
)


def translation(pairs: list[tuple[str, str]], flags: tuple[str, ...] = ()) -> Translation:
    src, tgt = (" ".join(side) for side in zip(*pairs, strict=True)) if pairs else ("", "")
    return Translation(src, (Candidate(tgt, (), (), 0.0, 0.0),), len(pairs), False, None, flags, (), tuple(pairs))


def write(path: Path, *translations: Translation) -> str:
    with open_review(path, "<name>", MODEL) as review:
        for one in translations:
            review.add(one)
    return path.read_bytes().decode()


class Cells(HTMLParser):
    """The texts of the cells of a page with their languages, and all elements."""

    def __init__(self) -> None:
        super().__init__()
        self.cells, self.elements, self._inside = list[tuple[str | None, str]](), list[str](), False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self._inside = tag == "td"
        if self._inside:
            self.cells.append((dict(attrs).get("lang"), ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "td"

    def handle_data(self, data: str) -> None:
        if self._inside:
            language, text = self.cells[-1]
            self.cells[-1] = language, text + data


@given(st.lists(st.tuples(AWKWARD, AWKWARD), max_size=4))
@settings(max_examples=25, deadline=None)
def test_any_text_is_read_as_it_was_written(pairs: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as folder:
        tsv, tmx = Path(folder, "a.tsv"), Path(folder, "a.tmx")
        lines = write(tsv, translation(pairs)).splitlines()
        write(tmx, translation(pairs))
        rows = [tuple(row) for _, row in Table().rows(tsv, "")]
        assert rows == [tuple(line.split("\t")) for line in lines], "every program finds the same lines"
        units = [(pair.src, pair.tgt) for pair in read_tmx(tmx, "en", "ar", ReadReport())] if rows else []
        assert units == rows
        visible = [["".join(text.split()) for text in pair] for pair in pairs]
        visible = [["".join(c for c in text if c not in "\x00\x07\ufffe") for text in pair] for pair in visible]
        assert [["".join(text.split()) for text in row] for row in rows] == [pair for pair in visible if all(pair)]
        page = Cells()
        page.feed(write(Path(folder, "a.html"), translation(pairs, ("unsure",))).replace("\x00", ""))
        shown = [text for language, text in page.cells if language]
        sides = [" ".join(side) for side in zip(*pairs, strict=True)] if pairs else []
        is_blank = not sides or not sides[0].strip()
        assert shown == ([] if is_blank else [side.replace("\x00", "") for side in sides])
        assert set(page.elements) <= {
            *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "script", "p", "h1", "bdi"),
            *("table", "thead", "tbody", "tr", "th", "td", "span", "dl", "dt", "dd", "button"),
        }


def test_both_sides_have_their_language_and_direction(tmp_path: Path) -> None:
    page = write(tmp_path / "a.html", translation([("one", "واحد")]))
    assert '<td dir="auto" lang="en">one</td><td dir="auto" lang="ar">واحد</td>' in page
    assert "<title>Review of &lt;name&gt;</title>" in page
    assert "<th>English (en)</th><th>Arabic (ar)</th>" in page
    assert "http" not in page.replace("http-equiv", ""), "the page needs no network"


def test_blank_lines_keep_the_numbers_of_the_others(tmp_path: Path) -> None:
    page = write(tmp_path / "a.html", translation([("one", "1")]), translation([]), translation([("three", "3")]))
    assert [page.count(f'<td class="n">{number}</td>') for number in (1, 2, 3)] == [1, 0, 1]
    assert "2 segments: none flagged, none lost a placeholder or term." in page


def test_rows_are_written_as_they_come(tmp_path: Path) -> None:
    """A long file of lines needs no memory."""
    rows = [translation([("one " * 50, "eins " * 50)])] * 500
    with open_review(tmp_path / "a.tmx", "name", MODEL) as review:
        sizes = []
        for one in rows:
            review.add(one)
            sizes.append((tmp_path / "a.tmx.part").stat().st_size)
    assert sizes[-1] > 0.9 * (tmp_path / "a.tmx").stat().st_size
    assert len(set(sizes)) > 10


def test_after_an_error_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("old")

    def stop() -> None:
        with open_review(tmp_path / "a.html", "name", MODEL) as review:
            for _ in range(1000):
                review.add(translation([("one", "eins")]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.html": "old"}

"""Reads the files of clients, within limits that keep the memory for one file below 200 MB."""

from collections import Counter
from collections.abc import Iterable

from dragoman.errors import DataError
from dragoman.text.documents.document import TEXT_FORMATS, Document, TextDocument
from dragoman.text.documents.kinds import OFFICE
from dragoman.text.documents.office.archive import Limits
from dragoman.text.documents.text_formats import MARKERS, PLAIN_TEXT

# Most characters in a paragraph: a text in translation cannot be interrupted, and takes 700 bytes for each.
_LONGEST_TEXT, _LONGEST_IN_OFFICE = 100_000, 20_000
# Most characters between two tags, or in a line of subtitles: regular expressions keep the lock of Python meanwhile.
_LONGEST_STRETCH = 3 * _LONGEST_TEXT
# Most parts of each kind in a file. A part takes up to 250 bytes while the file is translated, a marker up to 700.
_MOST_PARTS, _MOST_MARKERS = 400_000, 150_000
# For office files: members, and bytes that they expand to, bytes of text and markup, bytes between two tags, and tags,
# which take up to 640 bytes of memory each. A page has about 1,400.
_OFFICE_LIMITS = Limits(members=10_000, expanded_bytes=200 << 20, xml_bytes=8 << 20, tags=300_000, text_bytes=1 << 20)


def read_upload(content: bytes, kind: str) -> Document:
    """Read a file. Raises DataError if it has too many parts, or too long ones: before they are made, if possible."""
    if kind in OFFICE:
        from dragoman.text.documents.office.document import read_office

        document: Document = read_office(content, "the file", limits=_OFFICE_LIMITS)
    else:
        text, text_format = content.decode(), PLAIN_TEXT if kind == "text" else TEXT_FORMATS[kind]
        _check_lengths(text_format.measure(text), _LONGEST_STRETCH)
        document = TextDocument(text, kind, text_format)
    most_chars = _LONGEST_IN_OFFICE if kind in OFFICE else _LONGEST_TEXT
    _check_lengths((("paragraphs", len(one.text)) for one in document.segments), most_chars)
    return document


def count_chars(document: Document) -> int:
    """The number of characters to translate."""
    return sum(len(one.text) for one in document.segments)


def _check_lengths(parts: Iterable[tuple[str, int]], most_chars: int) -> None:
    """Raise DataError for too many parts, or for a longer one. Each part has a name and a length."""
    counts: Counter[str] = Counter()
    longest = 0
    for name, length in parts:
        counts[name] += 1
        if counts[name] > (most := _MOST_MARKERS if name == MARKERS else _MOST_PARTS):
            raise DataError(f"the file may have at most {most} {name}, but has more. Send it in parts.")
        longest = max(longest, length)
    if longest > most_chars:
        most_chars = min(most_chars, _LONGEST_TEXT)
        raise DataError(f"a paragraph may have at most {most_chars} characters, but one has {longest}. Split it.")

"""What a file holds, by its name and its start: lines to translate, pairs, a document, or a format that is refused."""

import json
import re
from pathlib import Path
from typing import NamedTuple

from dragoman.cli.translation.documents import DOCUMENTS
from dragoman.errors import DataError

PAIRS = "pairs"
_LOOKED_AT_BYTES = 1 << 16
_SERVE = "Serve the model to Weblate or a CAT tool (`dragoman serve`), or export its texts as a table (.csv)."
_RENAME = "Save it in a file that ends in {}, and name that with `--input`."


class _Kind(NamedTuple):
    """A kind of file: its name, what to do with it, the endings of file names, and a pattern of its start."""

    name: str
    advice: str
    endings: str = ""
    start: str = ""


_HTML = r"(?is)\A(?:<[?!][^>]*>\s*){0,5}<html\b|\A<!doctype html\b"
_SRT = r"\AWEBVTT\b|\A\d+\s*\n\s*\d\d:\d\d:\d\d[,.]\d{3} *-->"
_PO = r'(?m)^msgid ".*"\n(?:".*"\n)*msgstr(?:\[0\])? "'
_TEXT_KINDS = (
    _Kind(PAIRS, "", ".tsv .csv .jsonl .json .tmx"),
    _Kind("html", "Add `--format html`.", ".html .htm .xhtml", _HTML),
    _Kind("srt", "Add `--format srt`.", ".srt .vtt", _SRT),
    _Kind("a translation memory (TMX)", _RENAME.format(".tmx"), "", r"(?s)\A<(?:.{0,2000}<)?tmx\s"),
    _Kind("XLIFF", _SERVE, ".xliff .xlf .sdlxliff .mqxliff .mxliff", r"(?s)\A<(?:.{0,2000}<)?xliff\s"),
    _Kind("XML", "Translate it from Python with `translate_xml`.", ".xml .resx", r"\A<\?xml\s"),
    _Kind("messages of a program (PO)", _SERVE, ".po .pot", _PO),
    _Kind("JSON lines", _RENAME.format(".jsonl")),
)
_OFFICE = "Convert it to HTML, for example with pandoc, and translate that."
_OTHER_KINDS = (
    _Kind("an office document", _OFFICE, ".doc .docx .odt .rtf .ppt .pptx .odp .epub"),
    _Kind("a PDF file", "Extract its text, for example with pdftotext, and translate that.", ".pdf"),
    _Kind("a spreadsheet", "Save it as .csv, and translate that.", ".xls .xlsx .ods"),
)


def kind_of_name(path: str, accepted: tuple[str, ...], has_columns: bool = False) -> str:
    """`PAIRS` or one of the `accepted` kinds; "" if the name does not tell. Raises DataError for another kind.

    `has_columns`: the user names columns of the file.
    """
    suffix = Path(path.lower().removesuffix(".gz")).suffix
    found = next((kind for kind in (*_TEXT_KINDS, *_OTHER_KINDS) if suffix in kind.endings.split()), None)
    return PAIRS if has_columns and suffix == ".txt" else _accepted(found, path, (PAIRS, *accepted))


def kind_of_start(start: bytes, name: str, accepted: tuple[str, ...] = ()) -> str:
    """One of the `accepted` kinds, by the first bytes of a file; "" for lines. Raises DataError for another kind."""
    text = start[:_LOOKED_AT_BYTES].decode("utf-8", "replace").lstrip("\ufeff \t\r\n").replace("\r\n", "\n")
    found = next((kind for kind in _TEXT_KINDS if kind.start and re.search(kind.start, text)), None)
    return _accepted(found or (_TEXT_KINDS[-1] if _is_record(text.partition("\n")[0]) else None), name, accepted)


def _accepted(kind: _Kind | None, name: str, accepted: tuple[str, ...]) -> str:
    if kind is None or kind.name in accepted:
        return kind.name if kind else ""
    held = kind.name.upper() if kind.name in DOCUMENTS else kind.name
    lines = " `--format text` translates its lines as they are." if kind in _TEXT_KINDS else ""
    raise DataError(f"{name} holds {held}, not lines of text. {kind.advice}{lines}")


def _is_record(line: str) -> bool:
    """Whether a line is a JSON object with a text."""
    try:
        return line.startswith("{") and any(isinstance(value, str | dict) for value in json.loads(line).values())
    except (ValueError, RecursionError):
        return False

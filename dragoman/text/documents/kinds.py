"""Kinds of files that people want translated, and how to tell them: by the start of a file, and by its name.

Some kinds can be translated, and others only with another command or program. `FileKind.advice` tells how.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

PAIRS = "pairs"
OFFICE = ("docx", "odt")
"""Formats of office programs. Their files are archives, not text."""
DOCUMENTS = ("html", "srt", *OFFICE)
"""Formats of files that are translated as a whole. "srt" includes WebVTT."""
_LOOKED_AT_BYTES = 1 << 16
_SERVE = "Serve the model to Weblate or a CAT tool (`dragoman serve`), or export its texts as a table (.csv)."
_RENAME = "Save it in a file that ends in {}, and name that with `--input`."
_CONVERT = "Convert it with LibreOffice (`soffice {}--convert-to docx FILE`), and translate the .docx file."


class FileKind(NamedTuple):
    """A kind of file.

    Attributes
    ----------
    name
        One of `DOCUMENTS`, `PAIRS`, or what the user calls it.
    advice
        A sentence that tells how to have such a file translated.
    endings
        The endings of the names of such files, separated by spaces.
    start
        A regular expression for the start of such files. "" if nothing tells them from others.
    """

    name: str
    advice: str
    endings: str = ""
    start: str = ""

    @property
    def is_text(self) -> bool:
        """Whether such files are lines of text, whatever the lines mean."""
        return self in _TEXT_KINDS


_HTML = r"(?is)\A(?:<[?!][^>]*>\s*){0,5}<html\b|\A<!doctype html\b"
_SRT = r"\AWEBVTT\b|\A\d+\s*\n\s*\d\d:\d\d:\d\d[,.]\d{3} *-->"
_PO = r'(?m)^msgid ".*"\n(?:".*"\n)*msgstr(?:\[0\])? "'
_TEXT_KINDS = (
    FileKind(PAIRS, "Translate one side of them with `dragoman translate --input`.", ".tsv .csv .jsonl .json .tmx"),
    FileKind("html", "Add `--format html`.", ".html .htm .xhtml", _HTML),
    FileKind("srt", "Add `--format srt`.", ".srt .vtt", _SRT),
    FileKind("a translation memory (TMX)", _RENAME.format(".tmx"), "", r"(?s)\A<(?:.{0,2000}<)?tmx\s"),
    FileKind("XLIFF", _SERVE, ".xliff .xlf .sdlxliff .mqxliff .mxliff", r"(?s)\A<(?:.{0,2000}<)?xliff\s"),
    FileKind("flat OpenDocument XML", "Save it as .odt, and translate that.", ".fodt .fods .fodp"),
    FileKind("XML", "Translate it from Python with `translate_xml`.", ".xml .resx", r"\A<\?xml\s"),
    FileKind("messages of a program (PO)", _SERVE, ".po .pot", _PO),
    FileKind("JSON lines", _RENAME.format(".jsonl")),
)
_OFFICE_KINDS = (
    FileKind("odt", "Add `--format odt`.", ".odt .ott", r"(?s)\APK\x03\x04.{26}mimetypeapplication/vnd\.oasis"),
    FileKind("docx", "Add `--format docx`.", ".docx .docm .dotx .dotm", r"\APK\x03\x04"),
    FileKind(
        "an old Office document, or one with a password",
        f"{_CONVERT.format('')[:-1]}, or save it without a password.",
        ".doc .dot .rtf",
        r"\A\{\\rtf|\A\xd0\xcf\x11\xe0",
    ),
    FileKind("a PDF file", _CONVERT.format("--infilter=writer_pdf_import "), ".pdf", r"\A%PDF-"),
    FileKind("a presentation", "Copy its texts into a .docx file, and translate that.", ".ppt .pptx .odp"),
    FileKind("an e-book", "Convert it to .docx, for example with pandoc, and translate that.", ".epub"),
    FileKind("a spreadsheet", "Save it as .csv, and translate that.", ".xls .xlsx .ods"),
)
DOCUMENT_ENDINGS = tuple(
    ending for kind in (*_TEXT_KINDS, *_OFFICE_KINDS) if kind.name in DOCUMENTS for ending in kind.endings.split()
)
"""How the names of documents end."""


def kind_of_file(start: bytes, path: str | Path) -> FileKind | None:
    """The kind of a file, by its first bytes and its name. None if it can only be lines of text, or nothing."""
    return kind_of_archive(start, path) or kind_of_name(path) or kind_of_text(start)


def kind_of_name(path: str | Path) -> FileKind | None:
    """The kind of file that usually has such a name, also with ``.gz`` after it. None if the name does not tell."""
    suffix = Path(str(path).lower().removesuffix(".gz")).suffix
    return next((kind for kind in (*_TEXT_KINDS, *_OFFICE_KINDS) if suffix in kind.endings.split()), None)


def kind_of_archive(start: bytes, path: str | Path) -> FileKind | None:
    """The kind of an office or PDF file, by its first bytes. None for other files, which may be text.

    The name only tells which kind an archive is that these programs do not read, such as a spreadsheet.
    """
    text = start[:_LOOKED_AT_BYTES].decode("latin-1")
    found = next((kind for kind in _OFFICE_KINDS if kind.start and re.search(kind.start, text)), None)
    by_name = kind_of_name(path)
    return by_name if found and by_name in _OFFICE_KINDS and not by_name.start else found


def kind_of_text(start: bytes) -> FileKind | None:
    """The kind of a text file, by its first bytes. None for lines of text."""
    text = start[:_LOOKED_AT_BYTES].decode("utf-8", "replace").lstrip("\ufeff \t\r\n").replace("\r\n", "\n")
    found = next((kind for kind in _TEXT_KINDS if kind.start and re.search(kind.start, text)), None)
    return found or (_TEXT_KINDS[-1] if _is_record(text.partition("\n")[0]) else None)


def _is_record(line: str) -> bool:
    """Whether a line is a JSON object with a text."""
    try:
        return line.startswith("{") and any(isinstance(value, str | dict) for value in json.loads(line).values())
    except (ValueError, RecursionError):
        return False

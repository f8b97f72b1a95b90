"""Whole files of ``dragoman translate``: HTML pages and subtitles, which are read to the end first."""

from typing import TYPE_CHECKING, BinaryIO

from dragoman.cli.models import LoadedModel
from dragoman.errors import DataError

if TYPE_CHECKING:
    from dragoman.text.terms import Terms

DOCUMENTS = ("html", "srt")


def translate_document(
    stream: BinaryIO, name: str, kind: str, model: LoadedModel, protect: bool, terms: "Terms | None"
) -> bytes:
    """The translation of the file. Raises DataError where it is not UTF-8."""
    from dragoman.inference.markup import translate_html, translate_srt

    try:
        text = stream.read().decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not UTF-8: byte {error.start} is none of it. Convert it first.") from None
    translate = translate_html if kind == "html" else translate_srt
    return translate(model.translator, text, protect=protect, terms=terms, **model.overrides).encode()

"""Translation of whole files by ``dragoman translate``: HTML pages and subtitles."""

from collections.abc import Callable
from typing import BinaryIO

from dragoman.cli.translation.notes import Notes
from dragoman.errors import DataError
from dragoman.inference.options import Preserve
from dragoman.records import Translation
from dragoman.workflows.models import LoadedTranslator

DOCUMENTS = ("html", "srt")
_LONGEST_NAME = 60


def translate_document(
    stream: BinaryIO, name: str, kind: str, model: LoadedTranslator, notes: Notes, preserve: Preserve
) -> bytes:
    """The translated file, whose declarations of language and encoding follow. Notes about its texts go to `notes`.

    `kind` is one of `DOCUMENTS`. Raises DataError if the file is not UTF-8.
    """
    from dragoman.inference.preservation.markup import translate_markup, translate_srt
    from dragoman.text.documents.markup import MarkupRules, update_declarations

    content = stream.read()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name} line {line} has 0x{content[error.start]:02x}, which is not UTF-8. Set `--encoding`, or save the "
            "file as UTF-8."
        ) from None
    report = _reporter(notes)
    try:
        if kind == "html":
            text = update_declarations(text, model.src_lang, model.tgt_lang)
            pages = translate_markup(model.translator, [text], MarkupRules(), preserve, report, **model.overrides)
            return pages[0].encode()
        return translate_srt(model.translator, text, preserve, report, **model.overrides).encode()
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def _reporter(notes: Notes) -> Callable[[Translation], None]:
    """A function that notes a fault, with the start of the text as its name, because a page has no useful lines."""

    def report(translation: Translation) -> None:
        text = translation.src
        notes.faults(repr(text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"), translation)

    return report

"""Documents: files whose texts are translated and whose everything else stays.

A reader yields the texts as segments with markers, and writes the file again with their translations. It knows no
translator.
"""

from collections.abc import Callable, Collection, Sequence
from io import BytesIO
from pathlib import Path
from typing import Protocol

from dragoman.errors import DataError
from dragoman.text.documents.kinds import DOCUMENTS, OFFICE, FileKind, kind_of_file
from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.markup import update_declarations
from dragoman.text.documents.text_formats import TextFormat
from dragoman.text.lines import as_text, open_unpacked, unpack

TEXT_FORMATS = {"text": TextFormat(split="lines"), "html": TextFormat("html"), "srt": TextFormat("subtitles")}
"""Where texts of each kind are split."""


class Document(Protocol):
    """A file that was read."""

    @property
    def kind(self) -> str:
        """One of `DOCUMENTS`, or "text"."""

    @property
    def notes(self) -> Sequence[str]:
        """Sentences for the user, such as about text that is left as it is."""

    @property
    def num_kept(self) -> int:
        """The number of paragraphs with letters that are left as they are, because of their styles."""

    @property
    def segments(self) -> Sequence[MarkedText]:
        """The texts to translate: paragraphs, blocks of a page, subtitle cues, or lines."""

    @property
    def by_sentence(self) -> bool:
        """Whether a segment may have several sentences, which are to be translated one by one."""

    @property
    def escape(self) -> Callable[[str], str]:
        """What must be applied to the translated text between markers."""

    def write(self, translations: Sequence[str], languages: tuple[str, str] | None = None) -> bytes:
        """The file with its translations, which must have the markers of their segments, and be escaped.

        `languages` are the codes of the source and the target, for what the file declares.
        """


class TextDocument:
    """A text file: lines, HTML or subtitles. See `Document`. `text_format` tells where it is split."""

    notes, num_kept = (), 0

    def __init__(self, text: str, kind: str, text_format: TextFormat) -> None:
        self.kind = kind
        self._parts = text_format.read(text)
        self.segments: list[MarkedText] = self._parts.texts
        self.by_sentence = self._is_page = text_format.is_markup
        self.escape: Callable[[str], str] = text_format.escape

    def write(self, translations: Sequence[str], languages: tuple[str, str] | None = None) -> bytes:
        """The file in UTF-8, with its translations. See `Document.write`."""
        text = self._parts.with_translations(translations)
        return (update_declarations(text, *(languages or ("", ""))) if self._is_page else text).encode()


def read_document(
    content: bytes, name: str, kind: str, comments: bool = False, keep_styles: Collection[str] = ()
) -> Document:
    """Read a file.

    Parameters
    ----------
    content
        The bytes of the file. Text must be UTF-8.
    name
        Its name, for messages.
    kind
        One of `DOCUMENTS`, or "text" for lines.
    comments
        Whether the comments of an office file are translated.
    keep_styles
        The names of styles of an office file whose text is not translated, besides those for code.

    Raises
    ------
    DataError
        If the file is damaged, or of another kind.
    """
    if kind in OFFICE:
        from dragoman.text.documents.office.document import read_office

        return read_office(content, name, comments, keep_styles)
    try:
        return TextDocument(content.decode(), kind, TEXT_FORMATS[kind])
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name} line {line} has 0x{content[error.start]:02x}, which is not UTF-8. Save the file as UTF-8, or name "
            "its encoding with `dragoman translate --encoding`."
        ) from None
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def kind_of_path(path: Path) -> FileKind | None:
    """The kind of the file at a path (see `kind_of_file`). Raises DataError if it cannot be read."""
    with open_unpacked(path) as stream:
        return kind_of_file(stream.peek(2), path)


def open_document(
    source: Path | bytes, encoding: str = "", comments: bool = False, keep_styles: Collection[str] = ()
) -> Document:
    """Read the document at a path, or the bytes of one.

    The content of an archive tells its kind. Of other files, the name does, or else the content. If neither does, it
    has lines of text. Text in `encoding` is converted. For the other parameters, see `read_document`.

    Raises
    ------
    DataError
        If the file cannot be read, is damaged, or is of a kind that is not read.
    """
    name = str(source) if isinstance(source, Path) else "the document"
    with open_unpacked(source) if isinstance(source, Path) else unpack(BytesIO(source), name) as stream:
        kind = kind_of_file(stream.peek(2), name)
        if kind and kind.name not in DOCUMENTS:
            raise DataError(f"{name} holds {kind.name}, not a document that is read. {kind.advice}")
        is_archive = kind is not None and kind.name in OFFICE
        content = (stream if is_archive else as_text(stream, name, encoding)).read()
    return read_document(content, name, kind.name if kind else "text", comments, keep_styles)

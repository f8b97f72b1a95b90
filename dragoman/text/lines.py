"""Read the lines of text files: plain or gzip, UTF-8 with or without a byte order mark, or a given encoding.

A line ends at ``\\n`` or ``\\r\\n``. Nothing else ends a line: U+0085, U+2028 and a lone ``\\r`` stay inside it. Most
tools count lines by ``\\n``, and the two sides of a corpus must have the same count.
"""

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, cast

from dragoman.errors import DataError
from dragoman.text.charsets import detect_utf16, recode_to_utf8

ReportInvalid = Callable[[int], None]
"""Receives the number (from 1) of every line that is not UTF-8."""

_BUFFER_BYTES = 1 << 18
MOST_LINE_BYTES = 1 << 24
"""The limit for one line. It stops files without line ends and gzip files that unpack to gigabytes."""
_LINES_LOOKED_AT = 100
_QUOTED_CHARACTERS = 60
_BOM = b"\xef\xbb\xbf"
_GZIP_MAGIC = b"\x1f\x8b"
_MAGIC_BYTES = 8
_OTHER_FILES = {
    b"PK\x03\x04": "a ZIP archive or a document of Word, Excel or LibreOffice",
    b"\xd0\xcf\x11\xe0": "a document of Word or Excel",
    b"%PDF-": "a PDF file",
    b"BZh": "packed by bzip2",
    b"\xfd7zXZ": "packed by xz",
    b"(\xb5/\xfd": "packed by Zstandard",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"SQLite f": "a database",
}
"""First bytes of files that people name by mistake, and what such a file is."""
_PROBLEMS: dict[type[OSError], str] = {
    IsADirectoryError: "is a directory, not a file. Name a file inside it.",
    FileNotFoundError: "does not exist. Check the name and the working directory.",
    PermissionError: "cannot be read: permission denied. Change its permissions.",
}
_SPACE = re.compile(r"[ \t\r\n]+")


def join_lines(text: str) -> str:
    """The text with every run of white space that holds a line break replaced by one space."""
    if "\n" not in text and "\r" not in text:
        return text
    return _SPACE.sub(lambda space: " " if "\n" in space[0] or "\r" in space[0] else space[0], text)


def quote_start(line: str) -> str:
    """The first 60 characters of a line as a quoted string, for an error message."""
    return repr(line if len(line) <= _QUOTED_CHARACTERS else f"{line[: _QUOTED_CHARACTERS - 3]}...")


@contextmanager
def open_bytes(path: Path, encoding: str = "") -> Iterator[BinaryIO]:
    """Open a file as a stream of UTF-8 bytes.

    Gzip is detected by content, not by name, and unpacked. A file in `encoding` is converted (see `recode_to_utf8`).

    Raises
    ------
    DataError
        If the file cannot be read, is a damaged gzip file, or is not text.
    """
    try:
        file = io.FileIO(path)
    except OSError as error:
        raise _unreadable_error(str(path), error) from None
    with io.BufferedReader(file, _BUFFER_BYTES) as raw, open_stream(raw, str(path), encoding) as stream:
        yield stream


@contextmanager
def open_stream(stream: BinaryIO, name: str, encoding: str = "") -> Iterator[BinaryIO]:
    """`open_bytes` for an open stream. Waits for its first bytes. `name` is the stream's name in errors."""
    raw = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, stream))
    try:
        start = raw.peek(_MAGIC_BYTES)[:_MAGIC_BYTES]
    except OSError as error:
        raise _unreadable_error(name, error) from None
    for magic, kind in _OTHER_FILES.items():
        if start.startswith(magic):
            raise DataError(
                f"{name} is {kind}, not text. Save its text as plain text in UTF-8, "
                "and parallel text as .csv, .tsv or .tmx. Name that file."
            )
    if not start.startswith(_GZIP_MAGIC):
        yield recode_to_utf8(raw, encoding, name)
        return
    try:
        with gzip.GzipFile(fileobj=raw) as packed, io.BufferedReader(packed, _BUFFER_BYTES) as content:
            yield recode_to_utf8(content, encoding, name)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        problem = f"{name} is a damaged or truncated gzip file ({error}). Copy or download it again."
        raise DataError(problem) from None


def _unreadable_error(name: str, error: OSError) -> DataError:
    problem = f"cannot be read: {error.strerror or error}. Check the file and its disk."
    return DataError(f"{name} {_PROBLEMS.get(type(error), problem)}")


def refuse_utf16(start: bytes, name: str) -> None:
    """Raise DataError if these first bytes of a text are UTF-16."""
    if encoding := detect_utf16(start):
        raise DataError(
            f"{name} is UTF-16, but UTF-8 is expected. Read it with `--encoding {encoding}`, or convert it to UTF-8."
        )


def prefetch_first(lines: Iterator[str]) -> Iterator[str]:
    """The same lines. The first one is read now, so that an unreadable file raises before any work starts."""
    first = list(islice(lines, 1))
    return chain(first, lines)


def read_lines(
    source: Path | BinaryIO | Iterable[bytes],
    *,
    encoding: str = "",
    report_invalid: ReportInvalid | None = None,
    name: str = "",
) -> Iterator[str]:
    """The lines of a file or a binary stream, without line ends. Empty lines are kept.

    Parameters
    ----------
    source
        A file, or a stream of bytes that is already UTF-8.
    encoding
        The encoding of a file that is not UTF-8.
    report_invalid
        Called with the number (from 1) of every line that is not UTF-8. The wrong bytes become U+FFFD. If it is None,
        such a line raises DataError.
    name
        The name of a stream in errors.

    Raises
    ------
    DataError
        If the source cannot be read, is not text, or has a line of more than 16 MiB.
    """
    name = name or (str(source) if isinstance(source, Path) else "standard input")
    with open_bytes(source, encoding) if isinstance(source, Path) else nullcontext(source) as lines:
        number = 1
        for block in _blocks(lines):
            if len(block[-1]) > MOST_LINE_BYTES:
                raise DataError(
                    f"{name}, line {number + len(block) - 1} has more than {MOST_LINE_BYTES >> 20} MiB, the limit for "
                    "one line. Check that it is text with a line feed after each sentence."
                )
            if number == 1:
                if report_invalid is None:
                    refuse_utf16(b"".join(block[:_LINES_LOOKED_AT]), name)
                block[0] = block[0].removeprefix(_BOM)
            try:
                yield from _decode_block(block)
            except UnicodeDecodeError:  # decode line by line to find the bad ones
                for offset, line in enumerate(block):
                    yield _decode_line(line, number + offset, name, report_invalid)
            number += len(block)


def ignore_invalid(number: int) -> None:
    """A `report_invalid` for samples of a file. The lines are read again, and then reported."""


def _blocks(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Lists of lines: whole buffers of a file, single lines of a pipe, whose next line may come late.

    Of a line of more than `MOST_LINE_BYTES`, only the start is read, as the last line of a list.
    """
    if isinstance(lines, io.BufferedReader) and lines.seekable():
        while start := lines.read(_BUFFER_BYTES):
            end = b"" if start.endswith(b"\n") else lines.readline(MOST_LINE_BYTES)
            yield io.BytesIO(start + end).readlines()
        return
    if isinstance(lines, io.BufferedIOBase):
        lines = iter(partial(lines.readline, MOST_LINE_BYTES + 1), b"")
    for line in lines:
        yield [line]


def _decode_block(block: list[bytes]) -> list[str]:
    """The lines without their ends. Decoding them together is several times faster than one by one."""
    text = b"".join(block).decode("utf-8")
    lines = text.split("\n")
    if text.endswith("\n"):
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def _decode_line(line: bytes, number: int, name: str, report_invalid: ReportInvalid | None) -> str:
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        if report_invalid is None:
            raise DataError(
                f"{name}, line {number}, byte {error.start + 1} of the line is 0x{line[error.start]:02x}, which is "
                "not UTF-8. Run `dragoman check` to find the encoding of the file, and set `--encoding`."
            ) from None
        report_invalid(number)
        return line.decode("utf-8", "replace")

"""Lines of text files, as people have them: plain or gzip, UTF-8 with or without a byte order mark, or as told.

A line ends at ``\\n``, and a ``\\r`` before it belongs to the end. Nothing else ends a line: U+0085, U+2028 and a
``\\r`` by itself stay inside, because the tool that wrote the other side of a corpus counted ``\\n`` too.
"""

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Literal, cast

from dragoman.errors import DataError
from dragoman.text.charsets import detect_utf16, recode_to_utf8

OnInvalid = Literal["error", "replace"]
"""What to do with bytes that are not UTF-8."""

_BUFFER_BYTES = 1 << 18
MOST_LINE_BYTES = 1 << 24
"""A line that is longer is none of text: a file without line ends, a few bytes of gzip that unpack to gigabytes."""
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
"""By how they begin."""
_SPACE = re.compile(r"[ \t\r\n]+")


def join_lines(text: str) -> str:
    """The text with each stretch of white space that holds a line break made one space."""
    if "\n" not in text and "\r" not in text:
        return text
    return _SPACE.sub(lambda space: " " if "\n" in space[0] or "\r" in space[0] else space[0], text)


def quote_start(line: str) -> str:
    """The beginning of a line as a quoted string, for an error message."""
    return repr(line if len(line) <= _QUOTED_CHARACTERS else f"{line[: _QUOTED_CHARACTERS - 3]}...")


@contextmanager
def open_bytes(path: Path, encoding: str = "") -> Iterator[BinaryIO]:
    """A file's bytes, unpacked where its content (whatever its name) is gzip, and as UTF-8 where it is in `encoding`.

    Raises DataError.
    """
    with _open(path) as raw, open_stream(raw, str(path), encoding) as stream:
        yield stream


@contextmanager
def open_stream(stream: BinaryIO, name: str, encoding: str = "") -> Iterator[BinaryIO]:
    """The same for a stream; waits for its first bytes. Raises DataError with `name`."""
    raw = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, stream))
    start = _start_of(raw, name)
    for magic, kind in _OTHER_FILES.items():
        if start.startswith(magic):
            raise DataError(f"{name} is {kind}, not text. Save its text as plain text in UTF-8, and name that file.")
    if not start.startswith(_GZIP_MAGIC):
        yield recode_to_utf8(raw, encoding, name)
        return
    try:
        with gzip.GzipFile(fileobj=raw) as packed, io.BufferedReader(packed, _BUFFER_BYTES) as content:
            yield recode_to_utf8(content, encoding, name)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        problem = f"{name} is a damaged or truncated gzip file ({error}). Copy or download it again."
        raise DataError(problem) from None


def _open(path: Path) -> io.BufferedReader:
    if path.is_dir():
        raise DataError(f"{path} is a directory, but a file is wanted. Name a file inside it.")
    try:
        return io.BufferedReader(io.FileIO(path), _BUFFER_BYTES)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist. Check the name and the working directory.") from None
    except PermissionError:
        raise DataError(f"{path} may not be read by this user. Change its permissions.") from None
    except OSError as error:
        raise _unreadable_error(str(path), error) from None


def _start_of(raw: io.BufferedReader, name: str) -> bytes:
    try:
        return raw.peek(_MAGIC_BYTES)[:_MAGIC_BYTES]
    except OSError as error:
        raise _unreadable_error(name, error) from None


def _unreadable_error(name: str, error: OSError) -> DataError:
    return DataError(f"{name} cannot be read: {error.strerror or error}. Check the file and its disk.")


def refuse_utf16(start: bytes, name: str) -> None:
    """Raises DataError where a text that starts with these bytes is UTF-16."""
    if encoding := detect_utf16(start):
        raise DataError(
            f"{name} is UTF-16, but UTF-8 is expected. Read it with `--encoding {encoding}`, or convert it to UTF-8."
        )


def prefetch_first(lines: Iterator[str]) -> Iterator[str]:
    """The same lines, the first of which is read now, so that what cannot be read is said before work begins."""
    first = list(islice(lines, 1))
    return chain(first, lines)


def read_lines(
    source: Path | BinaryIO | Iterable[bytes],
    *,
    encoding: str = "",
    on_invalid: OnInvalid = "error",
    report_invalid: Callable[[int], None] | None = None,
    name: str = "",
) -> Iterator[str]:
    """The lines of a file or a binary stream, without their ends; empty lines stay.

    Bytes that are not UTF-8 raise DataError, or with `on_invalid="replace"` become U+FFFD, and `report_invalid` is
    called with the number of the line (from 1). `encoding` is what a file that is not UTF-8 is in. `name` is what
    errors call a stream.
    """
    if isinstance(source, Path):
        with open_bytes(source, encoding) as stream:
            yield from _decode_lines(stream, name or str(source), on_invalid, report_invalid)
    else:
        yield from _decode_lines(source, name or "standard input", on_invalid, report_invalid)


def _decode_lines(
    lines: Iterable[bytes], name: str, on_invalid: str, report_invalid: Callable[[int], None] | None
) -> Iterator[str]:
    number = 1
    for block in _blocks(lines, name):
        if number == 1:
            if on_invalid == "error":
                refuse_utf16(b"".join(block[:_LINES_LOOKED_AT]), name)
            block[0] = block[0].removeprefix(_BOM)
        try:
            yield from _decode_block(block)
        except UnicodeDecodeError:  # only now is the line of interest
            for offset, line in enumerate(block):
                yield _decode_line(line, number + offset, name, on_invalid, report_invalid)
        number += len(block)


def _blocks(lines: Iterable[bytes], name: str) -> Iterator[list[bytes]]:
    """Lists of lines: whole buffers of a file, else one line at a time, because a pipe's next may take its time.

    Raises DataError for a line of more than `MOST_LINE_BYTES`, of which no more is read.
    """
    number = 0
    if isinstance(lines, io.BufferedReader) and lines.seekable():
        while start := lines.read(_BUFFER_BYTES):
            end = b"" if start.endswith(b"\n") else lines.readline(MOST_LINE_BYTES)
            block = io.BytesIO(start + end).readlines()
            number += len(block)
            _check_length(block[-1], number, name)
            yield block
        return
    if isinstance(lines, io.BufferedIOBase):
        lines = iter(partial(lines.readline, MOST_LINE_BYTES + 1), b"")
    for line in lines:
        number += 1
        _check_length(line, number, name)
        yield [line]


def _check_length(line: bytes, number: int, name: str) -> None:
    if len(line) > MOST_LINE_BYTES:
        raise DataError(
            f"{name}, line {number} has more than {MOST_LINE_BYTES >> 20} MiB, the limit for one line. "
            "Check that it is text, with a line feed after each sentence."
        )


def _decode_block(block: list[bytes]) -> list[str]:
    """The lines without their ends, decoded together, which is several times faster than one by one."""
    text = b"".join(block).decode("utf-8")
    lines = text.split("\n")
    if text.endswith("\n"):
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def _decode_line(
    line: bytes, number: int, name: str, on_invalid: str, report_invalid: Callable[[int], None] | None
) -> str:
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        if on_invalid == "error":
            raise DataError(
                f"{name}, line {number}, byte {error.start + 1} of the line is 0x{line[error.start]:02x}, which is "
                "not UTF-8. `dragoman check` shows which encoding it may be, to read it with `--encoding`."
            ) from None
        if report_invalid is not None:
            report_invalid(number)
        return line.decode("utf-8", "replace")

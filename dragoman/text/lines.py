"""Read the lines of text files in any character set: plain or gzip, UTF-8 with or without a byte order mark.

A line ends at ``\\n`` or ``\\r\\n``. Nothing else ends a line: U+0085, U+2028 and a lone ``\\r`` stay inside it. Most
tools count lines by ``\\n``, and the two sides of a corpus must have the same count.
"""

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from dragoman.config.fields import did_you_mean, quote_value
from dragoman.display import one_line
from dragoman.errors import ConfigError, DataError

_LOOKED_AT_BYTES = 1 << 16
_UTF_8 = "utf-8"
_FEWEST_NULS = 2
_WIDE = ("utf-16", "utf-32")
_NAMES = {"mac_roman": "MACINTOSH", "mac_latin2": "MACCENTRALEUROPE", "shift_jis": "SHIFT-JIS"}


def checked_texts(texts: object, name: str = "texts", advice: str = "For a single text, pass [text].") -> Iterator[str]:
    """The texts in the argument `name`, one at a time.

    Raises
    ------
    ConfigError
        If it has something else than strings. A single string is refused, because it would be read as letters. The
        message has the advice.
    """
    if isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
        raise ConfigError(f"`{name}` must be a list of texts, but is {one_line(texts)}. {advice}")
    return (_check_text(text, number, name) for number, text in enumerate(texts, 1))


def _check_text(text: object, number: int, name: str) -> str:
    if not isinstance(text, str):
        raise ConfigError(f"`{name}` must be a list of texts, but text {number} is {one_line(text)}.")
    return text


def check_encoding(name: str, place: str) -> str:
    """Return `name` if it is empty or names a text encoding that Python can decode.

    Raises
    ------
    ConfigError
        For any other name. `place` is the setting or flag that the message blames.
    """
    if not name or _codec(name) in _supported_codecs():
        return name
    hint = did_you_mean(name.lower(), {display_name(codec).lower() for codec in _supported_codecs()})
    hint = hint or " Write a name such as `windows-1250`."
    raise ConfigError(f"{place} is {quote_value(name)}, which is not a text encoding.{hint}")


def display_name(codec: str) -> str:
    """The usual name of an encoding, which Python and iconv both accept: WINDOWS-1250 for cp1250."""
    if codec in _NAMES:
        return _NAMES[codec]
    if codec.startswith("cp125"):
        return codec.replace("cp", "WINDOWS-")
    return codec.upper().replace("ISO8859", "ISO-8859").replace("_", "-")


def _codec(name: str) -> str:
    """Python's name for an encoding, or "" if Python has none."""
    try:
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        return ""


@lru_cache(maxsize=1)
def _supported_codecs() -> frozenset[str]:
    """The codecs of text. Finding them imports all, which takes 40 ms."""
    from charset_normalizer.constant import IANA_SUPPORTED

    return frozenset({_codec(name) for name in IANA_SUPPORTED} | {_UTF_8, "utf-8-sig"} - {""})


def recode_to_utf8(stream: "io.BufferedReader[Any]", encoding: str, name: str) -> BinaryIO:
    """A stream with the same text in UTF-8.

    `encoding` applies only if the first 64 KiB do not look like UTF-8. One setting therefore serves a mix of UTF-8
    files and files in `encoding`.

    Raises
    ------
    DataError
        While reading, if some bytes are not valid in `encoding`. The message has `name` and the line number.
    """
    codec = _codec(encoding)
    if codec in ("", _UTF_8, "utf-8-sig") or _is_utf8(stream.peek(_LOOKED_AT_BYTES), codec.startswith(_WIDE)):
        return cast(BinaryIO, stream)
    return io.BufferedReader(_RecodedStream(stream, encoding, name))


def detect_utf16(start: bytes) -> str:
    """The UTF-16 variant that these first bytes of a text are in, or "" if they are not UTF-16."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # Without a byte order mark: many characters of most text have a zero byte, always at even or always at odd places.
    even, odd = start[::2].count(0), start[1::2].count(0)
    if even + odd > max(len(start) // 8, _FEWEST_NULS) and min(even, odd) * 20 <= max(even, odd):
        return "utf-16-le" if odd > even else "utf-16-be"
    return ""


def _is_utf8(start: bytes, or_wide: bool) -> bool:
    """Whether the first bytes of a text can only be UTF-8.

    Pure ASCII is also valid in most other encodings, but not in UTF-16 and UTF-32 (`or_wide`).
    """
    try:
        text = codecs.getincrementaldecoder(_UTF_8)().decode(start)
    except UnicodeDecodeError:
        return False
    return not text.isascii() or (or_wide and bool(text) and "\0" not in text)


class _RecodedStream(io.RawIOBase):
    """Converts a stream in another encoding to UTF-8 as it is read."""

    def __init__(self, stream: "io.BufferedReader[Any]", encoding: str, name: str) -> None:
        self._recoded, self._waiting = _recode(stream, encoding, name), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        self._waiting = self._waiting or next(self._recoded, b"")
        count = min(len(buffer), len(self._waiting))
        buffer[:count] = self._waiting[:count]
        self._waiting = self._waiting[count:]
        return count


def _recode(stream: "io.BufferedReader[Any]", encoding: str, name: str) -> Iterator[bytes]:
    """The content of a stream in UTF-8, in parts that are not empty."""
    decoder, lines, has_more = codecs.getincrementaldecoder(encoding)(), 0, True
    while has_more:
        content = stream.read1(_LOOKED_AT_BYTES)
        has_more = bool(content)
        try:
            text = decoder.decode(content, final=not has_more)
        except UnicodeDecodeError as error:
            line = lines + error.object.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"{name}, line {line} has byte 0x{error.object[error.start]:02x}, which is not "
                f"{display_name(_codec(encoding))}. Check `--encoding`; `dragoman check` lists the encodings that fit."
            ) from None
        except UnicodeError as error:  # no byte order mark
            raise DataError(f"{name} is not valid {encoding}: {error}. Check `--encoding`.") from None
        lines += text.count("\n")
        if text:
            yield text.encode(_UTF_8)


_PAIR, _LONE = re.compile("[\ud800-\udbff][\udc00-\udfff]"), re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """The text with surrogate pairs joined to one character and lone surrogates replaced by U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return _LONE.sub("\ufffd", _PAIR.sub(_join, text))  # 50 times as fast as the error handler "replace"
    return text


def _join(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


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
    with open_unpacked(path) as stream:
        yield as_text(stream, str(path), encoding)


@contextmanager
def open_unpacked(path: Path) -> "Iterator[io.BufferedReader[Any]]":
    """Open any file. Gzip is unpacked. Raises DataError if the file cannot be read or is a damaged gzip file."""
    try:
        file = io.FileIO(path)
    except OSError as error:  # Windows says "permission denied" of a folder
        raise _unreadable_error(str(path), IsADirectoryError() if path.is_dir() else error) from None
    with io.BufferedReader(file, _BUFFER_BYTES) as raw, unpack(raw, str(path)) as stream:
        yield stream


@contextmanager
def unpack(stream: BinaryIO, name: str) -> "Iterator[io.BufferedReader[Any]]":
    """`open_unpacked` for an open stream. Waits for its first bytes. `name` is the stream's name in errors."""
    raw = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, stream))
    try:
        start = raw.peek(_MAGIC_BYTES)
    except OSError as error:
        raise _unreadable_error(name, error) from None
    if not start.startswith(_GZIP_MAGIC):
        yield raw
        return
    try:
        with gzip.GzipFile(fileobj=raw) as packed, io.BufferedReader(packed, _BUFFER_BYTES) as content:
            yield content
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        problem = f"{name} is a damaged or truncated gzip file ({error}). Copy or download it again."
        raise DataError(problem) from None


def as_text(stream: "io.BufferedReader[Any]", name: str, encoding: str = "") -> BinaryIO:
    """The stream as UTF-8 (see `recode_to_utf8`). Raises DataError if it starts like a file that is not text."""
    start = stream.peek(_MAGIC_BYTES)
    for magic, kind in _OTHER_FILES.items():
        if start.startswith(magic):
            raise DataError(
                f"{name} is {kind}, not text. Save its text as plain text in UTF-8, "
                "and parallel text as .csv, .tsv or .tmx. Name that file."
            )
    return recode_to_utf8(stream, encoding, name)


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

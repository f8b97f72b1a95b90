"""The input of ``dragoman translate``: a text, the lines of a stream, a document, or one side of a file with pairs.

The name and the start of a file tell its kind. Lines are translated as they arrive, so that a program at the other end
of a pipe gets each answer at once.
"""

import codecs
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from io import BufferedReader, BytesIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from dragoman.cli.arguments import Options
from dragoman.display import say
from dragoman.errors import ConfigError, DataError
from dragoman.text.documents.kinds import (
    DOCUMENTS,
    OFFICE,
    PAIRS,
    FileKind,
    kind_of_archive,
    kind_of_name,
    kind_of_text,
)
from dragoman.text.lines import (
    MOST_LINE_BYTES,
    as_text,
    open_unpacked,
    prefetch_first,
    read_lines,
    refuse_utf16,
    unpack,
)

_ANY = (None, "jsonl")
"""Values of `--format` with which the file tells its format."""
_MAX_LINES = 4096
_READ_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class InputLines:
    """A stream of lines, and optionally a file with a prefix for each translation.

    `kind` is `PAIRS`, a document format, or "" for lines. `texts`, if set, replace the lines of the stream.
    """

    stream: BinaryIO
    name: str
    prefix_file: str | None = None
    prefixes: Iterator[str] | None = None
    kind: str = ""
    texts: Iterator[str] | None = None

    def windows(self, report_invalid: Callable[[int], None]) -> Iterator[list[str]]:
        """Yield the texts in order, in windows. `report_invalid` gets the numbers of lines that are not UTF-8."""
        if self.texts is None:
            return arriving_lines(self.stream, report_invalid, self.name)
        texts = self.texts
        return iter(lambda: list(islice(texts, _MAX_LINES)), [])


def open_source(options: Options, files: ExitStack) -> InputLines:
    """Open the input that the flags name, as far as that needs no model and does not wait for standard input.

    Raises DataError if it is a file that cannot be translated.
    """
    encoding, path = options.text_encoding(), options.input
    prefixes = prefetch_first(read_lines(Path(options.prefix), encoding=encoding)) if options.prefix else None
    if options.text is not None:
        return InputLines(BytesIO(options.text.encode("utf-8", "replace")), "`--text`", options.prefix, prefixes)
    if not path:
        return InputLines(standard_input(), "standard input", options.prefix, prefixes)
    accepted = DOCUMENTS if options.format is None else ()
    opened = files.enter_context(open_unpacked(Path(path)))
    office = OFFICE if options.format in (None, *OFFICE) else ()
    kind = _accepted(kind_of_archive(_start_of(opened), path), path, office)
    by_name = None if kind or options.format not in _ANY else kind_of_name(path)
    if by_name:
        kind = _accepted(by_name, path, (PAIRS, *accepted))
    elif options.columns and path.lower().removesuffix(".gz").endswith(".txt"):
        kind = PAIRS
    if kind in OFFICE or options.format in OFFICE:
        return InputLines(opened, path, kind=kind)
    stream = as_text(opened, path, encoding)
    start = _start_of(stream)
    refuse_utf16(start, path)
    if not kind and options.format in _ANY:
        kind = _accepted(kind_of_text(start), path, accepted)
    if not kind and options.format not in DOCUMENTS:
        _refuse_other_encoding(start, path)
    return InputLines(stream, path, options.prefix, prefixes, kind)


def wait_for_input(source: InputLines, requested_format: str | None, encoding: str, files: ExitStack) -> InputLines:
    """Wait for the first bytes of standard input. Gzip is decompressed, and the text recoded to UTF-8."""
    is_file = source.stream.seekable()
    if source.stream.isatty():
        say("type one sentence or more, and press Enter to translate. Ctrl-D ends.")
    opened = files.enter_context(unpack(source.stream, source.name))
    accepted = OFFICE if requested_format in OFFICE else ()
    if _accepted(kind_of_archive(_start_of(opened), ""), source.name, accepted) or accepted:
        return replace(source, stream=opened)
    stream = as_text(opened, source.name, encoding)
    start = _start_of(stream)
    refuse_utf16(start, source.name)
    if requested_format in _ANY:
        _accepted(kind_of_text(start), source.name)
    if is_file and requested_format not in DOCUMENTS:
        _refuse_other_encoding(start, source.name)
    return replace(source, stream=stream)


def standard_input() -> BinaryIO:
    """The binary stream of standard input. Raises ConfigError if it is closed."""
    if cast(TextIO | None, sys.stdin) is None:
        raise ConfigError("standard input is closed. Redirect a file to it, or name one with `--input`.")
    return sys.stdin.buffer


def _start_of(stream: BinaryIO) -> bytes:
    return cast(BufferedReader, stream).peek(2)


def _refuse_other_encoding(start: bytes, name: str) -> None:
    """Raise DataError if more than 1 % of the first lines are not UTF-8. A single bad byte may be an accident."""
    text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(start)
    lines = text.removesuffix("\n").split("\n")
    bad = [number for number, line in enumerate(lines, 1) if not line.isascii() and _bad_bytes(line)]
    if 100 * len(bad) > len(lines) and _bad_bytes(text) > 1:
        hint = "Set `--encoding` to its encoding, such as `--encoding windows-1252`."
        if b"\0" in start:
            hint = "It also has NUL bytes, so it is probably not text. Name a text file."
        raise DataError(
            f"{name} is not UTF-8: {len(bad):,} of its first {len(lines):,} lines have other bytes, such as line "
            f"{bad[0]}. {hint}"
        )


def _bad_bytes(text: str) -> int:
    return sum("\udc80" <= character <= "\udcff" for character in text)


def _accepted(kind: FileKind | None, name: str, accepted: Collection[str] = ()) -> str:
    """The name of a kind, "" for lines. Raises DataError for a kind that is not accepted."""
    if kind is None or kind.name in accepted:
        return kind.name if kind else ""
    held = kind.name.upper() if kind.name in DOCUMENTS else kind.name
    lines = " `--format text` translates its lines as they are." if kind.is_text else ""
    advice = "Leave `--format` out." if kind.name in OFFICE and name != "standard input" else kind.advice
    raise DataError(f"{name} holds {held}, not lines of text. {advice}{lines}")


def arriving_lines(
    stream: BinaryIO, report_invalid: Callable[[int], None], name: str = "", *, max_lines: int = _MAX_LINES
) -> Iterator[list[str]]:
    """Yield windows of 1 to `max_lines` lines without line ends, in order.

    Lines end at ``\\n`` only. Invalid UTF-8 becomes U+FFFD, and `report_invalid` gets the number of the line, counted
    from 1.
    """
    waiting: deque[bytes] = deque()
    texts = read_lines(iter(waiting.popleft, None), report_invalid=report_invalid, name=name)
    for lines in _complete_lines(stream):
        waiting.extend(lines)
        while waiting:
            yield list(islice(texts, min(len(waiting), max_lines)))


def _complete_lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines that each read completes. The last line may lack its end."""
    pieces: list[bytes] = []
    size = 0
    while piece := stream.read1(_READ_BYTES):  # type: ignore[attr-defined]
        head, newline, tail = piece.rpartition(b"\n")
        if newline:
            yield [line + b"\n" for line in b"".join([*pieces, head]).split(b"\n")]
            pieces, size = [], 0
        if tail:
            pieces.append(tail)
            size += len(tail)
        if size > MOST_LINE_BYTES:  # read_lines refuses such a line
            break
    if pieces:
        yield [b"".join(pieces)]

"""The input of ``dragoman translate``: a text, the lines of a stream, or the source side of a file with pairs."""

import argparse
import codecs
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from io import BufferedReader, BytesIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

from dragoman.cli.arguments import encoding_of
from dragoman.cli.models import standard_input
from dragoman.cli.translation.documents import DOCUMENTS
from dragoman.cli.translation.formats import kind_of_name, kind_of_start
from dragoman.cli.translation.windows import MAX_LINES, arriving_lines
from dragoman.errors import DataError
from dragoman.messages import say
from dragoman.text.lines import open_bytes, open_stream, prefetch_first, read_lines, refuse_utf16

_ANY = (None, "jsonl")
"""Values of `--format` with which the file tells its format."""


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
        return iter(lambda: list(islice(texts, MAX_LINES)), [])


def open_source(options: argparse.Namespace, files: ExitStack) -> InputLines:
    """Open the input that the flags name, as far as that needs no model and does not wait for standard input.

    Raises DataError if it is a file that cannot be translated.
    """
    encoding, path = encoding_of(options), options.input
    prefixes = prefetch_first(read_lines(Path(options.prefix), encoding=encoding)) if options.prefix else None
    if options.text is not None:
        return InputLines(BytesIO(options.text.encode("utf-8", "replace")), "`--text`", options.prefix, prefixes)
    if not path:
        return InputLines(standard_input(), "standard input", options.prefix, prefixes)
    accepted = DOCUMENTS if options.format is None else ()
    kind = kind_of_name(path, accepted, bool(options.columns)) if options.format in _ANY else ""
    stream = files.enter_context(open_bytes(Path(path), encoding))
    start = _start_of(stream)
    refuse_utf16(start, path)
    if not kind and options.format in _ANY:
        kind = kind_of_start(start, path, accepted)
    if not kind and options.format not in DOCUMENTS:
        _refuse_other_encoding(start, path)
    return InputLines(stream, path, options.prefix, prefixes, kind)


def wait_for_input(source: InputLines, given: argparse.Namespace, files: ExitStack) -> InputLines:
    """Wait for the first bytes of standard input. Gzip is decompressed, and the text recoded to UTF-8."""
    is_file = source.stream.seekable()
    if source.stream.isatty():
        say("type one sentence or more, and press Enter to translate. Ctrl-D ends.")
    stream = files.enter_context(open_stream(source.stream, source.name, encoding_of(given)))
    start = _start_of(stream)
    refuse_utf16(start, source.name)
    if given.format in _ANY:
        kind_of_start(start, source.name)
    if is_file and given.format not in DOCUMENTS:
        _refuse_other_encoding(start, source.name)
    return replace(source, stream=stream)


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

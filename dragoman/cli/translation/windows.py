"""Lines of a stream as they arrive, so that a program at the other end of a pipe gets each answer at once."""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import BinaryIO

from dragoman.text.lines import MOST_LINE_BYTES, read_lines

MAX_LINES = 4096
_READ_BYTES = 1 << 18


def arriving_lines(
    stream: BinaryIO,
    report_invalid: Callable[[int], None],
    name: str = "",
    *,
    max_lines: int = MAX_LINES,
) -> Iterator[list[str]]:
    """Yield windows of 1 to `max_lines` lines without line ends, in order.

    Lines end at ``\\n`` only. Invalid UTF-8 becomes U+FFFD, and `report_invalid` gets the number of the line, counted
    from 1.
    """
    waiting: deque[bytes] = deque()
    texts = read_lines(_pop_lines(waiting), report_invalid=report_invalid, name=name)
    for lines in _complete_lines(stream):
        waiting.extend(lines)
        while waiting:
            yield list(islice(texts, min(len(waiting), max_lines)))


def _pop_lines(waiting: deque[bytes]) -> Iterator[bytes]:
    while True:
        yield waiting.popleft()


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

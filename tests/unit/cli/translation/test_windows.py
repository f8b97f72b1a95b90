import io
import os
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.translation.sources import arriving_lines
from dragoman.errors import DataError


class Drip(io.BytesIO):
    """A stream that returns a few bytes at a time."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(3)


def _lines(content: bytes, make: Callable[[bytes], io.BytesIO] = io.BytesIO, max_lines: int = 7) -> list[str]:
    windows = list(arriving_lines(make(content), lambda number: None, max_lines=max_lines))
    assert all(1 <= len(window) <= max_lines for window in windows)
    return [line for window in windows for line in window]


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))), st.booleans())
def test_each_line_arrives_once_and_in_order(lines: list[str], ended: bool) -> None:
    content = "\n".join(lines).encode() + (b"\n" if ended and lines else b"")
    expected = content.decode().removeprefix("\ufeff").split("\n")
    expected = [line.removesuffix("\r") for line in (expected if expected[-1] or not content else expected[:-1])]
    expected = expected if content else []
    assert _lines(content) == expected
    assert _lines(content, Drip) == expected


def test_only_newlines_end_a_line() -> None:
    assert _lines("a\u2028b\u0085c\x0bd\re\r\n\n f ".encode()) == ["a\u2028b\u0085c\x0bd\re", "", " f "]


def test_invalid_bytes_are_replaced_and_reported() -> None:
    reported: list[int] = []
    windows = arriving_lines(Drip(b"good\nb\xffad\n\ng\xc3\n"), reported.append, max_lines=2)
    assert [line for window in windows for line in window] == ["good", "b\ufffdad", "", "g\ufffd"]
    assert reported == [2, 4]


def test_a_line_is_yielded_before_the_next_arrives() -> None:
    reading, writing = os.pipe()
    answered = threading.Event()

    def ask() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            pipe.write(b"first\n")
            assert answered.wait(20)
            pipe.write(b"second\n")

    asking = threading.Thread(target=ask)
    asking.start()
    with os.fdopen(reading, "rb") as stream:
        windows = arriving_lines(stream, lambda number: None)
        assert next(windows) == ["first"]
        answered.set()
        assert list(windows) == [["second"]]
    asking.join()


def test_reading_stops_in_an_endless_line() -> None:
    stream = io.BytesIO(b"a\n" + b"x" * (40 << 20))
    windows = arriving_lines(stream, lambda number: None, name="in")
    assert next(windows) == ["a"]
    with pytest.raises(DataError, match=r"^in, line 2 has more than 16 MiB, the limit for one line\."):
        next(windows)
    assert stream.tell() < 18 << 20

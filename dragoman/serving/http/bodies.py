"""Reads the body of a request within limits of size and time, and its fields from JSON, a form or the query.

`Endpoint` calls `read_fields`. The handlers of `apis/` take values from the resulting `Fields`, whose methods check
types: a form has only texts, while JSON may have a number or null in any field. `decoding.py` decodes the bytes. A body
is held in memory as a whole, so it has four limits: its own size, the total of all bodies being read and that of one
address (`BodyMemory`), and time.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope

from dragoman.serving.http.decoding import MULTIPART, decode_json, decode_multipart, decode_urlencoded, group_by_name
from dragoman.serving.limits import Refused, ServeSettings

URLENCODED = "application/x-www-form-urlencoded"
_FLAGS = {"": False, "0": False, "false": False, "1": True, "true": True}
# Fields of a request: its texts, as many others, and at least the number for the default of `max_texts`.
_LEAST_FIELDS = 2000
# The share of the memory for all bodies that one address may take.
_MOST_OF_ONE = 0.25
# A body of at most this size is short.
_SHORT_BYTES = 1 << 16
# A body of at most this size is decoded at once.
_QUICK_BYTES = 1 << 13
# How long, and how much, to read after a refusal: a proxy that is still sending an upload would answer 502 itself.
_LINGER_SECONDS, _LINGER_BYTES = 0.5, 1 << 24


class BodyMemory:
    """Limits the memory of all bodies being read at the same time to `most_bytes`.

    The long bodies of one client may take a quarter. Short ones may take more: clients can share an address.
    """

    def __init__(self, most_bytes: int) -> None:
        self._left, self._most_of_one = most_bytes, int(most_bytes * _MOST_OF_ONE)
        self._taken: Counter[bytes] = Counter()
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Wait for a turn to decode `size` bytes. Long bodies may take a quarter of the event loop's time."""
        if size <= _QUICK_BYTES:
            yield
            return
        async with self._turn:
            start = time.monotonic()
            try:
                yield
            finally:
                await asyncio.sleep(3 * (time.monotonic() - start))

    @contextmanager
    def share(self, client: bytes) -> Iterator[Callable[[int], None]]:
        """Yield a function to call with the size of each chunk of a body.

        It raises Refused over the limits: 429 for that of the client, 503 for that of all.
        """
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if taken + size > _SHORT_BYTES and self._taken[client] + size > self._most_of_one:
                words = "Too many of your requests arrive at the same time. Try again later."
                raise Refused(429, words, 5, closes=True)
            if size > self._left:
                raise Refused(503, "The server is busy. Try again later.", 5, closes=True)
            taken += size
            self._left -= size
            self._taken[client] += size

        try:
            yield take
        finally:
            self._left += taken
            self._taken[client] -= taken
            if not self._taken[client]:
                del self._taken[client]


def has_short_body(scope: Scope) -> bool:
    """Whether the body is so short that its unread bytes can be discarded, and the connection used again."""
    sent = Headers(scope=scope)
    announced = sent.get("content-length", "0")
    return "transfer-encoding" not in sent and announced.isdecimal() and int(announced) <= _SHORT_BYTES


async def linger(scope: Scope, receive: Receive) -> None:
    """Keep reading for a moment after a refusal, so that a client that is still sending can receive it."""
    size = 0
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(_LINGER_SECONDS):
            async for chunk in Request(scope, receive).stream():
                size += len(chunk)
                if size >= _LINGER_BYTES:
                    return


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a request by name. JSON values have any type; others are a text, a list of texts or an Upload."""

    values: Mapping[str, Any]
    is_json: bool = False

    def text(self, name: str, default: str = "") -> str:
        """A text, or a number as text. `default` if it is missing or null. Raises Refused for anything else."""
        value = self._first(name)
        if value is None:
            return default
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
        raise Refused(400, f"Invalid request: {name} must be a string")

    def texts(self, name: str) -> list[str]:
        """A list of texts, or one text as a list. Empty if it is missing or null. Raises Refused for anything else."""
        value = self.values.get(name)
        if value is None:
            return []
        found = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in found):
            raise Refused(400, f"Invalid request: {name} must be a string or a list of strings")
        return found

    def number(self, name: str, most: int, least: int = 0) -> int:
        """An integer. `least` if it is missing, null or smaller. Raises Refused if it is larger than `most`."""
        value = self._first(name)
        if value is None or value == "":
            return least
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
            value = int(value)
        if isinstance(value, float) and value.is_integer():  # 1.0 is an integer in JSON, and some languages send it
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise Refused(400, f"Invalid request: {name} parameter is not a number")
        if value > most:
            raise Refused(400, f"Invalid request: {name} parameter must be <= {most}")
        return max(value, least)

    def flag(self, name: str) -> bool:
        """A boolean, as JSON or as text. False if it is missing or null. Raises Refused for anything else."""
        value = self._first(name)
        text = "" if value is None else str(value).lower()
        if text not in _FLAGS:
            raise Refused(400, f"Invalid request: {name} must be true or false")
        return _FLAGS[text]

    def _first(self, name: str) -> Any:
        """The value, or the first of several values in a form or query."""
        value = self.values.get(name)
        return value[0] if isinstance(value, list) and value and not self.is_json else value


async def read_fields(
    scope: Scope, receive: Receive, most_bytes: int, settings: ServeSettings, memory: BodyMemory, client: bytes
) -> Fields:
    """Read the fields of a JSON object, or of the query and a form of either kind.

    A GET may have a form, because DeepL's client requests the languages that way.

    Parameters
    ----------
    most_bytes
        The limit on the size. An announced length is refused before anything is read.
    settings
        The limits on the time from here to the last byte, and on the fields.
    memory
        The memory for all bodies. It is given back before the handler runs.
    client
        Identifies the client for the limit on its share of the memory.

    Raises
    ------
    Refused
        400 for a body that cannot be decoded, 408 for one that is too slow, 413 for one that is too large, and
        429 or 503 without memory.
    ClientDisconnect
        If the client leaves.
    """
    kind = content_type(scope)
    if scope["method"] == "GET" and kind != URLENCODED:
        kind = ""
    seconds, most_fields = settings.body_seconds, max(2 * settings.max_texts, _LEAST_FIELDS)
    form: list[tuple[str, Any]] = []
    body, query = b"", scope.get("query_string", b"")
    with memory.share(client) as take:
        chunks = _chunks(scope, receive, most_bytes, take)
        try:
            async with asyncio.timeout(seconds):
                if kind == MULTIPART:
                    kinds = _header(scope, "content-type")
                    async with aclosing(_in_turns(chunks, memory)) as turns:
                        form = await decode_multipart(kinds, turns, most_fields, settings.max_body_bytes)
                else:
                    body = b"".join([chunk async for chunk in chunks])
        except TimeoutError:
            words = f"The request must arrive within {seconds:g} seconds. Send it again."
            raise Refused(408, words, closes=True) from None
        except Refused as refused:  # the rest of a malformed form is not read
            refused.closes = refused.closes or not has_short_body(scope)
            raise

        async with memory.turn(len(body) + len(query)):
            if kind == "application/json" or kind.endswith("+json"):
                return Fields(decode_json(body, most_fields), is_json=True)
            pairs = decode_urlencoded(query, most_fields) + form
            return Fields(group_by_name(pairs + decode_urlencoded(body, most_fields) if kind == URLENCODED else pairs))


async def _in_turns(chunks: AsyncIterator[bytes], memory: BodyMemory) -> AsyncGenerator[bytes, None]:
    """The chunks, each of which is decoded before the next one is requested."""
    async for chunk in chunks:
        async with memory.turn(len(chunk)):
            yield chunk


def content_type(scope: Scope) -> str:
    """The type of the body, without its parameters."""
    return _header(scope, "content-type").partition(";")[0].strip().lower()


async def _chunks(scope: Scope, receive: Receive, most_bytes: int, take: Callable[[int], None]) -> AsyncIterator[bytes]:
    """The chunks of a body, within the limits of `read_fields`."""
    too_large = Refused(413, f"The request may have at most {most_bytes} bytes. Send it in parts.", closes=True)
    announced, size = _header(scope, "content-length"), 0
    if announced.isdecimal() and int(announced) > most_bytes:
        raise too_large
    async for chunk in Request(scope, receive).stream():
        size += len(chunk)
        take(len(chunk))
        if size > most_bytes:
            raise too_large
        yield chunk


def _header(scope: Scope, name: str) -> str:
    return Headers(scope=scope).get(name, "")

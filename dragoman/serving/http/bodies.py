"""Reads the body of a request within limits of size and time, and parses its fields from JSON, a form or the query.

`Endpoint` calls `read_body` and then `parse_fields`. The handlers of `apis/` take values from the resulting `Fields`,
whose methods check types: a form has only texts, while JSON may have a number or null in any field. A body is held in
memory as a whole, so it has three limits: its own size, the total of all bodies being read (`BodyMemory`), and time.
"""

import asyncio
import json
import logging
import re
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope

from dragoman.serving.http.refusals import Refused
from dragoman.text.surrogates import replace_surrogates

MALFORMED = "The browser (or proxy) sent a request that this server could not understand."
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # a malformed form is answered, not logged
# Fields of a form: more than the default of `max_texts`, since each text of a request is a field.
_MAX_FIELDS = 2000
# How long, and how much, to read from a client after a refusal.
_LINGER_SECONDS, _LINGER_BYTES = 0.5, 1 << 16


class BodyMemory:
    """Limits the memory of all bodies being read at the same time to `most_bytes`."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Yield a function to call with the size of each chunk of a body. It raises Refused (503) over the limit."""
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if size > self._left:
                raise Refused(503, "The server is busy. Try again later.", 5, closes=True)
            taken += size
            self._left -= size

        try:
            yield take
        finally:
            self._left += taken


async def read_body(
    scope: Scope, receive: Receive, most_bytes: int, seconds: float, take: Callable[[int], None]
) -> bytes:
    """Read the whole body, and call `take` with the size of each chunk.

    Parameters
    ----------
    most_bytes
        The limit on the size. An announced length is refused before anything is read.
    seconds
        The limit on the time from here to the last byte.
    take
        Takes memory for a chunk (`BodyMemory.share`).

    Raises
    ------
    Refused
        413 for a body that is too large, 408 for one that is too slow, 501 after a request to upgrade, and as `take`
        does.
    ClientDisconnect
        If the client leaves.
    """
    announced = Headers(scope=scope).get("content-length", "")
    if announced.isdecimal() and int(announced) > most_bytes:
        raise _too_large(most_bytes)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in Request(scope, receive).stream():
                chunks.append(chunk)
                size += len(chunk)
                take(len(chunk))
                if size > most_bytes:
                    raise _too_large(most_bytes)
    except TimeoutError:
        raise Refused(408, f"The request must arrive within {seconds:g} seconds. Send it again.", closes=True) from None
    if announced.isdecimal() and size < int(announced):
        # The parser stops at a request to upgrade the connection (h2c), and returns no body.
        raise Refused(501, "This server does not upgrade connections. Send the request without `Upgrade`.", closes=True)
    return b"".join(chunks)


def has_short_body(scope: Scope) -> bool:
    """Whether the body is so short that its unread bytes can be discarded, and the connection used again."""
    sent = Headers(scope=scope)
    announced = sent.get("content-length", "0")
    return "transfer-encoding" not in sent and announced.isdecimal() and int(announced) <= _LINGER_BYTES


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
class Upload:
    """A file uploaded in a form."""

    name: str
    content: bytes


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
        if not isinstance(value, int) or isinstance(value, bool):
            raise Refused(400, f"Invalid request: {name} parameter is not a number")
        if value > most:
            raise Refused(400, f"Invalid request: {name} parameter must be <= {most}")
        return max(value, least)

    def flag(self, name: str) -> bool:
        """A boolean, as JSON or as text. False if it is missing or null. Raises Refused for anything else."""
        value = self._first(name)
        known = {"": False, "0": False, "false": False, "1": True, "true": True}
        if value is None or isinstance(value, bool):
            return bool(value)
        if str(value).lower() not in known:
            raise Refused(400, f"Invalid request: {name} must be true or false")
        return known[str(value).lower()]

    def _first(self, name: str) -> Any:
        """The value, or the first of several values in a form or query."""
        value = self.values.get(name)
        return value[0] if isinstance(value, list) and value and not self.is_json else value


async def parse_fields(scope: Scope, body: bytes, most_file_bytes: int) -> Fields:
    """Parse the fields of a JSON object, or of the query and a form of either kind.

    A GET may have a form, because DeepL's client requests the languages that way. Raises Refused (400) for a body that
    cannot be parsed.
    """
    kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
    if scope["method"] == "GET" and kind != "application/x-www-form-urlencoded":
        kind = ""
    if kind == "application/json" or kind.endswith("+json"):
        return Fields(_json_object(body), is_json=True)
    pairs: list[tuple[str, Any]] = _urlencoded_fields(scope.get("query_string", b""))
    if kind == "application/x-www-form-urlencoded":
        pairs += _urlencoded_fields(body)
    elif kind == "multipart/form-data":
        pairs += await _multipart_fields(scope, body, most_file_bytes)
    return Fields(_group_by_name(pairs))


def _json_object(body: bytes) -> dict[str, Any]:
    """The fields of a JSON object. A byte order mark at its start is ignored."""
    try:
        value = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise Refused(400, MALFORMED) from None
    if not isinstance(value, dict):
        raise Refused(400, "Invalid JSON format")
    return {key: _replace_surrogates(one) for key, one in value.items()}


def _replace_surrogates(value: Any) -> Any:
    """Replace lone surrogates, which JSON can contain and UTF-8 cannot, with U+FFFD."""
    if isinstance(value, list):
        return [replace_surrogates(one) if isinstance(one, str) else one for one in value]
    return replace_surrogates(value) if isinstance(value, str) else value


def _urlencoded_fields(encoded: bytes) -> list[tuple[str, Any]]:
    try:
        found = parse_qsl(encoded.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise Refused(400, f"Invalid request: the form may have at most {_MAX_FIELDS} fields") from None
    return [(name, _normalize_line_ends(value)) for name, value in found]


class _Parser(MultiPartParser):
    """Starlette's parser without temporary files: the body is in memory already, and the disk may be full."""

    spool_max_size = sys.maxsize


def _form_headers(scope: Scope) -> Headers:
    """The content type without its charset: the parser accepts any Python codec, and some take minutes."""
    _, options = parse_options_header(Headers(scope=scope).get("content-type", ""))
    boundary = options.get(b"boundary", b"").decode("latin-1")
    if '"' in boundary or "\\" in boundary:
        raise Refused(400, MALFORMED)
    return Headers(
        {"content-type": f'multipart/form-data; boundary="{boundary}"' if boundary else "multipart/form-data"}
    )


async def _multipart_fields(scope: Scope, body: bytes, most_file_bytes: int) -> list[tuple[str, Any]]:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    most_bytes = max(most_file_bytes, len(body))
    parser = _Parser(_form_headers(scope), stream(), max_files=1, max_fields=_MAX_FIELDS, max_part_size=most_bytes)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise Refused(400, f"Invalid request: {error.message}") from None
    except (OSError, MemoryError):
        raise
    except Exception:  # the parser raises other errors for a body that is not a form
        raise Refused(400, MALFORMED) from None
    pairs: list[tuple[str, Any]] = []
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            pairs.append((name, Upload(value.filename or "", await value.read())))
        else:
            pairs.append((name, _normalize_line_ends(replace_surrogates(value))))
    await form.close()
    return pairs


def _group_by_name(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Map each name to its value, or to a list of values if the name is repeated."""
    gathered: dict[str, list[Any]] = {}
    for name, value in pairs:
        gathered.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in gathered.items()}


def _normalize_line_ends(text: str) -> str:
    """The text with line feeds only. Browsers send a form's line ends as CR LF (HTML standard), whatever was typed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _too_large(most_bytes: int) -> Refused:
    return Refused(413, f"The request may have at most {most_bytes} bytes. Send it in parts.", closes=True)

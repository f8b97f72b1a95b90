"""Handles a request: reads it, checks its key, calls the handler, and drops the work of clients that disconnect.

`app.py` makes one `Endpoint` per route. The order of the checks keeps refused requests cheap: capacity before the body,
for short requests; a key in a header and the content type; then the fields (`bodies.py`); capacity again, because
reading takes time; a key in a field, and the rate; then the handler.
"""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from dragoman.serving.http.bodies import Fields, content_type, has_short_body, linger, read_fields
from dragoman.serving.http.decoding import MULTIPART
from dragoman.serving.http.keys import Keys, address_of
from dragoman.serving.limits import LOG, Refused, internal_error
from dragoman.serving.service import Service

# Most characters in an error message, because some of them come from the client.
_LONGEST = 1000
# Pause before a long body is refused.
_LONG_BODY_SECONDS = 0.1


class SortedJsonResponse(JSONResponse):
    """JSON in LibreTranslate's form: sorted keys, a line feed at the end, and U+FFFD for lone surrogates."""

    def render(self, content: Any) -> bytes:
        """Encode the content as bytes."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
        return (text + "\n").encode("utf-8", "replace")


def is_deepl(scope: Scope) -> bool:
    """Whether the path belongs to DeepL's API."""
    return str(scope["path"]).startswith(("/v2/", "/v3/"))


def error_response(scope: Scope, refused: Refused) -> Response:
    """The answer for an error: ``{"error": ...}``, or ``{"message": ..., "detail": ...}`` for DeepL's clients."""
    words = refused.message if len(refused.message) <= _LONGEST else f"{refused.message[:_LONGEST]}..."
    content = {"message": words, "detail": ""} if is_deepl(scope) else {"error": words}
    return SortedJsonResponse(content, refused.status, refused.headers)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The ASGI application of one route.

    Parameters
    ----------
    service
        The service, for its limits and metrics.
    handler
        Answers a request with a Response, or with a value for JSON. It may be a coroutine function.
    most_bytes
        The limit on the size of a body.
    keys
        If set, a request must have a key, and counts for the rate limit.
    is_work
        Whether a request is refused if the queue is full.
    needs_form
        Whether a request has a file, and so must be a form in parts.
    """

    service: Service
    handler: Callable[[Request, Fields], Awaitable[Any] | Any]
    most_bytes: int
    keys: Keys | None = None
    is_work: bool = False
    needs_form: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by ASGI. If the client disconnects, its work is dropped."""
        try:
            response = await self._response(scope, receive)
        except ClientDisconnect:
            self.service.metrics.disconnects.inc()
            return
        except Refused as refused:
            refused.__traceback__ = refused.__context__ = None  # their frames hold the body
            response = error_response(scope, refused)
            if refused.status == 503 or refused.closes:
                await asyncio.sleep(self.service.refusals.pause())
            if not has_short_body(scope):  # clients that send long bodies in a loop leave time for others
                await asyncio.sleep(_LONG_BODY_SECONDS)
            if refused.closes:
                await _send_and_linger(response, scope, receive, send)
                return
        except Exception:
            LOG.exception("%s %s failed", scope["method"], scope["path"])
            response = error_response(scope, internal_error())
        await response(scope, receive, send)

    async def _response(self, scope: Scope, receive: Receive) -> Response:
        """The answer of the handler."""
        self._check_head(scope)
        settings, memory = self.service.settings, self.service.body_memory
        fields = await read_fields(scope, receive, self.most_bytes, settings, memory, address_of(scope))
        if self.is_work:
            self.service.check_capacity()
        if self.keys is not None:
            scope["dragoman.key"] = self.keys.check(scope, fields)  # for metrics and logs
        answer = self.handler(Request(scope), fields)
        del fields  # maybe a file of 10 MB
        if inspect.isawaitable(answer):
            answer = await _await_unless_gone(answer, receive)
        return answer if isinstance(answer, Response) else SortedJsonResponse(answer)

    def _check_head(self, scope: Scope) -> None:
        """Raise Refused for what the head of a request shows. After that, no long body is read.

        If the queue is full, only a short request is refused here: the client of a long body would not receive the
        refusal while it is still sending.
        """
        try:
            if self.is_work and has_short_body(scope):
                self.service.check_capacity()
            if self.keys is not None:
                self.keys.check_header(scope)
            if self.needs_form and content_type(scope) != MULTIPART:
                raise Refused(400, f"Invalid request: send the file as {MULTIPART}, in the field `file`")
        except Refused as refused:
            refused.closes = not has_short_body(scope)
            raise


async def _await_unless_gone(answer: Awaitable[Any], receive: Receive) -> Any:
    """Await the answer. If the client disconnects first, cancel the work and raise ClientDisconnect."""
    work, leaving = asyncio.ensure_future(answer), asyncio.ensure_future(wait_for_disconnect(receive))
    try:
        await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect
        return work.result()
    finally:
        leaving.cancel()
        work.cancel()


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client leaves, or has its answer."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_and_linger(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the answer, but end the exchange a moment later: unread data from the client would reset the connection."""

    async def send_unfinished(message: Message) -> None:
        await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

    await response(scope, receive, send_unfinished)
    await linger(scope, receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})

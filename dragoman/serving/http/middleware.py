"""Wraps all routes: refuses short requests early, adds the common headers, answers preflight requests, counts answers.

`app.py` makes one `Middleware` around all routes.
"""

import asyncio
import time

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serving.http.endpoint import error_response
from dragoman.serving.http.refusals import Refused
from dragoman.serving.service import Service

COMMON_HEADERS = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-headers", b"Authorization, Content-Type"),
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (b"access-control-expose-headers", b"Retry-After"),
    (b"access-control-max-age", b"1728000"),
    (b"x-content-type-options", b"nosniff"),
]
# Requests of less than 100,000 bytes are refused before they are read, and their bytes are discarded.
_FEW_DIGITS = 5


class Middleware:
    """Wraps all routes: adds the common headers, answers CORS preflight requests and counts answers.

    A short request for a path in `work` is refused before it is read if the queue is full.
    """

    def __init__(self, app: ASGIApp, service: Service, routes: frozenset[str], work: frozenset[str]) -> None:
        self._app, self._service, self._metrics, self._routes, self._work = app, service, service.metrics, routes, work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.monotonic(), 0

        async def send_more(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *COMMON_HEADERS]
            await send(message)

        self._metrics.in_flight.inc()
        try:
            if scope["method"] == "OPTIONS":
                await Response()(scope, receive, send_more)
            elif scope["path"] in self._work and (refused := self._capacity_refusal(scope)):
                await asyncio.sleep(self._service.refusals.pause())
                await error_response(scope, refused)(scope, receive, send_more)
            else:
                await self._app(scope, receive, send_more)
        finally:
            self._metrics.in_flight.dec()
            if status:
                self._metrics.count_answer(self._route(scope["path"]), status, start)

    def _capacity_refusal(self, scope: Scope) -> Refused | None:
        """The refusal of a short request if the queue is full, else None.

        A long body is read first: its client would not receive the refusal while it is still sending.
        """
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        if not announced.isdigit() or len(announced) > _FEW_DIGITS:
            return None
        try:
            self._service.check_capacity()
        except Refused as refused:
            return refused
        return None

    def _route(self, path: str) -> str:
        """The label of a path in the metrics: one of a fixed set, whatever paths clients request."""
        if path in self._routes:
            return path
        return next((one for one in ("/download_file", "/v1/files") if path.startswith(one + "/")), "other")

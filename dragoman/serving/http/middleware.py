"""Wraps all routes: adds the common headers, answers preflight requests, counts and logs.

`app.py` makes one `Middleware` around all routes. It finds the client behind a proxy first (`forwarding.py`).
"""

import asyncio
import time

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.serving.http.access_log import REQUEST_ID
from dragoman.serving.http.endpoint import error_response
from dragoman.serving.http.forwarding import Deployment
from dragoman.serving.limits import LOG, shutting_down
from dragoman.serving.metrics import Metrics

_CORS_HEADERS = [
    (b"access-control-allow-headers", b"Authorization, Content-Type"),
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (b"access-control-expose-headers", b"Retry-After, X-Request-ID"),
    (b"access-control-max-age", b"1728000"),
]
_ALL_ANSWERS = [(b"x-content-type-options", b"nosniff")]
COMMON_HEADERS = [(b"access-control-allow-origin", b"*"), *_CORS_HEADERS, *_ALL_ANSWERS]
# The status in the log of a request whose client disconnected before the answer, as nginx has it.
_GONE = 499


class Middleware:
    """Wraps all routes: adds the common headers, answers CORS preflight requests, counts and logs answers."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: frozenset[str], deployment: Deployment) -> None:
        self._app, self._metrics, self._routes, self.deployment = app, metrics, routes, deployment

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.update(self.deployment.describe(scope))
        start, status, size = time.monotonic(), 0, 0
        headers = [*self._common_headers(scope), (b"x-request-id", scope[REQUEST_ID].encode())]

        async def send_more(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *headers]
            size += len(message.get("body", b""))
            await send(message)

        self._metrics.start_request(scope)
        try:
            if scope["method"] == "OPTIONS":
                await Response()(scope, receive, send_more)
            else:
                await self._app(scope, receive, send_more)
        except asyncio.CancelledError:  # the server stops and waits no longer
            if not status:
                await error_response(scope, shutting_down())(scope, receive, send_more)
        finally:
            route, seconds = self._route(scope["path"]), time.monotonic() - start
            self._metrics.end_request(scope, route, status, seconds)
            if status == 500:
                LOG.error("request %s to %s failed", scope[REQUEST_ID], route)
            if self.deployment.access_log is not None:
                facts = {"route": route, "status": status or _GONE, "seconds": round(seconds, 6)}
                self.deployment.access_log.write(scope, facts | {"bytes": 0 if scope["method"] == "HEAD" else size})

    def _common_headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """The headers that every answer has. Those for CORS depend on the origin if only some may read answers."""
        if self.deployment.origins is None:
            return COMMON_HEADERS
        origin = dict(scope["headers"]).get(b"origin", b"")
        is_allowed = origin.decode("latin-1") in self.deployment.origins
        allowed = [(b"access-control-allow-origin", origin), *_CORS_HEADERS] if is_allowed else []
        return [*allowed, *([(b"vary", b"Origin")] if self.deployment.origins else []), *_ALL_ANSWERS]

    def _route(self, path: str) -> str:
        """The label of a path in the metrics: one of a fixed set, whatever paths clients request."""
        if path in self._routes:
            return path
        return next(
            (one for one in ("/download_file", "/v1/files", "/v2/document") if path.startswith(one + "/")), "other"
        )

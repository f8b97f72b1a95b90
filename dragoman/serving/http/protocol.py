"""HTTP connections with time limits, and answers to malformed requests.

uvicorn waits without limit for a request to arrive and for an answer to be read, so a few slow clients could hold all
connections of a server without a proxy (an attack known as Slowloris). It also answers malformed requests as plain
text. This subclass of its protocol for httptools adds both, with one timer for reading and one for writing.

The methods with public names override uvicorn's and asyncio's callbacks; all run in the event loop.
"""

# ruff: noqa: D102

import asyncio
import sys
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from dragoman.serving.http.connections import Place
from dragoman.serving.http.decoding import MALFORMED
from dragoman.serving.http.endpoint import error_response
from dragoman.serving.http.middleware import COMMON_HEADERS
from dragoman.serving.limits import Refused

# The head: request line, headers and trailers.
_HEAD_BYTES = 1 << 16
# More header lines take more memory than a long one: each of them is two Python objects.
_MOST_HEADERS = 128
# Bytes that asyncio reads at once. They may be thousands of requests or chunks, which block the event loop together.
_READ_BYTES = 1 << 15
# How long a refused connection stays open, so that the client can read the refusal.
_LINGER_SECONDS = 0.5
_LIMITS = f"{_HEAD_BYTES} bytes and {_MOST_HEADERS} headers"
_LONG_HEAD = f"The head of the request may have at most {_LIMITS}. Send shorter headers."
# Time for an endpoint to refuse a body that does not arrive. After that, the connection is closed without an answer.
_REFUSAL_SECONDS = 2.0


class TimedHttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 that closes a connection if no whole request arrives in time, and refuses malformed requests in JSON.

    The status is 400 for a request that is not HTTP, and 431 for a head that is too long. Trailers after a chunked body
    count as part of the head.

    The time for the first head starts with the connection, and for a later head with its first byte. Between requests
    uvicorn's own limit applies. The endpoint that reads a body is the first to refuse it if it does not arrive. If the
    client reads nothing of an answer for `body_seconds`, the connection is aborted: a connection with unread bytes
    would never close.

    When the server stops, each answer is the last one on its connection. A connection without a request is closed after
    a time in which a client can still send one, because a request that is on its way would be lost.
    """

    def __init__(self, place: Place, body_seconds: float, **given: Any) -> None:
        super().__init__(**given)
        self._place, self.body_seconds = place, body_seconds

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._place.transport = transport
        self._wait_for_request()
        self._named_bytes = self._bytes_without_end = 0
        transport.max_size = _READ_BYTES
        self._is_over = False
        self._pieces: list[bytes] = []
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._start_timer(self.body_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        self._stop_watching_reader()
        self._place.connections.give_back(self._place)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn would keep a connection that was reset for 20 seconds

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_watching_reader()
            if self.cycle.response_complete:
                self._wait_for_request()

    def timeout_keep_alive_handler(self) -> None:
        if not self._place.has_data():  # else a request is arriving
            self.transport.write_eof()
            self._close()

    def end_soon(self) -> None:
        """Make the answer in progress the last one, if its head is not sent yet."""
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_started:
            cycle.keep_alive = False

    def shutdown(self) -> None:
        """Close the connection after its answer in progress, or when it is quiet."""
        self.end_soon()
        quiet = self._place.connections.quiet_seconds or 0.0
        self.timeout_keep_alive = quiet  # type: ignore[assignment]
        if self._place.state == "idle":
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_at(self._idle_since + quiet, self.timeout_keep_alive_handler)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.flow.write_paused:  # else more is to be answered or to be read
            self._wait_for_request()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._named_bytes = self._bytes_without_end = 0
        if self.cycle is not None:
            self._start_timer(self.body_seconds)
        if self._place.state == "idle":
            self._place.set_state("head")

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) if len(self.headers) < _MOST_HEADERS else _HEAD_BYTES + 1)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._start_timer(self.body_seconds + _REFUSAL_SECONDS)
        if not self._asks_for_upgrade:
            super().on_headers_complete()
            self._place.set_state("busy")
            if self._place.connections.quiet_seconds is not None:
                self.end_soon()

    def on_body(self, body: bytes) -> None:
        self._bytes_without_end = 0
        self._pieces.append(body)

    def _hand_over_body(self) -> None:
        """Add the pieces to the body at once. uvicorn would copy 64 KiB for each, which may be a single byte."""
        if self._pieces:
            super().on_body(b"".join(self._pieces))
            self._pieces = []

    def on_message_complete(self) -> None:
        if self._asks_for_upgrade:
            return
        self._hand_over_body()
        self._cancel_timer()
        self._bytes_without_end = 0
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        # Line ends between requests start no request, but stop uvicorn's keep-alive timer.
        if self._deadline is None and self.cycle.response_complete:
            self._start_timer(self.body_seconds)
        # The parser reports a header line only at its end, so count the bytes of an unfinished line here.
        self._bytes_without_end += len(data)
        before = self._bytes_without_end
        self._unparsed = memoryview(data)
        while self._unparsed:
            self._parsed, self._unparsed = self._unparsed, memoryview(b"")
            super().data_received(self._parsed)  # type: ignore[arg-type]
        self._parsed = self._unparsed
        self._hand_over_body()
        if self._bytes_without_end == before > _HEAD_BYTES and not self._is_over:
            self._refuse(431, _LONG_HEAD)

    def send_400_response(self, msg: str) -> None:
        if self._named_bytes > _HEAD_BYTES:
            self._refuse(431, _LONG_HEAD)
        else:
            self._refuse(400, MALFORMED + "it is not valid HTTP/1.1.")

    @property
    def _asks_for_upgrade(self) -> bool:
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    def _unsupported_upgrade_warning(self) -> None:
        """Parse the head again without `Upgrade`, then the rest: the parser stops behind the head of an upgrade.

        A server may ignore the request to upgrade (RFC 9110, section 7.8). Java's client sends it by default.
        """
        stop: Any = sys.exception()
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":  # what follows is for a tunnel, and not HTTP
            self._is_over, self.cycle.keep_alive = True, False
            return
        head = [b"%b %b HTTP/%b" % (method, self.url, version)]
        head += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        self._unparsed = self._parsed[stop.args[0] :]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        self.parser.feed_data(b"\r\n".join([*head, b"", b""]))

    def _wait_for_request(self) -> None:
        self._idle_since = self.loop.time()
        self._place.set_state("idle")

    def _count(self, size: int) -> None:
        self._named_bytes += size
        if self._named_bytes > _HEAD_BYTES:
            raise ValueError(_LONG_HEAD)  # the parser treats the error as a malformed request

    def _refuse(self, status: int, reason: str) -> None:
        """Send a refusal as the last answer on this connection. A complete earlier request is answered instead."""
        self._is_over = True
        self._cancel_timer()
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            if not cycle.more_body:  # the malformed part comes after this request
                cycle.keep_alive = False
                return
            if cycle.response_started:
                self._close()
                return
            cycle.disconnected = True  # the endpoint that reads this body must not answer it
            cycle.message_event.set()
        self.transport.write(encode_refusal(Refused(status, reason, closes=True)))
        self.transport.write_eof()  # closing with unread data would discard the answer
        self.loop.call_later(_LINGER_SECONDS, self._close)

    def _start_timer(self, most_seconds: float) -> None:
        self._cancel_timer()
        self._deadline = self.loop.call_later(most_seconds, self._cut_off)

    def _cancel_timer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None

    def _cut_off(self) -> None:
        """End a connection whose request did not arrive in time."""
        if self.flow.read_paused:  # the server paused reading because an earlier answer is in progress
            self._start_timer(self.body_seconds)
        else:
            self._close()

    def _close(self) -> None:
        self.transport.close()
        self._watch_reader()

    def _watch_reader(self) -> None:
        """Start the time in which the client must read some of the answer."""
        self._stop_watching_reader()
        self._unread = self.loop.call_later(self.body_seconds, self._give_up, self.transport.get_write_buffer_size())

    def _stop_watching_reader(self) -> None:
        if self._unread is not None:
            self._unread.cancel()

    def _give_up(self, unread: int) -> None:
        """Abort the connection if its `unread` bytes are still unread. A slow reader gets more time."""
        if self.transport.get_write_buffer_size() < unread:
            self._watch_reader()
        else:
            self.transport.abort()


def encode_refusal(refused: Refused) -> bytes:
    """A complete HTTP answer as bytes, for a connection without a valid request."""
    answer = error_response({"path": ""}, refused)
    headers = [*answer.raw_headers, *COMMON_HEADERS]
    head = [STATUS_LINE[refused.status], *(name + b": " + value + b"\r\n" for name, value in headers)]
    return b"".join([*head, b"\r\n", answer.body])

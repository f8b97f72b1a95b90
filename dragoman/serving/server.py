"""The process around the application: its socket, its signals, and connections on which nothing comes, or no HTTP."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from http import HTTPStatus
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dragoman.errors import ConfigError
from dragoman.serving.http.bodies import MALFORMED
from dragoman.serving.http.endpoint import ON_ALL_ANSWERS, error_response
from dragoman.serving.http.refusals import Refused
from dragoman.serving.service import Service

_KEEP_ALIVE_SECONDS = 20
_HEAD_BYTES = 1 << 16
_LINGER_SECONDS = 0.5
_FILES_SECONDS = 0.2
_LONG_HEAD = f"The head of the request has more than {_HEAD_BYTES} bytes."
# What the refusal of a body that does not come may take, before the connection is closed without one.
_REFUSAL_SECONDS = 2.0
_BACKLOG, _ACCEPTED_AT_ONCE = 2048, 64
# A lane's thread may hold the interpreter for so long while the event loop waits for it, at every system call again.
_SWITCH_SECONDS = 0.0005


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket at the address, on which nobody listens yet. Raises ConfigError where it cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)  # with its protocol, or asyncio leaves Nagle's delay on
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ConfigError(
            f"{host}:{port} cannot be served at: {reason}. Choose another `--host` or `--port`."
        ) from None
    return found


def address_of(found: socket.socket) -> str:
    """As a link."""
    host, port = found.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_server(app: ASGIApp, service: Service, found: socket.socket, when_ready: Callable[[], None]) -> None:
    """Serves until a signal says to stop; what has begun by then is finished, as far as the time for it lasts.

    The process is to end then: a SIGTERM that comes after does nothing. Raises KeyboardInterrupt after SIGINT.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)

    def ready() -> None:
        # Looking through all that was loaded for what is no longer used would stop everybody for a third of a second.
        gc.collect()
        gc.freeze()
        when_ready()

    server = Server(app, service, ready)
    server.run(sockets=[found])
    if server.was_interrupted:
        raise KeyboardInterrupt


class Server(uvicorn.Server):
    """uvicorn's, which tells the service of signals and ends without passing them on.

    SIGTERM: not ready at once, and no new connections a moment later, when load balancers have seen that, or when files
    are translated and fetched. SIGINT: no new connections at once. A second signal drops the work in progress.
    """

    def __init__(self, app: ASGIApp, service: Service, when_ready: Callable[[], None] = lambda: None) -> None:
        settings = service.settings
        config = uvicorn.Config(
            app,
            http=_protocol(settings.body_seconds),
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_ACCEPTED_AT_ONCE,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(settings.drain_seconds)),
        )
        super().__init__(config)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it reports each signal
        self._service, self._when_ready = service, when_ready
        self.was_interrupted = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts, and says so."""
        await super().startup(sockets)
        for one in sockets or ():  # asyncio accepts as many in one go as may wait, which is too long
            one.listen(_BACKLOG)
        if self.started:
            self._when_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """While serving, signals go to `handle_exit`."""
        try:
            before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not the main thread, where a test runs it
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():  # who says SIGTERM again should not kill what has ended well
                signal.signal(number, signal.SIG_IGN if number == signal.SIGTERM else handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins to leave; the second time leaves. At once while it starts: nothing has begun that could be lost."""
        if self._service.state == "starting":
            signal.signal(sig, signal.SIG_DFL)  # what is being compiled listens to nothing else
            signal.raise_signal(sig)
            return
        if self._service.state == "draining":
            self.should_exit = self.force_exit = True
            return
        self._service.state = "draining"
        self.was_interrupted = sig == signal.SIGINT
        if sig == signal.SIGINT:
            self.should_exit = True
            return
        delay = self._service.settings.drain_delay_seconds
        loop = asyncio.get_running_loop()
        loop.call_later(delay, self._leave, loop.time() + delay + self._service.settings.drain_seconds)

    def _leave(self, latest: float) -> None:
        """Begins to end, but for files that are not translated or fetched: these go on until `latest`, and connections
        are taken for them alone.
        """
        loop = asyncio.get_running_loop()
        if self._service.files_in_work() and loop.time() < latest:
            self._service.takes_work = False
            loop.call_later(_FILES_SECONDS, self._leave, latest)
            return
        self.config.timeout_graceful_shutdown = max(1, round(latest - loop.time()))
        self.should_exit = True


def plain_refusal(status: int, reason: str) -> bytes:
    """The answer where there is no request that could be answered."""
    answer = error_response({"path": ""}, Refused(status, reason, closes=True))
    headers = [*answer.raw_headers, *ON_ALL_ANSWERS]
    head = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode() + head + b"\r\n" + bytes(answer.body)


def _protocol(seconds: float) -> type[asyncio.Protocol]:
    class Protocol(HttpToolsProtocol):
        """HTTP/1.1 that closes a connection on which no whole request has come in time, and refuses in JSON what is no
        HTTP (400) and too long a head (431), to which what comes after a body in chunks belongs too.

        The time for the first head begins with the connection, that for a later one with its first byte: between
        requests uvicorn's own limit holds. A body that does not come is first refused by whoever reads it. An answer
        of which nothing is read for as long is given up, for a connection with unread bytes does not close by itself.
        """

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._named_bytes = self._bytes_without_end = 0
            self._is_over = False
            self._deadline: asyncio.TimerHandle | None = None
            self._unread: asyncio.TimerHandle | None = None
            self._wait(seconds)

        def connection_lost(self, exc: Exception | None) -> None:
            self._wait_no_more()
            self._watch_no_more()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._watch_reader()

        def resume_writing(self) -> None:
            super().resume_writing()
            if not self.transport.is_closing():
                self._watch_no_more()

        def timeout_keep_alive_handler(self) -> None:
            self._close()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._named_bytes = self._bytes_without_end = 0
            if self.cycle is not None:
                self._wait(seconds)

        def on_url(self, url: bytes) -> None:
            super().on_url(url)
            self._count(len(url))

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value))
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._wait(seconds + _REFUSAL_SECONDS)
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._bytes_without_end = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._wait_no_more()
            self._bytes_without_end = 0
            super().on_message_complete()

        def data_received(self, data: bytes) -> None:
            if self._is_over:
                return
            # Line ends between requests begin none, but end uvicorn's waiting.
            if self._deadline is None and self.cycle.response_complete:
                self._wait(seconds)
            # A line of a head that does not end is none yet, so that nobody is told of it.
            self._bytes_without_end += len(data)
            before = self._bytes_without_end
            super().data_received(data)
            if self._bytes_without_end == before > _HEAD_BYTES and not self._is_over:
                self._refuse(431, _LONG_HEAD)

        def send_400_response(self, msg: str) -> None:
            if self._named_bytes > _HEAD_BYTES:
                self._refuse(431, _LONG_HEAD)
            else:
                self._refuse(400, MALFORMED)

        def _unsupported_upgrade_warning(self) -> None:
            """The parser stops where a request asks to upgrade: its body would be taken for the next request."""
            if any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers):
                self._refuse(501, "This server does not upgrade connections. Send the request without `Upgrade`.")

        def _count(self, size: int) -> None:
            self._named_bytes += size
            if self._named_bytes > _HEAD_BYTES:
                raise ValueError(_LONG_HEAD)  # which the parser takes for a mistake in what it reads

        def _refuse(self, status: int, reason: str) -> None:
            """The last answer on this connection. One before it is sent whole, or as far as it has been."""
            self._is_over = True
            self._wait_no_more()
            cycle: Any = self.cycle
            if cycle is not None and not cycle.response_complete:
                if not cycle.more_body:  # what is wrong comes after this request
                    cycle.keep_alive = False
                    return
                if cycle.response_started:
                    self._close()
                    return
                cycle.disconnected = True  # the reader of its body answers no more
                cycle.message_event.set()
            self.transport.write(plain_refusal(status, reason))
            if self.transport.can_write_eof():
                self.transport.write_eof()  # closed with something unread, it would take the answer along
            self.loop.call_later(_LINGER_SECONDS, self._close)

        def _wait(self, most_seconds: float) -> None:
            self._wait_no_more()
            self._deadline = self.loop.call_later(most_seconds, self._cut_off)

        def _wait_no_more(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
            self._deadline = None

        def _cut_off(self) -> None:
            if self.flow.read_paused:  # it is we who do not read, because another answer comes first
                self._wait(seconds)
            else:
                self._close()

        def _close(self) -> None:
            self.transport.close()
            self._watch_reader()

        def _watch_reader(self) -> None:
            self._watch_no_more()
            self._unread = self.loop.call_later(seconds, self._give_up, self.transport.get_write_buffer_size())

        def _watch_no_more(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
            self._unread = None

        def _give_up(self, unread: int) -> None:
            if self.transport.get_write_buffer_size() < unread:
                self._watch_reader()
            else:
                self.transport.abort()

    return Protocol

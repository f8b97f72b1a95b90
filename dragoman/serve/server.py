"""The process around the application: its socket, its signals, and connections on which nothing comes."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dragoman.errors import ConfigError
from dragoman.serve.service import Service

_KEEP_ALIVE_SECONDS = 20
_HEAD_BYTES = 1 << 16
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

    SIGTERM: not ready at once, and no new connections a moment later, when load balancers have seen that. SIGINT: no
    new connections at once. A second signal leaves what has begun.
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
        if sig == signal.SIGINT or not self._service.settings.drain_delay_seconds:
            self.should_exit = True
            return
        asyncio.get_running_loop().call_later(self._service.settings.drain_delay_seconds, self._leave)

    def _leave(self) -> None:
        self.should_exit = True


def _protocol(seconds: float) -> type[asyncio.Protocol]:
    class Protocol(HttpToolsProtocol):
        """HTTP/1.1 that closes a connection on which no whole request has come in time, or too long a head.

        The time for the first head begins with the connection, that for a later one with its first byte: between
        requests uvicorn's own limit holds. A body that does not come is first refused by whoever reads it. An answer
        of which nothing is read for as long is given up, for a connection with unread bytes does not close by itself.
        """

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._is_in_head, self._head_bytes = True, 0
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
            self._is_in_head, self._head_bytes = True, 0
            if self.cycle is not None:
                self._wait(seconds)

        def on_headers_complete(self) -> None:
            self._wait(seconds + _REFUSAL_SECONDS)
            self._is_in_head = False
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._wait_no_more()
            super().on_message_complete()

        def data_received(self, data: bytes) -> None:
            # Line ends between requests begin none, but end uvicorn's waiting.
            if self._deadline is None and self.cycle.response_complete:
                self._wait(seconds)
            was_in_head = self._is_in_head
            super().data_received(data)
            if was_in_head and self._is_in_head:
                self._head_bytes += len(data)
                if self._head_bytes > _HEAD_BYTES:
                    self._close()

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

"""The process around the application: its socket and its signals."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from dragoman.errors import ConfigError
from dragoman.serving.http.protocol import protocol_with
from dragoman.serving.service import Service

_KEEP_ALIVE_SECONDS = 20
_FILES_SECONDS = 0.2
_BACKLOG, _ACCEPTED_AT_ONCE = 2048, 64
# A lane's thread may hold the interpreter for so long while the event loop waits for it, at every system call again.
_SWITCH_SECONDS = 0.0005


def bind_socket(host: str, port: int) -> socket.socket:
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


def url_of_socket(found: socket.socket) -> str:
    """As a link."""
    host, port = found.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_server(app: ASGIApp, service: Service, found: socket.socket, when_ready: Callable[[], None]) -> None:
    """Serve until a signal stops the process. Requests that have started are finished if the time limit allows.

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
            http=protocol_with(settings.body_seconds),
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
        """Stop accepting work; on the second signal, or while the server still starts, leave at once."""
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
        if self._service.num_unfinished_files() and loop.time() < latest:
            self._service.takes_work = False
            loop.call_later(_FILES_SECONDS, self._leave, latest)
            return
        self.config.timeout_graceful_shutdown = max(1, round(latest - loop.time()))
        self.should_exit = True

"""Runs the application in uvicorn: socket, signals and shutdown.

`cli/serve.py` binds the socket before it loads models, so that a used port is an error at once, and calls `run_server`
when they are loaded. The states of a server are those of `Service.state`:

- starting: the lifespan of the application warms up the models. The socket is not listening yet.
- ok: the server answers.
  SIGHUP reloads the models and keys, one reload at a time.
- draining: after SIGTERM, `/readyz` is 503. The server still accepts connections for a moment, then finishes the
  requests in progress, for at most `drain_seconds`.
"""

import asyncio
import contextlib
import errno
import gc
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from dragoman.errors import ConfigError, DragomanError
from dragoman.serving.http.connections import Connections, Listener, connection_limit
from dragoman.serving.http.middleware import Middleware
from dragoman.serving.http.protocol import TimedHttpProtocol, encode_refusal
from dragoman.serving.limits import LOG, Refused
from dragoman.serving.service import Service
from dragoman.signals import can_reload, is_terminal_closed

# How long an idle connection stays open.
_KEEP_ALIVE_SECONDS = 20
# How often a draining server checks whether files are still unfinished.
_FILES_SECONDS = 0.2
# How long a stopping server keeps a connection open for another request. Each answer tells the client to close it.
_QUIET_SECONDS = 1.0
_NO_PLACE = Refused(503, "The server has too many connections. Try again later.", 5, closes=True)
# Longest time that a lane's thread holds the interpreter while the event loop waits for it, after each system call.
_SWITCH_SECONDS = 0.0005

# Fewer passes of the garbage collector: those over the million objects of a large document take 0.4 seconds each.
_GARBAGE = 10_000, 10, 10

Reload = Callable[[], Awaitable[None]]
"""Loads models and keys, and replaces those served. It raises an error if nothing was changed."""


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind a socket to the address, without listening yet. Raises ConfigError if the address is not available."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)  # with its protocol, or asyncio leaves Nagle's delay on
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ConfigError(f"cannot serve at {host}:{port}: {reason}. Choose another `--host` or `--port`.") from None
    return found


@contextlib.contextmanager
def bind_unix_socket(path: Path) -> Iterator[socket.socket]:
    """Bind a socket to a path, for processes of the same user or group, and remove it at the end.

    A socket that nobody listens on is replaced. Raises ConfigError if the path is in use or not available.
    """
    try:
        found = socket.socket(socket.AF_UNIX)
        if path.exists() and _is_abandoned(path):
            path.unlink()
        umask = os.umask(0o117)
        try:
            found.bind(str(path))
        finally:
            os.umask(umask)
        own = path.lstat().st_ino
    except (OSError, AttributeError) as error:  # Windows has no AF_UNIX
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot serve at {path}: {reason}. Choose another `--unix-socket`.") from None
    try:
        yield found
    finally:
        found.close()
        with contextlib.suppress(OSError):
            if path.lstat().st_ino == own:  # else a new server has replaced it
                path.unlink()


def _is_abandoned(path: Path) -> bool:
    """Whether nobody listens on the socket at a path. Raises OSError if the path is not a socket."""
    if not path.is_socket() or path.is_symlink():
        raise OSError(errno.EEXIST, "it exists and is not a socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        code = probe.connect_ex(str(path))
    if code not in (0, errno.ECONNREFUSED, errno.EAGAIN):  # EAGAIN: its queue is full
        raise OSError(code, os.strerror(code))
    return code == errno.ECONNREFUSED


def url_of_socket(found: socket.socket) -> str:
    """The URL of a bound socket, or ``unix:`` and its path."""
    if isinstance(name := found.getsockname(), str):
        return f"unix:{name}"
    host, port = name[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_server(server: "Server", found: socket.socket) -> None:
    """Serve on a bound socket until a signal stops the process. Requests in progress are finished if time allows.

    The process should end afterwards, because SIGTERM is ignored from then on. Raises KeyboardInterrupt after SIGINT.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(*_GARBAGE)
    server.run(sockets=[found])
    if server.was_interrupted:
        raise KeyboardInterrupt


class Server(uvicorn.Server):
    """uvicorn's server with graceful shutdown: it informs the service of signals and does not raise them again.

    SIGTERM: `/readyz` turns 503 at once. New connections end after `drain_delay_seconds`, when load balancers have seen
    that, or later if files are still unfinished or not downloaded. SIGINT: new connections end at once. A second signal
    drops the work in progress.

    Parameters
    ----------
    app, service
        The application and its service.
    when_ready
        Called when the server listens.
    reload
        Called after SIGHUP. It raises DragomanError if nothing was changed.
    """

    def __init__(
        self, app: Middleware, service: Service, when_ready: Callable[[], None], reload: Reload | None = None
    ) -> None:
        settings = service.settings
        config = uvicorn.Config(
            app,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level="critical",  # uvicorn would log every signal
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(settings.drain_seconds)),
        )
        super().__init__(config)
        self._service, self._when_ready, self._reload = service, when_ready, reload
        self._reload_task: asyncio.Task[None] | None = None
        self._must_reload = self.was_interrupted = False
        self._connections = Connections(connection_limit(settings.max_connections), app.deployment.proxies.trusts)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, then call `when_ready`."""
        await super().startup([])
        refusal = encode_refusal(_NO_PLACE)
        given = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        make_protocol = partial(TimedHttpProtocol, body_seconds=self._service.settings.body_seconds, **given)
        self._listeners = [Listener(one, self._connections, make_protocol, refusal) for one in sockets or ()]
        if self.started:
            for one in self._listeners:
                one.start()
            if self._reload is not None and can_reload():
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._handle_hangup)
            # A garbage collection over all loaded modules and models would block every request for a third of a second.
            gc.collect()
            gc.freeze()
            self._when_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, answer the requests that arrived, and close the connections."""
        self._connections.quiet_seconds = self._connections.quiet_seconds or 0.0
        for one in self._listeners:
            await one.stop()
        await super().shutdown([])
        if self.force_exit:  # uvicorn would not name the files that are lost
            await self.lifespan.shutdown()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Send SIGINT and SIGTERM to `handle_exit` while serving."""
        try:
            before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread: a test runs the server
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():  # a repeated SIGTERM must not change a clean exit code
                signal.signal(number, signal.SIG_IGN if number == signal.SIGTERM else handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start the shutdown. A second signal, or a signal during the start, ends the server at once."""
        if self._service.state == "starting":
            signal.signal(sig, signal.SIG_DFL)  # compiling in a thread cannot be interrupted otherwise
            signal.raise_signal(sig)
            return
        if self._service.state == "draining":
            self.should_exit = self.force_exit = True
            return
        self._service.state = "draining"
        self.was_interrupted = sig == signal.SIGINT
        # A handler may run while the loop changes its list of timers, and must not change that itself.
        asyncio.get_running_loop().call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        """Let the connections end after their requests, and the server after them."""
        self._connections.quiet_seconds = 0.0 if self.was_interrupted else _QUIET_SECONDS
        connections: list[Any] = list(self.server_state.connections)
        for connection in connections:
            connection.end_soon()
        if self.was_interrupted:
            self.should_exit = True
            return
        delay = self._service.settings.drain_delay_seconds
        loop = asyncio.get_running_loop()
        loop.call_later(delay, self._leave, loop.time() + delay + self._service.settings.drain_seconds)

    def _handle_hangup(self) -> None:
        """Start a reload, or request another one after it. A closed terminal also sends SIGHUP, and ends the server."""
        if is_terminal_closed():
            self.handle_exit(signal.SIGTERM, None)
            return
        self._must_reload = True
        if self._reload_task is None or self._reload_task.done():
            self._reload_task = asyncio.get_running_loop().create_task(self._run_reloads())

    async def _run_reloads(self) -> None:
        while self._must_reload and self._reload is not None and self._service.state == "ok":
            self._must_reload = False
            try:
                await self._reload()
            except DragomanError as error:
                LOG.warning("reloading failed, and nothing was changed: %s", error)
            except Exception:
                LOG.exception("reloading failed, and nothing was changed")

    def _leave(self, latest: float) -> None:
        """Stop accepting connections, or try again later if files are unfinished or not downloaded.

        Until then, and at most until `latest`, the server only answers requests about files.
        """
        loop = asyncio.get_running_loop()
        if self._service.num_unfinished_files() and loop.time() < latest:
            self._service.takes_work = False
            loop.call_later(_FILES_SECONDS, self._leave, latest)
            return
        self.config.timeout_graceful_shutdown = max(1, round(latest - loop.time()))
        self.should_exit = True

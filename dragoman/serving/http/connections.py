"""Accepts connections, and limits how many are open: in total, and for each client address.

asyncio accepts connections without a limit. When the process has no file descriptors left, asyncio logs thousands of
lines per second and serves nobody. `Listener` accepts connections instead, and each gets a `Place` from `Connections`.

At a limit, a new connection gets the place of an old one that waits for its client: of the same address if the address
is at its limit, else of the address with the most connections. An idle connection goes first, then one with an
unfinished head, and of each kind the oldest. A connection with a request in progress keeps its place. If every place is
in use, the new connection is refused with 503.
"""

import asyncio
import contextlib
import ctypes
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from dragoman.serving.http.keys import address_of
from dragoman.serving.limits import LOG

# A connection waits for a request, for the rest of a request's head, or has a request in progress.
_State = Literal["idle", "head", "busy"]
# Connections that may wait in the kernel, and how many of them are accepted in a row: too many block the event loop.
_BACKLOG, _ACCEPTED_AT_ONCE = 2048, 64
# Pause after the kernel refused to accept, and time between two lines in the log.
_RETRY_SECONDS, _LOG_SECONDS = 0.1, 60.0


def connection_limit(wanted: int) -> int:
    """The number of connections to accept: `wanted`, but at most three quarters of the limit of open files.

    The rest is for models, temporary files and downloads: each download has a file open.
    """
    try:
        import resource
    except ImportError:  # Windows
        return wanted
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if files == resource.RLIM_INFINITY else max(2, min(wanted, files * 3 // 4))


class Place:
    """The place of one open connection. Its protocol sets `transport`, and reports states and the end."""

    def __init__(self, connections: "Connections", client: "_Client", connection: socket.socket) -> None:
        self.connections, self.client, self._socket = connections, client, connection
        self.transport: Any = None
        self.state: _State = "busy"

    def set_state(self, state: _State) -> None:
        """Report what the connection waits for."""
        self.state = state
        for places in self.client.waiting.values():
            places.pop(self, None)
        if state != "busy" and self in self.connections.places:
            self.client.waiting[state][self] = None

    def has_data(self) -> bool:
        """Whether the client sent bytes that are not read yet."""
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def take_over(self) -> bool:
        """Abort the connection and free its place, unless a request is arriving."""
        if self.has_data():
            return False
        self.connections.give_back(self)
        self.transport.abort()
        return True


class _Client:
    """The connections of one address. Those that wait for the client are in order of time, the oldest first."""

    def __init__(self, name: bytes, is_limited: bool) -> None:
        self.name, self.is_limited, self.num_places = name, is_limited, 0
        self.waiting: dict[str, dict[Place, None]] = {"idle": {}, "head": {}}

    def make_room(self) -> bool:
        """End one connection that waits for the client. False if there is none."""
        return any(place.take_over() for places in self.waiting.values() for place in places)


class Connections:
    """The places of all open connections.

    Parameters
    ----------
    most
        The limit. One address gets half of it.
    is_trusted
        Whether a peer is a proxy, which has no limit of its own. The peers of a unix socket have none either.

    Attributes
    ----------
    quiet_seconds
        None while the server runs. When it stops, each answer is the last one on its connection, and a connection is
        closed after this time without a request.
    """

    def __init__(self, most: int, is_trusted: Callable[[str], bool]) -> None:
        self.most, self.share, self._is_trusted = most, max(1, most // 2), is_trusted
        self.quiet_seconds: float | None = None
        self.places: set[Place] = set()
        self._clients: dict[bytes, _Client] = {}
        self.num_moved, self._num_logged, self._next_log = 0, 0, 0.0

    def take_place(self, connection: socket.socket, peer: str) -> Place | None:
        """A place for a new connection from `peer`, or None if every place is in use."""
        name = address_of({"client": (peer, 0)})
        client = self._clients.get(name) or _Client(name, bool(peer) and not self._is_trusted(peer))
        at_share = client.is_limited and client.num_places >= self.share
        if at_share or len(self.places) >= self.most:
            limits = f"{self.most} connections or {self.share} of one address"
            self.log(f"{limits} are open (`--max-connections`, `ulimit -n`)")
            if not (client.make_room() if at_share else self.make_room()):
                return None
        place = Place(self, client, connection)
        self._clients[name] = client
        self.places.add(place)
        client.num_places += 1
        return place

    def make_room(self) -> bool:
        """End one connection, if possible of the limited address with the most. False if no connection waits."""
        clients = sorted(self._clients.values(), key=lambda one: (one.is_limited, one.num_places), reverse=True)
        return any(client.make_room() for client in clients)

    def log(self, trouble: str) -> None:
        """Count a connection that is closed or refused. Log at most one line a minute, with their number."""
        self.num_moved += 1
        if time.monotonic() >= self._next_log:
            LOG.warning("%s: %d closed or refused", trouble, self.num_moved - self._num_logged)
            self._num_logged, self._next_log = self.num_moved, time.monotonic() + _LOG_SECONDS

    def give_back(self, place: Place) -> None:
        """Forget a place, and a client without places. Does nothing the second time."""
        place.set_state("busy")
        if place in self.places:
            self.places.remove(place)
            place.client.num_places -= 1
            if not place.client.num_places:
                del self._clients[place.client.name]


def _drop_packets(listening: socket.socket) -> None:
    """Make the kernel (of Linux) accept no more connections, which closing would reset. Clients try again in a second.

    Without this, a connection can arrive between the last call to accept and the close.
    """
    program = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))  # one instruction: return 0
    with contextlib.suppress(OSError):
        if sys.platform == "linux":
            filtered = struct.pack("HP", 1, ctypes.addressof(program))
            listening.setsockopt(socket.SOL_SOCKET, 26, filtered)  # SO_ATTACH_FILTER


@dataclass(eq=False, slots=True)
class Listener:
    """Accepts the connections of a socket until it is stopped.

    Parameters
    ----------
    found
        A bound socket.
    connections
        The limits.
    make_protocol
        Makes the protocol of a connection with this place.
    refusal
        The answer to a connection without a place.
    """

    found: socket.socket
    connections: Connections
    make_protocol: Callable[[Place], asyncio.Protocol]
    refusal: bytes
    _opening: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self) -> None:
        """Start to listen. Call it in the event loop."""
        self.found.setblocking(False)
        self.found.listen(_BACKLOG)
        self._resume()

    async def stop(self) -> None:
        """Accept the connections that the kernel has accepted already, and stop listening: closing resets them."""
        asyncio.get_running_loop().remove_reader(self.found)
        _drop_packets(self.found)
        with contextlib.suppress(BlockingIOError):
            for _ in range(_BACKLOG):
                self._accept_one()
        self.found.close()
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _resume(self) -> None:
        if self.found.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self.found, self._accept_some)

    def _accept_some(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(_ACCEPTED_AT_ONCE):
                if not self._accept_one():  # the file of a closed connection is free a moment later
                    return

    def _accept_one(self) -> bool:
        """Accept a connection. False if a limit is reached. Raises BlockingIOError if none can be accepted now."""
        try:
            connection, address = self.found.accept()
        except (BlockingIOError, ConnectionAbortedError):
            raise BlockingIOError from None
        except OSError as error:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self.found)
            loop.call_later(_RETRY_SECONDS, self._resume)
            self.connections.log(f"no connection can be accepted: {error.strerror}. Raise `ulimit -n`")
            self.connections.make_room()
            raise BlockingIOError from None
        connection.setblocking(False)
        before = self.connections.num_moved
        place = self.connections.take_place(connection, address[0] if isinstance(address, tuple) else "")
        if place is None:
            self._refuse(connection)
        else:
            task = asyncio.get_running_loop().create_task(self._open(connection, place))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        return before == self.connections.num_moved

    async def _open(self, connection: socket.socket, place: Place) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: self.make_protocol(place), connection)
        except OSError:  # the client left
            self.connections.give_back(place)
            connection.close()

    def _refuse(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.recv(1 << 16)  # closing with unread data would discard the answer
        with contextlib.suppress(OSError):
            connection.send(self.refusal)
        connection.close()

"""Limits of connections: idle, slow and busy ones, file descriptors, and connections that the kernel accepted."""

import asyncio
import contextlib
import json
import logging
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from dragoman.serving.http.connections import Connections, Listener, Place
from dragoman.serving.http.server import bind_socket
from dragoman.serving.service import Service

resource = pytest.importorskip("resource")
LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
HEAD = b"POST /translate HTTP/1.1\r\nHo"
BODY = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"


@pytest.fixture(scope="module")
def address(make_service: Callable[..., Service], serving: Any) -> Iterator[str]:
    """A server with four connections, two of one address."""
    with serving(make_service("en-de", max_connections=4)) as found:
        yield found


@contextlib.contextmanager
def opened(address: str, *sent: bytes) -> Iterator[list[socket.socket]]:
    """A connection for each of the texts sent, which the server has received, in this order."""
    parts = urlsplit(address)
    time.sleep(0.05)  # for connections that were just closed
    with contextlib.ExitStack() as stack:
        held = []
        for one in sent:
            held.append(stack.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=10)))
            held[-1].sendall(one)
            time.sleep(0.05)
        yield held


def is_open(connection: socket.socket) -> bool:
    """Whether the server has neither closed nor reset a connection that receives nothing."""
    connection.settimeout(0.1)
    try:
        return connection.recv(1) != b""
    except TimeoutError:
        return True
    except ConnectionResetError:
        return False


def read_answer(connection: socket.socket) -> tuple[int, dict[str, str], Any]:
    """Status, headers in lower case, and JSON of the next answer. Status 0 if the connection breaks."""
    content = b""
    with contextlib.suppress(OSError):
        while not content.endswith(b"}\n") and (piece := connection.recv(65536)):
            content += piece
    if not content:
        return 0, {}, None
    head, _, body = content.decode().partition("\r\n\r\n")
    line, *rest = head.split("\r\n")
    return int(line.split()[1]), dict(one.lower().split(": ", 1) for one in rest), json.loads(body)


def answer_of(connection: socket.socket, request: bytes = LIVE) -> tuple[int, dict[str, str], Any]:
    """The answer to a request."""
    with contextlib.suppress(OSError):
        connection.sendall(request)
    return read_answer(connection)


@pytest.mark.parametrize(
    ("sent", "closed"),
    [((b"", b""), 0), ((HEAD, HEAD), 0), ((HEAD, b""), 1), ((BODY, b""), 1), ((BODY, HEAD), 1)],
    ids=["idle", "heads", "head-and-idle", "body-and-idle", "body-and-head"],
)
def test_a_new_connection_takes_the_place_of_one_that_waits_for_its_client(
    address: str, sent: tuple[bytes, ...], closed: int
) -> None:
    with opened(address, *sent) as held, opened(address, b"") as (another,):
        assert answer_of(another)[0] == 200
        assert [is_open(one) for one in held] == [number != closed for number in range(len(held))]


def test_the_least_recently_used_connection_goes_first(address: str) -> None:
    with opened(address, b"", b"") as held:
        assert answer_of(held[0])[0] == 200
        with opened(address, b"") as (another,):
            assert answer_of(another)[0] == 200
            assert [is_open(one) for one in held] == [True, False]


def test_a_connection_without_a_place_is_refused_in_json(address: str) -> None:
    with opened(address, BODY, BODY) as held, opened(address, LIVE) as (another,):
        status, headers, said = read_answer(another)
        assert (status, headers["retry-after"], headers["connection"]) == (503, "5", "close")
        assert said == {"error": "The server has too many connections. Try again later."}
        assert [is_open(one) for one in held] == [True, True]
    with opened(address, b"") as (later,):
        assert answer_of(later)[0] == 200


class Fake:
    """A transport that notes whether it was aborted."""

    was_aborted = False

    def abort(self) -> None:
        self.was_aborted = True


def hold(connections: Connections, peers: list[str]) -> list[Place | None]:
    """Idle places of connections from these peers, in this order."""
    places = []
    for peer in peers:
        near, far = socket.socketpair()
        near.setblocking(False)
        place = connections.take_place(near, peer)
        if place is not None:
            place.transport = Fake()
            place.set_state("idle")
            place.keep = (near, far)  # type: ignore[attr-defined]
        places.append(place)
    return places


def test_addresses_share_the_connections_and_proxies_have_no_share() -> None:
    connections = Connections(8, lambda peer: peer == "10.0.0.1")
    proxy, strangers = (
        hold(connections, ["10.0.0.1"] * 5),
        hold(connections, ["2001:db8::1", "2001:db8::2", "10.9.9.9"]),
    )
    hold(connections, ["10.9.9.8"])
    assert [one and one.transport.was_aborted for one in proxy + strangers] == [False] * 5 + [True, False, False]
    alone = Connections(8, lambda peer: False)
    first, *others = hold(alone, ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4", "2001:db8::5"])
    assert first is not None
    assert first.transport.was_aborted, "addresses of one IPv6 network are one client"
    assert len(alone.places) == len(others) == 4
    through_a_unix_socket = Connections(8, lambda peer: False)
    assert not any(one and one.transport.was_aborted for one in hold(through_a_unix_socket, [""] * 8))


def test_a_place_with_a_request_on_its_way_is_kept() -> None:
    connections = Connections(2, lambda peer: True)
    first, second = hold(connections, ["10.0.0.1", "10.0.0.2"])
    assert first is not None
    assert second is not None
    first.keep[1].sendall(LIVE)  # type: ignore[attr-defined]
    hold(connections, ["10.0.0.3"])
    assert (first.transport.was_aborted, second.transport.was_aborted) == (False, True)


def test_connections_that_the_kernel_accepted_are_served_before_the_end() -> None:
    class Greeting(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            transport.write(b"hello")
            transport.close()

    async def accept_and_stop(found: socket.socket) -> list[bytes]:
        listener = Listener(found, Connections(500, lambda peer: True), lambda place: Greeting(), b"")
        listener.start()
        clients = [socket.create_connection(found.getsockname(), timeout=10) for _ in range(100)]
        await listener.stop()
        await asyncio.sleep(0.1)
        return [client.recv(10) for client in clients]

    with ThreadPoolExecutor(1) as apart:  # the main thread may have a loop of Playwright
        answers = apart.submit(asyncio.run, accept_and_stop(bind_socket("127.0.0.1", 0))).result()
    assert answers == [b"hello"] * 100


def test_no_file_descriptors_left(caplog: pytest.LogCaptureFixture) -> None:
    """The server logs one line, waits, and then accepts all connections that waited in the kernel."""
    made: list[Any] = []

    class Counting(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            made.append(transport)

    async def exhaust(found: socket.socket) -> None:
        Listener(found, Connections(500, lambda peer: True), lambda place: Counting(), b"").start()
        clients = [socket.create_connection(found.getsockname(), timeout=10) for _ in range(5)]
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (clients[-1].fileno(), limits[1]))
        try:
            await asyncio.sleep(0.35)
            assert not made
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        await asyncio.sleep(0.35)
        assert len(made) == 5

    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(1) as apart:
        apart.submit(asyncio.run, exhaust(bind_socket("127.0.0.1", 0))).result()
    assert [record.getMessage() for record in caplog.records] == [
        "no connection can be accepted: Too many open files. Raise `ulimit -n`: 1 closed or refused"
    ]

"""The command in a process: more connections than files, stops and reloads under load, and unix sockets."""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def served(log: Path, *arguments: object, most_files: int = 0) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """`dragoman serve` with these arguments, when it is ready, and its port. Its messages go to the file `log`."""
    command = [sys.executable, "-m", "dragoman", "serve", *map(str, arguments), "--port", "0"]
    if most_files:
        command = ["sh", "-c", f'ulimit -n {most_files}; exec "$@"', "sh", *command]
    with log.open("w") as stream, subprocess.Popen(command, stderr=stream, text=True) as process:
        try:
            until = time.monotonic() + 60
            while "translates" not in log.read_text() and process.poll() is None and time.monotonic() < until:
                time.sleep(0.02)
            assert "translates" in log.read_text(), log.read_text()
            yield process, int(log.read_text().partition("http://127.0.0.1:")[2].split()[0])
        finally:
            process.terminate()


class Load:
    """Clients in threads that keep their connections, as pools do. `lost` has the requests without an answer.

    Refused connections are the normal end of a client after `signaled` is set.
    """

    def __init__(self, port: int, num_clients: int, pause: float = 0.02) -> None:
        self.lost: list[str] = []
        self.statuses: Counter[int] = Counter()
        self.signaled: float | None = None
        self.num_kept = 0
        """Answers after the signal that did not announce the end of the connection."""
        self._port, self._pause, self._ended = port, pause, threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(num_clients)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Wait until all clients have their last answer."""
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    def join(self) -> None:
        """Wait until the server refuses connections."""
        for thread in self._threads:
            thread.join(60)

    def _ask(self) -> None:
        body = json.dumps({"q": "one two three", "source": "en", "target": "de"})
        connection = None
        while not self._ended.is_set():
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
                    connection.connect()
                connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
            except ConnectionRefusedError as error:
                if self.signaled is None:
                    self.lost.append(repr(error))
                return
            except (OSError, http.client.HTTPException) as error:
                self.lost.append(repr(error))
                connection = None
                continue
            self.statuses[answer.status] += 1
            if self.signaled is not None and time.monotonic() > self.signaled + 0.3 and not answer.will_close:
                self.num_kept += 1
            if answer.will_close:
                connection.close()
                connection = None
            time.sleep(self._pause)


@pytest.mark.parametrize("sent", [b"", b"POST /translate HTTP/1.1\r\nHo"], ids=["idle", "slow"])
def test_more_connections_than_file_descriptors(
    served_folder: Callable[[str], Path], tmp_path: Path, sent: bytes
) -> None:
    """A new client is answered while a client holds all connections that it can get. The log is short."""
    log, answers = tmp_path / "log", []
    with served(log, served_folder("en-de"), most_files=100) as (_, port), contextlib.ExitStack() as stack:
        for _ in range(200):
            with contextlib.suppress(OSError):
                held = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=1))
                held.sendall(sent)
        for _ in range(3):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3)
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection.request("GET", "/readyz")
                answers.append(connection.getresponse().status)
    assert answers == [200] * 3
    assert log.read_text().count("\n") <= 2, "the address, and the limit"


def stop_under_load(folder: Path, log: Path, num_clients: int, *flags: str) -> Load:
    """Stop a server with SIGTERM while clients send requests. Returns what they saw."""
    with served(log, folder, *flags) as (process, port):
        load = Load(port, num_clients)
        time.sleep(0.5)
        load.signaled = time.monotonic()
        process.send_signal(signal.SIGTERM)
        load.join()
        assert process.wait(30) == 0
    assert log.read_text().count("\n") == 1, log.read_text()
    return load


@pytest.mark.parametrize("delay", ["0.8", "0"])
def test_a_stop_loses_no_request(served_folder: Callable[[str], Path], tmp_path: Path, delay: str) -> None:
    load = stop_under_load(served_folder("en-de"), tmp_path / "log", 12, "--drain-delay-seconds", delay)
    assert (load.lost, load.num_kept) == ([], 0)
    assert set(load.statuses) == {200}


@pytest.mark.slow
def test_twenty_stops_under_64_clients_lose_no_request(served_folder: Callable[[str], Path], tmp_path: Path) -> None:
    patient = ("--max-wait-seconds", "30", "--deadline-seconds", "60")
    for _ in range(20):
        load = stop_under_load(served_folder("en-de"), tmp_path / "log", 64, *patient)
        assert (load.lost, load.num_kept, set(load.statuses)) == ([], 0, {200})

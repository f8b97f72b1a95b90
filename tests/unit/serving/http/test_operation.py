"""The command in a process: more connections than files, stops and reloads under load, and unix sockets."""

import contextlib
import errno
import http.client
import json
import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.dispositions import disposition_of


@pytest.fixture(autouse=True)
def _hangups_reload() -> Iterator[None]:
    with disposition_of(signal.SIGHUP):
        yield


@contextlib.contextmanager
def served(
    log: Path, *arguments: object, most_files: int = 0, stdout: int | None = None
) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """`dragoman serve` with these arguments, when it is ready, and its port. Its messages go to the file `log`."""
    command = [sys.executable, "-m", "dragoman", "serve", *map(str, arguments), "--port", "0"]
    if most_files:
        command = ["sh", "-c", f'ulimit -n {most_files}; exec "$@"', "sh", *command]
    with log.open("w") as stream, subprocess.Popen(command, stdout=stdout, stderr=stream, text=True) as process:
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


def reload(process: "subprocess.Popen[str]", log: Path, num_times: int = 1) -> str:
    """Send SIGHUP, and return the next line of the log when it is complete."""
    for _ in range(num_times):
        before = len(log.read_text().splitlines())
        process.send_signal(signal.SIGHUP)
        until = time.monotonic() + 20
        while process.poll() is None and time.monotonic() < until:
            text = log.read_text()
            if text.endswith("\n") and len(text.splitlines()) > before:
                break
            time.sleep(0.01)
    return log.read_text().splitlines()[-1]


def reload_under_load(folder: Path, log: Path, num_clients: int, num_times: int) -> tuple[Load, "list[float]"]:
    """Reload a server while clients send requests. Returns what they saw, and megabytes after each reload."""
    psutil = pytest.importorskip("psutil")
    with served(log, folder, "--max-wait-seconds", "30", "--deadline-seconds", "60") as (process, port):
        load, sizes = Load(port, num_clients), []
        for _ in range(num_times):
            assert reload(process, log).endswith(" translates en-de, reloaded")
            sizes.append(psutil.Process(process.pid).memory_info().rss / 1e6)
        load.end()
    assert len(log.read_text().splitlines()) == 1 + num_times
    return load, sizes


def test_reloads_lose_no_request(served_folder: Callable[[str], Path], tmp_path: Path) -> None:
    load, _ = reload_under_load(served_folder("en-de"), tmp_path / "log", 8, 3)
    assert (load.lost, set(load.statuses)) == ([], {200})


@pytest.mark.slow
def test_twenty_reloads_under_load_lose_no_request_and_no_memory(
    served_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    load, sizes = reload_under_load(served_folder("en-de"), tmp_path / "log", 16, 20)
    assert (load.lost, set(load.statuses)) == ([], {200})
    assert sizes[-1] < 1.15 * sizes[4]


def ask(port: int, path: str, key: str = "") -> tuple[int, str]:
    """Status and text of a GET."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_a_reload_replaces_models_and_keys_or_nothing(served_folder: Callable[[str], Path], tmp_path: Path) -> None:
    model, keys, terms, log = (tmp_path / name for name in ("model", "keys", "terms", "log"))
    shutil.copytree(served_folder("en-de"), model)
    keys.write_text("first\n")
    terms.write_text("one\teins\n")
    with served(log, model, "--api-keys", keys, "--terms", terms) as (process, port):

        def facts() -> list[int]:
            return [ask(port, "/v2/languages", key)[0] for key in ("first", "second")]

        weights = next(path for path in model.iterdir() if path.stat().st_size > 10_000)
        saved = weights.read_bytes()
        failed = "dragoman: reloading failed, and nothing was changed: "
        for file, damage in ((weights, saved[:5000]), (terms, b"one"), (keys, b"")):
            good = file.read_bytes()
            file.write_bytes(damage)
            if file != keys:
                keys.write_text("second\n")
            said = reload(process, log)
            assert said.startswith(failed), said
            assert str(file) in said or str(model) in said
            assert facts() == [200, 403]
            file.write_bytes(good)
        assert "en-de" in ask(port, "/metrics")[1]
        shutil.rmtree(model)
        shutil.copytree(served_folder("en-fr"), model)
        keys.write_text("second\n")
        assert reload(process, log).endswith(" translates en-fr, reloaded")
        assert facts() == [403, 200]
        assert [one["code"] for one in json.loads(ask(port, "/languages")[1])] == ["en", "fr"]
        labels = [line for line in ask(port, "/metrics")[1].splitlines() if line.startswith("dragoman_model_info")]
        assert ["en-fr" in line for line in labels] == [True]
    assert len(log.read_text().splitlines()) == 5


def test_many_reloads_at_once_are_merged_and_sigterm_ends_them(
    served_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with served(log, served_folder("en-de"), "--drain-delay-seconds", "0") as (process, _):
        for _ in range(10):
            process.send_signal(signal.SIGHUP)
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert len(log.read_text().splitlines()) <= 4


def test_a_reload_during_the_start_is_done_afterwards(served_folder: Callable[[str], Path], tmp_path: Path) -> None:
    """Libraries have started threads by then, which receive signals too."""
    if not Path("/proc/self/maps").exists():
        pytest.skip("this system has no /proc")
    log, command = tmp_path / "log", [sys.executable, "-m", "dragoman", "serve", str(served_folder("en-de"))]
    several = os.environ | {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    with log.open("w") as stream, subprocess.Popen([*command, "--port", "0"], stderr=stream, env=several) as process:
        while process.poll() is None and "httptools" not in Path(f"/proc/{process.pid}/maps").read_text():
            time.sleep(0.005)
        process.send_signal(signal.SIGHUP)
        until = time.monotonic() + 30
        while process.poll() is None and "reloaded" not in log.read_text() and time.monotonic() < until:
            time.sleep(0.02)
        process.terminate()
        said = log.read_text().splitlines()
    assert [line.partition(" translates ")[2].partition(";")[0] for line in said] == ["en-de", "en-de, reloaded"]


def test_an_access_log_that_nobody_reads_delays_nothing(served_folder: Callable[[str], Path], tmp_path: Path) -> None:
    near, far = os.pipe()
    os.set_blocking(far, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(far, bytes(4096))
    os.set_blocking(far, True)
    log, statuses = tmp_path / "log", []
    with served(log, served_folder("en-de"), "--access-log", "-", stdout=far) as (process, port):
        for path in ("/livez", "/livez", "/languages"):
            with contextlib.suppress(TimeoutError):
                statuses.append(ask(port, path)[0])
        if len(statuses) < 3:
            process.kill()
        assert statuses == [200, 200, 200]
        assert log.read_text().splitlines()[1:] == [
            f"dragoman: the access log cannot be written: [Errno {errno.EAGAIN}] its reader is too slow"
        ]
        while select.select([near], [], [], 0.1)[0]:
            os.read(near, 1 << 20)
        ask(port, "/readyz")
        assert json.loads(os.read(near, 4096))["route"] == "/readyz"
        process.terminate()
        assert process.wait(20) == 0
    os.close(near)
    os.close(far)


def test_a_second_signal_names_lost_files_and_refuses_the_requests_in_progress(
    served_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    log, found = tmp_path / "log", []
    patient = ("--lanes", "1", "--max-wait-seconds", "60", "--deadline-seconds", "60")
    with served(log, served_folder("en-de"), *patient) as (process, port):
        lines = "The station is here, and the train leaves at ten o'clock every morning.\r\n" * 5000
        parts = {"source": "en", "target": "de", 'file"; filename="a.txt': lines}
        body = "".join(
            f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{parts[name]}\r\n' for name in parts
        )
        head = {"Content-Type": "multipart/form-data; boundary=x"}
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
            connection.request("POST", "/v1/files", body + "--x--\r\n", head)
            name = json.loads(connection.getresponse().read())["id"]

        def translate() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            text = json.dumps(
                {"q": [f"{lines[:500]} {number}" for number in range(1000)], "source": "en", "target": "de"}
            )
            connection.request("POST", "/translate", text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            found.append((answer.status, answer.headers["Retry-After"], answer.read()))

        client = threading.Thread(target=translate)
        client.start()
        time.sleep(0.1)
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.05)
        assert process.wait(20) == 0
        client.join()
    assert f"files lost before they were translated: {name} (" in log.read_text()
    assert found == [(503, "5", b'{"error":"The server is shutting down. Try again later."}\n')]


def test_a_closed_terminal_ends_the_server(served_folder: Callable[[str], Path]) -> None:
    """A terminal sends SIGHUP when it is closed."""
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    import fcntl

    near, far = pty.openpty()
    command = [sys.executable, "-m", "dragoman", "serve", str(served_folder("en-de")), "--port", "0"]
    with subprocess.Popen(
        [*command, "--drain-delay-seconds", "0"],
        stdin=far,
        stdout=far,
        stderr=far,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:
        os.close(far)
        said = b""
        while b"translates" not in said:
            said += os.read(near, 1000)
        os.close(near)
        assert process.wait(20) == 0


def ask_unix(path: Path, request: bytes) -> bytes:
    """The answer to a request that closes the connection."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        connection.sendall(request)
        content = b""
        while piece := connection.recv(65536):
            content += piece
    return content


def test_a_unix_socket(served_folder: Callable[[str], Path], tmp_path: Path) -> None:
    """It replaces one that nobody listens on, refuses to replace another, is not for all users, and is removed."""
    path, log, model = tmp_path / "socket", tmp_path / "log", str(served_folder("en-de"))
    with socket.socket(socket.AF_UNIX) as abandoned:
        abandoned.bind(str(path))
    command = [sys.executable, "-m", "dragoman", "serve", model, "--unix-socket", str(path)]
    with log.open("w") as stream, subprocess.Popen([*command, "--drain-delay-seconds", "0"], stderr=stream) as process:
        try:
            until = time.monotonic() + 30
            while not log.read_text().endswith("\n") and process.poll() is None and time.monotonic() < until:
                time.sleep(0.02)
            assert log.read_text() == f"dragoman: unix:{path} translates en-de; see /docs for the API\n"
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
            for head in (b"GET /docs HTTP/1.0\r\n\r\n", b"GET /docs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"):
                assert ask_unix(path, head).startswith(b"HTTP/1.1 200 OK\r\n")
            second = subprocess.run(command, capture_output=True, text=True, timeout=60)
            said = f"dragoman: cannot serve at {path}: Address already in use. Choose another `--unix-socket`.\n"
            assert (second.returncode, second.stderr) == (2, said)
            assert ask_unix(path, b"GET /readyz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")
        finally:
            process.terminate()
        assert process.wait(20) == 0
    assert not path.exists()


def test_the_socket_of_a_new_server_is_not_removed_by_an_old_one(tmp_path: Path) -> None:
    from dragoman.serving.http.server import bind_unix_socket

    path = tmp_path / "socket"
    with bind_unix_socket(path), bind_unix_socket(path):  # the first does not listen any more
        pass
    with bind_unix_socket(path):
        path.unlink()
        path.write_text("new")
    assert path.read_text() == "new"

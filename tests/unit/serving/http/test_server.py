"""A real server with real clients: many at once, slow, huge and disconnecting clients, and signals."""

import contextlib
import gc
import importlib.util
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest

from dragoman.errors import ConfigError
from dragoman.serving.app import make_app
from dragoman.serving.http.bodies import BodyMemory
from dragoman.serving.http.keys import Keys
from dragoman.serving.http.server import Server, bind_socket
from dragoman.serving.limits import Refused
from dragoman.serving.service import Service

LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def address(make_service: Callable[..., Service], serving: Any) -> Iterator[str]:
    service = make_service("en-de", "de-en", max_body_bytes=100_000, body_seconds=1.0)
    with serving(service) as found:
        yield found


def ask(address: str, path: str, fields: dict[str, Any]) -> tuple[int, Any]:
    request = urllib.request.Request(address + path, json.dumps(fields).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())


def test_libretranslatepy(address: str) -> None:
    library = pytest.importorskip("libretranslatepy")
    api = library.LibreTranslateAPI(address)
    assert api.translate("Hello", "en", "de") == "Hello [de]"
    assert {"code": "en", "name": "English", "targets": ["de", "en"]} in api.languages()
    if importlib.util.find_spec("py3langid"):
        assert api.detect("Das ist ein deutscher Satz")[0]["language"] == "de"


def test_deep_translator(address: str) -> None:
    library = pytest.importorskip("deep_translator")
    translator = library.LibreTranslator(source="en", target="de", api_key="x", custom_url=f"{address}/")
    assert translator.translate("Hello & more") == "Hello & more [de]"


def test_the_official_deepl_client(address: str) -> None:
    deepl = pytest.importorskip("deepl")
    client = deepl.DeepLClient("key", server_url=address)
    answers = client.translate_text(["Hello", "Bye."], source_lang="EN", target_lang="DE")
    assert [(one.text, one.billed_characters) for one in answers] == [("Hello [de]", 5), ("Bye. [de]", 4)]
    tagged = client.translate_text("<p>Hello</p>", source_lang="EN", target_lang="DE", tag_handling="html")
    assert tagged.text == "<p>Hello [de]</p>"
    assert {one.code for one in client.get_target_languages()} == {"DE", "EN"}
    assert client.get_usage().character.count > 0
    with pytest.raises(deepl.DeepLException, match="'target_lang' not supported"):
        client.translate_text("Hello", target_lang="FR")


def test_requests_of_mastodon_weblate_and_discourse(address: str) -> None:
    """Mastodon expects lists in the answer, Weblate one text per text sent, and Discourse sends forms."""
    mastodon = {"q": ["<p>Hello</p>", "More"], "source": "en", "target": "de", "format": "html", "api_key": None}
    assert ask(address, "/translate", mastodon) == (200, {"translatedText": ["<p>Hello [de]</p>", "More [de]"]})
    weblate = {"q": ["Hello", ""], "source": "en", "target": "de", "api_key": ""}
    assert ask(address, "/translate", weblate)[1]["translatedText"] == ["Hello [de]", ""]
    form = urllib.request.Request(f"{address}/translate", b"q=Hello&source=en&target=de&format=html")
    with urllib.request.urlopen(form) as answer:
        assert json.loads(answer.read()) == {"translatedText": "Hello [de]"}


def test_concurrent_clients_get_the_same_answers_as_one(address: str) -> None:
    texts = [f"text number {number}" for number in range(200)]
    with ThreadPoolExecutor(32) as clients:
        answers = list(
            clients.map(lambda text: ask(address, "/translate", {"q": text, "source": "en", "target": "de"}), texts)
        )
    assert answers == [(200, {"translatedText": f"{text} [de]"}) for text in texts]


def test_one_failing_text_does_not_affect_the_others(address: str) -> None:
    texts = [f"text {number}" + " BOOM" * (number == 5) for number in range(16)]
    with ThreadPoolExecutor(16) as clients:
        answers = list(
            clients.map(lambda text: ask(address, "/translate", {"q": text, "source": "en", "target": "de"}), texts)
        )
    assert [status for status, _ in answers] == [500 if number == 5 else 200 for number in range(16)]
    assert "log" in answers[5][1]["error"]


def open_connection(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), timeout=20)


def receive_all(connection: socket.socket) -> bytes:
    """All bytes until the server closes the connection."""
    content = b""
    while piece := connection.recv(65536):
        content += piece
    return content


def test_large_bodies_are_refused_before_they_are_read(address: str) -> None:
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with open_connection(address) as announced:
        announced.sendall(head + b"Content-Length: 50000000\r\n\r\n")
        answer = receive_all(announced)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b'"error"' in answer
    with open_connection(address) as unannounced:
        unannounced.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n" + (b"1000\r\n" + b"x" * 4096 + b"\r\n") * 30)
        assert receive_all(unannounced).startswith(b"HTTP/1.1 413")


def test_a_client_that_sends_on_after_a_refusal_receives_it(address: str) -> None:
    """A proxy sends the whole body, and answers 502 itself if the connection is reset before."""
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 8000000\r\n\r\n"
    with open_connection(address) as connection:
        try:
            connection.sendall(head + b"x" * 8_000_000)
            time.sleep(0.1)
            answer = receive_all(connection)
        except ConnectionError:
            answer = b"reset"
    assert answer.startswith(b"HTTP/1.1 413")


def test_a_connection_that_was_reset_is_forgotten_at_once(address: str) -> None:
    """Timers for idle connections would keep its last request in memory for 20 seconds."""

    def num_protocols() -> int:
        return sum(type(each).__name__ == "_TimedHttpProtocol" for each in gc.get_objects())

    before = num_protocols()
    for _ in range(30):
        with open_connection(address) as connection:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert is_alive(connection)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(0.3)
    gc.collect()
    assert num_protocols() <= before + 3


def is_alive(connection: socket.socket) -> bool:
    """Whether /livez answers. Its answer ends with a line end."""
    content = b""
    while not content.endswith(b"}\n"):
        content += connection.recv(65536)
    return content.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{",
        b"POST /translate HTTP/1.1\r\nHo",
        b"",
        LIVE + b"POST /translate HTTP/1.1\r\nHo",
        LIVE + b"\r\n",
        LIVE + b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{",
    ],
)
def test_unfinished_requests_time_out(address: str, sent: bytes) -> None:
    with open_connection(address) as connection:
        if sent.startswith(LIVE):
            connection.sendall(LIVE)
            assert is_alive(connection)
            time.sleep(1.2)  # longer than the time limit of a request
        start = time.monotonic()
        connection.sendall(sent.removeprefix(LIVE))
        answer = receive_all(connection)
        assert time.monotonic() - start < 6
    assert answer == b"" or answer.startswith((b"HTTP/1.1 408", b"HTTP/1.1 404"))
    assert (answer == b"") == (b"Content-Length" not in sent)


def test_slow_clients_and_pauses_between_requests_are_accepted(address: str) -> None:
    with open_connection(address) as connection:
        for _ in range(2):
            for part in (LIVE[:9], LIVE[9:30], LIVE[30:]):
                connection.sendall(part)
                time.sleep(0.2)
            assert is_alive(connection)
            time.sleep(1.2)


def send_without_end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection.sendall(b"X: " + b"y" * 4096 + b"\r\n")
            time.sleep(0.001)


def test_connections_with_unread_answers_are_aborted(address: str) -> None:
    asked_for = 400
    with open_connection(address) as connection:
        request = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * asked_for
        threading.Thread(target=send_all, args=(connection, request)).start()
        time.sleep(4.5)  # twice the server's time limit of a second, and more
        content = receive_all(connection)
    assert 0 < content.count(b"HTTP/1.1 200") < asked_for


def send_all(connection: socket.socket, content: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(content)


def test_a_signal_during_the_start_ends_the_server_at_once(
    make_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service()
    assert service.state == "starting"
    done: list[Any] = []
    monkeypatch.setattr("signal.signal", lambda *given: done.append(given))
    monkeypatch.setattr("signal.raise_signal", done.append)
    Server(make_app(service, Keys(None, 0)), service, lambda: None).handle_exit(signal.SIGTERM, None)
    assert done == [(signal.SIGTERM, signal.SIG_DFL), signal.SIGTERM]


def test_an_endless_head_is_cut_off(address: str) -> None:
    with open_connection(address) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\n")
        start = time.monotonic()
        sending = threading.Thread(target=send_without_end, args=(connection,))
        sending.start()
        sending.join(20)
        assert time.monotonic() - start < 0.9, "before the time limit"
    status, answer = ask(address, "/translate", {"q": "a", "more": "x" * 90_000, "source": "en", "target": "de"})
    assert (status, answer) == (200, {"translatedText": "a [de]"})


def test_unfinished_uploads_stay_within_the_memory_limit(make_service: Callable[..., Service], serving: Any) -> None:
    """One address may take the memory of four of the largest files."""
    with serving(make_service(max_file_bytes=100_000, max_body_bytes=1000)) as address:
        head = b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\n"
        form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        part = head + b"Content-Length: 100000\r\n\r\n" + form + b"x" * (99_000 - len(form))
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(open_connection(address)) for _ in range(4)]
            for connection in held:
                connection.sendall(part)
            time.sleep(0.3)
            with open_connection(address) as another:
                another.sendall(part)
                refused = receive_all(another)
            assert refused.startswith(b"HTTP/1.1 429")
            assert b"Retry-After: 5" in refused.title()
            small = {"q": "a", "source": "en", "target": "de"}
            assert ask(address, "/translate", small) == (200, {"translatedText": "a [de]"})
        time.sleep(0.3)
        with open_connection(address) as later:
            later.sendall(part + b"x" * 1000)
            assert later.recv(65536).startswith(b"HTTP/1.1 400"), "it was read, and is not a form"


def test_the_memory_for_bodies_is_shared_by_all_clients() -> None:
    memory = BodyMemory(1_000_000)
    with contextlib.ExitStack() as stack:
        takes = [stack.enter_context(memory.share(b"%d" % number)) for number in range(5)]
        for take in takes[:4]:
            take(250_000)
        with pytest.raises(Refused) as busy:
            takes[4](250_000)
        assert busy.value.status == 503
    with memory.share(b"4") as take:
        take(250_000)
        with pytest.raises(Refused) as slow, memory.share(b"4") as second:
            second(70_000)
        assert slow.value.status == 429
        with memory.share(b"4") as short:
            short(1000)  # clients behind a proxy may share an address


def test_a_full_server_refuses_with_retry_after(make_service: Callable[..., Service], serving: Any) -> None:
    with serving(make_service(max_requests=2, lanes=1)) as address:
        with ThreadPoolExecutor(12) as clients:
            sent = {"q": "SLOW", "source": "en", "target": "de"}
            answers = list(clients.map(lambda _: ask(address, "/translate", sent), range(12)))
        statuses = [status for status, _ in answers]
        assert set(statuses) == {200, 503}
        request = urllib.request.Request(f"{address}/v2/translate", b"text=SLOW&target_lang=DE&source_lang=EN")
        busy = [threading.Thread(target=ask, args=(address, "/translate", sent)) for _ in range(2)]
        for thread in busy:
            thread.start()
        time.sleep(0.1)
        with pytest.raises(HTTPError) as refused:
            urllib.request.urlopen(request)
        for thread in busy:
            thread.join()
        assert refused.value.code == 503
        assert int(refused.value.headers["Retry-After"]) >= 1
        assert set(json.loads(refused.value.read())) == {"message", "detail"}


def test_work_of_a_disconnected_client_is_dropped(make_service: Callable[..., Service], serving: Any) -> None:
    service = make_service(lanes=1, batch_sentences=1)
    with serving(service) as address:
        body = json.dumps({"q": ["SLOW"] * 50, "source": "en", "target": "de"}).encode()
        with open_connection(address) as connection:
            head = (
                f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            )
            connection.sendall(head.encode() + b"\r\n\r\n" + body)
            until = time.monotonic() + 10
            while not service.batcher.num_requests and time.monotonic() < until:
                time.sleep(0.01)
        start = time.monotonic()
        while service.batcher.num_requests and time.monotonic() < start + 10:
            time.sleep(0.01)
        assert time.monotonic() - start < 3
        assert ask(address, "/translate", {"q": "next", "source": "en", "target": "de"})[0] == 200


def test_requests_in_progress_finish_after_a_signal(served_folder: Callable[[str], Path], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dragoman", "serve", str(served_folder("en-de")), "--port", "0"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*command, "--drain-delay-seconds", "0.3"], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert "translates en-de" in said
        address = said.split()[1]
        with ThreadPoolExecutor(8) as clients:
            sent = {"q": "one two three four " * 10, "source": "en", "target": "de"}
            answers = [clients.submit(ask, address, "/translate", sent) for _ in range(8)]
            time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
            with pytest.raises(HTTPError) as not_ready:
                urllib.request.urlopen(f"{address}/readyz")
            assert (not_ready.value.code, json.loads(not_ready.value.read())) == (503, {"status": "draining"})
            assert [answer.result()[0] for answer in answers] == [200] * 8
        ended = time.monotonic() + 20
        while process.poll() is None and time.monotonic() < ended:  # until the process has ended
            process.send_signal(signal.SIGTERM)
            time.sleep(0.002)
        assert process.wait(1) == 0
        assert process.stderr.read() == ""
    assert not list(tmp_path.glob("dragoman-files-*")), "no files are left behind"


def test_a_port_in_use(address: str) -> None:
    port = urlsplit(address).port
    assert port is not None
    with pytest.raises(ConfigError, match=f":{port}: Address already in use"):
        bind_socket("127.0.0.1", port)
    with pytest.raises(ConfigError, match="nowhere"):
        bind_socket("nowhere.invalid", 5000)

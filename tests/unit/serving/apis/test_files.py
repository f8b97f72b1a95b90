"""File translation: queue, limits per client, full disks and signals."""

import asyncio
import contextlib
import errno
import gc
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from starlette.responses import FileResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from dragoman.errors import DataError
from dragoman.serving.app import make_app
from dragoman.serving.http.keys import Keys
from dragoman.serving.service import Service
from dragoman.text.documents.text_formats import SplitText, TextFormat
from tests.unit.serving.sent_files import EN, wait_for_end


@pytest.fixture
def opened(make_service: Callable[..., Service], tmp_path: Path) -> Iterator[Callable[..., TestClient]]:
    """A server with the API keys a, b and c."""
    (tmp_path / "keys").write_text("a\nb\nc\n")
    with contextlib.ExitStack() as stack:

        def opening(**settings: Any) -> TestClient:
            service = make_service("en-de", **{"lanes": 1, "max_files": 8, **settings})
            return stack.enter_context(TestClient(make_app(service, Keys(tmp_path / "keys", 0))))

        yield opening


def send(client: TestClient, key: str, content: str = "Hello") -> Any:
    return client.post("/v1/files", data=EN | {"api_key": key}, files={"file": ("x.txt", content)})


def start_file(client: TestClient, key: str, content: str = "Hello") -> str:
    answer = send(client, key, content)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def wait_until(happens: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < until
        time.sleep(0.02)


SLOW = "SLOW.\n" * 3
ENDLESS = "SLOW.\n" * 300


def test_files_over_the_limit_wait_their_turn(opened: Callable[..., TestClient]) -> None:
    client = opened(max_files=20)
    numbers = [start_file(client, "a", SLOW) for _ in range(6)]
    last = client.get(f"/v1/files/{numbers[-1]}").json()
    assert (last["status"], last["ahead"]) == ("translating", 5)
    said = [wait_for_end(client, number) for number in numbers]
    assert [one["status"] for one in said] == ["done"] * 6
    assert "ahead" not in said[0]
    assert client.get(said[5]["url"]).text == "SLOW. [de]\n" * 3


def test_a_client_gets_at_most_half_of_all_places(opened: Callable[..., TestClient]) -> None:
    client = opened()
    own = [start_file(client, "a", ENDLESS) for _ in range(4)]
    refused = send(client, "a")
    assert (refused.status_code, int(refused.headers["retry-after"]) < 1000) == (429, True)
    assert refused.json()["error"] == "4 of your files are unfinished or not downloaded. Download or cancel some."
    assert wait_for_end(client, start_file(client, "b"))["status"] == "done", (
        "it did not wait for all files of the first client"
    )
    assert [client.get(f"/v1/files/{number}").json()["status"] for number in own] == ["translating"] * 4
    for number in own:
        client.delete(f"/v1/files/{number}")
    assert wait_for_end(client, start_file(client, "a"))["status"] == "done"


def test_downloaded_and_failed_files_free_their_places(opened: Callable[..., TestClient]) -> None:
    client = opened(max_files=2)
    first = start_file(client, "a")
    url = wait_for_end(client, first)["url"]
    assert wait_for_end(client, start_file(client, "b", "BOOM"))["status"] == "error"
    assert client.get(url).text == "Hello [de]"
    for number in (start_file(client, "a"), start_file(client, "c")):
        assert wait_for_end(client, number)["status"] == "done"
    assert client.get(url).status_code == 404
    full = send(client, "b")
    assert (full.status_code, full.json()["error"]) == (503, "The server has too many files. Try again later.")
    assert 1700 < int(full.headers["retry-after"]) <= 1800, "the time until the oldest file is dropped"


def test_the_oldest_translated_file_of_a_client_makes_room(opened: Callable[..., TestClient]) -> None:
    client = opened(max_files=8)
    other = wait_for_end(client, start_file(client, "b"))["url"]
    urls = []
    for _ in range(10):
        answer = send(client, "a")
        assert answer.status_code == 200, "files that were not downloaded do not keep others out"
        urls.append(wait_for_end(client, answer.json()["id"])["url"])
    assert [client.get(url).status_code for url in urls] == [404] * 6 + [200] * 4
    assert client.get(other).status_code == 200


def test_a_client_does_not_wait_until_the_file_of_another_is_read(
    opened: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, read, is_over = opened(), TextFormat.read, threading.Event()

    def read_slowly(form: TextFormat, text: str) -> SplitText:
        if "HOSTILE" in text:
            is_over.wait(20)
        return read(form, text)

    monkeypatch.setattr(TextFormat, "read", read_slowly)
    hostile = [start_file(client, "a", "HOSTILE") for _ in range(3)]
    number, until = start_file(client, "b"), time.monotonic() + 5
    while (said := client.get(f"/v1/files/{number}").json())["status"] == "translating" and time.monotonic() < until:
        time.sleep(0.02)
    is_over.set()
    assert said["status"] == "done"
    assert [wait_for_end(client, one)["status"] for one in hostile] == ["done"] * 3


def test_the_text_of_waiting_files_is_limited(opened: Callable[..., TestClient]) -> None:
    client = opened(max_file_bytes=2000, max_files=100)
    long = ENDLESS + "x" * (1990 - len(ENDLESS))
    statuses = [send(client, "a", long).status_code for _ in range(7)]
    assert statuses == [200] * 6 + [429], "two files are in progress and four wait"
    statuses = [send(client, "b", long).status_code for _ in range(7)]
    assert statuses == [200] * 6 + [429]
    assert send(client, "c", long).json()["error"] == "Too many files are waiting. Try again later."


def test_a_file_is_cancelled(opened: Callable[..., TestClient]) -> None:
    client = opened()
    running, waiting = start_file(client, "a", ENDLESS), [start_file(client, "a", ENDLESS) for _ in range(3)][-1]
    for number in (waiting, running):
        assert client.delete(f"/v1/files/{number}").json() == {"id": number, "status": "cancelled"}
        assert client.get(f"/v1/files/{number}").status_code == 404
        assert client.delete(f"/v1/files/{number}").status_code == 404
    done = start_file(client, "a")
    url = wait_for_end(client, done)["url"]
    assert client.delete(url.replace("/download_file/", "/v1/files/")).status_code == 200
    assert client.get(url).status_code == 404
    assert "DELETE" in client.options(f"/v1/files/{done}").headers["access-control-allow-methods"]


def test_a_file_that_is_deleted_during_its_download_is_sent_and_then_removed(
    opened: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another client, or a new file that takes its place, may drop a file at any moment."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    client, send_file = opened(), FileResponse.__call__
    number = start_file(client, "a", "1\n2\n")
    url = wait_for_end(client, number)["url"]

    async def send_late(self: FileResponse, scope: Scope, receive: Receive, send: Send) -> None:
        assert (await asyncio.to_thread(client.delete, f"/v1/files/{number}")).status_code == 200
        await send_file(self, scope, receive, send)

    monkeypatch.setattr(FileResponse, "__call__", send_late)
    answer = client.get(url)
    assert (answer.status_code, answer.text) == (200, "1\n2\n")
    assert client.get(url).status_code == 404
    assert [*tmp_path.glob("dragoman-files-*/*")] == []


def test_the_error_of_a_deleted_file_is_not_logged(
    opened: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client, reading, deleted = opened(), threading.Event(), threading.Event()

    def fail(*_: Any) -> Any:
        reading.set()
        assert deleted.wait(10)
        raise DataError("the file is wrong.")

    monkeypatch.setattr(TextFormat, "measure", fail)
    number = start_file(client, "a")
    assert reading.wait(10)
    client.delete(f"/v1/files/{number}")
    deleted.set()
    assert wait_for_end(client, start_file(client, "a"))["error"] == "Invalid request: the file is wrong."
    gc.collect()
    assert caplog.text == ""


@pytest.mark.parametrize("path", ["/translate_file", "/v1/files"])
def test_a_file_may_have_exactly_the_largest_size(opened: Callable[..., TestClient], path: str) -> None:
    client = opened(max_file_bytes=2000)
    for size, status in ((2000, 200), (2001, 413)):
        answer = client.post(path, data=EN | {"api_key": "a"}, files={"file": ("x.txt", "1" * size)})
        assert answer.status_code == status, answer.text
    assert answer.json() == {"error": "The file may have at most 2000 bytes. Send it in parts."}


INSIDE = "150000 comments, entities and tags inside of sentences"


@pytest.mark.parametrize(
    ("name", "content", "limit"),
    [
        ("x.html", "<b>" * 160_000, INSIDE),
        ("x.html", "a&x;" * 160_000, INSIDE),
        ("x.srt", "<b>\n" * 160_000, INSIDE),
        ("x.srt", "00:00:01,000 --> 00:00:02,000\ra" + "\ra" * 400_000, "400000 lines"),
        ("x.txt", "\r" * 410_000 + "a", ""),
        ("x.txt", "Go. " * 410_000, "400000 lines and sentences"),
    ],
)
def test_the_parts_of_a_file_are_limited(
    opened: Callable[..., TestClient], name: str, content: str, limit: str
) -> None:
    client = opened(max_file_bytes=10 << 20)
    answer = client.post("/translate_file", data=EN | {"api_key": "a"}, files={"file": (name, content)})
    said = f"Invalid request: the file may have at most {limit}, but has more. Send it in parts."
    assert (answer.status_code, answer.json().get("error", "")) == ((400, said) if limit else (200, ""))


@pytest.mark.parametrize(("name", "content"), [("x.html", "a" * 300_001), ("x.html", "1 " * 150_001)])
def test_long_texts_between_tags_are_refused(opened: Callable[..., TestClient], name: str, content: str) -> None:
    """They would keep Python's lock while they are read."""
    client = opened(max_file_bytes=10 << 20)
    answer = client.post("/translate_file", data=EN | {"api_key": "a"}, files={"file": (name, f"<p>{content}</p>")})
    assert (answer.status_code, "a paragraph may have at most 100000" in answer.text) == (400, True)


def test_a_file_that_is_cancelled_while_it_is_written_is_removed(
    opened: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    client, write, written = opened(), Path.write_bytes, [threading.Event() for _ in range(3)]

    def write_slowly(path: Path, content: bytes) -> int:
        written[0].set()
        written[1].wait(10)
        try:
            return write(path, content)
        finally:
            written[2].set()

    monkeypatch.setattr(Path, "write_bytes", write_slowly)
    number = start_file(client, "a")
    assert written[0].wait(10)
    client.delete(f"/v1/files/{number}")
    written[1].set()
    assert written[2].wait(10)
    monkeypatch.undo()
    assert wait_for_end(client, start_file(client, "a"))["status"] == "done"
    assert len([*tmp_path.glob("dragoman-files-*/*")]) == 1, "that of the second file"


def test_files_of_a_killed_server_are_removed_at_the_next_start(
    served_folder: Callable[[str], Path],
    make_service: Callable[..., Service],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    command = [sys.executable, "-m", "dragoman", "serve", str(served_folder("en-de")), "--port", "0"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            address = process.stderr.readline().split()[1]
            number, until = _upload(address, "one")["id"], time.monotonic() + 25
            while json.loads(_fetch(f"{address}/v1/files/{number}"))["status"] != "done":
                assert time.monotonic() < until
                time.sleep(0.1)
            make_app(make_service("en-de"), Keys(None, 0))
            assert [*tmp_path.glob("dragoman-files-*/*")], "the files of a living server stay"
        finally:
            process.kill()
    assert [*tmp_path.glob("dragoman-files-*/*")], "a killed process removes nothing"
    (tmp_path / "dragoman-files-locked-link").symlink_to(tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    make_app(make_service("en-de"), Keys(None, 0))
    assert [*tmp_path.glob("dragoman-files-*/*")] == []
    assert (tmp_path / "kept").exists()


def test_a_page_declares_what_it_is_after_translation(opened: Callable[..., TestClient]) -> None:
    client = opened()
    page = '<html lang="en"><meta charset="latin1"><p>Hello</p></html>'
    for source in ("en", "auto"):
        form = {"source": source, "target": "de", "api_key": "a"}
        answer = client.post("/translate_file", data=form, files={"file": ("x.html", page)}).json()
        written = client.get(answer["translatedFileUrl"]).text
        assert written.startswith('<html lang="de"><meta charset="utf-8"><p>Hello')


def test_range_requests_get_the_whole_file(opened: Callable[..., TestClient]) -> None:
    client = opened()
    for wanted in ("bytes=0-1", "bytes=9-1", "bytes=-0", "words", "bytes=" + "0-," * 5000):
        url = wait_for_end(client, start_file(client, "a"))["url"]
        answer = client.get(url, headers={"Range": wanted})
        assert (answer.status_code, answer.text, answer.headers["accept-ranges"]) == (200, "Hello [de]", "none")


def _full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_a_logged_server_error(
    opened: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = opened(max_file_bytes=3 << 20)
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "TemporaryDirectory", _full)
        answer = client.post("/translate_file", data=EN | {"api_key": "a"}, files={"file": ("x.txt", "Hello")})
        assert answer.status_code == 507
        assert answer.json() == {"error": "The server could not store the translated file. See the server's log."}
        assert "No space left on device" in caplog.text
    large = "Hello.\n" * (2 << 17)
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "TemporaryFile", _full)  # Starlette's file for large bodies
        assert send(client, "a", large).status_code == 200
    assert wait_for_end(client, start_file(client, "b"))["status"] == "done"


def test_a_removed_temporary_folder_is_created_again(opened: Callable[..., TestClient], tmp_path: Path) -> None:
    client = opened()
    url = wait_for_end(client, start_file(client, "a"))["url"]
    folder = max(Path(tempfile.gettempdir()).glob("dragoman-files-*"), key=lambda path: path.stat().st_mtime)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert client.get(url).status_code == 404
    assert client.get(wait_for_end(client, start_file(client, "a"))["url"]).text == "Hello [de]"


def test_the_server_works_while_the_detector_cannot_be_loaded(
    make_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    auto = {"q": "Where is the station?", "source": "auto", "target": "de"}
    with TestClient(make_app(make_service("en-de"), Keys(None, 0))) as client:
        with monkeypatch.context() as patch:
            patch.setattr("dragoman.serving.service.known_languages", _full)
            assert client.post("/translate", json={"q": "Hello"} | EN).status_code == 200
            for path in ("/translate", "/detect"):
                answer = client.post(path, json=auto)
                assert answer.status_code == 503
                assert "See the server's log" in answer.json()["error"]
        assert client.post("/translate", json=auto).json()["detectedLanguage"]["language"] == "en"
    assert "No space left on device" in caplog.text


def test_lost_files_are_logged(make_service: Callable[..., Service], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), TestClient(make_app(make_service("en-de"), Keys(None, 0))) as client:
        done, running = start_file(client, ""), start_file(client, "", ENDLESS)
        wait_for_end(client, done)
        wait_until(lambda: client.get(f"/v1/files/{running}").json()["segments"] == 300)
    assert f"files lost before they were translated: {running} (0 of 300 segments)" in caplog.text
    assert f"files lost before they were downloaded: {done}" in caplog.text


def _upload(address: str, content: str) -> dict[str, Any]:
    parts = {"source": b"en", "target": b"de"}
    body = b"".join(
        b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value)
        for name, value in parts.items()
    )
    file = b'--x\r\nContent-Disposition: form-data; name="file"; filename="x.txt"\r\n\r\n'
    body += file + content.encode() + b"\r\n--x--\r\n"
    request = urllib.request.Request(f"{address}/v1/files", body, {"Content-Type": "multipart/form-data; boundary=x"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return dict(json.loads(answer.read()))


def _fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return bytes(answer.read())


def test_files_can_be_finished_and_downloaded_after_a_signal(
    served_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    """The server refuses new work meanwhile, and exits after the download."""
    command = [sys.executable, "-m", "dragoman", "serve", str(served_folder("en-de")), "--port", "0"]
    with subprocess.Popen(
        [*command, "--drain-delay-seconds", "0.1"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stderr is not None
        address = process.stderr.readline().split()[1]
        number = _upload(address, "one two three four.\n" * 3000)["id"]
        process.send_signal(signal.SIGTERM)
        time.sleep(0.6)
        with pytest.raises(HTTPError, match="503") as refused:
            urllib.request.urlopen(
                urllib.request.Request(f"{address}/translate", b"q=one&source=en&target=de"), timeout=20
            )
        assert json.loads(refused.value.read()) == {"error": "The server is shutting down. Try again later."}
        until = time.monotonic() + 25
        while (said := json.loads(_fetch(f"{address}/v1/files/{number}")))["status"] != "done":
            assert time.monotonic() < until
            time.sleep(0.1)
        assert _fetch(f"{address}{said['url']}").count(b"\n") == 3000
        assert process.wait(10) == 0
        assert process.stderr.read() == ""


@pytest.mark.slow
def test_a_full_temporary_folder(served_folder: Callable[[str], Path], tmp_path: Path) -> None:
    """A real disk of 300 MB that fills while the server runs, and a disk that is too small from the start."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    for size in ("300m", "64k"):
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(mounted)], check=False
        ).returncode:
            pytest.skip("file systems cannot be mounted here")
        try:
            _serve_with_a_full_disk(served_folder("en-de"), mounted, size)
        finally:
            subprocess.run(["umount", str(mounted)], check=True)


def _serve_with_a_full_disk(folder: Path, mounted: Path, size: str) -> None:
    command = [sys.executable, "-m", "dragoman", "serve", str(folder), "--port", "0"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(mounted)}
    ) as server:
        assert server.stderr is not None
        while " translates " not in (said := server.stderr.readline()):
            assert said
        with contextlib.suppress(OSError), (mounted / "fill").open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(1 << 16))
        begun = _upload(said.split()[1], "one two three four.\n" * 60_000)  # more than a megabyte
        assert begun["status"] == "translating"
        until = time.monotonic() + 120
        while (now := json.loads(_fetch(f"{said.split()[1]}/v1/files/{begun['id']}")))["status"] == "translating":
            assert time.monotonic() < until
            time.sleep(0.5)
        assert now["error"] == "The server could not store the translated file. See the server's log."
        server.send_signal(signal.SIGINT)
        assert "No space left on device" in server.stderr.read()

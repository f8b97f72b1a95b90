"""The access log, request ids, use per key, and CORS."""

import errno
import json
import logging
import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from dragoman.serving.app import make_app
from dragoman.serving.http.forwarding import Deployment
from dragoman.serving.http.keys import Keys
from dragoman.serving.service import Service

SECRET = "Geheimnis"
HELLO = {"q": SECRET, "source": "en", "target": "de"}


def deployment(log: object = "", cors: str = "*") -> Deployment:
    return Deployment.from_flags("", "", "", cors, str(log))


def entries(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_every_request_is_one_line_without_texts_or_keys(make_service: Callable[..., Service], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{SECRET}-key  # weblate\n")
    log, before = tmp_path / "access.log", datetime.now(UTC)
    app = make_app(make_service(), Keys(tmp_path / "keys", 0), True, deployment(log))
    key = {"Authorization": f"Bearer {SECRET}-key"}
    agent = {"User-Agent": b'a"\r\n\t\x1b[31m' + b"\xff" + b"x" * 1000}
    with TestClient(app, client=("192.0.2.1", 1)) as client:
        sent = [
            client.post("/translate", json=HELLO, headers=key),
            client.post("/translate", json=HELLO | {"api_key": f"{SECRET}-no"}),
            client.get(f"/look?text={SECRET}&target=xx", headers=key),
            client.get(f"/{SECRET}/{'x' * 10_000}?q={SECRET}"),
            client.get(f"/v1/files/{SECRET}", headers=agent),
            client.head("/languages"),
            client.options("/translate"),
            client.put("/translate"),
            client.post("/translate", json=HELLO | {"q": "BOOM"}, headers=key),
        ]
    lines = entries(log)
    assert [(line["method"], line["route"], line["status"], line["key"]) for line in lines] == [
        ("POST", "/translate", 200, "weblate"),
        ("POST", "/translate", 403, None),
        ("GET", "/look", 400, "weblate"),
        ("GET", "other", 404, None),
        ("GET", "/v1/files", 404, None),
        ("HEAD", "/languages", 200, None),
        ("OPTIONS", "/translate", 200, None),
        ("PUT", "/translate", 405, None),
        ("POST", "/translate", 500, "weblate"),
    ]
    assert [line["id"] for line in lines] == [answer.headers["x-request-id"] for answer in sent]
    assert len({line["id"] for line in lines}) == len(lines)
    assert [line["bytes"] for line in lines] == [len(answer.content) for answer in sent]
    assert {line["client"] for line in lines} == {"192.0.2.1"}
    assert all(before <= datetime.fromisoformat(line["time"]) <= datetime.now(UTC) for line in lines[1:])
    assert all(0 <= line["seconds"] < 30 for line in lines)
    content = log.read_text()
    assert SECRET not in content
    assert content.isascii()
    assert content.isprintable() or set(filter(lambda one: not one.isprintable(), content)) == {"\n"}
    assert max(map(len, content.splitlines())) < 2000


def test_an_error_in_the_log_has_the_id_of_its_request(
    make_service: Callable[..., Service], caplog: pytest.LogCaptureFixture
) -> None:
    with TestClient(make_app(make_service(), Keys(None, 0))) as client, caplog.at_level(logging.ERROR):
        answer = client.post("/translate", json=HELLO | {"q": "BOOM"})
    assert answer.status_code == 500
    named = [one.getMessage() for one in caplog.records if answer.headers["x-request-id"] in one.getMessage()]
    assert len(named) == 1
    assert "/translate" in named[0]


def test_use_is_counted_per_key(make_service: Callable[..., Service], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("one  # weblate\ntwo  # shop\n")
    with TestClient(make_app(make_service(), Keys(tmp_path / "keys", 0))) as client:
        for key, text in (("one", "Hello"), ("one", "you"), ("two", "Hi"), ("three", "no")):
            client.post("/translate", json=HELLO | {"q": text, "api_key": key})
        form = HELLO | {"api_key": "two"}
        client.post("/v1/files", data=form, files={"file": ("a.txt", b"x" * 100)})
        text = client.get("/metrics").text
    assert 'dragoman_key_requests_total{key="weblate"} 2.0' in text
    assert 'dragoman_key_characters_total{key="weblate"} 8.0' in text
    assert 'dragoman_key_requests_total{key="shop"} 2.0' in text
    assert 'dragoman_key_characters_total{key="shop"} 102.0' in text
    assert text.count("dragoman_key_requests_total{") == 2, "a wrong key makes no series"
    assert float(text.split("\nprocess_open_fds ")[1].split()[0]) > 2


def test_a_client_that_leaves_is_logged(make_service: Callable[..., Service], serving: Any, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with serving(make_service(lanes=1, batch_sentences=1), deployment=deployment(log)) as address:
        parts = urlsplit(address)
        body = json.dumps({"q": ["SLOW"] * 20, "source": "en", "target": "de"}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        with socket.create_connection((parts.hostname, parts.port)) as connection:
            connection.sendall(head.encode() + b"\r\n\r\n" + body)
            time.sleep(0.2)
        until = time.monotonic() + 10
        while not log.read_text() and time.monotonic() < until:
            time.sleep(0.01)
    assert [(line["route"], line["status"], line["client"]) for line in entries(log)] == [
        ("/translate", 499, "127.0.0.1")
    ]


def test_without_keys_no_request_has_a_key(make_service: Callable[..., Service], tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with TestClient(make_app(make_service(), Keys(None, 0), True, deployment(log))) as client:
        assert client.post("/translate", json=HELLO).status_code == 200
        client.get("/languages")
    assert [line["key"] for line in entries(log)] == [None, None]


def test_a_renamed_log_is_opened_again(make_service: Callable[..., Service], tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    client = TestClient(make_app(make_service(), Keys(None, 0), True, deployment(log)))
    client.get("/livez")
    log.rename(tmp_path / "access.log.1")
    client.get("/languages")
    assert [line["route"] for line in entries(tmp_path / "access.log.1")] == ["/livez"]
    assert [line["route"] for line in entries(log)] == ["/languages"]


@pytest.mark.parametrize("failure", ["full", "gone"])
def test_a_log_that_cannot_be_written_changes_no_answer(
    make_service: Callable[..., Service], tmp_path: Path, caplog: pytest.LogCaptureFixture, failure: str
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    place = "/dev/full" if failure == "full" else str(folder / "access.log")
    if failure == "full" and not os.path.exists(place):
        pytest.skip("this system has no /dev/full")
    client = TestClient(make_app(make_service(), Keys(None, 0), True, deployment(place)))
    if failure == "gone":
        (folder / "access.log").unlink()
        folder.rmdir()
    with caplog.at_level(logging.WARNING):
        assert [client.get("/livez").status_code for _ in range(200)] == [200] * 200
    (warning,) = (one.getMessage() for one in caplog.records)
    assert warning.startswith("the access log cannot be written: ")
    assert os.strerror(errno.ENOSPC if failure == "full" else errno.ENOENT) in warning
    if failure == "gone":
        folder.mkdir()
        client.get("/languages")
        assert [line["route"] for line in entries(folder / "access.log")] == ["/languages"]


def test_the_log_may_be_standard_output(
    make_service: Callable[..., Service], capsys: pytest.CaptureFixture[str]
) -> None:
    TestClient(make_app(make_service(), Keys(None, 0), True, deployment("-"))).get("/livez")
    assert json.loads(capsys.readouterr().out)["route"] == "/livez"


@pytest.mark.parametrize(
    ("cors", "origin", "allowed", "vary"),
    [
        ("*", "https://a.example", "*", None),
        ("*", None, "*", None),
        ("none", "https://a.example", None, None),
        ("https://a.example", "https://a.example", "https://a.example", "Origin"),
        ("https://b.example:8080, HTTPS://A.example/", "https://a.example", "https://a.example", "Origin"),
        ("https://a.example:443", "https://a.example", "https://a.example", "Origin"),
        ("http://a.example:80", "http://a.example", "http://a.example", "Origin"),
        ("https://a.example:80", "https://a.example", None, "Origin"),
        ("https://a.example", "https://b.example", None, "Origin"),
        ("https://a.example", "https://a.example.evil.example", None, "Origin"),
        ("https://a.example", "http://a.example", None, "Origin"),
        ("https://a.example", "null", None, "Origin"),
        ("https://a.example", None, None, "Origin"),
    ],
)
def test_only_the_given_origins_may_read_answers(
    make_service: Callable[..., Service], cors: str, origin: str | None, allowed: str | None, vary: str | None
) -> None:
    client = TestClient(make_app(make_service(), Keys(None, 0), True, deployment(cors=cors)))
    for method, path in (("GET", "/languages"), ("OPTIONS", "/translate"), ("GET", "/nothing")):
        answer = client.request(method, path, headers={} if origin is None else {"Origin": origin})
        assert answer.headers.get("access-control-allow-origin") == allowed
        assert answer.headers.get("vary") == vary
        assert ("access-control-allow-methods" in answer.headers) == (allowed is not None)
        assert answer.headers["x-content-type-options"] == "nosniff"

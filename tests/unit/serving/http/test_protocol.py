"""Malformed and oversized requests, sent as raw bytes to a real server."""

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from dragoman.serving.service import Service

LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
SENT = b'{"q": "Hello", "source": "en", "target": "de"}'
LONG = b"a" * 70_000


@pytest.fixture(scope="module")
def address(make_service: Callable[..., Service], serving: Any) -> Iterator[str]:
    with serving(make_service("en-de", "de-en")) as found:
        yield found


def answers_to(address: str, sent: bytes, at_once: int) -> list[tuple[int, Any]]:
    """Status and JSON of all answers until the server closes. Sends chunks of `at_once` bytes."""
    parts = urlsplit(address)
    content = b""
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
        for start in range(0, len(sent), at_once):
            connection.sendall(sent[start : start + at_once])
        while piece := connection.recv(65536):
            content += piece
    answers = []
    while content:
        head, _, content = content.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        size = int(fields[b"content-length"])
        assert fields[b"content-type"] == b"application/json"
        assert fields[b"access-control-allow-origin"] == b"*"
        answers.append((int(head.split()[1]), json.loads(content[:size])))
        content = content[size:]
    return answers


@pytest.mark.parametrize(
    "sent",
    [
        b"GARBAGE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 100,  # TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nno colon\r\n\r\n",
        "GET /ü HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b"zz\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_malformed_requests_are_refused_in_json(address: str, sent: bytes) -> None:
    words = "The browser (or proxy) sent a request that this server could not understand: it is not valid HTTP/1.1."
    assert answers_to(address, sent, len(sent)) == [(400, {"error": words})]


@pytest.mark.parametrize("at_once", [1000, 10**6])
@pytest.mark.parametrize(
    "sent",
    [
        b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + LONG + b"\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + LONG * 6,
        b"GET /livez HTTP/1.1\r\nHost: x\r\n" + b"X: aaaaaaaa\r\n" * 10_000 + b"\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n" + b"X:\r\n" * 128 + b"\r\n",
        b"GET /livez?" + LONG + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        CHUNKED + b"1;" + LONG * 6 + b"\r\n{\r\n0\r\n\r\n",
        CHUNKED + b"1\r\n{\r\n0\r\nX: " + LONG * 6 + b"\r\n\r\n",
        CHUNKED + b"1\r\n{\r\n0\r\n" + b"X: aaaaaaaa\r\n" * 10_000 + b"\r\n",
    ],
    ids=["header", "header-without-end", "headers", "many-headers", "address", "chunk", "trailer", "trailers"],
)
def test_long_heads_are_refused_whatever_their_chunks(address: str, sent: bytes, at_once: int) -> None:
    said = {"error": "The head of the request may have at most 65536 bytes and 128 headers. Send shorter headers."}
    assert answers_to(address, sent, at_once) == [(431, said)]


def test_heads_within_the_limit_and_pipelined_requests_are_answered(address: str) -> None:
    last = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    head = last + b"X: " + b"a" * 65_000 + b"\r\n\r\n"
    for at_once in (1000, 10**6):
        assert answers_to(address, last + b"X:\r\n" * 126 + b"\r\n", at_once) == [(200, {"status": "ok"})]
        assert answers_to(address, head, at_once) == [(200, {"status": "ok"})]
    many = LIVE * 5000 + last + b"\r\n"  # the server reads many of them, and a part of another, in one chunk
    assert answers_to(address, many, 10**6) == [(200, {"status": "ok"})] * 5001
    body = b"".join(b"1\r\n%c\r\n" % byte for byte in SENT + b" " * 30_000) + b"0\r\n\r\n"
    chunks = CHUNKED.replace(b"Host: x", b"Host: x\r\nConnection: close") + body
    assert answers_to(address, chunks, 10**6) == [(200, {"translatedText": "Hello [de]"})]


def test_requests_before_a_malformed_one_are_answered(address: str) -> None:
    whole = POST + f"Content-Length: {len(SENT)}\r\n\r\n".encode() + SENT
    answer = (200, {"translatedText": "Hello [de]"})
    assert answers_to(address, whole * 2 + b"GARBAGE\r\n\r\n", 10**6) == [answer] * 2


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
LAST = LIVE[:-2] + b"Connection: close\r\n\r\n"


@pytest.mark.parametrize("at_once", [7, 10**6])
@pytest.mark.parametrize(
    "sent",
    [
        b"%bContent-Length: %d\r\n\r\n%b" % (POST + UPGRADE, len(SENT), SENT),
        b"%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (CHUNKED[:-2] + UPGRADE, len(SENT), SENT),
    ],
    ids=["length", "chunked"],
)
def test_an_upgrade_is_ignored_and_its_body_is_read(address: str, sent: bytes, at_once: int) -> None:
    answers = [(200, {"translatedText": "Hello [de]"}), (200, {"status": "ok"})]
    assert answers_to(address, sent + LAST, at_once) == answers


def test_requests_after_an_upgrade_are_answered(address: str) -> None:
    asking = LIVE[:-2] + UPGRADE + b"\r\n"
    assert answers_to(address, asking * 50 + LAST, 10**6) == [(200, {"status": "ok"})] * 51
    assert answers_to(address, LAST[:-2] + UPGRADE + b"\r\n" + LIVE, 10**6) == [(200, {"status": "ok"})]
    tunnel = b"CONNECT /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    assert [status for status, _ in answers_to(address, tunnel + LIVE, 10**6)] == [405]


def test_the_charset_of_a_form_is_ignored(address: str) -> None:
    """Python's punycode decoder takes minutes for a megabyte."""
    body = b'--B\r\nContent-Disposition: form-data; name="q-"\r\n\r\n2n7c' + b"a" * 900_000 + b"\r\n--B--\r\n"
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    head += b"Content-Type: multipart/form-data; boundary=B; charset=punycode\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert answers_to(address, head + body, 1 << 20) == [(400, {"error": "Invalid request: missing q parameter"})]

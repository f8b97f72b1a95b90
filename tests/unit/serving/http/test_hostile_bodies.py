"""Bodies made to cost time or memory: the event loop never stops, and valid bodies of the largest size still work."""

import asyncio
import json
import re
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from dragoman.serving.app import make_app
from dragoman.serving.http.decoding import decode_json, decode_urlencoded
from dragoman.serving.http.keys import Keys
from dragoman.serving.service import Service

JSON, FORM, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"
TEXT_BYTES, FILE_BYTES = (1 << 20) - 200, (10 << 20) - 1000
# The event loop may wait this long on a busy machine. `benchmarks/serving_attack.py` shows 0.1 seconds on a quiet one.
MOST_SECONDS = 1.5
FILE_HEAD = (
    b'--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n'
    b'--x\r\nContent-Disposition: form-data; name="target"\r\n\r\nde\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
)


class Outcome(NamedTuple):
    """The answer to a request, and the longest time that the event loop waited meanwhile."""

    status: int
    content: dict[str, Any]
    waited: float


async def send(app: Any, path: str, kind: str, body: bytes) -> Outcome:
    """Send a request in chunks, as a socket does, and watch the event loop."""
    path, _, query = path.partition("?")
    chunks = [body[place : place + 65536] for place in range(0, len(body), 65536)] or [b""]
    messages = [
        {"type": "http.request", "body": chunk, "more_body": number < len(chunks)}
        for number, chunk in enumerate(chunks, start=1)
    ]
    messages.reverse()
    answered, sent = asyncio.Event(), []

    async def receive() -> Any:
        await asyncio.sleep(0)
        if messages:
            return messages.pop()
        await answered.wait()
        return {"type": "http.disconnect"}

    async def collect(message: Any) -> None:
        sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            answered.set()

    waited = 0.0

    async def watch() -> None:
        nonlocal waited
        loop = asyncio.get_running_loop()
        while True:
            start = loop.time()
            await asyncio.sleep(0.001)
            waited = max(waited, loop.time() - start)

    headers = {"content-length": str(len(body)), "content-type": kind}
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("192.0.2.1", 1),
        "root_path": "",
        "server": ("test", 80),
        "scheme": "http",
    }
    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.01)
    await app(scope, receive, collect)
    await asyncio.sleep(0.002)
    watching.cancel()
    content = b"".join(message["body"] for message in sent if message["type"] == "http.response.body")
    return Outcome(sent[0]["status"], json.loads(content), waited)


@pytest.fixture(scope="module")
def post(make_service: Callable[..., Service]) -> Iterator[Callable[[str, str, bytes], Outcome]]:
    """Post a body to a path of a server with the default limits."""
    app = make_app(make_service(), Keys(None, 0))
    with TestClient(app) as client:
        yield lambda path, kind, body: client.portal.call(send, app, path, kind, body)


def fill(unit: bytes, size: int = TEXT_BYTES, before: bytes = b"", after: bytes = b"") -> bytes:
    """A body of about this size that repeats the unit."""
    return before + unit * ((size - len(before) - len(after)) // len(unit)) + after


def texts(unit: str, **more: Any) -> bytes:
    """A megabyte of JSON: texts of 5,000 characters that repeat the unit."""
    text = (unit * 5000)[:5000]
    many = [text] * (TEXT_BYTES // (len(json.dumps(text, ensure_ascii=False).encode()) + 8))
    return json.dumps({"q": many, "source": "en", "target": "de"} | more).encode()


HOSTILE: dict[str, tuple[str, str, Callable[[], bytes], int]] = {
    "a form of percent signs as a file": ("/v1/files", FORM, lambda: fill(b"%", FILE_BYTES, b"a="), 400),
    "JSON keys as a file": (
        "/v1/files",
        JSON,
        lambda: b"{" + b",".join(b'"%x":1' % number for number in range(900_000)) + b"}",
        400,
    ),
    "no content type": ("/translate_file", "", lambda: fill(b"a", FILE_BYTES), 400),
    "percent signs": ("/translate", FORM, lambda: fill(b"%", before=b"q="), 400),
    "broken escapes": ("/translate", FORM, lambda: fill(b"%zz", before=b"q="), 400),
    "escapes between letters": ("/translate", FORM, lambda: fill("é%41".encode(), before=b"q="), 400),
    "empty fields": ("/translate", FORM, lambda: fill(b"&"), 400),
    "fields": ("/translate", FORM, lambda: b"&".join(b"a%d=%d" % (number, number) for number in range(10_000)), 400),
    "escapes in the query": (f"/translate?q={'%' * 60_000}", FORM, lambda: b"", 400),
    "empty arrays": ("/translate", JSON, lambda: fill(b"[],", before=b'{"q":[', after=b"1]}"), 400),
    "nested arrays": ("/translate", JSON, lambda: fill(b"[" * 900 + b"]" * 900 + b",", before=b'{"q":['), 400),
    "deep objects": ("/translate", JSON, lambda: fill(b'{"a":'), 400),
    "numbers": ("/translate", JSON, lambda: fill(b"1,", before=b'{"q":[', after=b"1]}"), 400),
    "long numbers": ("/translate", JSON, lambda: fill(b"7" * 4000 + b",", before=b'{"q":[', after=b"1]}"), 400),
    "short texts": ("/translate", JSON, lambda: fill(b'"\\"",', before=b'{"q":[', after=b"1]}"), 400),
    "keys": ("/translate", JSON, lambda: b"{" + b",".join(b'"%x":1' % one for one in range(90_000)) + b"}", 400),
    "half of surrogate pairs": ("/translate", JSON, lambda: fill(b"\\ud83d", before=b'{"q":"', after=b'"}'), 400),
    "parts": ("/translate", PARTS, lambda: fill(b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n\r\n'), 400),
    "a part without content": ("/v1/files", PARTS, lambda: fill(b"a: b\r\n", FILE_BYTES, b"--x\r\n"), 400),
    "an endless name": ("/v1/files", PARTS, lambda: fill(b"a", FILE_BYTES, FILE_HEAD[:30]), 400),
    "a file of carriage returns": ("/v1/files", PARTS, lambda: fill(b"\r", FILE_BYTES, FILE_HEAD, b"\r\n--x--"), 200),
    "nearly boundaries": ("/v1/files", PARTS, lambda: fill(b"\r\n--", FILE_BYTES, FILE_HEAD, b"\r\n--x--"), 200),
    "sentences without letters": ("/translate", JSON, lambda: texts(". "), 413),
    "paragraphs": ("/translate", JSON, lambda: texts("<p>a", format="html"), 413),
    "unknown entities": ("/translate", JSON, lambda: texts("&x;", format="html"), 413),
    "languages": (
        "/translate",
        JSON,
        lambda: fill(b"a-", before=b'{"q":"a","target":"de","source":"', after=b'"}'),
        400,
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_body_blocks_the_server(post: Callable[[str, str, bytes], Outcome], name: str) -> None:
    path, kind, make, status = HOSTILE[name]
    outcome = post(path, kind, make())
    assert outcome.waited < MOST_SECONDS
    assert outcome.status == status, outcome.content
    assert len(str(outcome.content)) < 2000


def form(texts: list[str]) -> bytes:
    return urlencode([("source", "en"), ("target", "de"), *(("q", text) for text in texts)]).encode()


def json_of(texts: list[str]) -> bytes:
    return json.dumps({"q": texts, "source": "en", "target": "de"}, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("kind", "make", "sent"),
    [
        (JSON, json_of, ["世" * 4998] * 65),
        (JSON, json_of, [',:[]{}\\"\t1 ' * 60] * 1000),
        (JSON, json_of, ["a"] * 1000),
        (FORM, form, ["Ж" * 4998] * 34),
        (FORM, form, ["Ж %&=" * 40] * 999),
    ],
    ids=["Chinese", "syntax", "1,000 texts", "Cyrillic", "999 fields"],
)
def test_the_largest_bodies_work(
    post: Callable[[str, str, bytes], Outcome], kind: str, make: Callable[[list[str]], bytes], sent: list[str]
) -> None:
    """All that the limits of texts allow is read, whatever its characters are."""
    body = make(sent)
    assert len(body) < 1 << 20
    outcome = post("/translate", kind, body)
    assert outcome.status == 200, outcome.content
    assert [text.replace(" [de]", "") for text in outcome.content["translatedText"]] == sent


@pytest.mark.parametrize("name", ["a form of percent signs as a file", "percent signs", "empty arrays", "numbers"])
def test_memory_for_a_refused_body(post: Callable[[str, str, bytes], Outcome], name: str) -> None:
    """Ten megabytes beside the body at most."""
    path, kind, make, _ = HOSTILE[name]
    body = make()
    tracemalloc.start()
    post(path, kind, body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * len(body) + 10_000_000  # the chunks are a copy


words = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)


@settings(max_examples=40)
@given(pairs=st.lists(st.tuples(words, words), max_size=5), escaped=st.binary(max_size=40))
def test_forms_are_decoded_as_by_the_standard_library(pairs: list[tuple[str, str]], escaped: bytes) -> None:
    assert decode_urlencoded(urlencode(pairs).encode(), 100) == pairs
    content = b"a=" + b"".join(b"%%%02X" % one if one != 13 else b"+" for one in escaped)
    assert decode_urlencoded(content, 100) == parse_qsl(content.decode(), keep_blank_values=True)


@settings(max_examples=40)
@given(many=st.lists(words, max_size=60), escaped=st.booleans())
def test_texts_in_json_are_never_too_many(many: list[str], escaped: bool) -> None:
    """Only what is outside of strings counts, whatever the strings contain."""
    content = json.dumps({"q": many}, ensure_ascii=escaped, indent=9).encode()
    assert decode_json(content, len(many) + 1) == {"q": many}


LIES = {
    "shorter": (b"Content-Length: 99\r\n", b"q=a&source=en&target=de", [b"408"]),
    "longer": (b"Content-Length: 23\r\n", b"q=a&source=en&target=de, and more\r\n\r\n", [b"200"]),
    "negative": (b"Content-Length: -1\r\n", b"q=a&source=en&target=de", [b"400"]),
    "two lengths": (b"Content-Length: 23\r\nContent-Length: 22\r\n", b"q=a&source=en&target=de", [b"400"]),
    "no number": (b"Content-Length: 2x\r\n", b"q=a&source=en&target=de", [b"400"]),
    "a length and chunks": (
        b"Content-Length: 23\r\nTransfer-Encoding: chunked\r\n",
        b"17\r\nq=a&source=en&target=de\r\n0\r\n\r\n",
        [b"400"],
    ),
}


def test_a_body_whose_length_lies(make_service: Callable[..., Service], serving: Any) -> None:
    """The connection is closed after the refusal, so that nothing is taken for another request."""
    with serving(make_service(body_seconds=0.3)) as address:
        for name, (lengths, body, statuses) in LIES.items():
            parts = urlsplit(address)
            with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
                head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
                connection.sendall(head + lengths + b"\r\n" + body)
                answers = b""
                while piece := connection.recv(65536):
                    answers += piece
            assert re.findall(rb"HTTP/1.1 (\d+)", answers) == statuses, name

"""Word and LibreOffice files over HTTP: every API, bad input, downloads, and hostile archives."""

import io
import json
import random
import re
import socket
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hostile_archives import BOMBS, archive
from starlette.testclient import TestClient

from dragoman.files import TemporaryFolder
from dragoman.serving.app import make_app
from dragoman.serving.http.keys import Keys
from dragoman.serving.service import Service
from dragoman.text.documents.office.document import OfficeDocument, read_office
from dragoman.text.documents.office.paragraph import Paragraph
from tests.unit.serving.sent_files import EN, wait_for_end
from tests.unit.text.documents.office.office_files import archive_of, body_of, docx, member, odt, word_part

DEEPL = {"source_lang": "EN", "target_lang": "DE"}
BODY = "<w:p><w:r><w:t>%s</w:t></w:r></w:p>"
REPORT = docx(BODY % "Hello")
NOTE = odt("<text:p>Hello</text:p>")
SLOW = docx(BODY % "SLOW." * 300)


@pytest.fixture
def client(make_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A client of a server whose temporary folder is `tmp_path`."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with TestClient(make_app(make_service("en-de", "de-en", "en-fr", pivot="en"), Keys(None, 0))) as opened:
        yield opened


def start(client: Any, name: str, content: bytes, **fields: str) -> str:
    answer = client.post("/v1/files", data=EN | fields, files={"file": (name, content)})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def kept(folder: Path) -> list[Path]:
    """The files of the server on the disk."""
    return [*folder.glob("dragoman-files-*/*")]


@pytest.mark.parametrize(
    ("name", "content", "expected", "translated"),
    [
        ("a.docx", REPORT, "a_de.docx", "Hello [de]"),
        ("A.DOCX", REPORT, "A_de.docx", "Hello [de]"),
        ("a.docm", REPORT, "a_de.docm", "Hello [de]"),
        ("b.odt", NOTE, "b_de.odt", "Hello [de]"),
        ("b.txt", NOTE, "b_txt_de.odt", "Hello [de]"),
        ("c.docx", NOTE, "c_docx_de.odt", "Hello [de]"),
        ("a.pdf", REPORT, "a_pdf_de.docx", "Hello [de]"),
        ("download", REPORT, "download_de.docx", "Hello [de]"),
        ("../../etc/passwd<b>\r\nX: y;.docx", REPORT, "_etc_passwd_b_0D_0AX_y__de.docx", "Hello [de]"),
        (f"{'n' * 300}.odt", NOTE, f"{'n' * 80}_de.odt", "Hello [de]"),
        ("Prüfbericht № 4.docx", REPORT, "Prüfbericht_4_de.docx", "Hello [de]"),
        (".docx", REPORT, "file_de.docx", "Hello [de]"),
    ],
)
def test_content_and_name_tell_the_kind(client: Any, name: str, content: bytes, expected: str, translated: str) -> None:
    done = wait_for_end(client, start(client, name, content))
    assert (done["status"], done["segments"], done["translated"]) == ("done", 1, 1)
    assert done["url"] == f"/download_file/{done['id']}.{expected}"
    answer = client.get(done["url"])
    assert re.sub("<[^>]*>", "", body_of(answer.content)) == translated
    sent = answer.headers["content-disposition"]
    assert sent.startswith("attachment; ")
    assert "\n" not in sent
    assert "<" not in sent


def test_a_document_declares_its_language_also_after_a_pivot(client: Any) -> None:
    styles = word_part('<w:docDefaults><w:rPr><w:lang w:val="de-DE"/></w:rPr></w:docDefaults>', "styles")
    content = docx(BODY % "Hallo", word__styles=styles)
    done = wait_for_end(client, start(client, "a.docx", content, source="de", target="fr"))
    assert (done["segments"], done["translated"]) == (1, 1)
    written = client.get(done["url"]).content
    assert "Hallo [en] [fr]" in re.sub("<[^>]*>", "", body_of(written))
    assert '<w:lang w:val="fr-FR"/>' in member(written, "word/styles.xml")


def test_notes_tell_what_is_left_as_it_is(client: Any) -> None:
    done = wait_for_end(client, start(client, "a.docx", docx(BODY % "Hello", _xmlsignatures__a="x")))
    assert done["notes"] == ["the file: the digital signature does not fit the translation. Sign the translation."]
    assert "notes" not in wait_for_end(client, start(client, "a.docx", REPORT))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.docx", REPORT[:-30], "the file is not a complete zip archive"),
        ("a.docx", b"", "the file is empty"),
        ("a.docx", b"<html>", "the file is not a docx or odt file, but text, HTML or something else"),
        ("a.docx", archive_of({"a": "b"}), "the file is a zip archive, but not of an office file"),
        ("a.xlsx", archive_of({"a": "b"}), "file format not supported. Supported: .txt, .html"),
        ("a.pdf", b"%PDF-1.7", "The file is a PDF file. Convert it with LibreOffice"),
        ("a.txt", b"%PDF-1.7", "The file is a PDF file. Convert it with LibreOffice"),
        ("a.doc", b"\xd0\xcf\x11\xe0", "The file is an old Office document, or one with a password"),
        ("a.tsv", b"a\tb", "The file is pairs. Translate one side of them"),
    ],
)
def test_other_files_are_refused_with_advice_in_each_api(client: Any, name: str, content: bytes, message: str) -> None:
    answer = client.post("/translate_file", data=EN, files={"file": (name, content)})
    assert (answer.status_code, answer.json().keys()) == (400, {"error"})
    assert message in answer.json()["error"]
    answer = client.post("/v2/document", data=DEEPL, files={"file": (name, content)})
    if answer.status_code == 400:
        assert answer.json().keys() == {"message", "detail"}
        assert message in answer.json()["message"]
        return
    handle, until = answer.json(), time.monotonic() + 30
    path = f"/v2/document/{handle['document_id']}"
    while (said := client.post(path, json=handle).json())["status"] != "error":
        assert time.monotonic() < until
    assert message in said["error_message"]
    failed = client.post(f"{path}/result", json=handle)
    assert (failed.status_code, message in failed.json()["message"]) == (400, True)


def test_the_states_of_a_document(client: Any, tmp_path: Path) -> None:
    handles = [
        client.post("/v2/document", data=DEEPL, files={"file": ("a.docx", content)}).json() for content in (SLOW, SLOW)
    ]
    paths = [f"/v2/document/{handle['document_id']}" for handle in handles]
    running, waiting = (client.post(path, data=handle) for path, handle in zip(paths, handles, strict=True))
    assert (running.json()["status"], running.json()["seconds_remaining"] >= 0) == ("translating", True)
    assert waiting.json() == {"document_id": handles[1]["document_id"], "status": "queued"}
    early = client.post(f"{paths[0]}/result", data=handles[0])
    assert (early.status_code, early.headers["retry-after"]) == (503, "5")
    for handle in handles:
        assert client.delete(f"/v1/files/{handle['document_id']}").json()["status"] == "cancelled"
    assert client.post(paths[0], data=handles[0]).status_code == 404
    handle = client.post("/v2/document", data=DEEPL, files={"file": ("a.docx", REPORT)}).json()
    path = f"/v2/document/{handle['document_id']}"
    wait_for_end(client, handle["document_id"])
    done = {"document_id": handle["document_id"], "status": "done", "seconds_remaining": 0, "billed_characters": 5}
    assert client.get(path, params=handle).json() == done
    for wrong in ({}, {"document_key": "a"}, {"document_key": "ä"}):
        assert client.post(f"{path}/result", json=wrong).status_code == 404
    assert client.post(f"{path}/result", json=handle).headers["content-type"].endswith("wordprocessingml.document")
    assert client.post(path, json=handle).status_code == 404
    assert kept(tmp_path) == []


@pytest.mark.parametrize("field", ["glossary_id", "glossary_ids", "translation_memory_id", "style_id"])
def test_the_same_options_are_refused_for_texts_and_documents(client: Any, field: str) -> None:
    fields = DEEPL | {field: "a"}
    text = client.post("/v2/translate", data=fields | {"text": "Hello"})
    document = client.post("/v2/document", data=fields, files={"file": ("a.docx", REPORT)})
    assert text.status_code == document.status_code == 400
    assert text.json() == document.json()
    fields = DEEPL | {"formality": "more"}
    assert client.post("/v2/document", data=fields, files={"file": ("a.docx", REPORT)}).status_code == 200


def test_nothing_of_a_file_stays_after_its_download(client: Any, tmp_path: Path) -> None:
    number = start(client, "a.docx", REPORT)
    url = wait_for_end(client, number)["url"]
    assert client.head(url).status_code == 200
    assert len(kept(tmp_path)) == 1, "HEAD is no download"
    assert client.get(url).status_code == 200
    assert kept(tmp_path) == []
    gone = client.get(url)
    words = "File not found. A file is kept until it is downloaded, for at most half an hour."
    assert (gone.status_code, gone.json()) == (404, {"error": words})
    assert client.get(f"/v1/files/{number}").status_code == 404


LARGE = b"Hello\n" + (b"1" * 1000 + b"\n") * 6000


def test_two_downloads_at_the_same_time_and_one_that_is_broken_off(
    make_service: Callable[..., Service], serving: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A client that leaves before the end may try again. Two that read at the same time both get all of it."""
    requests = pytest.importorskip("requests")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with serving(make_service("en-de")) as address:
        url = requests.post(f"{address}/translate_file", data=EN, files={"file": ("a.txt", LARGE)}, timeout=60).json()[
            "translatedFileUrl"
        ]
        port, path = urlsplit(url).port, urlsplit(url).path
        with socket.create_connection(("127.0.0.1", port)) as broken:
            broken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            broken.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert broken.recv(100).startswith(b"HTTP/1.1 200")
        time.sleep(0.3)
        assert len(kept(tmp_path)) == 1
        streams = [requests.get(url, stream=True, timeout=30) for _ in range(2)]
        contents = [stream.content for stream in streams]
        assert contents[0] == contents[1]
        assert contents[0] == LARGE.replace(b"Hello", b"Hello [de]")
        until = time.monotonic() + 10
        while kept(tmp_path) and time.monotonic() < until:
            time.sleep(0.05)
        assert kept(tmp_path) == []
        assert requests.get(url, timeout=30).status_code == 404


def test_threads_that_open_the_folder_at_the_same_time_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make = tempfile.TemporaryDirectory

    def make_slowly(*given: Any, **options: Any) -> Any:
        time.sleep(0.05)
        return make(*given, **options)

    monkeypatch.setattr(tempfile, "TemporaryDirectory", make_slowly)
    folder = TemporaryFolder("dragoman-files-locked-")
    with ThreadPoolExecutor(4) as threads:
        paths = {*threads.map(lambda _: folder.open(), range(4))}
    assert len(paths) == 1
    assert paths.pop().is_dir()
    folder.close()


def test_a_client_that_leaves_cancels_its_file(
    make_service: Callable[..., Service], serving: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    requests = pytest.importorskip("requests")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    service = make_service("en-de", lanes=1)
    with serving(service) as address:
        with pytest.raises(requests.exceptions.ReadTimeout):
            requests.post(f"{address}/translate_file", data=EN, files={"file": ("a.docx", SLOW)}, timeout=1)
        until = time.monotonic() + 10
        while service.num_unfinished_files() and time.monotonic() < until:
            time.sleep(0.05)
        assert service.num_unfinished_files() == 0


def test_ten_clients_with_ten_megabytes_each(make_service: Callable[..., Service], serving: Any) -> None:
    requests = pytest.importorskip("requests")
    written = io.BytesIO(REPORT)
    with zipfile.ZipFile(written, "a", zipfile.ZIP_STORED) as file:
        file.writestr("word/media/a.png", random.Random(0).randbytes(10_400_000))
    files = {"file": ("a.docx", written.getvalue())}
    body, kind = requests.models.RequestEncodingMixin._encode_files(files, EN)

    def translate(address: str, number: int) -> tuple[int, bytes]:
        """The status, and the size of the translation, for a client with an address of its own."""
        where = urlsplit(address)
        connection = HTTPConnection(where.hostname, where.port, 60, (f"127.0.0.{number + 2}", 0))
        connection.request("POST", "/translate_file", body, {"Content-Type": kind})
        answer = connection.getresponse()
        said = json.loads(answer.read())
        connection.request("GET", urlsplit(said["translatedFileUrl"]).path)
        return answer.status, connection.getresponse().read()

    with serving(make_service("en-de")) as address, ThreadPoolExecutor(10) as threads:
        answers = [*threads.map(partial(translate, address), range(10))]
    assert {status for status, _ in answers} == {200}
    assert len({translated for _, translated in answers}) == 1
    assert "[de]" in body_of(answers[0][1])


def test_a_damaged_or_hostile_archive_is_never_an_error_of_the_server(client: Any) -> None:
    numbers = [number for number in range(150) if number % 10 != 9]
    statuses = [
        client.post("/translate_file", data=EN, files={"file": ("a.docx", archive(number))}).status_code
        for number in numbers
    ]
    assert set(statuses) == {200, 400}
    assert statuses.count(400) > 50


QUICK = ["zeros", "paragraphs", "nested", "nested tables", "entities", "outside", "lzma", "archive of archives"]
READ = [
    *("paragraphs within the limit", "tags", "attributes", "a long attribute", "nested tables"),
    *("long texts outside of the basic plane", "nested fields", "nested results"),
    *("fields over paragraphs", "comments", "styles", "archive of archives"),
]


@pytest.mark.parametrize("name", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in BOMBS])
def test_bombs(client: Any, name: str) -> None:
    answer = client.post("/translate_file", data=EN, files={"file": ("a.docx", BOMBS[name]())})
    assert answer.status_code == (200 if name in READ else 400), answer.text


def test_cancelled_files_count_until_their_threads_end(
    client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A client that uploads and cancels in a loop keeps no other client waiting."""
    reading, is_over, running = read_office, threading.Event(), [0, 0]

    def read_slowly(*given: Any, **options: Any) -> Any:
        running[0] += 1
        running[1] = max(running)
        is_over.wait(20)
        running[0] -= 1
        return reading(*given, **options)

    monkeypatch.setattr("dragoman.text.documents.office.document.read_office", read_slowly)
    for _ in range(10):
        number = start(client, "a.docx", REPORT)
        until = time.monotonic() + 10
        while client.get(f"/v1/files/{number}").json().get("ahead") and time.monotonic() < until:
            time.sleep(0.01)
        client.delete(f"/v1/files/{number}")
    assert running[1] == 1
    is_over.set()
    assert wait_for_end(client, start(client, "a.docx", REPORT))["status"] == "done"


def test_a_document_is_dropped_with_its_results(client: Any) -> None:
    """Nothing keeps a document in memory until garbage is collected."""
    import gc

    gc.collect()
    gc.disable()
    try:
        paragraph = "<w:p><w:r><w:t>A </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>dog</w:t></w:r></w:p>"
        done = wait_for_end(client, start(client, "a.docx", docx(paragraph * 50)))
        client.get(done["url"])
        wait_for_end(client, start(client, "a.docx", REPORT[:-30]))
        kept = [one for one in gc.get_objects() if issubclass(type(one), OfficeDocument | Paragraph)]
    finally:
        gc.enable()
    assert kept == []

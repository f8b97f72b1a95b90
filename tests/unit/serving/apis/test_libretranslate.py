"""Requests of LibreTranslate's API with its recorded answers. A comment explains each difference."""

import errno
import json
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
from py3langid.langid import LanguageIdentifier
from starlette.testclient import TestClient

from dragoman.serving.app import make_app
from dragoman.serving.http.keys import Keys
from dragoman.serving.service import Service
from dragoman.text.doctor import languages

EN = {"source": "en", "target": "de"}
ENDINGS = ".txt, .html, .htm, .xhtml, .srt, .vtt, .odt, .ott, .docx, .docm, .dotx, .dotm"
LONG = "This is a long english sentence"

ANSWERED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "single": ({"q": "Hello", **EN}, {"translatedText": "Hello [de]"}),
    "alternatives": (
        {"q": "Hello", **EN, "alternatives": 2},
        {"alternatives": ["Hello [de1]", "Hello [de2]"], "translatedText": "Hello [de]"},
    ),
    "list": ({"q": ["Hello", "Bye."], **EN}, {"translatedText": ["Hello [de]", "Bye. [de]"]}),
    "list, alternatives": (
        {"q": ["Hello", "Bye."], **EN, "alternatives": 1},
        {"alternatives": [["Hello [de1]"], ["Bye. [de1]"]], "translatedText": ["Hello [de]", "Bye. [de]"]},
    ),
    "html": (
        # & is not escaped.
        {"q": '<p class="x">Hello &amp; <b>bye</b></p>', **EN, "format": "html"},
        {"translatedText": '<p class="x">Hello &amp; <b>bye</b> [de]</p>'},
    ),
    "html, alternatives": (
        {"q": "<p>Hello</p>", **EN, "format": "html", "alternatives": 2},
        {"alternatives": [], "translatedText": "<p>Hello [de]</p>"},
    ),
    "html list, alternatives": (
        {"q": ["<p>Hello</p>"], **EN, "format": "html", "alternatives": 2},
        {"alternatives": [[]], "translatedText": ["<p>Hello [de]</p>"]},
    ),
    "an empty text in a list": ({"q": [""], **EN}, {"translatedText": [""]}),
    "white space": ({"q": " ", **EN}, {"translatedText": " "}),
    "too few alternatives": ({"q": "a", **EN, "alternatives": -5}, {"translatedText": "a [de]"}),
    "capital codes": ({"q": "a", "source": "EN", "target": "De"}, {"translatedText": "a [de]"}),
    "Chinese by its other name": ({"q": "a", "source": "en", "target": "zh-Hans"}, {"translatedText": "a [zh]"}),
    "both the same": ({"q": "Hello", "source": "en", "target": "en"}, {"translatedText": "Hello"}),
    "NUL": ({"q": "a\0b", **EN}, {"translatedText": "a\0b [de]"}),
    "several lines": ({"q": "one\n\ntwo\r\nthree", **EN}, {"translatedText": "one [de]\n\ntwo [de]\r\nthree [de]"}),
    "a key where none is needed": ({"q": "a", **EN, "api_key": "x"}, {"translatedText": "a [de]"}),
    "fields that nobody knows": ({"q": "a", **EN, "more": {}}, {"translatedText": "a [de]"}),
    # LibreTranslate: 500.
    "half a character": ({"q": "\ud800", **EN, "format": "text"}, {"translatedText": "\ufffd"}),
    "no alternatives": ({"q": "a", **EN, "alternatives": None}, {"translatedText": "a [de]"}),
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no q": (EN, "Invalid request: missing q parameter"),
    "empty q": ({"q": "", **EN}, "Invalid request: missing q parameter"),
    "empty list": ({"q": [], **EN}, "Invalid request: missing q parameter"),
    "no source": ({"q": "a", "target": "de"}, "Invalid request: missing source parameter"),
    "no target": ({"q": "a", "source": "en"}, "Invalid request: missing target parameter"),
    "source": ({"q": "a", "source": "xx", "target": "de"}, "xx is not supported"),
    "target": ({"q": "a", "source": "en", "target": "ZZ"}, "zz is not supported"),
    "a region": ({"q": "a", "source": "en-US", "target": "de"}, "en-us is not supported"),
    "a number for a source": ({"q": "a", "source": 5, "target": "de"}, "5 is not supported"),
    "pair": (
        {"q": "a", "source": "fr", "target": "de"},
        "German (de) is not available as a target language from French (fr)",
    ),
    "format": ({"q": "a", **EN, "format": "xml"}, "xml format is not supported"),
    "too many alternatives": (
        {"q": "a", **EN, "alternatives": 3},
        "Invalid request: alternatives parameter must be <= 2",
    ),
    "too long": ({"q": "a" * 51, **EN}, "Invalid request: request (51) exceeds text limit (50)"),
    "too many": ({"q": ["a"] * 4, **EN}, "Invalid request: request (4) exceeds text limit (3)"),
    # LibreTranslate: 500.
    "alternatives in words": (
        {"q": "a", **EN, "alternatives": "abc"},
        "Invalid request: alternatives parameter is not a number",
    ),
    "a number": ({"q": 5, **EN}, "Invalid request: q must be a string or a list of strings"),
    "numbers": ({"q": [5], **EN}, "Invalid request: q must be a string or a list of strings"),
    "an object": ({"q": {}, **EN}, "Invalid request: q must be a string or a list of strings"),
}


@pytest.mark.parametrize("name", ANSWERED)
def test_recorded_answers(client: TestClient, name: str) -> None:
    sent, expected = ANSWERED[name]
    answer = client.post("/translate", content=json.dumps(sent), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()) == (200, expected)


@pytest.mark.parametrize("name", REFUSED)
def test_recorded_errors(client: TestClient, name: str) -> None:
    sent, expected = REFUSED[name]
    answer = client.post("/translate", json=sent)
    assert (answer.status_code, answer.json()) == (400, {"error": expected})


def test_every_kind_of_body(client: TestClient) -> None:
    fields = {"q": "Hello", **EN}
    sent: list[dict[str, Any]] = [
        {"json": fields},
        {"data": fields},
        {"files": {name: (None, value) for name, value in fields.items()}},
        {"params": fields},
    ]
    for one in sent:
        assert client.post("/translate", **one).text == '{"translatedText":"Hello [de]"}\n'
    lines = client.post("/translate", data=fields | {"q": "one\r\ntwo"}).json()
    assert lines == {"translatedText": "one [de]\ntwo [de]"}, "line ends in forms become line feeds"
    assert client.post("/translate", data=fields | {"q": ["a", "b"]}).json() == {"translatedText": ["a [de]", "b [de]"]}


MALFORMED = (
    "The browser (or proxy) sent a request that this server could not understand: its body is not JSON in UTF-8."
)


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"[]", "application/json", "Invalid JSON format"),
        (b"{", "application/json", MALFORMED),
        (b"", "application/json", MALFORMED),
        (b'{"q":"\xff"}', "application/json", MALFORMED),
        (b"[" * 30_000, "application/json", MALFORMED),
        (b"q=a", "text/plain", "Invalid request: missing q parameter"),
        (b"no form", "multipart/form-data; boundary=x", ""),
        (
            b"&".join([b"q=a"] * 10_000),
            "application/x-www-form-urlencoded",
            "Invalid request: the form may have at most 2000 fields",
        ),
    ],
)
def test_invalid_bodies(client: TestClient, content: bytes, kind: str, message: str) -> None:
    answer = client.post("/translate", content=content, headers={"Content-Type": kind})
    assert answer.status_code == 400
    assert answer.json()["error"] == message or kind.startswith("multipart")


def test_the_language_of_each_text_is_detected(client: TestClient) -> None:
    texts = [LONG, "Das ist ein deutscher Satz"]
    answer = client.post("/translate", json={"q": texts, "source": "auto", "target": "de"}).json()
    assert [one["language"] for one in answer["detectedLanguage"]] == ["en", "de"]
    assert answer["translatedText"] == [f"{LONG} [de]", texts[1]], "German text stays unchanged"
    single = client.post("/translate", json={"q": LONG, "source": "auto", "target": "de"}).json()
    assert single["detectedLanguage"]["confidence"] > 90
    smile = client.post("/translate", json={"q": "😀😀", "source": "auto", "target": "de"}).json()
    assert smile["detectedLanguage"]["confidence"] == 0
    assert smile["translatedText"] == "😀😀"


FRENCH = "Je voudrais savoir quand part le prochain train."


def test_unserved_languages_are_detected_and_not_translated(client: TestClient) -> None:
    answer = client.post("/translate", json={"q": FRENCH, "source": "auto", "target": "de"})
    assert answer.status_code == 400
    assert answer.json()["error"] == "German (de) is not available as a target language from French (fr)"
    texts = [FRENCH, LONG]
    several = client.post("/translate", json={"q": texts, "source": "auto", "target": "de"}).json()
    assert [one["language"] for one in several["detectedLanguage"]] == ["fr", "en"]
    assert several["translatedText"] == [FRENCH, f"{LONG} [de]"]
    assert client.post("/translate", json={"q": FRENCH, "source": "en", "target": "de"}).status_code == 200
    best, *others = client.post("/detect", json={"q": FRENCH}).json()
    assert best["language"] == "fr"
    assert all(one["confidence"] < 20 for one in others)


def test_detect(client: TestClient) -> None:
    best = client.post("/detect", json={"q": "Das ist ein deutscher Satz"}).json()[0]
    assert best["language"] == "de"
    assert best["confidence"] > 90
    assert client.post("/detect", data={"q": "123"}).json()[0]["confidence"] == 0
    assert client.post("/detect", json={}).json() == {"error": "Invalid request: missing q parameter"}


def test_escaped_text_stays_escaped(client: TestClient) -> None:
    sent = "<p>&lt;script&gt;a&lt;/script&gt;</p>"
    answer = client.post("/translate", json={"q": sent, **EN, "format": "html"}).json()
    assert answer["translatedText"] == "<p>&lt;script&gt;a&lt;/script&gt; [de]</p>"
    assert client.post("/translate", json={"q": "a &lt;b&gt;", **EN}).json()["translatedText"] == "a &lt;b&gt; [de]"


def test_lists_and_texts_are_not_confused(client: TestClient) -> None:
    assert client.post("/translate", json={"q": ["a", "b"], **EN}).json()["translatedText"] == ["a [de]", "b [de]"]
    assert client.post("/translate", json={"q": ["a|b"], **EN}).json()["translatedText"] == ["a|b [de]"]
    assert client.post("/translate", json={"q": "a|b", **EN}).json()["translatedText"] == "a|b [de]"


def test_languages_and_settings(client: TestClient) -> None:
    listed = {one["code"]: one for one in client.get("/languages").json()}
    assert listed["en"] == {"code": "en", "name": "English", "targets": ["de", "en", "zh"]}
    assert client.get("/health").json() == {"status": "ok"}
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 50
    assert settings["language"]["target"] == {"code": "de", "name": "German"}
    assert settings["supportedFilesFormat"] == ENDINGS.split(", ")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/translate", 405),
        ("DELETE", "/languages", 405),
        ("GET", "/nothing", 404),
        ("GET", "/download_file/../../etc/passwd", 404),
        ("GET", "/download_file/nothing", 404),
        ("POST", "/suggest", 403),
        ("POST", "/translate_file", 400),
    ],
)
def test_every_error_is_json(client: TestClient, method: str, path: str, status: int) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert answer.headers["access-control-allow-origin"] == "*"


def test_long_error_messages_are_cut(client: TestClient) -> None:
    answer = client.post("/translate", json={"q": "a", "source": "en", "target": "x" * 100_000})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("xxx")
    assert len(answer.content) < 1100


def test_cross_origin_requests_are_allowed(client: TestClient) -> None:
    answer = client.options("/translate")
    assert (answer.status_code, answer.text) == (200, "")
    assert answer.headers["access-control-allow-headers"] == "Authorization, Content-Type"
    assert answer.headers["access-control-max-age"] == "1728000"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x.txt", "Hello\n\nBye.\n", "Hello [de]\n\nBye. [de]\n"),
        ("x.html", "<p>Hello</p>", "<p>Hello [de]</p>"),
        (
            "x.srt",
            "1\n00:00:01,000 --> 00:00:02,000\nHello you\nthere\n\n2\n00:00:03,000 --> 00:00:04,000\n<i>Bye</i>\n",
            "1\n00:00:01,000 --> 00:00:02,000\nHello you\nthere [de]\n\n2\n00:00:03,000 --> 00:00:04,000\n"
            "<i>Bye [de]</i>\n",
        ),
    ],
)
def test_files(client: TestClient, name: str, content: str, expected: str) -> None:
    answer = client.post("/translate_file", data=EN, files={"file": (name, content)})
    url = answer.json()["translatedFileUrl"]
    assert url.startswith("http://testserver/download_file/")
    download = client.get(url)
    assert download.text == expected
    ending = name.rpartition(".")[2]
    assert download.headers["content-disposition"] == f'attachment; filename="x_de.{ending}"'


@pytest.mark.parametrize("sent", [{"upload": ("x.txt", b"Go.")}, {"file": (None, b"Go.")}])
@pytest.mark.parametrize("path", ["/translate_file", "/v1/files"])
def test_a_form_without_a_file_is_refused_with_the_field_to_use(client: TestClient, path: str, sent: Any) -> None:
    answer = client.post(path, data=EN, files=sent)
    words = "Invalid request: missing file parameter. Send the file with its name, in the field `file`"
    assert (answer.status_code, answer.json()) == (400, {"error": words})


def test_invalid_files_are_refused(client: TestClient) -> None:
    for name, content, fields, message in [
        ("x.exe", b"a", EN, f"Invalid request: file format not supported. Supported: {ENDINGS}."),
        ("x.txt", b"\xff", EN, "Invalid request: the file is not UTF-8. Save it as UTF-8."),
        (
            "x.srt",
            b"plain text",
            EN,
            "Invalid request: no line is a subtitle time such as 00:00:01,000 --> 00:00:02,500. Check the file format.",
        ),
        (
            "x.html",
            b"<p>a b " * 9 + b"<p>" + b"word " * 20_001,
            EN,
            "Invalid request: a paragraph may have at most 100000 characters, but one has 100005. Split it.",
        ),
        (
            "x.txt",
            b"a",
            {"source": "fr", "target": "de"},
            "German (de) is not available as a target language from French (fr)",
        ),
    ]:
        answer = client.post("/translate_file", data=fields, files={"file": (name, content)})
        assert (answer.status_code, answer.json()) == (400, {"error": message})


def _fail_to_load() -> None:
    raise OSError("no space")


def test_detection_on_a_full_disk_is_refused_until_there_is_space(
    make_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(path: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sent = {"q": "Hello", "source": "auto", "target": "de"}
    with TestClient(make_app(make_service("en-de"), Keys(None, 0))) as client:
        with monkeypatch.context() as disk:
            disk.setattr(languages, "_load_detector", lru_cache(languages._load_detector.__wrapped__))
            disk.setattr(LanguageIdentifier, "from_model_file", fail)
            answer = client.post("/translate", json=sent)
            assert (answer.status_code, answer.headers.get("Retry-After")) == (503, "30")
            assert answer.json()["error"].startswith("Language detection failed to load.")
            assert client.post("/translate", json=sent | {"source": "en"}).status_code == 200
        assert client.post("/translate", json=sent).status_code == 200
    (line,) = (one.getMessage() for one in caplog.records)
    assert line.startswith("the language detector failed to load: ")
    assert "no space left on the disk" in line


def test_failed_files_report_the_cause_and_free_their_place(
    make_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service("en-de", max_files=1)
    with TestClient(make_app(service, Keys(None, 0))) as client:
        monkeypatch.setattr("dragoman.serving.service.known_languages", _fail_to_load)

        def sent(source: str, content: str) -> tuple[int, dict[str, str]]:
            fields = {"source": source, "target": "de"}
            answer = client.post("/translate_file", data=fields, files={"file": ("x.txt", content)})
            return answer.status_code, answer.json()

        status, answer = sent("auto", "Hello")
        assert (status, answer["error"][:34]) == (503, "Language detection failed to load.")
        status, answer = sent("en", "BOOM")
        assert (status, answer["error"]) == (500, "The server failed to translate this text. See the server's log.")
        assert sent("en", "Hello")[0] == 200

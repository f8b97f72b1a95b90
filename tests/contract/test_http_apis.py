"""The OpenAPI document is true: schemathesis sends requests made from it to a real server with the demo model.

Each operation gets requests that the document allows and requests that it forbids: edge cases of every field, missing
fields, wrong types, methods and content types, and random data. The server must accept the former and refuse the
latter, and its answers must have a status, headers and a body that the document describes.
"""

import copy
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pytest

DOCUMENT: dict[str, Any] = json.loads(files("dragoman.serving").joinpath("openapi.json").read_text(encoding="utf-8"))
OPERATIONS = [
    pytest.param(path, method, id=f"{method} {path}")
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
]
LIMITS = ["--deadline-seconds", "60", "--max-wait-seconds", "60", "--max-files", "100000"]
LIMITS += ["--drain-delay-seconds", "0", "--drain-seconds", "0"]
"""Limits that a slow machine and thousands of files do not reach."""
TEXT_OR_NUMBER = {"type": ["string", "number"]}
TEXT_OR_TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
FIELDS: dict[str, dict[str, Any]] = {
    # What the document leaves to the server: its languages and limits.
    "source": {"enum": ["en"]},
    "target": {"enum": ["de"]},
    "source_lang": {"enum": ["EN", ""]},
    "target_lang": {"enum": ["DE"]},
    "tag": {"enum": [""]},
    "filename": {"enum": ["a.txt", ""]},
    "output_format": {"enum": ["txt", ""]},
    "n_best": {"type": "integer", "minimum": 1, "maximum": 6},
    "alternatives": {"type": "integer", "minimum": 0, "maximum": 5},
    # Types that the server reads as the documented one, because clients of the three APIs send them.
    "alignment": {"enum": [True, False, 0, 1, ""]},
    "tag_handling": {"enum": ["xml", "html", ""]},
    "split_sentences": {"enum": ["0", "1", "nonewlines", 0, 1, ""]},
    "/translate format": {"enum": ["text", "html", ""]},
    "ignore_tags": TEXT_OR_TEXTS,
    "splitting_tags": TEXT_OR_TEXTS,
    "reference": TEXT_OR_NUMBER,
    "/inspect text": TEXT_OR_NUMBER,
    "/v2/translate text": {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]
    },
    "api_key": {},  # a server without keys does not read it
}
"""Schemas of fields that replace those of the document. Optional fields may also be null, as the document tells."""
RIGHT = {
    # Reasons to refuse a request that a schema cannot describe. In a form, a list with one empty text is an empty text.
    "Schema-valid request rejected": re.compile(
        "the file is not UTF-8|the text is empty|missing q parameter|alignment needs format text"
        "|no single model translates from|is not available as a target language from"  # the detected language
    ),
    # The document tells that numbers below the minimum are accepted.
    "Schema-violating request accepted": re.compile("than minimum|`minimum`"),
}
"""Failures of schemathesis that are none."""
EN = {"source": "en", "target": "de"}
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
BOUNDARY = "x"
UPLOAD = "".join(
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
    for name, value in (("source_lang", "EN"), ("target_lang", "DE"), ('file"; filename="a.txt', "It is late."))
)


@contextmanager
def serve(*flags: str) -> Iterator[str]:
    """Run a server in another process. Yields its address."""
    command = [sys.executable, "-m", "dragoman", "serve", "demo", "--port", "0", *LIMITS, *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+:\d+", process.stderr.readline())
        assert found is not None
        try:
            yield found[0]
        finally:
            process.terminate()
            logged = process.stderr.read()
    assert process.returncode == 0
    assert "Traceback" not in logged, logged


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server without keys."""
    with serve() as found:
        yield found


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that needs a key."""
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text("right\n", encoding="utf-8")
    with serve("--api-keys", str(keys)) as found:
        upload(found)  # a right key that was used stays accepted after wrong ones
        yield found


def upload(address: str) -> dict[str, str]:
    """Translate a file. Returns the name of its translation, and its key for DeepL's API."""
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}", "Authorization": "Bearer right"}
    request = urllib.request.Request(f"{address}/v2/document", f"{UPLOAD}--{BOUNDARY}--\r\n".encode(), headers)
    handle = json.load(urllib.request.urlopen(request))
    file, deadline = {"status": "translating"}, time.monotonic() + 30
    while file["status"] == "translating" and time.monotonic() < deadline:
        time.sleep(0.01)
        file = json.load(urllib.request.urlopen(f"{address}/v1/files/{handle['document_id']}"))
    return {"name": file["url"].rpartition("/")[2], "document_key": handle["document_key"]}


def document_for(path: str, address: str) -> dict[str, Any]:
    """The document with the fields of this server, and with the name of a translated file."""
    document = copy.deepcopy(DOCUMENT)
    file = {name: {"enum": [value, "unknown"]} for name, value in upload(address).items()} if "{name}" in path else {}
    fields = FIELDS | file
    for operation in document["paths"][path].values():
        for parameter in operation.get("parameters", []):
            name, schema = parameter["name"], parameter["schema"]
            parameter["schema"] = fields.get(f"{path} {name}", fields.get(name, schema))
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            schema = content["schema"]
            for name, field in schema["properties"].items():
                field = fields.get(f"{path} {name}", fields.get(name, field))
                is_nullable = kind == "application/json" and name not in schema.get("required", [])
                schema["properties"][name] = {"anyOf": [field, {"type": "null"}]} if is_nullable else field
            if kind == "multipart/form-data":
                disposition = {"Content-Disposition": {"example": 'form-data; filename="a.txt"'}}
                content["encoding"] = {"file": {"contentType": "text/plain", "headers": disposition}}
                languages = {"source_lang": "EN", "target_lang": "DE"} if path.startswith("/v2/") else EN
                content["example"] = {"file": "It is late."} | languages
    return document


@dataclass
class Exchange:
    """A request, its answer, and what schemathesis finds wrong, by title."""

    request: Any
    answer: Any
    failures: list[tuple[str, str]]

    def __str__(self) -> str:
        texts = [text for _, text in self.failures]
        return "\n".join(
            [*texts, f"{self.answer.status_code}: {self.answer.text[:500]}", self.request.as_curl_command()]
        )


def exchanges_of(path: str, method: str, address: str, num_random: int) -> list[Exchange]:
    """Send edge cases and this many random requests of each kind, always the same."""
    import requests  # these take seconds to import
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis.core.failures import FailureGroup

    schema = schemathesis.openapi.from_dict(document_for(path, address))
    operation = schema[path][method]
    session = requests.Session()
    found: list[Exchange] = []

    def send(case: Any) -> None:
        if case.media_type in FORMS and isinstance(case.body, dict) and [] in case.body.values():
            return  # an empty list is not sent, so the request is not the one that was generated
        answer = case.call(base_url=address, session=session, timeout=60)
        failures: list[tuple[str, str]] = []
        try:
            case.validate_response(answer)
        except FailureGroup as group:
            failures = [(one.title, f"{one.title}: {one.message}") for one in group.exceptions]
        found.append(Exchange(case, answer, failures))

    for mode in schemathesis.GenerationMode:
        generation = schema.config.generation_for(operation=operation)
        for case in schema.iter_coverage_cases(operation, generation_modes=[mode], generation_config=generation):
            send(case)
        if num_random and (mode == schemathesis.GenerationMode.POSITIVE or operation.body):
            settings(
                max_examples=num_random,
                derandomize=True,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )(given(operation.as_strategy(generation_mode=mode))(send))()
    return found


def assert_common(exchanges: list[Exchange], path: str) -> None:
    """Every answer has the common headers. Every error is JSON in the form of the API, also 404 and 405."""
    for answer in (one.answer for one in exchanges):
        assert answer.headers["access-control-allow-origin"] == ["*"]
        assert answer.headers["x-content-type-options"] == ["nosniff"]
        if answer.status_code >= 400:
            assert answer.json().keys() == ({"message", "detail"} if path.startswith("/v2/") else {"error"})


def assert_true(path: str, method: str, address: str, num_random: int) -> None:
    """The document is true for all answers of an operation, and some requests succeed."""
    exchanges = exchanges_of(path, method, address, num_random)
    assert any(one.answer.status_code == 200 for one in exchanges)
    assert_common(exchanges, path)
    wrong = [
        one
        for one in exchanges
        if any(title not in RIGHT or not RIGHT[title].search(text + one.answer.text) for title, text in one.failures)
    ]
    assert not wrong, f"{len(wrong)} of {len(exchanges)} requests:\n" + "\n\n".join(map(str, wrong[:5]))


@pytest.mark.parametrize(("path", "method"), [one for one in OPERATIONS if one.values[0] != "/inspect"])
def test_answers_are_those_of_the_document(path: str, method: str, address: str) -> None:
    assert_true(path, method, address, num_random=5)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_answers_to_many_requests_are_those_of_the_document(path: str, method: str, address: str) -> None:
    assert_true(path, method, address, num_random=20 if path == "/inspect" else 200)


@pytest.mark.parametrize(
    ("path", "method"),
    [one for one in OPERATIONS if "403" in DOCUMENT["paths"][one.values[0]][one.values[1]]["responses"]],
)
def test_no_request_without_a_right_key_succeeds(path: str, method: str, locked: str) -> None:
    exchanges = exchanges_of(path, method, locked, num_random=0)
    assert_common(exchanges, path)
    wrong = [
        one
        for one in exchanges
        if (one.answer.status_code < 400 and one.request.method != "OPTIONS")
        or any(title != "Schema-valid request rejected" for title, _ in one.failures)
    ]
    assert not wrong, f"{len(wrong)} of {len(exchanges)} requests:\n" + "\n\n".join(map(str, wrong[:5]))

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from dragoman.bundle import Card, Model
from dragoman.errors import ConfigError, DataError
from dragoman.files import MANIFEST, sha256_of
from dragoman.inference.preservation import translate_html
from dragoman.inference.translator import Translator
from dragoman.records import Candidate, Details, Translation
from dragoman.serving.app import make_app
from dragoman.serving.http.keys import Keys
from dragoman.serving.limits import ServeSettings
from dragoman.serving.models import BatchKey, Models, ServedModel, add_terms, load_served_model
from dragoman.serving.service import Service
from dragoman.text.documents.markers import MarkedText

TEXT = "one two three. four Bahnhof"


@pytest.fixture(scope="module")
def real(served_folder: Callable[[str], Path]) -> Iterator[TestClient]:
    """A server with a small untrained model."""
    service = Service(Models([load_served_model(str(served_folder("en-de")))]), ServeSettings(lanes=2))
    with TestClient(make_app(service, Keys(None, 0))) as opened:
        yield opened


def test_answers_match_the_translator(real: TestClient, served_folder: Callable[[str], Path]) -> None:
    translator = Translator.load(served_folder("en-de"))
    expected = translator.translate_detailed([TEXT], details=Details(alignment=True), n_best=2)[0]
    sent = {"text": TEXT, "source": "en", "target": "de", "n_best": 2, "alignment": True}
    got = real.post("/v1/translate", json=sent).json()["translations"][0]
    best = expected.candidates[0]
    assert got["text"] == expected.text
    assert [one["text"] for one in got["candidates"]] == [one.text for one in expected.candidates]
    assert got["candidates"][0]["tokens"] == list(best.tokens)
    assert got["candidates"][0]["score"] == pytest.approx(best.score, abs=1e-3)
    assert got["candidates"][0]["token_log_probs"] == pytest.approx(best.token_log_probs, abs=1e-3)
    assert got["sentences"][0]["alignment"] == [list(link) for link in expected.alignment]
    sentences = ["one two three.", "Four Bahnhof"]
    sent = {"text": "  ".join(sentences), "source": "en", "target": "de"}
    by_sentence = real.post("/v1/translate", json=sent).json()["translations"][0]
    assert by_sentence["text"] == "  ".join(translator.translate(sentences))


class Doubled(ServedModel):
    """Returns three candidates, of which the first two have the same text."""

    def translate(self, texts: Sequence[MarkedText], key: BatchKey) -> list[Translation]:
        candidates = [
            Candidate(text, (f"token {rank}",), (-float(rank),), -float(rank), -float(rank))
            for rank, text in enumerate(("one", "one", "two"))
        ]
        return [Translation(one.text, tuple(candidates[: key.n_best]), 1, False) for one in texts]


def test_each_candidate_has_its_own_score_and_tokens(make_service: Callable[..., Service]) -> None:
    sent = {"text": "eins", "source": "de", "target": "en", "n_best": 3}
    with TestClient(make_app(make_service("de-en", model_class=Doubled), Keys(None, 0))) as client:
        candidates = client.post("/v1/translate", json=sent).json()["translations"][0]["candidates"]
    found = [(one["text"], one["score"], one["tokens"]) for one in candidates]
    assert found == [("one", 0.0, ["token 0"]), ("two", -2.0, ["token 2"])]


def test_html_is_translated_as_by_the_library(real: TestClient, served_folder: Callable[[str], Path]) -> None:
    page = '<p>one <b>two</b> {name} <i translate="no">three</i>. Four &lt;b&gt; https://x.y/z</p><pre>one</pre>'
    sent = {"text": page, "source": "en", "target": "de", "format": "html"}
    got = real.post("/v1/translate", json=sent).json()["translations"][0]["text"]
    assert got == translate_html(Translator.load(served_folder("en-de")), page)
    assert all(piece in got for piece in ("{name}", "https://x.y/z", '<i translate="no">three</i>', "<pre>one</pre>"))


def test_placeholders_are_kept_and_losses_reported(served_folder: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("two\tZwo\nthree\tDrei\n")
    bare = load_served_model(str(served_folder("en-de")), {"inference.max_extra_tokens": "3"})
    model = add_terms([bare], [str(tmp_path / "terms.tsv")])[0]
    with TestClient(make_app(Service(Models([model]), ServeSettings(lanes=1)), Keys(None, 0))) as client:
        sent = {"text": "one two {name}", "source": "en", "target": "de", "alignment": True}
        answer = client.post("/v1/translate", json=sent).json()["translations"][0]
    assert "Zwo" in answer["text"]
    assert "{name}" in answer["text"]
    assert answer["lost"] == []


def test_an_existing_file_name_with_an_equals_sign_is_a_terms_file(
    make_service: Callable[..., Service], tmp_path: Path
) -> None:
    (tmp_path / "version=2.tsv").write_text("two\tZwo\n")
    (model,) = add_terms(make_service("en-de").models.all, [str(tmp_path / "version=2.tsv")])
    assert model.terms


@pytest.mark.parametrize("given", [["xx-de=terms.tsv"], ["terms.tsv", "en-de=terms.tsv"], ["en-de="]])
def test_terms_for_an_unserved_pair(given: list[str], make_service: Callable[..., Service], tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("two\tZwo\n")
    given = [one.replace("terms.tsv", str(tmp_path / "terms.tsv")) for one in given]
    with pytest.raises(ConfigError, match="must be PAIR=FILE"):
        add_terms(make_service("en-de").models.all, given)
    with pytest.raises(ConfigError, match="must be PAIR=FILE"):
        add_terms(make_service("en-de", "de-en").models.all, [str(tmp_path / "terms.tsv")])


def test_flags(real: TestClient) -> None:
    long = "one two three four " * 20
    asked = {"text": [long], "source": "en", "target": "de"}
    flags = real.post("/v1/translate", json=asked).json()["translations"][0]["flags"]
    assert "split" in flags
    assert "cut" in flags, "the model never predicts eos"


def test_inspect(real: TestClient) -> None:
    data = real.post("/inspect", json={"text": TEXT, "source": "en", "target": "de", "reference": "eins"}).json()
    assert data["src"]["text"] == TEXT
    assert data["reference"] == "eins"
    assert data["steps"]
    assert {"cross", "encoder_self", "decoder_self"} == {one["kind"] for one in data["weights"]}
    refused = real.post("/inspect", json={"text": "", "source": "en", "target": "de"})
    assert refused.status_code == 400
    assert "text" in refused.json()["error"]


def test_models(real: TestClient) -> None:
    said = real.get("/v1/models").json()
    assert said["pairs"] == ["en-de"]
    assert said["models"][0]["pair"] == "en-de"
    assert len(said["models"][0]["fingerprint"]) == 12


def test_a_changed_folder_does_not_affect_the_served_model(
    small_bundle: Model, served_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(served_folder("en-de"), folder)
    service = Service(Models([load_served_model(str(folder))]), ServeSettings(lanes=1))
    sent = {"text": "one two three", "q": "one two three", "source": "en", "target": "de", "n_best": 2}
    with TestClient(make_app(service, Keys(None, 0))) as client:

        def answers() -> list[Any]:
            posted = [client.post(path, json=sent).json() for path in ("/inspect", "/translate", "/v1/translate")]
            return [*posted, client.get("/v1/models").json()]

        before = answers()
        weights = folder / "model.safetensors"
        content = bytearray(weights.read_bytes())
        content[-4000:] = content[-4000:][::-1]
        with weights.open("r+b") as stream:
            stream.write(content)
        assert answers() == before
        os.truncate(weights, 1000)
        assert answers() == before
        replace(small_bundle, card=Card(train_pairs=1)).save(folder)
        assert answers() == before
        shutil.rmtree(folder)
        assert answers() == before
    assert before[3]["models"][0]["fingerprint"] == sha256_of(served_folder("en-de") / MANIFEST)[:12]


def test_translation_through_a_pivot(make_service: Callable[..., Service]) -> None:
    sent = {"q": "Hi", "source": "fr", "target": "de"}
    with TestClient(make_app(make_service("fr-en", "en-de", pivot="en"), Keys(None, 0))) as client:
        assert client.post("/translate", json=sent).json() == {"translatedText": "Hi [en] [de]"}
        answer = client.post("/translate", json=sent | {"alternatives": 1}).json()
        assert answer["alternatives"] == ["Hi [en] [de1]"]
    with TestClient(make_app(make_service("fr-en", "en-de"), Keys(None, 0))) as client:
        assert client.post("/translate", json=sent).status_code == 400


def test_files_report_their_progress(client: TestClient) -> None:
    fields = {"source": "en", "target": "de"}
    said = client.post("/v1/files", data=fields, files={"file": ("a b.txt", "Hello\n" * 600)}).json()
    assert said["status"] in ("translating", "done")
    while said["status"] == "translating":
        said = client.get(f"/v1/files/{said['id']}").json()
    assert (said["status"], said["translated"], said["segments"]) == ("done", 600, 600)
    assert client.get(said["url"]).text == "Hello [de]\n" * 600
    assert client.get("/v1/files/other").status_code == 404


def test_keys_and_rates(make_service: Callable[..., Service], tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("secret # mine\n\nother\n", encoding="utf-8-sig")
    sent = {"q": "a", "source": "en", "target": "de"}
    with TestClient(make_app(make_service(), Keys(path, 2))) as client:
        none = client.post("/translate", json=sent)
        assert (none.status_code, none.json()["error"]) == (400, "Please contact the server operator to get an API key")
        wrong = client.post("/translate", json=sent | {"api_key": "x"})
        assert (wrong.status_code, wrong.json()["error"]) == (403, "Invalid API key")
        assert client.get("/v2/usage").status_code == 403, "DeepL's client expects this status"
        assert client.get("/v2/usage", headers={"Authorization": "DeepL-Auth-Key other"}).status_code == 200
        codes = [client.post("/translate", json=sent | {"api_key": "secret"}).status_code for _ in range(3)]
        assert codes == [200, 200, 429]
        slow = client.post("/translate", headers={"Authorization": "Bearer secret"}, json=sent)
        assert slow.json()["error"] == "Slowdown: 2 per 1 minute"
        assert 1 <= int(slow.headers["retry-after"]) <= 30
        assert client.get("/frontend/settings").json()["keyRequired"] is True
        cookie = {"Cookie": "other=1; dragoman-key-5001=another-server's; dragoman-key-5000=%6Fther"}
        assert client.post("/translate", headers=cookie, json=sent).status_code == 400, (
            "forms of other sites send the cookie too"
        )
        empty = client.get("/look", headers=cookie, params=sent | {"q": ""})
        assert empty.json()["error"].startswith("Invalid request"), "the key is accepted"
        strange = client.get("/look", headers={"Cookie": "dragoman-key-5001=another-server's"}, params=sent)
        assert (strange.status_code, strange.json()["error"]) == (403, "Invalid API key")
        assert "secret" not in client.get("/metrics").text


def test_guesses_of_keys_are_limited(make_service: Callable[..., Service], tmp_path: Path) -> None:
    """Guesses are limited per address. A key that was accepted before still works from any address."""
    (tmp_path / "keys").write_text("secret\nother\n")
    sent = {"q": "a", "source": "en", "target": "de"}
    app = make_app(make_service(), Keys(tmp_path / "keys", 0))
    with TestClient(app) as client, TestClient(app, client=("elsewhere", 1)) as elsewhere:

        def status(key: str, asking: TestClient = client) -> int:
            return asking.post("/translate", json=sent | {"api_key": key}).status_code

        assert [status("secret") for _ in range(40)] == [200] * 40
        assert [status(f"guess {number}") for number in range(30)] == [403] * 30
        refused = client.post("/v2/translate", json={}, headers={"Authorization": "DeepL-Auth-Key guess"})
        assert (refused.status_code, refused.json()["message"]) == (429, "Slowdown: 30 wrong API keys per 1 minute")
        assert 1 <= int(refused.headers["retry-after"]) <= 3
        assert status("other") == 429, "the answer does not reveal a right key"
        assert (status("secret"), status("other", elsewhere)) == (200, 200)
        same_network = [TestClient(app, client=(f"2001:db8::{number}", 1)) for number in (1, 2)]
        assert [status("guess", same_network[0]) for _ in range(30)] == [403] * 30
        assert status("guess", same_network[1]) == 429
    cookies = "; ".join(f"dragoman-key-{number}=guess{number}" for number in range(50))
    with TestClient(make_app(make_service(), Keys(tmp_path / "keys", 0))) as client:
        looked = client.get("/look", headers={"Cookie": f"{cookies}; dragoman-key=secret"}, params=sent)
        assert looked.status_code == 403


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "keys does not exist."),
        (b"# none\n\n", "keys has no API keys."),
        (b"good\nb\xffd\n", "keys, line 2, byte 2 of the line is 0xff, which is not UTF-8."),
        ("good\n".encode("utf-16"), "keys is UTF-16, but UTF-8 is expected."),
    ],
)
def test_invalid_key_files(content: bytes | None, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError) as error:
        Keys(path, 0)
    assert str(error.value).startswith(f"{tmp_path}/{complaint}")
    assert "\n" not in str(error.value)


def test_metrics_and_probes(client: TestClient) -> None:
    client.post("/translate", json={"q": "confidential", "source": "en", "target": "de"})
    client.get("/some/secret/path")
    text = client.get("/metrics").text
    assert 'dragoman_requests_total{code="200",route="/translate"}' in text
    assert 'route="other"' in text
    assert re.search(r'^dragoman_model_info\{fingerprint="[0-9a-f]{12}",pair="en-de"\} 1\.0$', text, re.MULTILINE)
    assert "confidential" not in text
    assert "secret" not in text
    assert "testclient" not in text
    assert client.get("/livez").json() == client.get("/readyz").json() == {"status": "ok"}


def test_pages_load_nothing_from_other_servers(client: TestClient) -> None:
    for path in ("/", "/docs"):
        page = client.get(path)
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "unsafe" not in page.headers["content-security-policy"]
        assert "//" not in page.text.replace("http://testserver", "").replace("http://127.0.0.1", "")


def test_the_openapi_document_describes_every_route(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method in methods:
            assert client.request(method, path.replace("{name}", "x")).status_code != 405, path
    for path in ("/translate", "/detect", "/languages", "/v1/translate", "/v2/translate", "/inspect", "/metrics"):
        assert path in document["paths"]
    page = client.get("/docs").text
    assert "<code>error</code>" in page
    assert "`" not in page
    assert all(path.partition("{name}")[0] in page for path in document["paths"])
    for method, path in [(method, path) for path, methods in document["paths"].items() for method in methods]:
        assert page.count(f"<h3><code>{method.upper()} {path}</code></h3>") == 1
    assert page.count("<table>") == sum(
        "requestBody" in one for all_ in document["paths"].values() for one in all_.values()
    )
    assert "http://testserver/translate" in page  # the client's address, so that example commands work unchanged


def test_without_the_page(make_service: Callable[..., Service]) -> None:
    with TestClient(make_app(make_service(), Keys(None, 0), with_page=False)) as client:
        assert client.get("/").status_code == 404
        page = client.get("/docs").text
        links = re.findall(r'(?:href|src)="([^"]*)"', page)
        assert set(links) == {"data:,", "page.css", "docs.css", "theme.js", "openapi.json"}, (
            "relative links work under any prefix of a proxy"
        )
        assert [client.get(f"/{link}").status_code for link in links[1:]] == [200] * 4


def test_the_examples_of_the_openapi_document_work(client: TestClient) -> None:
    examples: list[tuple[str, Any]] = []
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        content = methods.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        examples += [(path, content["example"])] if "example" in content else []
    assert len(examples) >= 5
    for path, example in examples:
        if path != "/inspect":  # needs a model
            answer = client.post(path, json=example)
            assert answer.status_code == 200, (path, answer.text)


@pytest.mark.parametrize("number", ["--5", "5-", "²", "1" * 30])
def test_invalid_numbers_are_refused(client: TestClient, number: str) -> None:
    fields = {"q": "x", "source": "en", "target": "de", "alternatives": number}
    answer = client.post("/translate", data=fields)
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "Invalid request: alternatives parameter is not a number",
    )


def test_a_whole_number_with_a_point_is_an_integer(client: TestClient) -> None:
    """JSON has one type for numbers, and PHP and Lua may write 1 as 1.0."""
    fields = {"q": "x", "source": "en", "target": "de"}
    answers = [client.post("/translate", json=fields | {"alternatives": number}).json() for number in (1.0, 1)]
    assert answers[0] == answers[1]
    assert len(answers[0]["alternatives"]) == 1
    for number in (0.5, 1e300, float("inf")):
        content = json.dumps(fields | {"alternatives": number})
        refused = client.post("/translate", content=content, headers={"Content-Type": "application/json"})
        assert refused.status_code == 400, number

"""Tags of requests: which ids reach the search, and what is refused."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from dragoman.bundle import Model
from dragoman.errors import ConfigError
from dragoman.serving.app import make_app
from dragoman.serving.http.keys import Keys
from dragoman.serving.models import drop_unknown_tags, load_served_model
from dragoman.serving.service import TranslationRequest
from dragoman.workflows.progress import Progress
from tests.unit.serving.sent_files import EN, wait_for_end
from tests.unit.serving.tagged_models import Recorder, tagged_service, with_tags

ENGLISH, FRENCH = "Where is the train station?", "Où est la gare, s'il vous plaît ?"
Opening = Callable[..., tuple[TestClient, Recorder]]


@pytest.fixture
def opened(small_bundle: Model, served_folder: Callable[[str], Path]) -> Iterator[Opening]:
    """A server for pairs with tags, and the record of its searches."""
    with ExitStack() as stack:

        def opening(pairs: dict[str, str], default: str | None = None, **options: Any) -> tuple[TestClient, Recorder]:
            service, recorder = tagged_service(small_bundle, served_folder("en-de"), pairs, **options)
            if default is not None:
                service.models.all[0].overrides["tag"] = default
            client = stack.enter_context(TestClient(make_app(service, Keys(None, 0))))
            recorder.take()  # those of the start
            return client, recorder

        yield opening


def translate(client: TestClient, text: Any = ENGLISH, **more: Any) -> Any:
    return client.post("/v1/translate", json={"text": text, "split": "none"} | EN | more)


def test_the_search_gets_the_tag_of_the_request(opened: Opening) -> None:
    client, recorder = opened({"en-de": "legal news"})
    scores = {}
    for tag in ("legal", "news", "", None):
        answer = translate(client, tag=tag)
        assert answer.status_code == 200
        scores[tag] = answer.json()["translations"][0]["candidates"][0]["score"]
        assert recorder.take() == [("en-de", tag or "")]
    assert translate(client, tag="legal", n_best=3).status_code == 200
    assert recorder.take() == [("en-de", "legal")]
    assert len(set(scores.values())) == 3
    assert scores[""] == scores[None]
    assert client.post("/v1/translate", data={"text": "one", "tag": "news"} | EN).status_code == 200
    assert recorder.take() == [("en-de", "news")]


def test_a_request_without_a_tag_gets_the_default_of_the_server(opened: Opening) -> None:
    client, recorder = opened({"en-de": "legal news"}, default="news")
    for path, sent in (
        ("/v1/translate", {"text": "one"} | EN),
        ("/v1/translate", {"text": "one", "tag": ""} | EN),
        ("/translate", {"q": "one", "tag": "legal"} | EN),
        ("/v2/translate", {"text": ["one"], "source_lang": "EN", "target_lang": "DE", "tag": "legal"}),
    ):
        assert client.post(path, json=sent).status_code == 200
        assert recorder.take() == [("en-de", "news")], path
    translate(client, tag="legal")
    assert recorder.take() == [("en-de", "legal")]
    (model,) = client.get("/v1/models").json()["models"]
    assert (model["tags"], model["tag"]) == (["legal", "news"], "news")


class Notes(Progress):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def test_the_default_is_that_of_the_model_or_of_the_command_line(small_bundle: Model, tmp_path: Path) -> None:
    model = with_tags(small_bundle, "legal", "news")
    settings = replace(model.config.inference, tag="legal")
    replace(model, config=replace(model.config, inference=settings)).save(tmp_path / "legal")
    small_bundle.save(tmp_path / "plain")
    for given, expected in ({}, "legal"), ({"inference.tag": "news"}, "news"), ({"inference.tag": ""}, ""):
        served = [load_served_model(f"{pair}={tmp_path / name}", given) for pair, name in
                  (("en-de", "legal"), ("de-fr", "plain"))]  # fmt: skip
        notes = Notes()
        drop_unknown_tags(served, notes)
        assert [one.settings().tag for one in served] == [expected, ""]
        assert [f"{tmp_path / 'plain'} is served without the tag news" in text for text in notes.texts] == (
            [True] if expected == "news" else []
        )
    served = [load_served_model(f"{pair}={tmp_path / name}", {"inference.tag": "medical"}) for pair, name in
              (("de-fr", "plain"), ("en-de", "legal"))]  # fmt: skip
    with pytest.raises(ConfigError, match=r"is 'medical', but the model has no such tag\. Choose one of legal, news"):
        drop_unknown_tags(served, Notes())


def test_texts_with_different_tags_are_in_different_batches(
    small_bundle: Model, served_folder: Callable[[str], Path]
) -> None:
    async def run() -> None:
        service, recorder = tagged_service(small_bundle, served_folder("en-de"), {"en-de": "legal news"})
        await service.start()
        recorder.take()
        wanted = ["legal", "news", ""] * 4
        slow = asyncio.create_task(service.translate(TranslationRequest(["slow"], "en", "de")))
        await asyncio.sleep(0.1)  # the only lane is busy, so that all others wait together
        requests = [TranslationRequest([f"one {tag}"], "en", "de", tag=tag) for tag in wanted]
        answers = await asyncio.gather(*map(service.translate, requests))
        await slow
        found = [tags for _, tags in recorder.searches[1:]]
        assert all(len(set(tags)) == 1 for tags in found), found
        assert sorted(tag for tags in found for tag in tags) == sorted(wanted)
        assert max(map(len, found)) > 1, "requests with the same tag share a batch"
        alone = [(await service.translate(one))[0].text for one in requests[:3]]
        assert [one[0].text for one in answers] == alone * 4
        await service.close()

    with ThreadPoolExecutor(1) as apart:  # the main thread may have a loop of Playwright
        apart.submit(asyncio.run, run()).result()


@pytest.mark.parametrize("path", ["/v1/translate", "/v1/files", "/inspect", "/look"])
@pytest.mark.parametrize("source", ["en", "auto"])
@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ("legal news", "Invalid request: tag must be one of legal, news, but is 'Legal\\n more'"),
        ("", "Invalid request: tag must be left out, because the models have no tags, but is 'Legal\\n more'"),
    ],
)
def test_unknown_tags_are_refused(opened: Opening, path: str, source: str, tags: str, words: str) -> None:
    client, recorder = opened({"en-de": tags})
    fields = {"source": source, "target": "de", "tag": "Legal\n more"}
    if path == "/v1/files":
        answer = client.post(path, data=fields, files={"file": ("a.txt", ENGLISH)})
    elif path == "/look":
        answer = client.get(path, params=fields | {"text": ENGLISH})
    else:
        answer = client.post(path, json=fields | {"text": ENGLISH})
    assert (answer.status_code, answer.json()) == (400, {"error": words})
    assert recorder.take() == []
    assert translate(client, tag=["legal"]).json() == {"error": "Invalid request: tag must be a string"}


def test_a_tag_applies_to_the_models_of_a_path_that_have_it(opened: Opening) -> None:
    client, recorder = opened({"fr-en": "legal", "en-de": "legal news", "de-fr": "spoken"}, pivot="en")
    french = {"source": "fr", "target": "de"}
    for tag, first in ("legal", "legal"), ("news", ""), ("", ""):
        assert translate(client, FRENCH, tag=tag, **french).status_code == 200
        assert recorder.take() == [("fr-en", first), ("en-de", tag)]
    answer = translate(client, FRENCH, tag="spoken", **french)
    assert answer.status_code == 400
    assert "tag must be one of legal, news, but is 'spoken'" in answer.json()["error"]
    facts = client.get("/v1/models").json()
    assert (facts["pivot"], [one["tags"] for one in facts["models"]]) == (
        "en",
        [["legal"], ["legal", "news"], ["spoken"]],
    )


def test_with_a_detected_language_the_models_of_the_texts_decide(opened: Opening) -> None:
    client, recorder = opened({"fr-de": "", "en-de": "legal"})
    asked = {"source": "auto", "tag": "legal"}
    assert translate(client, ENGLISH, **asked).status_code == 200
    assert recorder.take() == [("en-de", "legal")]
    answer = translate(client, [ENGLISH, FRENCH, "12"], **asked)
    assert answer.status_code == 200
    assert [one["source"] for one in answer.json()["translations"]][:2] == ["en", "fr"]
    assert sorted(recorder.take()) == [("en-de", "legal"), ("fr-de", "")]
    answer = translate(client, FRENCH, **asked)
    assert (answer.status_code, answer.json()["error"][:40]) == (400, "Invalid request: tag must be left out, b")
    german = "Wo ist der Bahnhof, bitte?"
    answer = translate(client, german, **asked)
    assert answer.json()["translations"][0]["text"] == german, "no model translates it, so none needs the tag"


def test_files_are_translated_with_the_tag(opened: Opening) -> None:
    client, recorder = opened({"en-de": "legal news", "fr-de": ""})
    translated = {}
    for source, tag in ("en", "legal"), ("auto", "legal"), ("en", "news"), ("en", ""):
        fields = {"source": source, "target": "de", "tag": tag}
        sent = client.post("/v1/files", data=fields, files={"file": ("a.txt", f"{ENGLISH}\n")})
        assert sent.status_code == 200
        ended = wait_for_end(client, sent.json()["id"])
        assert recorder.take() == [("en-de", tag)]
        translated[source, tag] = client.get(ended["url"]).text
    assert translated["en", "legal"] == translated["auto", "legal"]
    assert translated["en", "legal"] != translated["en", ""]
    fields = {"source": "auto", "target": "de", "tag": "legal"}
    sent = client.post("/v1/files", data=fields, files={"file": ("a.txt", FRENCH)})
    ended = wait_for_end(client, sent.json()["id"])
    assert ended["error"] == "Invalid request: tag must be left out, because the models have no tags, but is 'legal'"


def test_inspections_show_the_tag_and_their_links_keep_it(opened: Opening) -> None:
    client, _ = opened({"en-de": "legal news"}, default="news")
    asked = {"text": "one two three"} | EN
    for sent, token in ({}, "<tag:news>"), ({"tag": "legal"}, "<tag:legal>"):
        data = client.post("/inspect", json=asked | sent).json()
        assert data["src"]["tokens"][0] == token
        assert data["tgt"]["text"] == translate(client, asked["text"], **sent).json()["translations"][0]["text"]
    page = client.get("/look", params=asked | {"tag": "legal"}).text
    assert "&tag=legal" in page.replace("\\u0026", "&").replace("&amp;", "&")

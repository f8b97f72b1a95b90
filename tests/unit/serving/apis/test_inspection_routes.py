"""Requests of the translation page: sentences with words and alignment, and the inspection page."""

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from dragoman.bundle import Model
from dragoman.inference.translator import Translator
from dragoman.records import Candidate, Details, Translation
from dragoman.serving.apis.native_api import _describe_sentence
from dragoman.serving.app import make_app
from dragoman.serving.http.keys import Keys
from dragoman.serving.models import ServedModel
from dragoman.serving.service import Service
from dragoman.text.tokenization.words import spaced_words

ASKED = {"source": "en", "target": "de", "text": "one two three"}


@pytest.fixture(scope="module")
def real(make_service: Callable[..., Service]) -> Iterator[TestClient]:
    """A server with a small untrained model, and a third language through a pivot."""
    service = make_service("en-de", "de-fr", model_class=ServedModel, pivot="de")
    with TestClient(make_app(service, Keys(None, 0))) as opened:
        yield opened


def data_of(page: str) -> Any:
    """The data of the inspection page."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found)


def translate(client: TestClient, text: str, **more: Any) -> Any:
    sent = {"text": text, "source": "en", "target": "de", "alignment": True} | more
    return client.post("/v1/translate", json=sent).json()["translations"][0]


def test_sentences_are_in_order_with_words_and_alignment(real: TestClient, small_bundle: Model) -> None:
    translator = Translator.from_models([small_bundle])
    sources = ["one two three.", "Four five?", "two"]
    answer = translate(real, f"  {sources[0]} {sources[1]}\n\n - \n{sources[2]}")
    assert [one["source"] for one in answer["sentences"]] == sources, "parts without letters are left out"
    place = 0
    for source, one in zip(sources, answer["sentences"], strict=True):
        expected = translator.translate_detailed([source], details=Details(alignment=True))[0]
        assert one["text"] == expected.text
        assert one["alignment"] == [list(link) for link in expected.alignment or ()]
        place = answer["text"].index(one["text"], place) + len(one["text"])


def test_a_words_probability_is_the_product_of_its_tokens(real: TestClient, small_bundle: Model) -> None:
    answer = translate(real, "one two three five")
    best = Translator.from_models([small_bundle]).translate_detailed(["one two three five"])[0].candidates[0]
    words = answer["sentences"][0]["words"]
    expected = [1.0] * len(answer["text"].split())
    for touched, log_prob in zip(spaced_words(best.tokens), best.token_log_probs, strict=False):
        for word in touched:
            expected[word] *= math.exp(log_prob)
    assert len(best.tokens) > len(words) > 1, "words of several tokens"
    assert words == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("text", "tokens", "log_probs", "words"),
    [
        ("ab c", ("▁a", "b", "▁c"), (-0.5, -0.25, -1.0, -9.0), [0.4724, 0.3679]),
        ("a", ("▁", "▁a"), (-3.0, -0.5), [0.6065]),
        ("ü", ("▁", "<0xC3>", "<0xBC>"), (0.0, -0.5, -0.5), [0.3679]),
        ("", (), (-0.5,), []),
        ("two words", ("▁one",), (-0.5,), [None, None]),
    ],
    ids=["eos apart", "space apart", "bytes", "nothing", "other words"],
)
def test_word_probabilities_of_artificial_tokens(
    text: str, tokens: tuple[str, ...], log_probs: tuple[float, ...], words: list[float | None]
) -> None:
    candidate = Candidate(text, tokens, log_probs, sum(log_probs), 0.0)
    sentence = _describe_sentence(Translation("source", (candidate,), 1, False, ((0, 0),)))
    assert sentence == {"source": "source", "text": text, "words": words, "alignment": [[0, 0]]}


def test_no_sentences_without_alignment(real: TestClient) -> None:
    assert "sentences" not in translate(real, "one", alignment=False)
    assert "sentences" not in translate(real, "one", target="en"), "nothing was translated"


def test_the_inspection_page_links_to_alternatives_and_back(real: TestClient) -> None:
    answer = real.get("/look", params=ASKED)
    assert answer.headers["content-type"].startswith("text/html")
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    before = data_of(answer.text)
    assert (before["src"]["text"], before["src_lang"], before["tgt_lang"]) == ("one two three", "en", "de")
    assert (before["explore"], before["forced"]) == ("?source=en&target=de&text=one+two+three", 0)
    assert before["tgt"]["text"] == translate(real, "one two three")["text"]
    prefix = [*before["tgt"]["ids"][:2], before["steps"][2]["alternatives"][0]["id"]]
    after = data_of(real.get(f"/look{before['explore']}&prefix={','.join(map(str, prefix))}").text)
    assert after["tgt"]["ids"][:3] == prefix
    assert (after["forced"], after["explore"]) == (3, before["explore"])


def test_inspections_use_the_servers_search_settings(make_service: Callable[..., Service], small_bundle: Model) -> None:
    service = make_service("en-de", model_class=ServedModel, max_alternatives=2)
    service.models.all[0].overrides.update(beam_size=1, max_extra_tokens=2)
    with TestClient(make_app(service, Keys(None, 0))) as client:
        for n_best in (1, 3):
            answer = translate(client, ASKED["text"], n_best=n_best)
            asked = ASKED | {"n_best": str(n_best)}
            seen = [data_of(client.get("/look", params=asked).text), client.post("/inspect", json=asked).json()]
            for one in seen:
                assert [each["text"] for each in one["n_best"]] == [each["text"] for each in answer["candidates"]]
            assert f"&n_best={n_best}" in seen[0]["explore"]
        assert client.get("/look", params=ASKED | {"n_best": "4"}).status_code == 400
    wider = Translator.from_models([small_bundle]).translate([ASKED["text"]])[0]
    assert wider != answer["text"]


def test_links_keep_the_detected_language_and_the_key(make_service: Callable[..., Service], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a&b\n")
    text = "</script><b>Where is the train station?"
    asked = ASKED | {"text": text, "source": "auto"}
    with TestClient(make_app(make_service(model_class=ServedModel), Keys(tmp_path / "keys", 0))) as client:
        assert client.get("/look", params=asked).status_code == 400
        page = client.get("/look", params=asked | {"api_key": "a&b"}).text
    assert text not in page
    assert data_of(page)["src"]["text"] == text
    assert data_of(page)["explore"].startswith("?source=en&target=de&text=")
    assert data_of(page)["explore"].endswith("&api_key=a%26b")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"text": ""}, "the text is empty"),
        ({"text": "one " * 600}, "may have at most 500 tokens"),
        ({"text": "x" * 6000}, "exceeds text limit"),
        ({"target": "fr"}, "no single model translates from en to fr"),
        ({"target": "en"}, "no single model translates from en to en"),
        ({"target": "xx"}, "xx is not supported"),
        ({"target": ""}, "missing target"),
        ({"prefix": "1,x"}, "prefix must be token ids"),
        ({"prefix": "7,"}, "prefix must be token ids"),
        ({"prefix": "-1"}, "prefix must be token ids"),
        ({"prefix": "99999999999"}, "prefix must be token ids"),
        ({"prefix": "999999999"}, "cannot start with these tokens"),
        ({"prefix": "0"}, "cannot start with these tokens"),
        ({"prefix": ",".join(["7"] * 501)}, "cannot start with these tokens"),
    ],
)
def test_impossible_inspections_are_refused_in_one_line(real: TestClient, wrong: dict[str, str], words: str) -> None:
    answer = real.get("/look", params=ASKED | wrong)
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]

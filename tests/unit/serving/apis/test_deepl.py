import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from dragoman.serving.app import make_app
from dragoman.serving.http.keys import Keys
from dragoman.serving.service import Service


def ask(client: TestClient, **fields: Any) -> Any:
    answer = client.post("/v2/translate", json={"target_lang": "DE", "source_lang": "EN", **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"]


def test_translate(client: TestClient) -> None:
    same = {"detected_source_language": "EN", "model_type_used": "latency_optimized"}
    assert ask(client, text=["Hello", "Bye."]) == [
        same | {"billed_characters": 5, "text": "Hello [de]"},
        same | {"billed_characters": 4, "text": "Bye. [de]"},
    ]
    form = client.post("/v2/translate", data={"text": ["a", "b"], "target_lang": "DE", "source_lang": "en"}).json()
    assert [one["text"] for one in form["translations"]] == ["a [de]", "b [de]"]
    assert ask(client, text="Hi", target_lang="DE-AT")[0]["text"] == "Hi [de]"


def test_style_options_have_no_effect(client: TestClient) -> None:
    extra = {"formality": "more", "context": "c", "model_type": "quality_optimized", "show_billed_characters": True}
    assert ask(client, text=["Hello"], **extra)[0]["text"] == "Hello [de]"


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("1", "One. [de] Two. [de]\nThree. [de]"),
        ("0", "One. Two.\nThree. [de]"),
        ("nonewlines", "One. [de] Two. [de] Three. [de]"),
    ],
)
def test_split_sentences(client: TestClient, split: str, expected: str) -> None:
    assert ask(client, text=["One. Two.\nThree."], split_sentences=split)[0]["text"] == expected


def test_tags(client: TestClient) -> None:
    sent = 'Go <x id="5"></x> or <x>keep</x> now &lt;b&gt;'
    text = ask(client, text=[sent], tag_handling="xml", ignore_tags=["x"])[0]["text"]
    assert text == 'Go <x id="5"></x> or <x>keep</x> now &lt;b&gt; [de]'
    assert ask(client, text=["<p>a</p>"], tag_handling="html")[0]["text"] == "<p>a [de]</p>"


@pytest.mark.parametrize(
    ("sent", "fields", "expected"),
    [
        ("a\n\n<b>c</b> d\n", {}, "a [de]\n\n<b>c</b> d [de]\n"),
        ("<b>a\nc</b>", {}, "<b>a [de]\nc [de]</b>"),
        ("<k>a\nc</k> d", {"ignore_tags": "k"}, "<k>a\nc</k> d [de]"),
        ("<t>a</t><p>c</p>", {"splitting_tags": "t,p"}, "<t>a [de]</t><p>c [de]</p>"),
        ("a\nc<dragoman-line/>", {}, "a c [de]<dragoman-line/>"),
        ("a\nc", {"split_sentences": "0"}, "a c [de]"),
    ],
)
def test_lines_and_splitting_tags_of_xml(client: TestClient, sent: str, fields: dict[str, str], expected: str) -> None:
    assert ask(client, text=[sent], tag_handling="xml", **fields)[0]["text"] == expected


def test_old_clients_send_the_fields_in_the_query_and_the_key_in_a_field(
    make_service: Callable[..., Service], tmp_path: Path
) -> None:
    (tmp_path / "keys").write_text("secret\n")
    fields = {"text": ["a", "b"], "target_lang": "DE", "source_lang": "EN", "auth_key": "secret"}
    with TestClient(make_app(make_service(), Keys(tmp_path / "keys", 0))) as client:
        answers = [
            client.get("/v2/translate", params=fields),
            client.post("/v2/translate", params=fields),
            client.post("/v2/translate", data=fields),
            client.post("/v2/translate", json=fields),
        ]
        assert [answer.status_code for answer in answers] == [200] * 4
        assert [one["text"] for one in answers[0].json()["translations"]] == ["a [de]", "b [de]"]
        assert {answer.text for answer in answers} == {answers[0].text}
        wrong = client.get("/v2/translate", params=fields | {"auth_key": "x"})
        assert (wrong.status_code, wrong.json()) == (403, {"message": "Invalid API key", "detail": ""})
        assert client.get("/v2/usage?auth_key=secret").status_code == 200


def test_line_breaks_without_a_sentence_end(client: TestClient) -> None:
    sent = ["  a \r\n \n b", "a  b", "\na\u2028 b\n"]
    assert [one["text"] for one in ask(client, text=sent, split_sentences="nonewlines")] == [
        "  a b [de]",
        "a  b [de]",
        " a\u2028 b [de] ",
    ]


def test_languages_and_usage(client: TestClient) -> None:
    sources = client.get("/v2/languages", params={"type": "source"}).json()
    assert {"language": "EN", "name": "English", "supports_formality": False} in sources
    assert "ZH" in [one["language"] for one in client.get("/v2/languages?type=target").json()]
    before = client.get("/v2/usage").json()["character_count"]
    ask(client, text=["12345"])
    assert client.get("/v2/usage").json()["character_count"] == before + 5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "Parameter 'text' not specified."),
        ({"text": []}, "Parameter 'text' not specified."),
        ({"text": ["a"], "target_lang": ""}, "Parameter 'target_lang' not specified."),
        ({"text": ["a"], "target_lang": "XX"}, "Value for 'target_lang' not supported."),
        ({"text": ["a"], "tag_handling": "md"}, "Value for 'tag_handling' not supported."),
        ({"text": ["a"], "split_sentences": "2"}, "Value for 'split_sentences' not supported."),
        (
            {"text": ["a"], "custom_instructions": ["Be brief"]},
            "Value for 'custom_instructions' not supported: this server has no custom instructions. Leave it out.",
        ),
        (
            {"text": ["a"], "style_id": "x"},
            "Value for 'style_id' not supported: this server has no style rules. Leave it out.",
        ),
        (
            {"text": ["a"], "style_rule": "x"},
            "Value for 'style_rule' not supported: this server has no style rules. Leave it out.",
        ),
        (
            {"text": ["a"], "ignore_tags": "a," * 1001},
            "Value for 'ignore_tags' not supported: it may have at most 1000 tags.",
        ),
        ({"text": [5]}, "Invalid request: text must be a string or a list of strings"),
        ({"text": ["a"] * 4}, "Invalid request: request (4) exceeds text limit (3)"),
    ],
)
def test_errors_have_message_and_detail(client: TestClient, fields: dict[str, Any], message: str) -> None:
    answer = client.post("/v2/translate", json={"target_lang": "DE", "source_lang": "EN", **fields})
    assert (answer.status_code, answer.json()) == (400, {"message": message, "detail": ""})


def test_unsupported_paths(client: TestClient) -> None:
    answer = client.get("/v2/glossaries")
    assert answer.status_code == 404
    assert set(json.loads(answer.text)) == {"message", "detail"}

"""Random requests to every path: the answer is always JSON and never 5xx."""

import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

ROUTES = ["/translate", "/detect", "/v1/translate", "/v2/translate", "/translate_file", "/v1/files", "/suggest"]
EXAMPLES = int(os.environ.get("DRAGOMAN_BODIES", "60"))

# JSON can contain lone surrogates, which valid text cannot.
texts = st.text(st.characters(exclude_categories=()), max_size=30)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.sampled_from(["en", "de", "auto", "html"])
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3))
names = st.sampled_from(
    "q text texts source target format alternatives api_key target_lang source_lang tag_handling ignore_tags "
    "split_sentences n_best split alignment file reference".split()
)
bodies = st.dictionaries(names | texts, values, max_size=6) | values
likely = st.fixed_dictionaries(
    {"q": values, "text": values, "source": leaves, "target": leaves},
    optional={
        "format": leaves,
        "alternatives": leaves,
        "n_best": leaves,
        "target_lang": leaves,
        "tag_handling": leaves,
    },
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=bodies | likely, route=st.sampled_from(ROUTES))
def test_json(client: TestClient, body: Any, route: str) -> None:
    content = json.dumps(body).encode("ascii")
    answer = client.post(route, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code < 500, answer.text
    json.loads(answer.content)


@settings(max_examples=EXAMPLES // 2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=200),
    kind=st.sampled_from(
        ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", ""]
    ),
    query=st.text(st.characters(codec="ascii"), max_size=20),
    route=st.sampled_from([*ROUTES, "/languages", "/download_file/x", "/v2/usage", "/nothing"]),
)
def test_bytes(client: TestClient, content: bytes, kind: str, query: str, route: str) -> None:
    answer = client.post(route, content=content, params={"q": query}, headers={"Content-Type": kind} if kind else {})
    assert answer.status_code < 500, answer.text
    json.loads(answer.content)


@pytest.mark.parametrize("field", ["q", "text", "source", "target", "format", "alternatives", "n_best", "alignment"])
@pytest.mark.parametrize("value", [None, True, 5, -1.5, 1e400, "", "x", [], [[]], {}, {"a": []}, ["a", 5], "\ud800"])
def test_wrong_types(client: TestClient, field: str, value: Any) -> None:
    right = {"q": "a", "text": "a", "source": "en", "target": "de", "target_lang": "DE"}
    for route in ("/translate", "/v1/translate", "/v2/translate", "/detect"):
        content = json.dumps(right | {field: value})
        answer = client.post(route, content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code in (200, 400), answer.text
        json.loads(answer.content)

import json
from typing import Any

import pytest

from dragoman.errors import ConfigError, DataError
from dragoman.records import SentencePair
from dragoman.text.corpus.layout import Layout
from dragoman.text.corpus.opening import open_corpus

PAIRS = [SentencePair("Hello", "Ahoj"), SentencePair("Good day", "Dobrý den")]
SHAPES: dict[str, list[Any]] = {
    "languages": [{"en": pair.src, "cs": pair.tgt} for pair in PAIRS],
    "languages and an id": [{"id": str(n), "en": pair.src, "cs": pair.tgt} for n, pair in enumerate(PAIRS)],
    "names": [{"English": pair.src, "Czech": pair.tgt} for pair in PAIRS],
    "below translation": [{"id": 1, "translation": {"en": pair.src, "cs": pair.tgt}} for pair in PAIRS],
    "roles": [{"source": pair.src, "target": pair.tgt, "score": 0.5} for pair in PAIRS],
    "arrays": [[pair.src, pair.tgt] for pair in PAIRS],
}
LANGUAGES = {"roles": ("", ""), "arrays": ("", ""), "names": ("English", "Czech")}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", ["lines", "array", "indented array"])
def test_shapes(tmp_path, shape, form):
    lines = "".join(f"\n{json.dumps(record)}\n" for record in SHAPES[shape])
    text = lines if form == "lines" else json.dumps(SHAPES[shape], indent=1 if form == "indented array" else None)
    (tmp_path / "a.json").write_text(text)
    corpus = open_corpus(tmp_path / "a.json")
    assert list(corpus.pairs()) == PAIRS
    assert list(corpus.pairs()) == PAIRS  # a corpus can be read again
    assert (corpus.src_lang, corpus.tgt_lang) == LANGUAGES.get(shape, ("en", "cs"))


def test_the_other_direction_and_named_keys(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in SHAPES["languages and an id"]))
    turned = [SentencePair(pair.tgt, pair.src) for pair in PAIRS]
    assert list(open_corpus(path, src_lang="cs", tgt_lang="en").pairs()) == turned
    assert list(open_corpus(path, src_lang="ces", tgt_lang="eng").pairs()) == turned
    assert list(open_corpus(path, layout=Layout(columns=("cs", "en"))).pairs()) == turned
    with pytest.raises(ConfigError, match=r"`--columns` names de, but the first record of .* has id, en, cs"):
        open_corpus(path, layout=Layout(columns=("de", "en")))


def test_languages_of_roles_come_from_the_name(tmp_path):
    (tmp_path / "a.en-cs.jsonl").write_text(json.dumps(SHAPES["roles"][0]))
    corpus = open_corpus(tmp_path / "a.en-cs.jsonl")
    assert (corpus.src_lang, corpus.tgt_lang) == ("en", "cs")


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ('{"q": "a", "a": "b"}', ConfigError, "have the fields q, a. It is not clear which two are source and target"),
        ('{"en": "a", "cs": "b", "de": "c"}', ConfigError, "has en, cs, de, and it is not clear which two to use"),
        (
            '{"source": "a", "target": "b"}\n{"source": "a", "target": ["b"]}',
            DataError,
            'line 2 has no text for "target". It has source',
        ),
        ('["a", "b"]\n["a"]', DataError, 'line 2 has no text for "2". It has 1'),
        ('[\n{"en": "a", "cs": "b"},\n{"en": "a", "cs"\n]', DataError, "line 4 is not JSON"),
        ("[" * 100_000, DataError, "line 1 is not JSON"),
        ("[]", DataError, "has no sentence pair"),
        ('{"text": "only one"}', DataError, 'line 1 has no "translation" object'),
        ('"text"', DataError, 'line 1 has no "translation" object'),
    ],
)
def test_what_is_no_pair_is_named(tmp_path, text, error, match):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(error, match=match) as caught:
        list(open_corpus(tmp_path / "a.json").pairs())
    assert "\n" not in str(caught.value)

"""`Translation.parts`: each segment of a text with its own translation, whatever was preserved in the text."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.bundle import Model
from dragoman.config import InferenceSettings
from dragoman.engines.interface import Source
from dragoman.inference.translator import Translator
from dragoman.records import Hypothesis, Preserve
from dragoman.text.documents.markers import plain_text
from dragoman.text.documents.markup import MarkupRules, escape_text, read_markup
from dragoman.text.documents.terms import Terms

SENTENCES = ("one two.", "Three {a} four! ", "FIVE ONE BAHNHOF.", "two\tthree", "\n", "5 < 6 & one. ", " ", "one {b}")
TERMS = Terms((("one", "Eins"), ("two", "Zwei")))


def letters(text: str) -> str:
    """A text without white space, which lies between segments."""
    return "".join(text.split())


@pytest.fixture(scope="module")
def translator(small_bundle: Model) -> Translator:
    """Writes the first and the last token of each segment, so that translations differ. It loses most spans."""

    def search(sources: Sequence[Source], _: InferenceSettings) -> list[list[Hypothesis]]:
        found = [(*source.prefix, *source.ids[:1], *source.ids[-2:]) for source in sources]
        return [[Hypothesis(ids, (0.0,) * (len(ids) + 1), 0.0, 0.0, True)] if ids else [] for ids in found]

    return Translator.from_models([small_bundle], search=SimpleNamespace(search=search))


@given(st.lists(st.sampled_from(SENTENCES), max_size=5).map("".join), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_parts_of_plain_text_joined_are_its_translation(
    translator: Translator, text: str, by_sentence: bool, protect: bool, has_terms: bool
) -> None:
    preserve = Preserve(protect, TERMS if has_terms else None, by_sentence)
    (answer,) = translator.translate_detailed([text], preserve)
    sources, targets = zip(*answer.parts, strict=True) if answer.parts else ((), ())
    assert letters("".join(sources)) == letters(text)
    assert letters("".join(targets)) == letters(answer.text)
    if len(answer.parts) > 1:  # each target is what the model writes for its source alone
        unprotected = Preserve(False, preserve.terms)
        assert list(targets) == [one.text for one in translator.translate_detailed(sources, unprotected)]


@given(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4), st.booleans())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_parts_of_a_page_have_neither_tags_nor_escapes(
    translator: Translator, sentences: list[str], protect: bool
) -> None:
    """Tags start inside of one sentence and end inside of the next."""
    marked = "</b>".join(f"{escape_text(one[:2])}<b>{escape_text(one[2:])}" for one in sentences)
    for source in read_markup(f"<p>{marked}</b></p>", MarkupRules()).texts:
        (answer,) = translator.translate_marked([source], Preserve(protect, None, True, escape_text))
        plain = plain_text(source, answer.text, escape_text)
        assert "<b>" in answer.text
        assert letters("".join(src for src, _ in answer.parts)) == letters(source.text)
        assert letters("".join(tgt for _, tgt in answer.parts)) == letters(plain)


def test_text_that_is_translated_as_a_whole_is_one_pair(translator: Translator) -> None:
    """Its spans were inserted afterwards, or its translation was made from other letters."""
    text = "one two. Three {a} four."
    lost, kept = translator.translate_detailed([text] * 2, Preserve(by_sentence=True))[0], Preserve(False, None, True)
    assert "{a}" in lost.text
    assert lost.parts == ((text, lost.text),)
    assert [src for src, _ in translator.translate_detailed([text], kept)[0].parts] == ["one two.", "Three {a} four."]


def test_the_first_candidate_has_the_parts(small_bundle: Model) -> None:
    translator = Translator.from_models([small_bundle])
    (answer,) = translator.translate_detailed(["one two. three"], Preserve(False, None, True), n_best=3)
    assert len(answer.candidates) == 3
    assert answer.text == " ".join(tgt for _, tgt in answer.parts)
    assert "parts" not in repr(answer)

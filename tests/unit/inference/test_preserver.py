"""Preservation with untrained models, because it must not depend on the model."""

import re
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from dragoman.bundle import Model
from dragoman.config import InferenceSettings
from dragoman.engines.interface import Source
from dragoman.errors import ConfigError
from dragoman.evaluation.flags import FLAGS
from dragoman.inference.preservation import translate_html, translate_srt, translate_xml
from dragoman.inference.translator import Translator
from dragoman.records import NO_DETAILS, Details, Hypothesis, Preserve
from dragoman.text.documents.markup import MarkupRules, escape_text, read_markup
from dragoman.text.documents.terms import Terms

TEXTS = ["one {a} two three.", "%s: four", "see https://a.b/c?d=e (five) {a}", "two 3.5 km", "{b}", "one two", ""]
SPANS = [["{a}"], ["%s"], ["https://a.b/c?d=e", "{a}"], ["3.5 km"], ["{b}"], [], []]


@pytest.fixture(scope="module")
def translator(small_bundle: Model) -> Translator:
    return Translator.from_models([small_bundle])


def test_protected_spans_occur_once(translator: Translator) -> None:
    answers = translator.translate_detailed(TEXTS, preserve=Preserve(), details=Details(alignment=True))
    for text, answer, spans in zip(TEXTS, answers, SPANS, strict=True):
        assert answer.src == text
        assert [answer.text.count(span) for span in spans] == [1] * len(spans)
        assert answer.lost == ()
    plain = translator.translate_detailed(TEXTS, details=Details(alignment=True))
    assert answers[-2:] == plain[-2:]
    assert all(answer.alignment == () for answer in answers[:4])
    assert [answer.text for answer in answers] == translator.translate(TEXTS, protect=True)


def test_lost_spans_of_a_text_with_a_prefix_are_reported(translator: Translator) -> None:
    (answer,) = translator.translate_detailed(["one {a} two"], prefixes=["four"], preserve=Preserve())
    assert answer.text.startswith("four")
    assert answer.lost == ("{a}",)


def test_required_terms_are_in_the_translation(translator: Translator) -> None:
    terms = Terms((("one", "Eins"), ("two three", "Zweidrei"), ("five", "fünf")))
    texts = ["one two three.", "Five and one, one", "four", "", "one two three. " * 12]
    answers = translator.translate_detailed(texts, preserve=Preserve(False, terms), n_best=2)
    words = re.compile(r"\w+")
    written = [[words.findall(answer.text).count(word) for word in ("Eins", "Zweidrei")] for answer in answers]
    assert all(answer.lost == () for answer in answers)
    assert written[0] >= [1, 1]
    assert written[1][0] >= 2
    assert re.search(r"\b[Ff]ünf\b", answers[1].text)
    assert written[4][0] >= 12
    assert written[4][1] >= 12
    assert answers[2:4] == translator.translate_detailed(texts, n_best=2)[2:4]
    assert answers[0].text == translator.translate(texts[:1], terms=terms)[0]


def test_terms_and_protected_spans_together(translator: Translator) -> None:
    (answer,) = translator.translate_detailed(["one {a} two"], preserve=Preserve(terms=Terms((("two", "Zwei"),))))
    assert answer.text.count("{a}") == 1
    assert "Zwei" in answer.text
    assert answer.lost == ()


def test_each_sentence_is_translated_alone(translator: Translator) -> None:
    texts = ["One two. Three.", "One two."]
    together, alone = translator.translate_detailed(texts, preserve=Preserve(False, by_sentence=True))
    assert (together.segments, alone.segments) == (2, 1)
    assert together.text.startswith(alone.text)


def test_missing_aligner_raises(translator: Translator, small_bundle: Model) -> None:
    bare = Translator(translator._search.search, small_bundle.tokenizers, translator.settings, 24)
    with pytest.raises(ConfigError, match="cannot place markers and terms"):
        bare.translate(["one {a} two"], protect=True)
    assert bare.translate(["one"], protect=True) == translator.translate(["one"])


def test_page_keeps_its_tree(translator: Translator) -> None:
    page = (
        '<div class="a">\n <p>one <b>two <i>three</i></b> four. five &lt;b&gt; {a}</p>\n'
        "<pre>one</pre><p><em>one</em><br><span translate='no'>two</span> three <img alt='x>y'></p></div>"
    )
    written = translate_html(translator, page, beam_size=1)
    tags = r"<[^<>]*>|<img alt='x>y'>"
    assert sorted(re.findall(tags, written)) == sorted(re.findall(tags, page))
    assert written.count("{a}") == 1
    assert "<pre>one</pre>" in written
    assert "<span translate='no'>two</span>" in written
    assert translate_html(translator, "<p>12</p> \n") == "<p>12</p> \n"


@pytest.fixture(scope="module")
def echo(small_bundle: Model) -> Translator:
    """Copies the source without URLs and text in braces."""

    def echoed(source: Source) -> list[Hypothesis]:
        tokenizer = small_bundle.tokenizers.tgt
        text = re.sub(r"https?:\S+|\{\w+\}", "", tokenizer.detokenize(source.ids))
        ids = tuple(tokenizer.encode(text))
        return [Hypothesis(ids, (0.0,) * (len(ids) + 1), 0.0, 0.0, True)] if source.ids else []

    def search(sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        return [echoed(source) for source in sources]

    return Translator.from_models([small_bundle], search=SimpleNamespace(search=search))


@pytest.mark.parametrize(
    "page",
    [
        "<p>one <b>two</b></p>",
        "R &amp; D",
        '<p>one <a href="https://a.b/c?d=1234">two</a></p>',
        '<p title="{long} {long} {long} {long}">one <span id="{long} {long} {long} {long}">two</span></p>',
        "<p>one {a} <b>two</b> https://a.b/1234?c&amp;d</p>",
    ],
)
def test_tags_and_escapes_are_not_flagged(echo: Translator, page: str) -> None:
    kept = Preserve(True, None, True, escape_text)
    (answer,) = echo.translate_marked(read_markup(page, MarkupRules()).texts, kept)
    assert answer.text in page
    assert not {"short", "long", "number", "url", "tag", "lost"} & set(answer.flags)
    assert echo.translate_marked(read_markup(page, MarkupRules()).texts, kept, NO_DETAILS)[0].flags == ()


def test_missing_parts_are_flagged(echo: Translator) -> None:
    text, terms = "one {a} two https://a.b/1234", Terms((("two", "Zwei"),))
    faults = {"url", "tag", "lost"}  # digits of an address are no number
    (bare,) = echo.translate_detailed([text])
    assert {"number", *faults} & set(bare.flags) == {"url", "tag"}
    (restored,) = echo.translate_detailed([text], preserve=Preserve())
    assert faults & set(restored.flags) == set()
    (forced,) = echo.translate_detailed([text], prefixes=[" "], preserve=Preserve(terms=terms))
    assert forced.flags == tuple(flag for flag in FLAGS if flag in forced.flags)
    assert faults & set(forced.flags) == faults
    (marked,) = echo.translate_marked(
        read_markup("<p><b>one</b> two three</p>", MarkupRules()).texts, Preserve(True, terms, escape=escape_text)
    )
    assert marked.lost == ("Zwei",)
    assert faults & set(marked.flags) == {"lost"}


def test_xml_and_subtitles(translator: Translator) -> None:
    written = translate_xml(translator, 'one <x id="5"></x> two <X>three</X>', ignore_tags=["X"])
    assert '<x id="5"></x>' in written
    assert "<X>three</X>" in written
    srt = "1\n00:00:01,000 --> 00:00:02,000\n<i>one two</i>\n\n"
    written = translate_srt(translator, srt)
    assert re.fullmatch(r"1\n00:00:01,000 --> 00:00:02,000\n<i>.*</i>\n\n", written)

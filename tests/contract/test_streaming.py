"""A streamed translation never takes a word back, and is the translation that a search of all texts finds."""

import random
from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.bundle import Weights
from dragoman.config import InferenceSettings, TokenizerSettings
from dragoman.engines.choice import CompiledEngine, Engines
from dragoman.engines.interface import IdStream, Source, StreamingSearch
from dragoman.engines.tensors.engine import StepSearch
from dragoman.engines.tensors.fast_model import FastModel
from dragoman.inference.translator import Translator
from dragoman.kernels.library import is_available
from dragoman.model.transformer import Transformer
from dragoman.records import NO_DETAILS, Hypothesis
from dragoman.text.documents.terms import Terms
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizers
from tests.contract.random_models import random_transformer

WIDE = {"d_model": 32, "d_ff": 64}
SEARCHES: dict[str, Callable[[Transformer], StreamingSearch]] = {
    "tensors": lambda model: StepSearch(FastModel(model)),
    "ensemble": lambda model: Engines([Weights.of(model), Weights.of(random_transformer(40, 7, **WIDE))]),
    "machine code": lambda model: CompiledEngine(Weights.of(model), "float32"),
}
COMPILED = pytest.mark.skipif(not is_available(), reason="needs a processor that machine code supports")
TEXT = (
    "der Hund bellt , die Katze schläft ; das Haus ist groß . the station is over there ? yes !\u3000"
    "駅はどこですか。 ไปไหนมา 🙂👍🏽 tab\tand  spaces\nline 10,50 € (see www.example.org) naïve"
)


def run(stream: Generator[Any, None, Any]) -> tuple[list[Any], Any]:
    """All that a generator yields, and its return value."""
    yielded: list[Any] = []
    while True:
        try:
            yielded.append(next(stream))
        except StopIteration as end:
            return yielded, end.value


@pytest.mark.parametrize("name", ["tensors", "ensemble", pytest.param("machine code", marks=COMPILED)])
@pytest.mark.parametrize("beam_size", [1, 4])
def test_certain_ids_only_grow_into_the_best_hypothesis(name: str, beam_size: int) -> None:
    early = 0
    for seed in range(6):
        rng = random.Random(seed)
        search = SEARCHES[name](random_transformer(40, seed, deviation=0.25, **WIDE))
        chosen = InferenceSettings(beam_size=beam_size, n_best=min(2, beam_size), max_extra_tokens=40)
        for number in range(4):
            ids = [rng.randint(4, 39) for _ in range(rng.randint(1, 12))]
            source = Source(str(number), ids, [[], [6, 5, 9]][number % 2])
            yielded, hypotheses = run(search.stream(source, chosen))
            assert hypotheses == search.search([source], chosen)[0]
            best = list(hypotheses[0].ids)
            assert all(best[: len(ids)] == ids for ids in yielded)
            assert [len(ids) for ids in yielded] == sorted(len(ids) for ids in yielded)
            early += sum(0 < len(ids) < len(best) for ids in yielded)
            if beam_size == 1:
                assert [len(ids) for ids in yielded] == list(range(1, len(yielded) + 1))
    assert early > 20


class Reader:
    """A search that writes the source, one token at a time."""

    def search(self, sources: Any, settings: InferenceSettings) -> list[list[Hypothesis]]:
        return [
            [Hypothesis(tuple(one.ids), (0.0,) * len(one.ids), 0.0, 0.0, True)] if one.ids else [] for one in sources
        ]

    def stream(self, source: Source, settings: InferenceSettings) -> IdStream:
        for length in range(1, len(source.ids) + 1):
            yield source.ids[:length]
        return self.search([source], settings)[0]


@pytest.fixture(scope="module", params=["bpe", "bpe with bytes", "unigram", "word"])
def tokenizers(request: pytest.FixtureRequest) -> TokenizerPair:
    kind = request.param
    chosen = TokenizerSettings(kind=kind.split()[0], vocab_size=380, byte_fallback="bytes" in kind)
    return train_tokenizers(chosen, [TEXT] * 4, [TEXT] * 4)


@given(st.lists(st.sampled_from([*TEXT.split(" "), "x", "。", "。", "\n", "  ", "\u200d", "é"]), max_size=30))
@settings(max_examples=60)
def test_the_parts_are_the_translation(tokenizers: TokenizerPair, words: list[str]) -> None:
    text = " ".join(words)
    translator = Translator(Reader(), tokenizers, InferenceSettings(retry_all_caps=False), max_src_tokens=12)
    for by_sentence in (False, True):
        parts = list(translator.stream(text, by_sentence=by_sentence))
        assert "".join(parts) == translator.translate([text], by_sentence=by_sentence)[0]
        assert all(parts)


def test_each_word_is_a_part_and_in_scripts_without_spaces_each_character() -> None:
    tokenizers = train_tokenizers(TokenizerSettings(vocab_size=300), [TEXT], [])
    translator = Translator(Reader(), tokenizers, InferenceSettings(), max_src_tokens=200)
    assert list(translator.stream("the station is over there")) == ["the", " station", " is", " over", " there"]
    assert list(translator.stream("駅はどこ")) == ["駅", "は", "ど", "こ"]
    assert list(translator.stream(" \n")) == []


def test_words_that_may_change_come_as_one_part() -> None:
    """Terms, protected spans and capitals may be searched twice, and samples have no certain start."""
    tokenizers = train_tokenizers(TokenizerSettings(vocab_size=300), [TEXT], [])
    translator = Translator(Reader(), tokenizers, InferenceSettings(), max_src_tokens=200)
    text = "see www.example.org in line 10"
    assert len(list(translator.stream(text))) == 5
    assert list(translator.stream(text, protect=True)) == translator.translate([text], protect=True)
    assert list(translator.stream("the dog sat", terms=Terms((("dog", "dog"),)))) == ["the dog sat"]
    assert len(list(translator.stream("the cat sat", terms=Terms((("dog", "dog"),))))) == 3
    assert list(translator.stream("THE STATION IS OVER THERE")) == ["THE STATION IS OVER THERE"]
    assert list(translator.stream("the cat sat", sample=True)) == ["the cat sat"]


def test_the_stream_returns_the_translation(small_bundle: Any) -> None:
    model = random_transformer(small_bundle.tokenizers.tgt.vocab_size, deviation=0.2)
    translator = Translator.from_model(model, small_bundle.tokenizers, InferenceSettings(max_extra_tokens=9), 6)
    text = "one two three four five six seven eight nine ten"
    parts, translation = run(translator.stream(text, n_best=2))
    [expected] = translator.translate_detailed([text], details=NO_DETAILS, n_best=2)
    assert (translation.text, translation.alternatives) == (expected.text, expected.alternatives)
    assert (translation.segments, translation.cut) == (expected.segments, expected.cut)
    assert translation.candidates[0].score == pytest.approx(expected.candidates[0].score, abs=1e-4)
    assert "".join(parts) == translation.text
    assert translation.segments > 1
    assert translation.alternatives

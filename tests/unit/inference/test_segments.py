"""Segments and batches: every source is in one batch, and batches keep to their budget."""

import re
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TokenizerSettings
from dragoman.engines.interface import Source, token_batches
from dragoman.inference.segments import InputText, sources_of
from dragoman.text.documents.markers import MarkedText
from dragoman.text.tokenization.sentence_splitting import join_segments
from dragoman.text.tokenization.sentencepiece import PieceModel, SentencePieceTokenizer
from dragoman.text.tokenization.tokenizer import Tokenizer, TokenizerPair, train_tokenizer


@given(st.lists(st.integers(0, 60), max_size=300), st.integers(1, 5), st.integers(1, 3000), st.integers(1, 4))
def test_every_source_with_ids_is_in_one_batch_within_the_budget(
    lengths: list[int], rows: int, budget: int, workers: int
) -> None:
    sources = [Source(str(number), [7] * length) for number, length in enumerate(lengths)]
    batches = list(token_batches(sources, rows, budget, workers))
    places = [place for batch in batches for place in batch]
    assert sorted(places) == [place for place, source in enumerate(sources) if source.ids]
    for batch in batches:
        assert len(batch) == 1 or max(sources[place].length for place in batch) * len(batch) * rows <= budget


def test_every_segment_of_a_long_text_starts_with_its_language_token() -> None:
    pieces = tuple((piece, -1.0) for piece in ("▁Aside", "▁Below", ".", "▁"))
    vocabulary = ("<pad>", "<s>", "</s>", "<unk>", "▁Aside", "▁Below", ".", "▁", ">>fra<<")
    side = Tokenizer("sentencepiece", SentencePieceTokenizer(PieceModel("unigram", pieces), vocabulary))
    tokenizers = TokenizerPair(side, side, joint=False)
    text = ">>fra<< Aside Below. Aside Aside. Below Below Below."
    (sources,) = sources_of([InputText(MarkedText(text, ()))], 5, tokenizers)
    assert [side.tokens(source.ids) for source in sources] == [
        [">>fra<<", "▁Aside", "▁Below", "."],
        [">>fra<<", "▁Aside", "▁Aside", "."],
        [">>fra<<", "▁Below", "▁Below", "▁Below", "."],
    ]
    segments = [source.segment for source in sources]
    assert join_segments(segments, [segment.text for segment in segments]) == text
    (short,) = sources_of([InputText(MarkedText(">>fra<< Aside Below.", ()))], 5, tokenizers)
    assert [side.tokens(source.ids) for source in short] == [[">>fra<<", "▁Aside", "▁Below", "."]]


@cache
def _tokenizer() -> Tokenizer:
    return train_tokenizer(TokenizerSettings(vocab_size=270), ["a b. ab"])


@given(st.text(alphabet="ab .\t\r\n\v", max_size=40))
def test_models_see_spaces_for_tabs_and_line_breaks(text: str) -> None:
    side = _tokenizer()
    spaced, kept = (
        sources_of([InputText(MarkedText(one, ()))], 6, TokenizerPair(side, side, joint=True))[0]
        for one in (re.sub(r"\s", " ", text), text)
    )
    if "\n" not in text:  # a line break also ends a segment
        assert [source.ids for source in kept] == [source.ids for source in spaced]
    segments = [source.segment for source in kept]
    assert join_segments(segments, [one.text for one in segments]) == text.strip()
    assert side.detokenize(side.encode(text)) == text

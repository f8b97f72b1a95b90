"""From texts to sources of a search, and back to translations.

On its way in, a text is an `InputText`, and then one `Source` for each segment. On its way out, each segment has its
hypotheses, and the text is a `SearchedText`, which carries its translation through the stages after the search.

A text that is longer than the model's limit is split into segments that fit, at sentence ends if possible. White space
between segments is restored between their translations. White space around the text is dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragoman.engines.interface import Source
from dragoman.records import Candidate, Hypothesis, Translation
from dragoman.text.documents.markers import MarkedText
from dragoman.text.tokenization.sentence_splitting import Segment, join_segments, split_sentences, split_to_fit
from dragoman.text.tokenization.tokenizer import Tokenizer, TokenizerPair

if TYPE_CHECKING:
    pass

_AS_SPACES = str.maketrans("\t\n\v\f\r", "     ")


@dataclass(frozen=True, slots=True)
class InputText:
    """A text with its markers, the forced start of its translation, and its number in the input."""

    marked: MarkedText
    prefix: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class SearchedText:
    """A text after the search: its translation, and the hypotheses that the translation was made from.

    Attributes
    ----------
    sources, hypotheses
        The segments of the text, and the hypotheses of each, best first.
    translation
        The translation of the whole text. Later stages replace it.
    is_plain
        Whether the translation is the result of the search, without inserted markers or protected spans.
    """

    sources: list[Source]
    hypotheses: list[list[Hypothesis]]
    translation: Translation
    is_plain: bool = True

    @staticmethod
    def of(
        text: str, sources: list[Source], hypotheses: list[list[Hypothesis]], tokenizer: Tokenizer
    ) -> "SearchedText":
        """Join the hypotheses of a text. The k-th candidate has the k-th hypotheses of all sources."""
        segments = [source.segment for source in sources]
        ranked = [[found[: rank + 1][-1:] for found in hypotheses] for rank in range(max(map(len, hypotheses)))]
        written = [[tokenizer.detokenize(found[0].ids) if found else "" for found in chosen] for chosen in ranked]
        translation = Translation(
            src=text,
            candidates=tuple(
                _join_hypotheses(segments, chosen, texts, tokenizer)
                for chosen, texts in zip(ranked, written, strict=True)
            ),
            segments=sum(bool(source.ids) for source in sources),
            cut=any(not found[0].finished for found in hypotheses if found),
            parts=tuple((one.text, best) for texts in written[:1] for one, best in zip(segments, texts, strict=True)),
        )
        return SearchedText(sources, hypotheses, translation)

    @property
    def segments(self) -> list[Segment]:
        """The segments of the source text."""
        return [source.segment for source in self.sources]

    def best_pairs(self) -> list[tuple[list[int], tuple[int, ...]]]:
        """Ids of each source, and of its best hypothesis, which are empty if it has no hypotheses."""
        pairs = zip(self.sources, self.hypotheses, strict=True)
        return [(source.ids, found[0].ids if found else ()) for source, found in pairs]

    def written(self, tokenizer: Tokenizer) -> list[str]:
        """The text of each source's best hypothesis."""
        return [tokenizer.detokenize(ids) for _, ids in self.best_pairs()]


def _join_hypotheses(
    segments: Sequence[Segment], chosen: Sequence[Sequence[Hypothesis]], texts: Sequence[str], tokenizer: Tokenizer
) -> Candidate:
    """The candidate of one hypothesis for each segment, or none for a segment without ids, and their texts."""
    hypotheses = [hypothesis for found in chosen for hypothesis in found]
    return Candidate(
        text=join_segments(segments, texts),
        tokens=tuple(token for h in hypotheses for token in tokenizer.tokens(h.ids)),
        token_log_probs=tuple(log_prob for h in hypotheses for log_prob in h.token_log_probs[: len(h.ids)]),
        log_prob=sum(h.log_prob for h in hypotheses),
        score=sum(h.score for h in hypotheses),
    )


def as_sentence(text: str) -> str:
    """The text as models know it from training: without white space around it, and spaces for tabs and line breaks."""
    return text.strip().translate(_AS_SPACES)


def sources_of(
    texts: Sequence[InputText], max_src_tokens: int, tokenizers: TokenizerPair, by_sentence: bool = False
) -> list[list[Source]]:
    """The sources of each text. Texts with more than `max_src_tokens` tokens are split, or all if `by_sentence`.

    A forced prefix applies to the first segment that is not blank. A target-language token at the start of a text, for
    models with several target languages, is repeated in every segment.
    """
    sources = []
    all_ids = tokenizers.src.encode_batch([as_sentence(text.marked.text) for text in texts])
    for text, ids in zip(texts, all_ids, strict=True):
        segments, rows = _segments(text.marked.text, ids, max_src_tokens, tokenizers.src, by_sentence)
        first = next((index for index, row in enumerate(rows) if row), None) if text.prefix else None
        sources.append(
            [
                Source(f"{text.number}.{index}", row, tokenizers.tgt.encode(text.prefix) if index == first else [], one)
                for index, (one, row) in enumerate(zip(segments, rows, strict=True))
            ]
        )
    return sources


def _segments(
    text: str, ids: list[int], max_src_tokens: int, tokenizer: Tokenizer, by_sentence: bool
) -> tuple[list[Segment], list[list[int]]]:
    """One segment if the ids fit, else several that fit, and the ids of each segment."""
    sentences = split_sentences(text.strip()) if by_sentence else [text.strip()]
    if len(ids) <= max_src_tokens and len(sentences) <= 1:
        return [Segment(text.strip(), "")], [ids]
    mark = tokenizer.language_token(ids)
    limit = max(1, max_src_tokens - len(mark))
    segments = [
        segment
        for sentence in sentences
        for segment in split_to_fit(sentence, lambda piece: len(tokenizer.encode(as_sentence(piece))), limit)
    ]
    first, *others = tokenizer.encode_batch([as_sentence(one.text) for one in segments])
    return segments, [first, *([*mark, *row] if row else row for row in others)]

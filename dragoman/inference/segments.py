"""From texts to sources of a search, and back to translations.

A text that is longer than the model's limit is split into segments that fit, at sentence ends if possible. White space
between segments is restored between their translations. White space around the text is dropped.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from dragoman.config import InferenceSettings
from dragoman.records import Candidate, Hypothesis, Translation
from dragoman.text.documents.markers import MarkedText
from dragoman.text.tokenization.sentence_splitting import Segment, join_segments, split_sentences, split_to_fit
from dragoman.text.tokenization.tokenizer import Tokenizer, TokenizerPair

_AS_SPACES = str.maketrans("\t\n\v\f\r", "     ")

_MIN_SHARE_TOKENS = 512
"""The smallest batch, in padded source tokens times rows, that is worth a separate batch for an idle thread."""


@dataclass(frozen=True, slots=True)
class InputText:
    """A text with its markers, the forced start of its translation, and its number in the input."""

    marked: MarkedText
    prefix: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """One segment, as the search sees it.

    Attributes
    ----------
    name
        Unique name in the input. The random numbers of sampling depend on it.
    ids
        Source token ids without eos. A source without ids is not searched.
    prefix
        Target ids that the translation must start with.
    """

    name: str
    ids: list[int]
    prefix: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Source tokens, eos included."""
        return len(self.ids) + 1


IdPair = tuple[Sequence[int], Sequence[int]]
"""Source ids and target ids of one pair, both without control ids."""


IdStream = Generator[list[int], None, list[Hypothesis]]
"""Yields the ids that the best output certainly starts with, after each step. Returns the hypotheses, best first."""


class Search(Protocol):
    """Finds translations."""

    def search(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        """Find the hypotheses of every source, best first. A source without ids has none."""


@runtime_checkable
class StreamingSearch(Search, Protocol):
    """A search that can also report its output while it is being written."""

    def stream(self, source: Source, settings: InferenceSettings) -> IdStream:
        """Search one source, which has ids, by beam search."""


@dataclass(frozen=True, slots=True)
class Request:
    """One input text, its segments, and the source of each segment."""

    text: str
    segments: list[Segment]
    sources: list[Source]


@dataclass(frozen=True, slots=True)
class SearchedText:
    """A request with the hypotheses of each of its sources, best first."""

    request: Request
    hypotheses: list[list[Hypothesis]]

    def translation(self, tokenizer: Tokenizer) -> Translation:
        """The translation of the whole text. Its k-th candidate joins the k-th hypotheses of all sources."""
        return Translation(
            src=self.request.text,
            candidates=tuple(self._candidate(rank, tokenizer) for rank in range(max(map(len, self.hypotheses)))),
            segments=sum(bool(source.ids) for source in self.request.sources),
            cut=any(not found[0].finished for found in self.hypotheses if found),
        )

    def best_ids(self) -> list[tuple[int, ...]]:
        """Ids of each source's best hypothesis, empty for a source without hypotheses."""
        return [found[0].ids if found else () for found in self.hypotheses]

    def best_pairs(self) -> list[tuple[list[int], tuple[int, ...]]]:
        """Ids of each source, and of its best hypothesis."""
        return [(source.ids, ids) for source, ids in zip(self.request.sources, self.best_ids(), strict=True)]

    def _candidate(self, rank: int, tokenizer: Tokenizer) -> Candidate:
        """The candidate at a rank from 0. A source with fewer hypotheses contributes its last one."""
        chosen = [found[: rank + 1][-1:] for found in self.hypotheses]
        texts = [tokenizer.detokenize(found[0].ids) if found else "" for found in chosen]
        hypotheses = [hypothesis for found in chosen for hypothesis in found]
        return Candidate(
            text=join_segments(self.request.segments, texts),
            tokens=tuple(token for h in hypotheses for token in tokenizer.tokens(h.ids)),
            token_log_probs=tuple(log_prob for h in hypotheses for log_prob in h.token_log_probs[: len(h.ids)]),
            log_prob=sum(h.log_prob for h in hypotheses),
            score=sum(h.score for h in hypotheses),
        )


@dataclass(frozen=True, slots=True)
class AnsweredText:
    """The translation of a text, and the search result that it is based on.

    `is_plain` is True if the translation is the search's result, without inserted markers or protected spans.
    """

    translation: Translation
    searched: SearchedText
    is_plain: bool = True


def as_sentence(text: str) -> str:
    """The text as models know it from training: without white space around it, and spaces for tabs and line breaks."""
    return text.strip().translate(_AS_SPACES)


def requests_of(
    texts: Sequence[InputText], max_src_tokens: int, tokenizers: TokenizerPair, by_sentence: bool = False
) -> list[Request]:
    """Encode texts. Split those with more than `max_src_tokens` tokens, or all into sentences if `by_sentence`.

    A forced prefix applies to the first segment that is not blank. A target-language token at the start of a text, for
    models with several target languages, is repeated in every segment.
    """
    requests = []
    all_ids = tokenizers.src.encode_batch([as_sentence(text.marked.text) for text in texts])
    for text, ids in zip(texts, all_ids, strict=True):
        segments, rows = _segments(text.marked.text, ids, max_src_tokens, tokenizers.src, by_sentence)
        first = next((index for index, row in enumerate(rows) if row), None) if text.prefix else None
        sources = [
            Source(f"{text.number}.{index}", row, tokenizers.tgt.encode(text.prefix) if index == first else [])
            for index, row in enumerate(rows)
        ]
        requests.append(Request(text.marked.text, segments, sources))
    return requests


def token_batches(
    sources: Sequence[Source], rows_per_sentence: int, batch_tokens: int, workers: int = 1
) -> Iterator[list[int]]:
    """Yield batches of sources of similar length, as indices. Sources without ids are left out.

    The longest sources come first, so that memory runs out in the first batch or never. If the sources do not fill one
    batch for each worker, batches are smaller.

    Parameters
    ----------
    sources
        All sources.
    rows_per_sentence
        Hypotheses of each source.
    batch_tokens
        Maximum of padded source tokens times rows in a batch. A source that exceeds it alone gets its own batch.
    workers
        Number of batches that are searched at once.
    """
    ordered = sorted((place for place, one in enumerate(sources) if one.ids), key=lambda place: -sources[place].length)
    share = rows_per_sentence * sum(sources[place].length for place in ordered) // workers
    budget = min(batch_tokens, max(share, _MIN_SHARE_TOKENS)) if workers > 1 else batch_tokens
    batch: list[int] = []
    for place in ordered:
        if batch and (len(batch) + 1) * sources[batch[0]].length * rows_per_sentence > budget:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def pair_batches(pairs: Sequence[IdPair], max_tokens: int) -> Iterator[list[int]]:
    """Yield batches of pairs of similar length, as indices, shortest first.

    Rows times the tokens of the longest side are at most `max_tokens`. A pair that exceeds it alone gets its own batch.
    """
    batch: list[int] = []
    for place in sorted(range(len(pairs)), key=lambda place: max(map(len, pairs[place]))):
        if batch and (len(batch) + 1) * max(map(len, pairs[place])) > max_tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


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

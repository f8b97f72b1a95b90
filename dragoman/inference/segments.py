"""From texts to sources of a search, and back to translations.

On its way in, a text is an `InputText`, and then one `Source` for each segment. On its way out, each segment has its
hypotheses, and the text is a `SearchedText`, which carries its translation through the stages after the search.

A text that is longer than the model's limit is split into segments that fit, at sentence ends if possible. White space
between segments is restored between their translations. White space around the text is dropped.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dragoman.config import InferenceSettings
from dragoman.records import Candidate, Hypothesis, Translation
from dragoman.text.documents.markers import MarkedText
from dragoman.text.tokenization.sentence_splitting import Segment, join_segments, split_sentences, split_to_fit
from dragoman.text.tokenization.tokenizer import Tokenizer, TokenizerPair

_AS_SPACES = str.maketrans("\t\n\v\f\r", "     ")

_MIN_SHARE_TOKENS = 512
"""The smallest batch, in padded source tokens times rows, that is worth a separate batch for an idle thread."""

_PAIR_TOKENS = 1024
"""Padded tokens of a side in one batch of a forced pass. More do not make a pass faster, and take more memory."""


@dataclass(frozen=True, slots=True)
class InputText:
    """A text with its markers, the forced start of its translation, and its number in the input."""

    marked: MarkedText
    prefix: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """One segment of a text, as the search sees it.

    Attributes
    ----------
    name
        Unique name in the input. The random numbers of sampling depend on it.
    ids
        Source token ids without eos. A source without ids is not searched.
    prefix
        Target ids that the translation must start with.
    segment
        The text of the segment, and the white space after it. Searches do not read it.
    """

    name: str
    ids: list[int]
    prefix: list[int] = field(default_factory=list)
    segment: Segment = field(default=Segment("", ""))

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

    def stream(self, source: Source, settings: InferenceSettings) -> IdStream:
        """Search one source, which has ids, by beam search. Yields the certain start of its output after each step.

        A search may lack this method. Its translations are then streamed in one part.
        """


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
        translation = Translation(
            src=text,
            candidates=tuple(
                _join_hypotheses(segments, [found[: rank + 1][-1:] for found in hypotheses], tokenizer)
                for rank in range(max(map(len, hypotheses)))
            ),
            segments=sum(bool(source.ids) for source in sources),
            cut=any(not found[0].finished for found in hypotheses if found),
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
    segments: Sequence[Segment], chosen: Sequence[Sequence[Hypothesis]], tokenizer: Tokenizer
) -> Candidate:
    """The candidate of one hypothesis for each segment, or none for a segment without ids."""
    texts = [tokenizer.detokenize(found[0].ids) if found else "" for found in chosen]
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
    costs = {place: source.length * rows_per_sentence for place, source in enumerate(sources) if source.ids}
    share = sum(costs.values()) // workers
    budget = min(batch_tokens, max(share, _MIN_SHARE_TOKENS)) if workers > 1 else batch_tokens
    return _cut_batches(dict(sorted(costs.items(), key=lambda one: -one[1])), budget)


def pair_batches(pairs: Sequence[IdPair]) -> Iterator[list[int]]:
    """Yield batches of pairs of similar length, as indices, shortest first.

    Rows times the tokens of the longest side are at most `_PAIR_TOKENS`. A pair with more gets its own batch.
    """
    costs = {place: max(map(len, pair)) for place, pair in enumerate(pairs)}
    return _cut_batches(dict(sorted(costs.items(), key=lambda one: one[1])), _PAIR_TOKENS)


def _cut_batches(costs: Mapping[int, int], budget: int) -> Iterator[list[int]]:
    """Batches of consecutive keys, in which the number of keys times their largest cost is at most `budget`.

    The costs must be sorted. A key that exceeds the budget alone gets its own batch.
    """
    batch: list[int] = []
    for place, cost in costs.items():
        if batch and (len(batch) + 1) * max(costs[batch[0]], cost) > budget:
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

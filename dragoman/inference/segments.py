"""From texts to what is searched, and back: cut to the model's length, batched, and put together again.

A text that is longer than the model was trained for is cut into segments that fit, at sentence ends wherever that
suffices. The white space between them is put back between their translations; that around the text is dropped.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from dragoman.config import InferenceSettings
from dragoman.records import Candidate, Hypothesis, Translation
from dragoman.text.documents.markers import MarkedText
from dragoman.text.tokenization.sentence_splitting import Segment, join_segments, split_sentences, split_to_fit
from dragoman.text.tokenization.tokenizer import Tokenizer, TokenizerPair

_MIN_SHARE_TOKENS = 512
"""Fewer padded source tokens times rows than this are not worth a batch of their own for an idle worker."""


@dataclass(frozen=True, slots=True)
class InputText:
    """A text with its markers, what its translation must begin with, and its number in the input."""

    marked: MarkedText
    prefix: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """One segment as the search sees it.

    `ids` are without eos. `name` tells it from all others of the input. Its translation must begin with the target ids
    `prefix`. Sources without ids are not searched.
    """

    name: str
    ids: list[int]
    prefix: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Source tokens, eos included."""
        return len(self.ids) + 1


Search = Callable[[Sequence[Source], InferenceSettings], list[list[Hypothesis]]]
"""Finds the hypotheses of every source, best first; none for a source without ids."""


@dataclass(frozen=True, slots=True)
class Request:
    """One input text, cut into segments, and the source of each."""

    text: str
    segments: list[Segment]
    sources: list[Source]


@dataclass(frozen=True, slots=True)
class SearchedText:
    """A request with the hypotheses of each of its sources, best first."""

    request: Request
    hypotheses: list[list[Hypothesis]]

    def translation(self, tokenizer: Tokenizer) -> Translation:
        """The translation of the text. Its k-th candidate joins the k-th hypothesis of each source."""
        return Translation(
            src=self.request.text,
            candidates=tuple(self._candidate(rank, tokenizer) for rank in range(max(map(len, self.hypotheses)))),
            segments=sum(bool(source.ids) for source in self.request.sources),
            cut=any(not found[0].finished for found in self.hypotheses if found),
        )

    def best_ids(self) -> list[tuple[int, ...]]:
        """The ids of each source's best hypothesis; none for a source without hypotheses."""
        return [found[0].ids if found else () for found in self.hypotheses]

    def _candidate(self, rank: int, tokenizer: Tokenizer) -> Candidate:
        """A source with fewer hypotheses than that takes part with its last."""
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
    """The translation of a text and the search that it comes from.

    `is_plain`: the translation is what the search found, neither put together nor with markers in it.
    """

    translation: Translation
    searched: SearchedText
    is_plain: bool = True


def requests_of(
    texts: Sequence[InputText], max_src_tokens: int, tokenizers: TokenizerPair, by_sentence: bool = False
) -> list[Request]:
    """The texts, cut where one has more than `max_src_tokens`, or `by_sentence`.

    A prefix belongs to the first segment that is not blank. The name of the target language that a text begins with,
    for models that know several, belongs to all.
    """
    requests = []
    all_ids = tokenizers.src.encode_batch([text.marked.text.strip() for text in texts])
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
    """The places of the sources that have ids, in batches of similar lengths.

    Padded source tokens times rows are at most `batch_tokens`. The longest come first, so that memory runs out at once
    or never. A source that alone exceeds the budget is a batch of its own. If there is too little for a full batch for
    each of the `workers`, batches are smaller.
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


def _segments(
    text: str, ids: list[int], max_src_tokens: int, tokenizer: Tokenizer, by_sentence: bool
) -> tuple[list[Segment], list[list[int]]]:
    """One segment where the ids are few enough, else as many as it takes; and the ids of each."""
    sentences = split_sentences(text.strip()) if by_sentence else [text.strip()]
    if len(ids) <= max_src_tokens and len(sentences) <= 1:
        return [Segment(text.strip(), "")], [ids]
    mark = tokenizer.language_token(ids)
    limit = max(1, max_src_tokens - len(mark))
    segments = [
        segment
        for sentence in sentences
        for segment in split_to_fit(sentence, lambda piece: len(tokenizer.encode(piece)), limit)
    ]
    first, *others = tokenizer.encode_batch([one.text for one in segments])
    return segments, [first, *([*mark, *row] if row else row for row in others)]

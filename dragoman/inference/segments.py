"""From texts to what is searched, and back: cut to the model's length, batched, and put together again.

A text that is longer than the model was trained for is cut into segments that fit, at sentence ends wherever that
suffices. The white space between them is put back between their translations; that around the text is dropped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class Source:
    """One segment as the search sees it; the search fills in `hypotheses`.

    `ids` are without eos. `name` tells it from all others of the input. `prefix` are target ids its translation must
    begin with. Sources without ids are not searched.
    """

    name: str
    ids: list[int]
    prefix: list[int] = field(default_factory=list)
    hypotheses: list[Hypothesis] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Source tokens, eos included."""
        return len(self.ids) + 1


@dataclass(frozen=True, slots=True)
class Request:
    """One input text, cut into segments, and the source of each."""

    text: str
    segments: list[Segment]
    sources: list[Source]

    def answer(self, tokenizer: Tokenizer) -> Translation:
        """The translation, once the sources have their hypotheses; the k-th candidate joins the k-th of each."""
        num_candidates = max((len(source.hypotheses) for source in self.sources), default=0)
        return Translation(
            src=self.text,
            candidates=tuple(self._candidate(rank, tokenizer) for rank in range(num_candidates)),
            segments=sum(bool(source.ids) for source in self.sources),
            cut=any(not source.hypotheses[0].finished for source in self.sources if source.hypotheses),
        )

    def _candidate(self, rank: int, tokenizer: Tokenizer) -> Candidate:
        """A source with fewer hypotheses than that takes part with its last."""
        chosen = [source.hypotheses[: rank + 1][-1:] for source in self.sources]
        texts = [tokenizer.detokenize(found[0].ids) if found else "" for found in chosen]
        hypotheses = [hypothesis for found in chosen for hypothesis in found]
        return Candidate(
            text=join_segments(self.segments, texts),
            tokens=tuple(token for h in hypotheses for token in tokenizer.tokens(h.ids)),
            token_log_probs=tuple(log_prob for h in hypotheses for log_prob in h.token_log_probs[: len(h.ids)]),
            log_prob=sum(h.log_prob for h in hypotheses),
            score=sum(h.score for h in hypotheses),
        )


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
        sources = [Source(f"{text.number}.{index}", row) for index, row in enumerate(rows)]
        first = next((source for source in sources if source.ids), None)
        if first is not None and text.prefix:
            first.prefix = tokenizers.tgt.encode(text.prefix)
        requests.append(Request(text.marked.text, segments, sources))
    return requests


def token_batches(
    sources: Sequence[Source], rows_per_sentence: int, batch_tokens: int, workers: int = 1
) -> Iterator[list[Source]]:
    """All sources that have ids, similar lengths together: padded source tokens times rows are at most `batch_tokens`.

    The longest come first, so that memory is short at once or never. A source that alone exceeds the budget is a batch
    of its own. Where there is too little for a full batch for each of the `workers`, batches are smaller.
    """
    ordered = sorted((one for one in sources if one.ids), key=lambda one: -one.length)
    share = rows_per_sentence * sum(one.length for one in ordered) // workers
    budget = min(batch_tokens, max(share, _MIN_SHARE_TOKENS)) if workers > 1 else batch_tokens
    batch: list[Source] = []
    for source in ordered:
        if batch and (len(batch) + 1) * batch[0].length * rows_per_sentence > budget:
            yield batch
            batch = []
        batch.append(source)
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

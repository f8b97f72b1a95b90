"""From texts to hypotheses: split texts into segments, encode them, and search all segments at once.

`TextSearch.stream_text` searches a single text and yields its translation word by word.

Minimum Bayes risk decoding (`choose_least_risk`) chooses the sample that is most similar to all samples. Each sample is
scored by its mean utility with every sample, itself included, as the reference. The utility is sentence chrF2 as
sacreBLEU computes it.

References
----------
Eikema & Aziz (2020), https://arxiv.org/abs/2005.10283, and (2022), https://arxiv.org/abs/2108.04718.
Popović (2015), "chrF: character n-gram F-score for automatic MT evaluation".
"""

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dragoman.config import InferenceSettings
from dragoman.engines.interface import Search, Source, StreamingSearch
from dragoman.inference.segments import InputText, SearchedText, sources_of
from dragoman.records import Details, Hypothesis, Preserve
from dragoman.text.tokenization.sentence_splitting import separator_after
from dragoman.text.tokenization.tokenizer import Tokenizer, TokenizerPair
from dragoman.text.tokenization.words import UNSPACED

if TYPE_CHECKING:
    from dragoman.inference.alignment import Aligner

_ORDERS = 6
_BETA_SQUARED = 4.0
_Matrix = npt.NDArray[np.float64]
_Numbers = npt.NDArray[np.int64]


def _count_shared(owners: _Numbers, grams: _Numbers, count: int) -> tuple[_Matrix, _Matrix]:
    """Number of n-grams that each two texts have in common (N, N), and of n-grams in each text (N,).

    `owners` has the index of the text of each n-gram.
    """
    order = np.lexsort((grams, owners))
    owners, grams = owners[order], grams[order]
    places = np.arange(len(grams))
    begins = np.ones(len(grams), np.bool_)
    begins[1:] = (grams[1:] != grams[:-1]) | (owners[1:] != owners[:-1])
    occurrence = places - np.maximum.accumulate(np.where(begins, places, 0))
    columns = _number_ngrams(grams * (occurrence.max(initial=0) + 1) + occurrence)
    has = np.zeros((count, columns.max(initial=-1) + 1), np.float32)
    has[owners, columns] = 1.0
    return (has @ has.T).astype(np.float64), has.sum(1, dtype=np.float64)


def _number_ngrams(values: _Numbers) -> _Numbers:
    """Replace values by numbers from 0 on, without gaps. Equal values get equal numbers."""
    return np.unique(values, return_inverse=True)[1].reshape(-1)


# The last word of a text, which the next token may continue, and the white space before it. In scripts without spaces,
# a character is complete.
_LAST_WORD = re.compile(rf"\s*[^\s{UNSPACED}]*\Z")


@dataclass(frozen=True, slots=True)
class TranslationOptions:
    """All options of one call: settings of the search, what to preserve, and which details to compute."""

    settings: InferenceSettings
    preserve: Preserve
    details: Details


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A search with its tokenizers. Texts with more than `max_src_tokens` tokens are split.

    `aligner` reads the model's attention. Without it, terms and markers cannot be placed. `languages` are the codes of
    source and target, "" if unknown.
    """

    search: Search
    tokenizers: TokenizerPair
    max_src_tokens: int
    aligner: "Aligner | None" = None
    languages: tuple[str, str] = ("", "")

    def search_texts(self, texts: Sequence[InputText], options: TranslationOptions) -> list[SearchedText]:
        """Search and translate texts."""
        by_text = sources_of(texts, self.max_src_tokens, self.tokenizers, options.preserve.by_sentence)
        found = iter(self.search_sources([one for sources in by_text for one in sources], options.settings))
        return [
            SearchedText.of(text.marked.text, sources, [next(found) for _ in sources], self.tokenizers.tgt)
            for text, sources in zip(texts, by_text, strict=True)
        ]

    def stream_text(self, text: InputText, options: TranslationOptions) -> Generator[str, None, SearchedText]:
        """Search a text and yield its translation in parts, each as soon as it is certain.

        With a beam of 1, a word is certain as soon as the next one starts. With a wider beam, all hypotheses that can
        still be the best must agree on it. The parts, joined, are the translation that `search_texts` finds.
        """
        [sources] = sources_of([text], self.max_src_tokens, self.tokenizers, options.preserve.by_sentence)
        segments, hypotheses = [source.segment for source in sources], []
        for index, source in enumerate(sources):
            found = (yield from self._stream_source(source, options.settings)) if source.ids else []
            hypotheses.append(found)
            written = self.tokenizers.tgt.detokenize(found[0].ids) if found else ""
            if separator := separator_after(segments, index, written):
                yield separator
        return SearchedText.of(text.marked.text, sources, hypotheses, self.tokenizers.tgt)

    def _stream_source(self, source: Source, settings: InferenceSettings) -> Generator[str, None, list[Hypothesis]]:
        """Yield the words of a segment's translation. Samples, and searches that cannot stream, come as one part."""
        detokenize, yielded = self.tokenizers.tgt.detokenize, ""
        if isinstance(self.search, StreamingSearch) and not (settings.sample or settings.mbr_samples):
            steps = self.search.stream(self._with_controls([source], settings)[0], settings)
            while True:
                try:
                    certain = detokenize(next(steps))
                except StopIteration as end:
                    hypotheses: list[Hypothesis] = end.value
                    break
                certain = certain[: _LAST_WORD.search(certain).start()]  # type: ignore[union-attr]  # always matches
                if len(certain) > len(yielded):
                    yield certain[len(yielded) :]
                    yielded = certain
        else:
            [hypotheses] = self.search_sources([source], settings)
        if rest := detokenize(hypotheses[0].ids if hypotheses else ())[len(yielded) :]:
            yield rest
        return hypotheses

    def search_sources(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        """Search sources. With `mbr_samples`, sample instead and choose by minimum Bayes risk."""
        sources = self._with_controls(sources, settings)
        if not settings.mbr_samples:
            return self.search.search(sources, settings)
        sampled = self.search.search(sources, replace(settings, sample=True, n_best=settings.mbr_samples))
        return [choose_least_risk(samples, self.tokenizers.tgt, settings.n_best) for samples in sampled]

    def _with_controls(self, sources: Sequence[Source], settings: InferenceSettings) -> Sequence[Source]:
        controls = self.tokenizers.src.tag_ids(settings.tag)
        return [replace(one, ids=[*controls, *one.ids]) if one.ids else one for one in sources] if controls else sources


def choose_least_risk(samples: Sequence[Hypothesis], tokenizer: Tokenizer, n_best: int) -> list[Hypothesis]:
    """The `n_best` samples of one source with the highest expected chrF2, which becomes their `score`, best first.

    Samples with the same text all count as references, but only one of them is returned.
    """
    texts = [tokenizer.detokenize(hypothesis.ids) for hypothesis in samples]
    first = {text: place for place, text in reversed(list(enumerate(texts)))}
    counts = np.array([texts.count(text) for text in first], np.float64)
    utilities = pairwise_chrf(list(first)) @ counts / max(1, len(texts))
    ranked = sorted(zip(utilities.tolist(), first.values(), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return [replace(samples[place], score=utility) for utility, place in ranked[:n_best]]


def pairwise_chrf(texts: Sequence[str]) -> _Matrix:
    """chrF2 (N, N), 0 to 100, of text i as translation with text j as reference.

    The k-th occurrence of an n-gram in a text counts as a separate n-gram. The clipped number of common n-grams is then
    the size of an intersection, and one matrix product counts all pairs.
    """
    characters = [np.fromiter(map(ord, "".join(text.split())), np.int64) for text in texts]
    owners = np.repeat(np.arange(len(texts)), [len(row) for row in characters])
    symbols = _number_ngrams(np.concatenate(characters)) if texts else np.empty(0, np.int64)
    size = symbols.max(initial=0) + 1
    starts, grams = np.arange(len(symbols)), symbols
    precision, recall, orders = (np.zeros((len(texts), len(texts))) for _ in range(3))
    for order in range(1, _ORDERS + 1):
        if order > 1:
            inside = starts + order <= len(symbols)
            inside[inside] = owners[starts[inside] + order - 1] == owners[starts[inside]]
            starts = starts[inside]
            grams = _number_ngrams(grams[inside] * size + symbols[starts + order - 1])
        shared, totals = _count_shared(owners[starts], grams, len(texts))
        both = np.outer(totals > 0, totals > 0)
        precision += np.divide(shared, totals[:, None], where=both, out=np.zeros_like(shared))
        recall += np.divide(shared, totals[None, :], where=both, out=np.zeros_like(shared))
        orders += both
    orders = np.maximum(orders, 1)
    precision, recall = precision / orders, recall / orders
    weighted = _BETA_SQUARED * precision + recall
    return np.divide(
        100 * (1 + _BETA_SQUARED) * precision * recall, weighted, where=weighted > 0, out=np.zeros_like(weighted)
    )

"""From texts to hypotheses: split texts into segments, encode them, and search all segments at once.

`TextSearch.stream_text` searches a single text and yields its translation word by word.
"""

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dragoman.config import InferenceSettings
from dragoman.inference.options import Details, Preserve
from dragoman.inference.search.minimum_bayes_risk import choose_least_risk
from dragoman.inference.segments import InputText, Search, SearchedText, Source, sources_of
from dragoman.records import Hypothesis
from dragoman.text.tokenization.sentence_splitting import separator_after
from dragoman.text.tokenization.tokenizer import TokenizerPair
from dragoman.text.tokenization.words import UNSPACED

if TYPE_CHECKING:
    from dragoman.inference.alignment import Aligner

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
        if hasattr(self.search, "stream") and not (settings.sample or settings.mbr_samples):
            steps = self.search.stream(source, settings)
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
        if not settings.mbr_samples:
            return self.search.search(sources, settings)
        sampled = self.search.search(sources, replace(settings, sample=True, n_best=settings.mbr_samples))
        return [choose_least_risk(samples, self.tokenizers.tgt, settings.n_best) for samples in sampled]

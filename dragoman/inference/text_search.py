"""From texts to hypotheses: split texts into segments, encode them, and search all segments at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dragoman.config import InferenceSettings
from dragoman.inference.options import Details, Preserve
from dragoman.inference.search.minimum_bayes_risk import choose_least_risk
from dragoman.inference.segments import InputText, Search, SearchedText, Source, requests_of
from dragoman.records import Hypothesis
from dragoman.text.tokenization.tokenizer import TokenizerPair

if TYPE_CHECKING:
    from dragoman.inference.alignment import Aligner


@dataclass(frozen=True, slots=True)
class TranslationOptions:
    """All options of one call: settings of the search, what to preserve, and which details to compute."""

    settings: InferenceSettings
    preserve: Preserve
    details: Details


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A search with its tokenizers. Texts with more than `max_src_tokens` tokens are split.

    `aligner` reads the model's attention. Without it, terms and markers cannot be placed.
    """

    search: Search
    tokenizers: TokenizerPair
    max_src_tokens: int
    aligner: "Aligner | None" = None

    def search_texts(self, texts: Sequence[InputText], options: TranslationOptions) -> list[SearchedText]:
        """Search texts. Each result has the hypotheses of its segments."""
        requests = requests_of(texts, self.max_src_tokens, self.tokenizers, options.preserve.by_sentence)
        found = iter(self.search_sources([one for request in requests for one in request.sources], options.settings))
        return [SearchedText(request, [next(found) for _ in request.sources]) for request in requests]

    def search_sources(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        """Search sources. With `mbr_samples`, sample instead and choose by minimum Bayes risk."""
        if not settings.mbr_samples:
            return self.search(sources, settings)
        sampled = self.search(sources, replace(settings, sample=True, n_best=settings.mbr_samples))
        return [choose_least_risk(samples, self.tokenizers.tgt, settings.n_best) for samples in sampled]

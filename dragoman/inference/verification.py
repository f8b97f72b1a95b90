"""Verification that translations do not depend on batching, order, padding, caching or the engine of the search.

Every way of translating is compared with a slow reference. The reference batches only sentences of the same length, so
there is no padding. It recomputes all positions in every step, so there is no cache.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from dragoman.config import WITHOUT_SAMPLING, InferenceSettings
from dragoman.data.batch import pad_ids
from dragoman.inference.search.beam import beam_search
from dragoman.inference.search.step_model import OfTransformer, Predictions, StepModel
from dragoman.inference.searches import TransformerSearch
from dragoman.inference.segments import Search, Source
from dragoman.inference.tensors.fast_model import FastModel
from dragoman.inference.translator import Translator
from dragoman.model.trained import TrainedModel
from dragoman.model.transformer import Transformer
from dragoman.records import Hypothesis, Translation
from dragoman.text.tokenization.control_ids import EOS_ID, PAD_ID

TIE = 1e-5
"""Largest change of a token's log-probability (natural logarithm) that counts as rounding in float32."""

LOG_PROB_TOLERANCE = 1e-3
"""Largest difference in the log-probability (natural logarithm) of a whole translation from the reference."""

_SENTENCES_AT_ONCE = 16
_MORE_PADDING = 7
_TIE_TRIALS = 16
_MANY = 5
_MANY_SHARE = 0.05
_SEED = 1
Way = Callable[[Sequence[str]], Sequence[Translation]]


@dataclass(frozen=True, slots=True)
class Difference:
    """A text that one way translates differently from the reference. `number` counts texts from 1."""

    number: int
    src: str
    expected: str
    found: str
    log_prob_difference: float


@dataclass(frozen=True, slots=True)
class Check:
    """The result for one way of translating and one beam size.

    A text is a tie if the reference gives the same translation when its log-probabilities change by at most `TIE`.
    """

    way: str
    beam_size: int
    same: int
    ties: int
    differences: tuple[Difference, ...]
    largest_log_prob_difference: float


class FullPasses(OfTransformer):
    """A StepModel without a cache, which recomputes all positions in each step.

    Every log-probability is changed by a random number between -`noise` and `noise`.
    """

    @dataclass(slots=True)
    class State:
        """Encoded sources, one row per sentence, and written tokens, one row per hypothesis."""

        memory: Float[Tensor, "B S D"]
        src_lengths: Int64[Tensor, "B"]
        written: Int64[Tensor, "N T"]

    def __init__(self, model: Transformer, noise: float = 0.0, seed: int = _SEED) -> None:
        super().__init__(model)
        self._noise = noise
        self._generator = torch.Generator(model.device).manual_seed(seed)

    def start(self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, "B"]) -> State:
        """Encode the sources."""
        nothing = src_lengths.new_empty(src_lengths.numel(), 0)
        return self.State(self._model.encode(src_ids, src_lengths), src_lengths, nothing)

    def step(self, ids: Int64[Tensor, "N"], state: State) -> Predictions:
        """Append one token to each hypothesis and compute the log-probabilities of the next."""
        state.written = torch.cat((state.written, ids[:, None]), dim=1)
        width = ids.numel() // state.src_lengths.numel()
        memory, lengths = (one.repeat_interleave(width, dim=0) for one in (state.memory, state.src_lengths))
        hidden = self._model.decode(state.written, memory, lengths)[:, -1]
        log_probs = functional.log_softmax(self._model.projection(hidden).float(), dim=-1)
        if self._noise:
            uniform = torch.rand(log_probs.shape, generator=self._generator, device=log_probs.device)
            log_probs += self._noise * (2 * uniform - 1)
        return Predictions.of(log_probs)

    def reorder(self, state: State, rows: Int64[Tensor, "N2"], sentences: Int64[Tensor, "B2"]) -> None:
        """Reorder hypotheses and sentences."""
        state.written, state.memory = state.written[rows], state.memory[sentences]
        state.src_lengths = state.src_lengths[sentences]


def verify_translations(trained: TrainedModel, texts: Sequence[str], beam_sizes: Sequence[int]) -> Iterator[Check]:
    """Yield a check for each beam size and way of translating, in float32.

    `texts` are input as a user would give it. Empty and long texts are allowed.
    """
    for beam_size in beam_sizes:

        def way(search: Search, beam_size: int = beam_size) -> Way:
            translator = Translator.from_trained([trained], "float32", search)
            return lambda texts: translator.translate_detailed(texts, beam_size=beam_size, n_best=1, **WITHOUT_SAMPLING)

        reference = way(_Grouped(FullPasses(trained.model), _of_one_length))
        noisy = [way(_Grouped(FullPasses(trained.model, TIE, seed), _of_one_length)) for seed in range(_TIE_TRIALS)]
        expected = reference(texts)
        for name, translate in _ways(trained.model, way):
            yield _compare_all(name, beam_size, texts, expected, translate(texts), noisy)


def _ways(model: Transformer, way: Callable[[Search], Way]) -> Iterator[tuple[str, Way]]:
    """Names and functions of the ways to compare: those of `dragoman translate`, then of the tensor decoder."""
    own = TransformerSearch([model])
    together = way(own)
    yield "all together", together
    yield "in another order", lambda texts: _reorder(together, texts)
    yield "one by one", lambda texts: [together([text])[0] for text in texts]
    yield "a few at a time", lambda texts: [one for few in _few(texts) for one in together(few)]
    yield "tensors, packed", way(_Grouped(FastModel(model), _as_they_come))
    yield "tensors, padded", way(_Grouped(FastModel(model), _as_they_come, _MORE_PADDING))


def _compare_all(
    name: str,
    beam_size: int,
    texts: Sequence[str],
    expected: Sequence[Translation],
    found: Sequence[Translation],
    noisy: Sequence[Way],
) -> Check:
    apart = [abs(_log_prob(one) - _log_prob(other)) for one, other in zip(expected, found, strict=True)]
    others = [index for index, one in enumerate(expected) if _tokens(one) != _tokens(found[index])]
    ties = _ties(texts, others, found, noisy)
    # "not <=" instead of ">", so that NaN counts as a difference.
    wrong = [i for i in range(len(texts)) if i not in ties and (i in others or not apart[i] <= LOG_PROB_TOLERANCE)]
    same = set(range(len(texts))) - ties - set(wrong)
    differences = (Difference(i + 1, texts[i], expected[i].text, found[i].text, apart[i]) for i in wrong)
    return Check(name, beam_size, len(same), len(ties), tuple(differences), max((apart[i] for i in same), default=0.0))


def _ties(texts: Sequence[str], others: Sequence[int], found: Sequence[Translation], noisy: Sequence[Way]) -> set[int]:
    """Indices of `others` that a noisy reference translates as in `found`. Empty if there are too many to be ties."""
    ties: set[int] = set()
    if len(others) > max(_MANY, _MANY_SHARE * len(texts)):
        return ties
    for translate in noisy:
        if left := [index for index in others if index not in ties]:
            answers = translate([texts[index] for index in left])
            ties |= {i for i, answer in zip(left, answers, strict=True) if _tokens(answer) == _tokens(found[i])}
    return ties


def _tokens(translation: Translation) -> tuple[str, ...]:
    return translation.candidates[0].tokens if translation.candidates else ()


def _log_prob(translation: Translation) -> float:
    return translation.candidates[0].log_prob if translation.candidates else 0.0


class _Grouped:
    """Beam search in given groups of sentences, with `padding` columns of padding more than necessary."""

    def __init__(
        self,
        model: StepModel[Any],
        groups: Callable[[Sequence[Source]], Iterable[Sequence[Source]]],
        padding: int = 0,
    ) -> None:
        self._model, self._groups, self._padding = model, groups, padding

    def __call__(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        found: dict[int, list[Hypothesis]] = {}
        for group in self._groups([source for source in sources if source.ids]):
            ids, lengths = pad_ids([[*source.ids, EOS_ID] for source in group], PAD_ID)
            padded = functional.pad(ids, (0, self._padding), value=PAD_ID).to(self._model.device)
            hypotheses = beam_search(self._model, padded, lengths.to(self._model.device), settings)
            found |= zip(map(id, group), hypotheses, strict=True)
        return [found.get(id(source), []) for source in sources]


def _of_one_length(sources: Sequence[Source]) -> Iterator[Sequence[Source]]:
    by_length = defaultdict(list)
    for source in sources:
        by_length[source.length].append(source)
    for group in by_length.values():
        yield from _as_they_come(group)


def _as_they_come(sources: Sequence[Source]) -> Iterator[Sequence[Source]]:
    return (sources[start : start + _SENTENCES_AT_ONCE] for start in range(0, len(sources), _SENTENCES_AT_ONCE))


def _few(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Consecutive groups of 2 to 9 texts, of random size."""
    rng, start = Random(_SEED), 0
    while start < len(texts):
        stop = start + rng.randint(2, 9)
        yield texts[start:stop]
        start = stop


def _reorder(translate: Way, texts: Sequence[str]) -> list[Translation]:
    order = Random(_SEED).sample(range(len(texts)), len(texts))
    found = dict(zip(order, translate([texts[index] for index in order]), strict=True))
    return [found[index] for index in range(len(texts))]

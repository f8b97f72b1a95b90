"""Verification that translations do not depend on batching, order, padding, caching or the engine of the search.

Every way of translating is compared with a slow reference. The reference batches only sentences of the same length, so
there is no padding. It recomputes all positions in every step, so there is no cache. It needs torch. Without torch, the
reference is the search of `dragoman translate` with one text at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from dragoman.bundle import Model
from dragoman.config import WITHOUT_SAMPLING
from dragoman.engines.choice import Engines
from dragoman.engines.interface import Search
from dragoman.errors import has_torch
from dragoman.inference.translator import Translator
from dragoman.records import Translation

TIE = 1e-5
"""Largest change of a token's log-probability (natural logarithm) that counts as rounding in float32."""

LOG_PROB_TOLERANCE = 1e-3
"""Largest difference in the log-probability (natural logarithm) of a whole translation from the reference."""

ONE_BY_ONE = "one by one"
"""The way of translating that is the reference without torch."""

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


def verify_translations(model: Model, texts: Sequence[str], beam_sizes: Sequence[int]) -> Iterator[Check]:
    """Yield a check for each beam size and way of translating, in float32.

    `texts` are input as a user would give it. Empty and long texts are allowed. Raises ModelError for weights that are
    stored as integers.
    """
    model.weights.require_float32()
    for beam_size in beam_sizes:

        def way(search: Search, beam_size: int = beam_size) -> Way:
            translator = Translator.from_models([model], "float32", search)
            return lambda texts: translator.translate_detailed(texts, beam_size=beam_size, n_best=1, **WITHOUT_SAMPLING)

        ways, noisy = _own_ways(way(Engines([model.weights]))), []
        if has_torch():
            from dragoman.engines.search.step_model import FullPasses, as_they_come, of_one_length
            from dragoman.engines.tensors.engine import StepSearch
            from dragoman.engines.tensors.fast_model import FastModel

            transformer, fast = model.transformer, FastModel(model.transformer)
            reference = way(StepSearch(FullPasses(transformer), of_one_length))
            noise = [FullPasses(transformer, TIE, seed) for seed in range(_TIE_TRIALS)]
            noisy = [way(StepSearch(one, of_one_length)) for one in noise]
            ways["tensors, packed"] = way(StepSearch(fast, as_they_come))
            ways["tensors, padded"] = way(StepSearch(fast, as_they_come, _MORE_PADDING))
        else:
            reference = ways.pop(ONE_BY_ONE)
        expected = reference(texts)
        for name, translate in ways.items():
            yield _compare_all(name, beam_size, texts, expected, translate(texts), noisy)


def _own_ways(together: Way) -> dict[str, Way]:
    """The ways of `dragoman translate` by name."""
    return {
        "all together": together,
        "in another order": lambda texts: _reorder(together, texts),
        ONE_BY_ONE: lambda texts: [together([text])[0] for text in texts],
        "a few at a time": lambda texts: [one for few in _few(texts) for one in together(few)],
    }


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

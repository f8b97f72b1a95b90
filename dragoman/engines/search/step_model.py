"""The interface between searches and models: three verbs, `start`, `step` and `reorder`.

A search accepts any model with these verbs: `tensors.fast_model.FastModel`, an `Ensemble` of models, the slow reference
`FullPasses`, or a table of probabilities in tests.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from dragoman.engines.interface import Source
from dragoman.errors import ModelError
from dragoman.model.transformer import Transformer

State = TypeVar("State")
_LN2 = math.log(2.0)
# If |log2 of the sum| is below this, the sum of up to 2**20 powers neither overflowed nor vanished in float32.
_SAFE_EXPONENT = 100.0


@dataclass(frozen=True, slots=True)
class Predictions:
    """A model's predictions of the next token of N hypotheses. Logits are computed when they are needed.

    Attributes
    ----------
    states
        Final states of the decoder, or log-probabilities (N, V) if `project` is None.
    vocab_size
        Size V of the target vocabulary.
    project
        Function from states to logits in base 2, which are the model's logits times log2 e. torch's exp2 is three times
        as fast as its exp on a CPU.
    """

    states: Float[Tensor, "N D"]
    vocab_size: int
    project: Callable[[Float[Tensor, "n D"]], Float[Tensor, "n V"]] | None = None

    @staticmethod
    def of(log_probs: Float[Tensor, "N V"]) -> "Predictions":
        """Predictions with these log-probabilities, in float32."""
        return Predictions(log_probs, log_probs.size(1))

    def log_probs(self) -> Float[Tensor, "N V"]:
        """Log-probabilities of all tokens, in float32. The caller may overwrite them."""
        if self.project is None:
            return self.states
        return torch.log_softmax(self.project(self.states).float().mul_(_LN2), dim=-1)

    @property
    def unit(self) -> float:
        """The natural log-probability per unit of `logits`, which are in base 2 or already log-probabilities."""
        return 1.0 if self.project is None else _LN2

    def logits(self, rows: slice) -> tuple[Float[Tensor, "n V"], Float[Tensor, " n"]]:
        """The logits and the normalizers of some rows. A log-probability is (logit - normalizer) * `unit`."""
        if self.project is None:
            return self.states[rows], self.states.new_zeros(self.states[rows].size(0))
        logits = self.project(self.states[rows]).float()
        return logits, _log2_sums(logits)


def _log2_sums(logits: Float[Tensor, "N V"]) -> Float[Tensor, " N"]:
    """log2 of the sum of 2 ** logit of every row."""
    if logits.device.type == "cpu":  # on a GPU, the check below would wait for the device
        sums = torch.exp2(logits).sum(1).log2_()
        if float(sums.abs().max()) < _SAFE_EXPONENT:
            return sums
    largest = logits.amax(1, keepdim=True)
    return torch.exp2(logits - largest).sum(1).log2_().add_(largest[:, 0])


class StepModel(Protocol[State]):
    """A model that predicts one target token at a time for N hypotheses of B sentences, N / B for each sentence.

    The search passes the state from call to call without looking inside. `step` and `reorder` change it in place.
    """

    @property
    def vocab_size(self) -> int:
        """Size V of the target vocabulary."""

    @property
    def max_length(self) -> int | None:
        """Maximum length of an output in tokens, eos included. None: no limit."""

    @property
    def device(self) -> torch.device:
        """The device of ids and predictions."""

    def start(self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, " B"]) -> State:
        """Encode sources, which end with eos. `src_lengths` count eos.

        The state has one hypothesis without tokens for each sentence.
        """

    def step(self, ids: Int64[Tensor, " N"], state: State) -> Predictions:
        """Append one token to each hypothesis, bos first, and predict the next token."""

    def reorder(self, state: State, rows: Int64[Tensor, " N2"], sentences: Int64[Tensor, " B2"]) -> None:
        """Keep the given hypotheses (`rows`) and sentences, by their old indices, in the given order.

        Afterwards row n belongs to sentence n // (N2 / B2).
        """


class OfTransformer:
    """The properties that all StepModels of a single Transformer share."""

    def __init__(self, model: Transformer) -> None:
        self._model, self.vocab_size = model, model.tgt_vocab_size

    @property
    def max_length(self) -> int | None:
        """The number of learned positions. None with sinusoidal positions."""
        return self._model.max_positions

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self._model.device


class Ensemble:
    """Several models as one StepModel, which predicts the mean of their probabilities.

    Raises ModelError if there is no model or if their target vocabularies differ in size.
    """

    def __init__(self, members: Sequence[StepModel[Any]]) -> None:
        sizes = sorted({member.vocab_size for member in members})
        if not members:
            raise ModelError("an ensemble needs at least one model, but got none. Name one or more model folders.")
        if len(sizes) > 1:
            raise ModelError(
                f"the models of an ensemble must share one target vocabulary, but theirs have {sizes} entries. "
                "Use models trained with the same tokenizer."
            )
        self._members = tuple(members)
        self.vocab_size = sizes[0]
        # The shortest limit of all members, or None if no member has one.
        self.max_length = min((m.max_length for m in members if m.max_length is not None), default=None)

    @property
    def device(self) -> torch.device:
        """The device of the first member. All members must be on one device."""
        return self._members[0].device

    def start(self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, " B"]) -> tuple[Any, ...]:
        """One state for each member."""
        return tuple(member.start(src_ids, src_lengths) for member in self._members)

    def step(self, ids: Int64[Tensor, " N"], state: tuple[Any, ...]) -> Predictions:
        """The mean of the members' probabilities."""
        steps = [member.step(ids, own).log_probs() for member, own in zip(self._members, state, strict=True)]
        mean = torch.logsumexp(torch.stack(steps), dim=0) - math.log(len(steps))
        return Predictions.of(mean.clamp_(max=0.0))  # rounding can give probabilities slightly above 1

    def reorder(self, state: tuple[Any, ...], rows: Int64[Tensor, " N2"], sentences: Int64[Tensor, " B2"]) -> None:
        """Reorder the state of every member in the same way."""
        for member, own in zip(self._members, state, strict=True):
            member.reorder(own, rows, sentences)


_SENTENCES_AT_ONCE = 16


class FullPasses(OfTransformer):
    """A StepModel without a cache, which recomputes all positions in each step.

    Every log-probability is changed by a random number between -`noise` and `noise`.
    """

    @dataclass(slots=True)
    class State:
        """Encoded sources and their lengths, one row per sentence, and written tokens, one row per hypothesis.

        `src_lengths` count eos.
        """

        memory: Float[Tensor, "B S D"]
        src_lengths: Int64[Tensor, " B"]
        written: Int64[Tensor, "N T"]

    def __init__(self, model: Transformer, noise: float = 0.0, seed: int = 1) -> None:
        super().__init__(model)
        self._noise = noise
        self._generator = torch.Generator(model.device).manual_seed(seed)

    def start(self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, " B"]) -> State:
        """Encode the sources."""
        nothing = src_lengths.new_empty(src_lengths.numel(), 0)
        return self.State(self._model.encode(src_ids, src_lengths), src_lengths, nothing)

    def step(self, ids: Int64[Tensor, " N"], state: State) -> Predictions:
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

    def reorder(self, state: State, rows: Int64[Tensor, " N2"], sentences: Int64[Tensor, " B2"]) -> None:
        """Reorder hypotheses and sentences."""
        state.written, state.memory = state.written[rows], state.memory[sentences]
        state.src_lengths = state.src_lengths[sentences]


def of_one_length(sources: Sequence[Source]) -> Iterator[list[int]]:
    """Groups of sources of the same length, as indices. They need no padding."""
    by_length = defaultdict(list)
    for place, source in enumerate(sources):
        if source.ids:
            by_length[source.length].append(place)
    for group in by_length.values():
        yield from _cut(group)


def as_they_come(sources: Sequence[Source]) -> Iterator[list[int]]:
    """Groups of consecutive sources, as indices."""
    return _cut([place for place, source in enumerate(sources) if source.ids])


def _cut(places: list[int]) -> Iterator[list[int]]:
    return (places[start : start + _SENTENCES_AT_ONCE] for start in range(0, len(places), _SENTENCES_AT_ONCE))

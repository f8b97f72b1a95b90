"""What search sees of a model: three verbs, `start`, `step` and `reorder`.

A single Transformer, an ensemble and (in tests) a table of probabilities are the same to it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.errors import ModelError
from dragoman.model.transformer import Transformer

State = TypeVar("State")
_LN2 = math.log(2.0)
# Between these, 2 ** logit and the sum of up to 2**20 of them are normal float32 numbers.
_SAFE_EXPONENT = 100.0


@dataclass(frozen=True, slots=True)
class Predictions:
    """What a model predicts as the next token of each of N hypotheses.

    `project` computes the logits of some of the `states`, in base 2: the logits of the model times log2 e. torch's exp2
    is three times as fast as its exp on a CPU. Without `project`, the states are log_probs.
    """

    states: Float[Tensor, "N D"]
    vocab_size: int
    project: Callable[[Float[Tensor, "n D"]], Float[Tensor, "n V"]] | None = None

    @staticmethod
    def of(log_probs: Float[Tensor, "N V"]) -> "Predictions":
        """The predictions with these log_probs, in float32."""
        return Predictions(log_probs, log_probs.size(1))

    def log_probs(self) -> Float[Tensor, "N V"]:
        """The log_probs of all tokens in float32, the caller's to overwrite."""
        if self.project is None:
            return self.states
        return torch.log_softmax(self.project(self.states).float().mul_(_LN2), dim=-1)

    def logits(self, rows: slice) -> tuple[Float[Tensor, "n V"], Float[Tensor, "n"], float]:
        """The logits of some rows, the normaliser of each, and the unit: a log_prob is (logit - normaliser) * unit."""
        if self.project is None:
            return self.states[rows], self.states.new_zeros(self.states[rows].size(0)), 1.0
        logits = self.project(self.states[rows]).float()
        return logits, _log2_sums(logits), _LN2


def _log2_sums(logits: Float[Tensor, "N V"]) -> Float[Tensor, "N"]:
    """log2 of the sum of 2 ** logit of every row."""
    if logits.device.type == "cpu":  # the check would wait for another device
        sums = torch.exp2(logits).sum(1).log2_()
        if float(sums.abs().max()) < _SAFE_EXPONENT:
            return sums
    largest = logits.amax(1, keepdim=True)
    return torch.exp2(logits - largest).sum(1).log2_().add_(largest[:, 0])


@runtime_checkable
class StepModel(Protocol[State]):
    """A model that predicts one target token at a time for N hypotheses of B sentences, N / B for each sentence.

    The state is the model's own affair: search holds it and hands it back. `step` and `reorder` change it in place.
    """

    @property
    def vocab_size(self) -> int:
        """V, the width of the log_probs."""

    @property
    def max_length(self) -> int | None:
        """The longest output in tokens, eos included; None: any."""

    @property
    def device(self) -> torch.device:
        """Where the ids must be and the log_probs are."""

    def start(self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, "B"]) -> State:
        """The state before the first target token, one hypothesis a sentence; sources end with eos."""

    def step(self, ids: Int64[Tensor, "N"], state: State) -> Predictions:
        """Appends one token to each hypothesis, bos first, and predicts the next."""

    def reorder(self, state: State, rows: Int64[Tensor, "N2"], sentences: Int64[Tensor, "B2"]) -> None:
        """Keeps the named hypotheses and sentences, both by their old numbers, in the named order.

        Afterwards row n belongs to sentence n // (N2 / B2).
        """


class OfTransformer:
    """What every StepModel of one Transformer says of it."""

    def __init__(self, model: Transformer) -> None:
        self._model = model

    @property
    def vocab_size(self) -> int:
        """V, the target vocabulary."""
        return self._model.tgt_vocab_size

    @property
    def max_length(self) -> int | None:
        """As many tokens as there are learned positions; None with computed ones."""
        return self._model.max_positions

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._model.device


class Ensemble:
    """Several models with one target vocabulary as one: the mean of their probabilities.

    Raises ModelError when there is no model or their vocabularies differ in size.
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

    @property
    def vocab_size(self) -> int:
        """V, the same in all members."""
        return self._members[0].vocab_size

    @property
    def max_length(self) -> int | None:
        """The longest output that every member can write."""
        return min((m.max_length for m in self._members if m.max_length is not None), default=None)

    @property
    def device(self) -> torch.device:
        """Where the first member is; the others must be there too."""
        return self._members[0].device

    def start(self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, "B"]) -> tuple[Any, ...]:
        """One state a member."""
        return tuple(member.start(src_ids, src_lengths) for member in self._members)

    def step(self, ids: Int64[Tensor, "N"], state: tuple[Any, ...]) -> Predictions:
        """The mean of the members' probabilities."""
        steps = [member.step(ids, own).log_probs() for member, own in zip(self._members, state, strict=True)]
        mean = torch.logsumexp(torch.stack(steps), dim=0) - math.log(len(steps))
        return Predictions.of(mean.clamp_(max=0.0))  # rounding must not make a token likelier than certain

    def reorder(self, state: tuple[Any, ...], rows: Int64[Tensor, "N2"], sentences: Int64[Tensor, "B2"]) -> None:
        """Moves every member's state alike."""
        for member, own in zip(self._members, state, strict=True):
            member.reorder(own, rows, sentences)

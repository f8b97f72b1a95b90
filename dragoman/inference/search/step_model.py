"""What search sees of a model: three verbs, `start`, `step` and `reorder`.

A single Transformer, an ensemble and (in tests) a table of probabilities are the same to it.
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.errors import ModelError
from dragoman.inference.search.continuations import Continuations
from dragoman.model.transformer import Transformer

State = TypeVar("State")


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

    def step(self, ids: Int64[Tensor, "N"], state: State) -> Float[Tensor, "N V"]:
        """Appends one token to each hypothesis, bos first; float32 log_probs of the next, the caller's to overwrite."""

    def reorder(self, state: State, rows: Int64[Tensor, "N2"], sentences: Int64[Tensor, "B2"]) -> None:
        """Keeps the named hypotheses and sentences, both by their old numbers, in the named order.

        Afterwards row n belongs to sentence n // (N2 / B2).
        """


class Best(Protocol):
    """A verb that a StepModel may have besides its three, as ``best``: a step that gives only what a beam needs."""

    def __call__(
        self,
        ids: Int64[Tensor, "N"],
        state: Any,
        log_probs: Float[Tensor, "B W"],
        count: int,
        unwritable: Sequence[int],
    ) -> Continuations:
        """Appends one token to each hypothesis, and finds the best continuations of each sentence.

        `log_probs` are those of the hypotheses so far. There are `count` of a sentence, or as many as there can be;
        no id of `unwritable` among them.
        """


def best_of(model: StepModel[Any]) -> Best | None:
    """The model's verb ``best``, where it has one."""
    return getattr(model, "best", None)


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

    def step(self, ids: Int64[Tensor, "N"], state: tuple[Any, ...]) -> Float[Tensor, "N V"]:
        """log of the mean of the members' probabilities."""
        steps = [member.step(ids, own) for member, own in zip(self._members, state, strict=True)]
        mean = torch.logsumexp(torch.stack(steps), dim=0) - math.log(len(steps))
        return mean.clamp_(max=0.0)  # rounding must not make a token likelier than certain

    def reorder(self, state: tuple[Any, ...], rows: Int64[Tensor, "N2"], sentences: Int64[Tensor, "B2"]) -> None:
        """Moves every member's state alike."""
        for member, own in zip(self._members, state, strict=True):
            member.reorder(own, rows, sentences)

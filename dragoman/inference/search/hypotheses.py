"""The hypotheses of a batch: those that are being written, all of the same length, and the finished ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional

from dragoman.records import Hypothesis
from dragoman.text.tokenization.control_ids import EOS_ID


class BatchRecord:
    """A record of B sentences: tensors with one row for each sentence, other such records, and numbers for all."""

    __slots__: tuple[str, ...] = ()

    def select(self, sentences: Int64[Tensor, " B2"] | slice) -> Self:
        """The record of some sentences."""
        return self._map(lambda one: one[sentences])

    def choose(self, places: Int64[Tensor, "B C2"]) -> Self:
        """The record with the columns `places` of each sentence, from tensors (B, C) and (B, C, T)."""
        sentences = torch.arange(places.size(0), device=places.device)[:, None]
        return self._map(lambda one: one.gather(1, places) if one.ndim == 2 else one[sentences, places])

    def _map(self, function: Callable[[Tensor], Tensor]) -> Self:
        def mapped(field: Any) -> Any:
            if isinstance(field, Tensor):
                return function(field)
            return field._map(function) if isinstance(field, BatchRecord) else field

        return type(self)(*(mapped(getattr(self, name)) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Paths(BatchRecord):
    """W hypotheses of T tokens for each of B sentences, with the log-probability of every token."""

    ids: Int64[Tensor, "B W T"]
    token_log_probs: Float[Tensor, "B W T"]

    @staticmethod
    def empty(num_sentences: int, width: int, device: torch.device) -> "Paths":
        """Hypotheses without tokens."""
        shape = (num_sentences, width, 0)
        return Paths(torch.zeros(shape, dtype=torch.int64, device=device), torch.zeros(shape, device=device))

    def extend(
        self, parents: Int64[Tensor, "B W2"], ids: Int64[Tensor, "B W2"], token_log_probs: Float[Tensor, "B W2"]
    ) -> "Paths":
        """Append one token to each parent. `parents` are indices of hypotheses of the same sentence."""
        grown = self.choose(parents)
        return Paths(
            torch.cat((grown.ids, ids[..., None]), dim=2),
            torch.cat((grown.token_log_probs, token_log_probs[..., None]), dim=2),
        )

    def merge(self, longer: "Paths") -> "Paths":
        """Concatenate with hypotheses that have at least as many tokens. Shorter ones are padded with zeros."""
        gap = (0, longer.ids.size(2) - self.ids.size(2))
        return Paths(
            torch.cat((functional.pad(self.ids, gap), longer.ids), dim=1),
            torch.cat((functional.pad(self.token_log_probs, gap), longer.token_log_probs), dim=1),
        )

    def hypotheses(self, lengths: Int64[Tensor, "B W"], scores: Float[Tensor, "B W"]) -> list[list[Hypothesis]]:
        """The hypotheses whose score is not -inf, as records.

        Tokens after the length (at least 1) are ignored. A hypothesis is `finished` if its last token is eos.
        """
        sentences = zip(
            self.ids.tolist(), self.token_log_probs.tolist(), lengths.tolist(), scores.tolist(), strict=True
        )
        return [
            [_hypothesis(*place) for place in zip(*sentence, strict=True) if place[-1] > float("-inf")]
            for sentence in sentences
        ]


def _hypothesis(ids: list[int], token_log_probs: list[float], length: int, score: float) -> Hypothesis:
    finished = ids[length - 1] == EOS_ID
    counted = tuple(token_log_probs[:length])
    return Hypothesis(tuple(ids[: length - finished]), counted, sum(counted), score, finished)


_NONE = float("-inf")


@dataclass(frozen=True, slots=True)
class Finished(BatchRecord):
    """The best M finished hypotheses of each of B sentences, best first. Unused places have a score of -inf.

    Hypotheses marked `cut` reached the length limit without eos. They come after all others, whatever their score.
    """

    scores: Float[Tensor, "B M"]
    lengths: Int64[Tensor, "B M"]
    cut: Bool[Tensor, "B M"]
    paths: Paths

    @staticmethod
    def none(num_sentences: int, places: int, device: torch.device) -> "Finished":
        """No finished hypothesis yet, and `places` for the best ones."""
        shape = (num_sentences, places)
        return Finished(
            torch.full(shape, _NONE, device=device),
            torch.zeros(shape, dtype=torch.int64, device=device),
            torch.zeros(shape, dtype=torch.bool, device=device),
            Paths.empty(num_sentences, places, device),
        )

    @property
    def is_empty(self) -> bool:
        """Whether no hypothesis has finished."""
        return self.paths.ids.size(2) == 0

    def merge(self, scores: Float[Tensor, "B C"], paths: Paths) -> "Finished":
        """Add the hypotheses of `paths` whose score is not -inf, and keep the best.

        Of equal hypotheses, the one that finished earlier comes first.
        """
        last = paths.ids[..., -1]
        joined = Finished(
            torch.cat((self.scores, scores), dim=1),
            torch.cat((self.lengths, torch.full_like(last, paths.ids.size(2))), dim=1),
            torch.cat((self.cut, last != EOS_ID), dim=1),
            self.paths.merge(paths),
        )
        return joined.choose(_ranking(joined.scores, joined.cut)[:, : self.scores.size(1)])

    def unbeatable(self, best_attainable: Float[Tensor, " B"], places: int) -> Bool[Tensor, " B"]:
        """Whether the first `places` scores are at least the best attainable score, which is -inf if none is."""
        return (self.scores[:, :places] >= best_attainable[:, None]).all(dim=1)

    def best(self, places: int) -> "Finished":
        """The first `places` of each sentence."""
        return self._map(lambda one: one[:, :places])

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence as records, best first."""
        return self.paths.hypotheses(self.lengths, self.scores)


def _ranking(scores: Float[Tensor, "B C"], cut: Bool[Tensor, "B C"]) -> Int64[Tensor, "B C"]:
    """The order by kind (ended, cut, unused), then by descending score. The order of equal ones is kept."""
    order = scores.sort(dim=1, descending=True, stable=True).indices
    kind = cut.long().masked_fill(scores == _NONE, 2).gather(1, order)
    return order.gather(1, kind.sort(dim=1, stable=True).indices)

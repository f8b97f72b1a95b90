"""The finished hypotheses of a beam search: the best of each sentence, and whether live ones can still beat them."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from dragoman.inference.search.paths import Paths
from dragoman.records import Hypothesis
from dragoman.text.tokenization.control_ids import EOS_ID

_NONE = float("-inf")


@dataclass(frozen=True, slots=True)
class Finished:
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
        length = paths.ids.size(2)
        all_scores = torch.cat((self.scores, scores), dim=1)
        all_lengths = torch.cat((self.lengths, torch.full_like(paths.ids[..., -1], length)), dim=1)
        all_cut = torch.cat((self.cut, paths.ids[..., -1] != EOS_ID), dim=1)
        order = _ranking(all_scores, all_cut)[:, : self.scores.size(1)]
        return Finished(
            all_scores.gather(1, order),
            all_lengths.gather(1, order),
            all_cut.gather(1, order),
            self.paths.merge(paths).choose(order),
        )

    def unbeatable(self, best_attainable: Float[Tensor, " B"], places: int) -> Bool[Tensor, " B"]:
        """Whether the first `places` scores are at least the best attainable score, which is -inf if none is."""
        return (self.scores[:, :places] >= best_attainable[:, None]).all(dim=1)

    def best(self, places: int) -> "Finished":
        """The first `places` of each sentence."""
        order = torch.arange(places, device=self.scores.device).expand(self.scores.size(0), -1)
        return Finished(
            self.scores.gather(1, order),
            self.lengths.gather(1, order),
            self.cut.gather(1, order),
            self.paths.choose(order),
        )

    def select(self, sentences: Int64[Tensor, " B2"]) -> "Finished":
        """The finished hypotheses of some sentences."""
        return Finished(
            self.scores[sentences], self.lengths[sentences], self.cut[sentences], self.paths.select(sentences)
        )

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence as records, best first."""
        return self.paths.hypotheses(self.lengths, self.scores)


def _ranking(scores: Float[Tensor, "B C"], cut: Bool[Tensor, "B C"]) -> Int64[Tensor, "B C"]:
    """The order by kind (ended, cut, unused), then by descending score. The order of equal ones is kept."""
    order = scores.sort(dim=1, descending=True, stable=True).indices
    kind = cut.long().masked_fill(scores == _NONE, 2).gather(1, order)
    return order.gather(1, kind.sort(dim=1, stable=True).indices)

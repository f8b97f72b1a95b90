"""The hypotheses of a batch while they are being written: several per sentence, all of the same length."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from dragoman.records import Hypothesis
from dragoman.text.tokenization.control_ids import EOS_ID


@dataclass(frozen=True, slots=True)
class Paths:
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

    def choose(self, places: Int64[Tensor, "B W2"]) -> "Paths":
        """The hypotheses at the indices `places` of each sentence."""
        sentences = torch.arange(places.size(0), device=places.device)[:, None]
        return Paths(self.ids[sentences, places], self.token_log_probs[sentences, places])

    def select(self, sentences: Int64[Tensor, " B2"]) -> "Paths":
        """The hypotheses of some sentences."""
        return Paths(self.ids[sentences], self.token_log_probs[sentences])

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

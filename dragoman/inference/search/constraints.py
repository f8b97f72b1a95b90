"""Hard constraints on outputs: maximum and minimum length, forced first tokens, and ids that are never written."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.config import InferenceSettings
from dragoman.data.batch import pad_ids
from dragoman.inference.output_rules import output_limit, unwritable

_FREE = -1


@dataclass(frozen=True, slots=True)
class Constraints:
    """Constraints on the outputs of B sentences.

    Attributes
    ----------
    limits
        Maximum length of each output in tokens, eos included.
    prefixes
        The forced first tokens of each output, then -1.
    min_tokens
        Minimum length of each output. Only a prefix that contains eos may end earlier.
    """

    limits: Int64[Tensor, " B"]
    prefixes: Int64[Tensor, "B P"]
    min_tokens: int

    @staticmethod
    def of(
        src_lengths: Int64[Tensor, " B"],
        settings: InferenceSettings,
        max_length: int | None,
        prefixes: Sequence[Sequence[int]] | None,
    ) -> "Constraints":
        """Constraints with the limits of `output_limit`. Raises ValueError unless each sentence has a prefix."""
        rows = [()] * src_lengths.numel() if prefixes is None else prefixes
        if len(rows) != src_lengths.numel():
            raise ValueError(f"{len(rows)} prefixes do not fit {src_lengths.numel()} sentences")
        padded, lengths = pad_ids(rows, _FREE)
        limits = [
            output_limit(src_length, prefix_length, settings, max_length)
            for src_length, prefix_length in zip(src_lengths.tolist(), lengths.tolist(), strict=True)
        ]
        device = src_lengths.device
        return Constraints(torch.tensor(limits, device=device), padded.to(device), settings.min_tokens)

    def select(self, sentences: Int64[Tensor, " B2"] | slice) -> "Constraints":
        """The constraints of some sentences."""
        return Constraints(self.limits[sentences], self.prefixes[sentences], self.min_tokens)

    def apply(self, log_probs: Float[Tensor, "N V"], position: int, sentences: slice) -> None:
        """Set tokens that are not allowed at `position` to -inf, in place. `log_probs` are those of `sentences`."""
        if position >= self.prefixes.size(1):
            hide(log_probs, unwritable(position, self.min_tokens))
            return
        forced = self.select(sentences)._forced(position, log_probs.size(0))
        ids, is_free = forced.clamp(min=0), forced == _FREE
        forced_log_probs = log_probs.gather(1, ids)
        hide(log_probs, unwritable(position, self.min_tokens))
        log_probs.masked_fill_(~is_free, float("-inf"))
        log_probs.scatter_(1, ids, torch.where(is_free, log_probs.gather(1, ids), forced_log_probs))

    def with_prefix(self, ids: Int64[Tensor, " N"], position: int) -> Int64[Tensor, " N"]:
        """The prefix's ids at `position`, and `ids` where the prefix has ended."""
        if position >= self.prefixes.size(1):
            return ids
        forced = self._forced(position, ids.numel())[:, 0]
        return torch.where(forced == _FREE, ids, forced)

    def _forced(self, position: int, num_rows: int) -> Int64[Tensor, "N 1"]:
        """The prefix's id at `position` or -1, repeated for each row of a sentence."""
        return self.prefixes[:, position, None].repeat_interleave(num_rows // self.limits.numel(), dim=0)


def hide(log_probs: Float[Tensor, "N V"], token_ids: tuple[int, ...]) -> None:
    """Set some ids to -inf, in place. The other log-probabilities are not renormalized."""
    log_probs.index_fill_(1, _tensor_of(token_ids, log_probs.device), float("-inf"))


@lru_cache(maxsize=8)
def _tensor_of(token_ids: tuple[int, ...], device: torch.device) -> Int64[Tensor, " h"]:
    with torch.inference_mode(False):
        return torch.tensor(token_ids, device=device)

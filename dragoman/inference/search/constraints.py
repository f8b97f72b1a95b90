"""What an output may be, whatever the model thinks: its length, its first tokens, and the ids that never come out."""

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
    """What the outputs of B sentences must obey.

    `limits` (B,): the longest output in tokens, eos included. `prefixes` (B, P): the first tokens of each output, kept
    exactly, then -1. No output ends before it has `min_tokens` tokens, unless its prefix does.
    """

    limits: Int64[Tensor, "B"]
    prefixes: Int64[Tensor, "B P"]
    min_tokens: int

    @staticmethod
    def of(
        src_lengths: Int64[Tensor, "B"],
        settings: InferenceSettings,
        max_length: int | None,
        prefixes: Sequence[Sequence[int]] | None,
    ) -> "Constraints":
        """With the limits of `output_limit`. Raises ValueError unless each sentence has a prefix."""
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

    def select(self, sentences: Int64[Tensor, "B2"] | slice) -> "Constraints":
        """The same for some of the sentences."""
        return Constraints(self.limits[sentences], self.prefixes[sentences], self.min_tokens)

    def apply(self, log_probs: Float[Tensor, "N V"], position: int, sentences: slice) -> None:
        """Gives -inf to all tokens that may not stand at `position`, in place; `log_probs` are of these sentences."""
        if position >= self.prefixes.size(1):
            hide(log_probs, unwritable(position, self.min_tokens))
            return
        forced = self.select(sentences)._forced(position, log_probs.size(0))
        ids, is_free = forced.clamp(min=0), forced == _FREE
        forced_log_probs = log_probs.gather(1, ids)
        hide(log_probs, unwritable(position, self.min_tokens))
        log_probs.masked_fill_(~is_free, float("-inf"))
        log_probs.scatter_(1, ids, torch.where(is_free, log_probs.gather(1, ids), forced_log_probs))

    def with_prefix(self, ids: Int64[Tensor, "N"], position: int) -> Int64[Tensor, "N"]:
        """The ids that stand at `position` when `ids` are chosen wherever the prefix does not say which."""
        if position >= self.prefixes.size(1):
            return ids
        forced = self._forced(position, ids.numel())[:, 0]
        return torch.where(forced == _FREE, ids, forced)

    def _forced(self, position: int, num_rows: int) -> Int64[Tensor, "N 1"]:
        """The prefixes' token at `position`, for each of a sentence's rows."""
        return self.prefixes[:, position, None].repeat_interleave(num_rows // self.limits.numel(), dim=0)


def hide(log_probs: Float[Tensor, "N V"], token_ids: tuple[int, ...]) -> None:
    """Gives some ids no chance, in place; the others keep their probabilities."""
    log_probs.index_fill_(1, _tensor_of(token_ids, log_probs.device), float("-inf"))


@lru_cache(maxsize=8)
def _tensor_of(token_ids: tuple[int, ...], device: torch.device) -> Int64[Tensor, "h"]:
    with torch.inference_mode(False):
        return torch.tensor(token_ids, device=device)

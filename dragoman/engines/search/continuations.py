"""Hypotheses that are being written or finished, and their best continuations by one token within hard constraints.

A search needs a few tokens per sentence out of a vocabulary of ten thousand. Logits are therefore computed for a few
sentences at a time, so that they fit into the processor's cache, and only chosen tokens get log-probabilities. The
constraints are the maximum and minimum length, forced first tokens, and ids that are never written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional

from dragoman.config import InferenceSettings
from dragoman.data.batch import pad_ids
from dragoman.engines.interface import output_limit, unwritable
from dragoman.engines.search.step_model import Predictions
from dragoman.records import EOS_ID, Hypothesis


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


_FREE = -1


@dataclass(frozen=True, slots=True)
class Constraints(BatchRecord):
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


_NUM_BLOCKS = 200
# Up to this many logits per sentence, one topk over all is as fast as finding the best blocks first.
_FEW = 2048
# Logits computed at once. On a CPU, more do not fit into the cache. On a GPU, where launching a kernel costs more than
# memory, this many take a quarter of a gigabyte.
_LOGITS_AT_ONCE = {"cpu": 640_000}
_LOGITS_AT_ONCE_ELSEWHERE = 1 << 26


@dataclass(frozen=True, slots=True)
class Continuations(BatchRecord):
    """The best C continuations of each of B sentences, best first.

    `parents` are the indices of the hypotheses that they continue, and `ids` the new tokens. `log_probs` include all
    tokens, `token_log_probs` only the new one. Unused places have a log-probability of -inf.
    """

    log_probs: Float[Tensor, "B C"]
    parents: Int64[Tensor, "B C"]
    ids: Int64[Tensor, "B C"]
    token_log_probs: Float[Tensor, "B C"]


def best_continuations(
    predictions: Predictions, log_probs: Float[Tensor, "B W"], constraints: Constraints, position: int, count: int
) -> Continuations:
    """The `count` best allowed continuations of each sentence, or all if there are fewer.

    Parameters
    ----------
    predictions
        The model's predictions for the B * W hypotheses. They are overwritten.
    log_probs
        Log-probabilities of the W hypotheses of each sentence.
    constraints
        Tokens that the constraints do not allow at `position` are left out.
    position
        Number of tokens that the hypotheses have.
    count
        Number of continuations C.
    """
    num_sentences, width = log_probs.shape
    at_once = _LOGITS_AT_ONCE.get(log_probs.device.type, _LOGITS_AT_ONCE_ELSEWHERE)
    group = max(1, at_once // (predictions.vocab_size * width))

    def best(some: slice) -> Continuations:
        """The best continuations of some sentences. Returning frees the logits before the next ones are computed."""
        logits, normalisers = predictions.logits(slice(some.start * width, some.stop * width))
        constraints.apply(logits, position, some)
        shaped = logits.view(-1, width, predictions.vocab_size), normalisers.view(-1, width)
        return _Rows(*shaped, log_probs[some], predictions.unit).best(min(count, width * predictions.vocab_size))

    parts = [best(slice(first, first + group)) for first in range(0, num_sentences, group)]
    if len(parts) == 1:
        return parts[0]
    return Continuations(*(torch.cat([getattr(part, name) for part in parts]) for name in Continuations.__slots__))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The logits of all continuations of some sentences, and the log-probabilities of their hypotheses.

    The log-probability of a token is (logit - normalizer) * unit.
    """

    logits: Float[Tensor, "B W V"]
    normalisers: Float[Tensor, "B W"]
    log_probs: Float[Tensor, "B W"]
    unit: float

    def best(self, count: int) -> Continuations:
        """The `count` best continuations of each sentence. Equal ones are ordered by hypothesis and id."""
        _, width, vocab_size = self.logits.shape
        if width * vocab_size <= _FEW or count > _NUM_BLOCKS or vocab_size < _NUM_BLOCKS:
            chosen = self._totals(self.logits).topk(count, dim=1, sorted=False).indices
        else:
            chosen = self._best_by_blocks(count)
        chosen = chosen.sort(dim=1).values
        parents, ids = chosen // vocab_size, chosen % vocab_size
        logits = self.logits.flatten(1).gather(1, chosen)
        token_log_probs = (logits - self.normalisers.gather(1, parents)) * self.unit
        totals, order = (self.log_probs.gather(1, parents) + token_log_probs).sort(dim=1, descending=True, stable=True)
        return Continuations(totals, parents.gather(1, order), ids.gather(1, order), token_log_probs.gather(1, order))

    def _best_by_blocks(self, count: int) -> Int64[Tensor, "B C"]:
        """Indices into (W * V) of the best tokens: find the best blocks of each sentence, then their best tokens.

        Block b has the columns b, b + 200, b + 400, ..., so that the maxima of all blocks are elementwise. Blocks are
        ranked by the same sums as tokens, so that rounding resolves near ties in the same way.
        """
        num_sentences, width, size = self.logits.shape
        rows, rest = self.logits.flatten(0, 1), size % _NUM_BLOCKS
        maxima = rows[:, : size - rest].view(rows.size(0), -1, _NUM_BLOCKS).amax(1)
        if rest:
            maxima[:, :rest] = maxima[:, :rest].maximum(rows[:, size - rest :])
        best = self._totals(maxima.view(num_sentences, width, _NUM_BLOCKS)).topk(count, dim=1, sorted=False).indices
        parents = best // _NUM_BLOCKS
        columns = (best % _NUM_BLOCKS)[:, :, None] + torch.arange(0, size, _NUM_BLOCKS, device=rows.device)
        places = (parents[:, :, None] * size + (columns.clamp(max=size - 1) if rest else columns)).flatten(1)
        logits = self.logits.flatten(1).gather(1, places).view(columns.shape)
        if rest:
            logits.masked_fill_(columns >= size, _NONE)
        return places.gather(1, self._totals(logits, parents).topk(count, dim=1, sorted=False).indices)

    def _totals(
        self, logits: Float[Tensor, "B R n"], parents: Int64[Tensor, "B R"] | None = None
    ) -> Float[Tensor, "B Rn"]:
        """Log-probabilities of `parents` (by default all hypotheses) continued by the tokens with these logits."""
        normalisers, log_probs = self.normalisers, self.log_probs
        if parents is not None:
            normalisers, log_probs = normalisers.gather(1, parents), log_probs.gather(1, parents)
        return (log_probs[:, :, None] + (logits - normalisers[:, :, None]) * self.unit).flatten(1)

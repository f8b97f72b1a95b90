"""The best continuations of each sentence's hypotheses by one token.

A search needs a few tokens per sentence out of a vocabulary of ten thousand. Logits are therefore computed for a few
sentences at a time, so that they fit into the processor's cache, and only chosen tokens get log-probabilities.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.inference.search.constraints import Constraints
from dragoman.inference.search.step_model import Predictions

_NONE = float("-inf")
_NUM_BLOCKS = 200
# Up to this many logits per sentence, one topk over all is as fast as finding the best blocks first.
_FEW = 2048
# Logits computed at once. On a CPU, more do not fit into the cache. On a GPU, where launching a kernel costs more than
# memory, this many take a quarter of a gigabyte.
_LOGITS_AT_ONCE = {"cpu": 640_000}
_LOGITS_AT_ONCE_ELSEWHERE = 1 << 26


@dataclass(frozen=True, slots=True)
class Continuations:
    """The best C continuations of each of B sentences, best first.

    `parents` are the indices of the hypotheses that they continue, and `ids` the new tokens. `log_probs` include all
    tokens, `token_log_probs` only the new one. Unused places have a log-probability of -inf.
    """

    log_probs: Float[Tensor, "B C"]
    parents: Int64[Tensor, "B C"]
    ids: Int64[Tensor, "B C"]
    token_log_probs: Float[Tensor, "B C"]

    def chosen(self, order: Int64[Tensor, "B C2"]) -> "Continuations":
        """The continuations at the ranks `order` of each sentence."""
        return Continuations(*(getattr(self, name).gather(1, order) for name in self.__slots__))

    def select(self, sentences: Int64[Tensor, " B2"]) -> "Continuations":
        """The continuations of some sentences."""
        return Continuations(*(getattr(self, name)[sentences] for name in self.__slots__))

    @staticmethod
    def merge(parts: "list[Continuations]") -> "Continuations":
        """The continuations of several groups of sentences, in order."""
        if len(parts) == 1:
            return parts[0]
        return Continuations(*(torch.cat([getattr(part, name) for part in parts]) for name in Continuations.__slots__))


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

    return Continuations.merge([best(slice(first, first + group)) for first in range(0, num_sentences, group)])


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

"""The best continuations of each sentence's hypotheses, without the log-probabilities of all the others.

Of a vocabulary of ten thousand a search needs a handful of tokens a sentence. So each row's logits are reduced to the
largest of each block of them and to one normaliser; the best blocks of a sentence are found first, then the best tokens
in those. Logits come in base 2 (times log2 e): torch's exp2 is three times as fast as its exp on a CPU.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

_NONE = float("-inf")
_LN2 = math.log(2.0)
_NUM_BLOCKS = 200
# With so many logits a sentence or fewer, looking at all of them is as fast as looking for the best blocks.
_FEW = 2048
# Between these, 2 ** logit and the sum of up to 2**20 of them are normal float32 numbers.
_SAFE_EXPONENT = 100.0


@dataclass(frozen=True, slots=True)
class Continuations:
    """The best C continuations of each of B sentences, best first.

    `parents` are the places of the hypotheses that they continue; `log_probs` are of the whole, `token_log_probs` of
    the last token alone. Empty ones have a log_prob of -inf.
    """

    log_probs: Float[Tensor, "B C"]
    parents: Int64[Tensor, "B C"]
    ids: Int64[Tensor, "B C"]
    token_log_probs: Float[Tensor, "B C"]

    def chosen(self, order: Int64[Tensor, "B C2"]) -> "Continuations":
        """Those at the named ranks of each sentence."""
        return Continuations(*(getattr(self, name).gather(1, order) for name in self.__slots__))

    def select(self, sentences: Int64[Tensor, "B2"]) -> "Continuations":
        """Those of some of the sentences."""
        return Continuations(*(getattr(self, name)[sentences] for name in self.__slots__))

    @staticmethod
    def merge(parts: "list[Continuations]") -> "Continuations":
        """Those of several groups of sentences, in order."""
        if len(parts) == 1:
            return parts[0]
        return Continuations(*(torch.cat([getattr(part, name) for part in parts]) for name in Continuations.__slots__))


def best_continuations(
    logits: Float[Tensor, "N P"],
    log_probs: Float[Tensor, "B W"],
    count: int,
    hidden: Int64[Tensor, "h"],
) -> Continuations:
    """The `count` best of each sentence; its W rows follow each other. `logits` is overwritten.

    They are in base 2, and -inf where there is no token. `hidden` names tokens that are counted in the normaliser but
    never chosen.
    """
    num_sentences, width = log_probs.shape
    normalisers = log2_sums(logits).view(num_sentences, width)
    logits.index_fill_(1, hidden, _NONE)
    grouped = logits.view(num_sentences, width, -1)
    # Ranked by the very sums that a search over all log_probs makes, so that rounding decides near ties alike.
    if grouped.size(1) * grouped.size(2) <= _FEW or logits.size(1) % _NUM_BLOCKS or count > _NUM_BLOCKS:
        totals = log_probs[:, :, None] + (grouped - normalisers[:, :, None]) * _LN2
        chosen = totals.flatten(1).topk(count, dim=1).indices
    else:
        chosen = _best_by_blocks(grouped, log_probs, normalisers, count)
    parents, ids = chosen // logits.size(1), chosen % logits.size(1)
    token_log_probs = (grouped.flatten(1).gather(1, chosen) - normalisers.gather(1, parents)) * _LN2
    return Continuations(log_probs.gather(1, parents) + token_log_probs, parents, ids, token_log_probs)


def padded_size(vocab_size: int) -> int:
    """The number of columns that blocks need."""
    return vocab_size if vocab_size <= _FEW else -(-vocab_size // _NUM_BLOCKS) * _NUM_BLOCKS


def log2_sums(logits: Float[Tensor, "N V"]) -> Float[Tensor, "N"]:
    """log2 of the sum of 2 ** logit, of every row."""
    if logits.device.type == "cpu":  # elsewhere asking would wait for the device
        sums = torch.exp2(logits).sum(1).log2_()
        if float(sums.abs().max()) < _SAFE_EXPONENT:
            return sums
    largest = logits.amax(1, keepdim=True)
    return torch.exp2(logits - largest).sum(1).log2_().add_(largest[:, 0])


def _best_by_blocks(
    grouped: Float[Tensor, "B W P"], log_probs: Float[Tensor, "B W"], normalisers: Float[Tensor, "B W"], count: int
) -> Int64[Tensor, "B C"]:
    """The places of the best in (W P). Block b is the columns b, b + 200, b + 400, ...: maxima are elementwise."""
    num_sentences, width, size = grouped.shape
    maxima = grouped.view(num_sentences * width, -1, _NUM_BLOCKS).amax(1).view(num_sentences, width, _NUM_BLOCKS)
    totals = log_probs[:, :, None] + (maxima - normalisers[:, :, None]) * _LN2
    best = totals.flatten(1).topk(count, dim=1).indices
    parents = best // _NUM_BLOCKS
    first = parents * size + best % _NUM_BLOCKS
    places = first[:, :, None] + torch.arange(0, size, _NUM_BLOCKS, device=grouped.device)
    logits = grouped.flatten(1).gather(1, places.flatten(1)).view(places.shape)
    totals = log_probs.gather(1, parents)[:, :, None] + (logits - normalisers.gather(1, parents)[:, :, None]) * _LN2
    return places.flatten(1).gather(1, totals.flatten(1).topk(count, dim=1).indices)

"""The losses on the validation set: with the right sources, and with the sources of other sentences.

A model whose loss hardly rises with wrong sources ignores its input. The watchdog warns about that.
"""

import math

import numpy as np
import numpy.typing as npt
import torch

from dragoman.data.batch import Batch
from dragoman.data.batching import micro_batches, smallest_micro_batch
from dragoman.data.pairs import Pairs
from dragoman.data.stream import load_batch
from dragoman.model.transformer import Transformer
from dragoman.text.tokenization.control_ids import EOS_ID
from dragoman.training.step.gradients import losses

_TOKENS_AT_ONCE = 4096
_PAIRS_SHUFFLED = 500
_LEAST_SHUFFLED = 10
_PAIRS_GUESSED = 2000


@torch.no_grad()
def dev_losses(model: Transformer, dev: Pairs, max_tokens: int) -> dict[str, float]:
    """The losses of all pairs of `dev`, and of some of them with the sources of pairs of similar length.

    They are mean negative log-probabilities per token, in nats. `loss` is that of all pairs. `other_source_loss` is
    that of a few hundred targets with the sources of other sentences, and `own_source_loss` that of the same targets
    with their own sources. Both are missing if there are too few pairs to compare. Pairs that are not `fitting` are
    left out. At least one must be fitting.
    """
    sums, own, shuffled, tokens, probed, pairs = 0.0, 0.0, 0.0, 0, 0, 0
    limit = max(_TOKENS_AT_ONCE, smallest_micro_batch(dev))
    for indices in micro_batches(dev.src_lengths, dev.tgt_lengths, limit):
        indices = indices[fitting(model, dev, indices, max_tokens)]
        if not len(indices):
            continue
        batch = load_batch(dev, indices).to(model.device)
        _, nll = losses(model, batch)
        sums, tokens = sums + nll.item(), tokens + batch.num_tgt_tokens
        if len(indices) > 1 and pairs < _PAIRS_SHUFFLED:
            _, other = losses(model, _with_other_sources(batch))
            own, shuffled = own + nll.item(), shuffled + other.item()
            probed, pairs = probed + batch.num_tgt_tokens, pairs + len(indices)
    compared = (
        {} if pairs < _LEAST_SHUFFLED else {"own_source_loss": own / probed, "other_source_loss": shuffled / probed}
    )
    return {"loss": sums / tokens, **compared}


def fitting(
    model: Transformer, pairs: Pairs, indices: npt.NDArray[np.integer], max_tokens: int
) -> npt.NDArray[np.bool_]:
    """A mask of the pairs with at most `max_tokens` per side, as in training, for which the model has positions.

    Without this limit, one line that is a whole book would take longer than all other pairs together.
    """
    longest = np.maximum(pairs.src_lengths[indices], pairs.tgt_lengths[indices])
    fits: npt.NDArray[np.bool_] = longest <= model.settings.longest_text(max_tokens)
    return fits


def _with_other_sources(batch: Batch) -> Batch:
    half = max(1, len(batch.src_lengths) // 2)
    return Batch(batch.src_ids.roll(half, 0), batch.src_lengths.roll(half, 0), batch.tgt_ids, batch.tgt_lengths)


def guessing_loss(pairs: Pairs) -> float:
    """The loss in nats of a model that knows only token frequencies: the entropy of the target tokens.

    Computed from a sample of some thousand pairs, evenly spread.
    """
    looked_at = np.linspace(0, len(pairs) - 1, min(len(pairs), _PAIRS_GUESSED)).astype(int)
    rows = [np.append(pairs.tgt_ids(int(index)), EOS_ID) for index in looked_at]
    counts = np.bincount(np.concatenate(rows).astype(np.int64))
    shares = counts[counts > 0] / counts.sum()
    return -math.fsum((shares * np.log(shares)).tolist())

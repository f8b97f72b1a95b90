"""Sampling of translations from the model's distribution, token by token.

Temperature divides the log-probabilities. Top-k sampling keeps the k most probable tokens. Top-p (nucleus) sampling
keeps the fewest most probable tokens that together reach the probability p.

Every sample has its own stream of random numbers, which depends on the seed, the sentence's name and the number of the
sample. Samples therefore do not depend on the batch.

References
----------
Top-k: Fan et al. (2018), https://arxiv.org/abs/1805.04833. Top-p: Holtzman et al. (2020),
https://arxiv.org/abs/1904.09751.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from dragoman.config import InferenceSettings
from dragoman.devices.device import sum_type
from dragoman.engines.interface import length_penalties, unwritable
from dragoman.engines.search.continuations import BatchRecord, Constraints, Paths, hide
from dragoman.engines.search.step_model import StepModel
from dragoman.records import BOS_ID, EOS_ID, NEVER_WRITTEN, Hypothesis

_USUAL_NUCLEUS = 256
"""Number of tokens that nearly always reach `top_p`. Finding them takes a quarter of sorting a vocabulary of 8,000."""


@dataclass(frozen=True, slots=True)
class _Samples(BatchRecord):
    """W samples for each of the B sentences that have an unfinished sample.

    `lengths` are final where `done` is True. `uniforms` are the random numbers of each position.
    """

    sentences: Int64[Tensor, " B"]
    constraints: Constraints
    uniforms: Float[Tensor, "B W L"]
    paths: Paths
    lengths: Int64[Tensor, "B W"]
    done: Bool[Tensor, "B W"]


@torch.inference_mode()
def sample(
    model: StepModel[Any],
    src_ids: Int64[Tensor, "B S"],
    src_lengths: Int64[Tensor, " B"],
    settings: InferenceSettings,
    sentence_names: Sequence[str],
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Sample translations of each sentence.

    Parameters
    ----------
    model
        The model to sample from, such as a `FastModel` or an `Ensemble`.
    src_ids
        Source token ids (B, S), each row ending with eos and then padding.
    src_lengths
        Number of tokens of each source, eos included (B,).
    settings
        Seed, temperature, top_k, top_p, limits and `n_best`.
    sentence_names
        Name of each sentence. Its samples depend on the seed and this name, not on the batch.
    prefixes
        Target ids that each output must start with, one sequence for each sentence.

    Returns
    -------
    list of list of Hypothesis
        `n_best` independent samples for each sentence, highest score first. Some may be equal. Log-probabilities are
        the model's, before temperature, top_k and top_p.
    """
    results: dict[int, list[Hypothesis]] = {}
    if not src_lengths.numel():
        return []
    constraints = Constraints.of(src_lengths, settings, model.max_length, prefixes)
    samples = _first_samples(constraints, settings, sentence_names)
    state = model.start(src_ids, src_lengths)
    model.reorder(state, samples.sentences.repeat_interleave(settings.n_best), samples.sentences)
    ids = torch.full_like(samples.lengths, BOS_ID).flatten()
    while True:
        samples = _extend(samples, model.step(ids, state).log_probs(), settings)
        done = samples.done.all(dim=1)
        if done.any():
            finished = samples.select(done)
            results.update(zip(finished.sentences.tolist(), _hypotheses(finished, settings), strict=True))
        keep = (~done).nonzero()[:, 0]
        if not keep.numel():
            return [results[sentence] for sentence in range(src_lengths.numel())]
        samples = samples.select(keep)
        places = torch.arange(settings.n_best, device=keep.device)
        model.reorder(state, (keep[:, None] * settings.n_best + places).flatten(), keep)
        ids = samples.paths.ids[..., -1].flatten()


def _first_samples(constraints: Constraints, settings: InferenceSettings, sentence_names: Sequence[str]) -> _Samples:
    """Samples without tokens, with all random numbers that they need."""
    limits, count = constraints.limits, settings.n_best
    longest = int(limits.max())
    streams = [uniforms(f"{settings.seed}/{name}/{rank}", longest) for name in sentence_names for rank in range(count)]
    return _Samples(
        torch.arange(limits.numel(), device=limits.device),
        constraints,
        torch.stack(streams).view(limits.numel(), count, longest).to(limits.device, sum_type(limits.device)),
        Paths.empty(limits.numel(), count, limits.device),
        torch.zeros(limits.numel(), count, dtype=torch.int64, device=limits.device),
        torch.zeros(limits.numel(), count, dtype=torch.bool, device=limits.device),
    )


def _extend(samples: _Samples, log_probs: Float[Tensor, "N V"], settings: InferenceSettings) -> _Samples:
    """Append one token to every sample. Tokens of finished samples are ignored later."""
    position = samples.paths.ids.size(2)
    hidden = unwritable(position, settings.min_tokens)
    sampled = sample_ids(log_probs, samples.uniforms[..., position].flatten(), settings, hidden)
    ids = samples.constraints.with_prefix(sampled, position)
    token_log_probs = log_probs.gather(1, ids[:, None])
    shape = samples.lengths.shape
    places = torch.arange(shape[1], device=ids.device).expand(shape)
    at_limit = (samples.constraints.limits == position + 1)[:, None]
    return replace(
        samples,
        paths=samples.paths.extend(places, ids.view(shape), token_log_probs.view(shape)),
        lengths=samples.lengths.where(samples.done, position + 1),
        done=samples.done | (ids.view(shape) == EOS_ID) | at_limit,
    )


def sample_ids(
    log_probs: Float[Tensor, "N V"],
    uniforms: Float[Tensor, " N"],
    settings: InferenceSettings,
    hidden: tuple[int, ...] = NEVER_WRITTEN,
) -> Int64[Tensor, " N"]:
    """Sample one token id for each row: the first whose cumulative probability exceeds the row's uniform number.

    `uniforms` are in [0, 1). Tokens in `hidden` are never sampled.
    """
    writable = log_probs.clone()
    hide(writable, hidden)
    count = min(settings.top_k, writable.size(1)) or writable.size(1)
    scaled, ids = writable / settings.temperature, None
    if count < writable.size(1):
        scaled, ids = scaled.topk(count, dim=1)
    probs = torch.softmax(scaled, dim=1, dtype=torch.promote_types(scaled.dtype, torch.float32))
    if settings.top_p < 1.0:
        probs = probs.masked_fill(probs < _least_in_nucleus(probs, settings.top_p), 0.0)
    running = probs.cumsum(dim=1, dtype=uniforms.dtype)
    total = running[:, -1:]
    # The cumulative sum reaches its total at the last token with a probability above 0. Never go beyond that.
    last = (running < total).sum(dim=1, keepdim=True)
    chosen = torch.searchsorted(running, uniforms[:, None] * total, right=True).minimum(last)
    return (chosen if ids is None else ids.gather(1, chosen))[:, 0]


def _least_in_nucleus(probs: Float[Tensor, "N V"], top_p: float) -> Float[Tensor, "N 1"]:
    """The smallest probability in the nucleus: the fewest best tokens that together reach `top_p`.

    Tokens with exactly this probability belong to the nucleus too.
    """
    if not probs.is_cpu:
        return _least_of(probs.sort(dim=1, descending=True)[0], top_p)[0]
    least, reached = _least_of(_best(probs, _USUAL_NUCLEUS), top_p)
    if not reached.all():
        least[~reached] = _least_of(_best(probs[~reached], probs.size(1)), top_p)[0]
    return least


def _best(probs: Float[Tensor, "N V"], count: int) -> Float[Tensor, "N K"]:
    """The `count` largest numbers of each row (or all), in descending order.

    NumPy sorts ten times as fast as PyTorch on a CPU, because PyTorch sorts the indices too. Partitioning first is even
    faster.
    """
    numbers = probs.numpy()
    if (rest := probs.size(1) - count) > 0:
        numbers = np.partition(numbers, rest, axis=1)[:, rest:]
    return torch.from_numpy(np.sort(numbers, axis=1)).flip(1)


def _least_of(ranked: Float[Tensor, "N K"], top_p: float) -> tuple[Float[Tensor, "N 1"], Bool[Tensor, " N"]]:
    """The smallest of the fewest first numbers of each row that reach `top_p`, and whether the row reaches it."""
    sums = ranked.cumsum(dim=1, dtype=sum_type(ranked.device))
    least = ranked.masked_fill(sums - ranked >= top_p, 1.0).amin(dim=1, keepdim=True)
    return least, sums[:, -1] >= top_p


def uniforms(name: str, count: int) -> Float[Tensor, " count"]:
    """The first `count` uniform numbers in [0, 1) of the stream called `name`, generated with SHAKE-128."""
    words = torch.frombuffer(bytearray(hashlib.shake_128(name.encode()).digest(8 * count)), dtype=torch.int64)
    return (words & (2**48 - 1)).double() / 2**48


def _hypotheses(samples: _Samples, settings: InferenceSettings) -> list[list[Hypothesis]]:
    """The samples of each sentence as hypotheses, highest score first."""
    counted = torch.arange(samples.paths.ids.size(2), device=samples.lengths.device) < samples.lengths[..., None]
    log_probs = samples.paths.token_log_probs.masked_fill(~counted, 0.0).sum(dim=2)
    penalties = torch.from_numpy(length_penalties(settings, samples.lengths.cpu().numpy()))
    found = samples.paths.hypotheses(samples.lengths, log_probs / penalties.to(log_probs.device))
    return [sorted(one, key=lambda hypothesis: -hypothesis.score) for one in found]

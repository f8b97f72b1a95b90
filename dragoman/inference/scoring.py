"""Log-probabilities of given translations (teacher forcing), the same as a search would compute for them."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.bundle import Weights
from dragoman.config import InferenceSettings
from dragoman.devices.precision import resolve_inference_precision
from dragoman.errors import require_torch
from dragoman.inference.searches import convert_once, reason_for_torch
from dragoman.inference.segments import IdPair, pair_batches
from dragoman.inference.workers import map_in_threads, num_search_threads

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from dragoman.data.batch import Batch
    from dragoman.inference.compiled.forced import ForcedPass
    from dragoman.inference.compiled.weights import CompiledWeights
    from dragoman.model.transformer import Transformer

_TOKENS_AT_ONCE = 1024


def score_pairs(models: Sequence[Weights], pairs: Sequence[IdPair], settings: InferenceSettings) -> list[list[float]]:
    """Log-probability of every target token and eos of each pair of ids. Several models average their probabilities."""
    precision = resolve_inference_precision(settings.precision, models[0].device)
    reason = reason_for_torch(models, precision, replace(settings, beam_size=1, sample=False, mbr_samples=0))
    if not reason:
        weights = convert_once(models[0], precision).now()
        if weights.is_finite:
            return [one.log_probs.tolist() for one in force_in_threads(weights, pairs)]
    require_torch(f"scoring with {reason}" if reason else "scoring with weights that are not finite")
    return _score_with_torch(models, pairs)


def force_in_threads(weights: "CompiledWeights", pairs: Sequence[IdPair], **options: Any) -> "list[ForcedPass]":
    """`force_targets` on all threads. `options` are its keywords."""
    from dragoman.inference.compiled.forced import force_targets

    workers = num_search_threads("cpu")
    parts = [pairs[worker::workers] for worker in range(workers)]
    found = list(map(iter, map_in_threads(partial(force_targets, weights, **options), parts, workers)))
    return [next(found[place % workers]) for place in range(len(pairs))]


def _score_with_torch(models: Sequence[Weights], pairs: Sequence[IdPair]) -> list[list[float]]:
    import torch

    from dragoman.data.batch import Batch

    found: list[list[float]] = [[] for _ in pairs]
    for places in pair_batches(pairs, _TOKENS_AT_ONCE):
        batch = Batch.from_ids(*([pairs[place][side] for place in places] for side in (0, 1)))
        scores = [score_tokens(model.transformer, batch.to(model.device)).cpu() for model in models]
        mean = torch.logsumexp(torch.stack(scores), 0) - math.log(len(scores)) if len(scores) > 1 else scores[0]
        for place, row in zip(places, mean.tolist(), strict=True):
            found[place] = row[: len(pairs[place][1]) + 1]
    return found


def score_tokens(model: "Transformer", batch: "Batch") -> "Float[Tensor, 'B T']":
    """Log-probability (natural logarithm) of every target token and eos, given the tokens before it. 0 at padding.

    The model must be in eval mode, and the batch on its device.
    """
    import torch
    from torch.nn import functional

    with torch.inference_mode():
        logits = model(batch.src_ids, batch.src_lengths, batch.decoder_input).float()
        losses = functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), reduction="none")
        positions = torch.arange(batch.labels.size(1), device=batch.labels.device)
        return -losses.view_as(batch.labels).where(positions < batch.tgt_lengths[:, None], 0.0)

"""The engine in torch operations: search over any `StepModel`, and forced passes of the definition."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from dragoman.config import InferenceSettings
from dragoman.counting import count_share, is_counting
from dragoman.data.batch import Batch, pad_ids
from dragoman.devices.without_torch import map_in_threads, num_search_threads
from dragoman.engines.interface import ForcedPass, IdPair, IdStream, Source, pair_batches, token_batches
from dragoman.engines.search.beam import beam_search, stream_beam_search
from dragoman.engines.search.sampling import sample
from dragoman.engines.search.step_model import Ensemble, StepModel
from dragoman.engines.tensors.fast_model import FastModel
from dragoman.model.transformer import Transformer
from dragoman.records import EOS_ID, PAD_ID, Hypothesis

Grouping = Callable[[Sequence[Source]], Iterable[list[int]]]
"""Function from sources to groups of their indices. It leaves out sources without ids."""


class StepSearch:
    """Beam search and sampling with any StepModel, batch by batch.

    Parameters
    ----------
    model
        The model to search.
    groups
        Splits the sources into batches, which are searched one after the other. None: batches of similar lengths, as
        large as the settings allow, one on each thread at a time.
    padding
        Columns of padding in a batch, more than necessary.
    """

    def __init__(self, model: StepModel[Any], groups: Grouping | None = None, padding: int = 0) -> None:
        self._model, self._groups, self._padding = model, groups, padding

    def search(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        """The hypotheses of every source, best first."""
        rows_per_sentence = settings.n_best if settings.sample else settings.beam_size
        workers = num_search_threads(self._model.device) if self._groups is None else 1
        cut = self._groups or partial(
            token_batches, rows_per_sentence=rows_per_sentence, batch_tokens=settings.batch_tokens, workers=workers
        )
        batches = list(cut(sources))
        watch = (lambda done: count_share(done / len(batches))) if is_counting() else None

        def search(batch: list[int]) -> list[list[Hypothesis]]:
            return self._search_batch([sources[place] for place in batch], settings)

        found: list[list[Hypothesis]] = [[] for _ in sources]
        for batch, answers in zip(batches, map_in_threads(search, batches, workers, watch=watch), strict=True):
            for place, hypotheses in zip(batch, answers, strict=True):
                found[place] = hypotheses
        return found

    def stream(self, source: Source, settings: InferenceSettings) -> IdStream:
        """Search one source. Yields the certain start of its output after each step."""
        return stream_beam_search(self._model, *self._pad([source]), settings, source.prefix)

    def _pad(self, batch: Sequence[Source]) -> tuple[Tensor, Tensor]:
        ids, lengths = pad_ids([[*source.ids, EOS_ID] for source in batch], PAD_ID)
        padded = functional.pad(ids, (0, self._padding), value=PAD_ID)
        return padded.to(self._model.device), lengths.to(self._model.device)

    def _search_batch(self, batch: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        padded, prefixes = self._pad(batch), [source.prefix for source in batch]
        if settings.sample:
            return sample(self._model, *padded, settings, [source.name for source in batch], prefixes)
        return beam_search(self._model, *padded, settings, prefixes)


class TensorEngine(StepSearch):
    """One model, or an ensemble of models, in torch operations."""

    def __init__(self, models: Sequence[Transformer], precision: str) -> None:
        self._transformers = models
        fast = [FastModel(model, precision) for model in models]
        super().__init__(fast[0] if len(fast) == 1 else Ensemble(fast))

    def force(self, pairs: Sequence[IdPair], layer: int | None = None, with_log_probs: bool = True) -> list[ForcedPass]:
        """Run the decoder over given targets, batch by batch, in the precision of the weights.

        Several models average their probabilities. Their attention is the mean over the heads of each, as if each model
        were a head.
        """
        found: dict[int, ForcedPass] = {}
        for places in pair_batches(pairs):
            batch = Batch.from_ids(*([pairs[place][side] for place in places] for side in (0, 1)))
            log_probs = self._log_probs(batch) if with_log_probs else torch.zeros(len(places), 0)
            attention = torch.zeros(len(places), 0, 0, 0) if layer is None else self._attention(batch, layer)
            for row, place in enumerate(places):
                num_src, num_tgt = (len(ids) + 1 for ids in pairs[place])
                cross = attention[row, :, :num_tgt, :num_src]
                found[place] = ForcedPass(log_probs[row, :num_tgt].numpy(), cross.numpy())
        return [found[place] for place in range(len(pairs))]

    def _log_probs(self, batch: Batch) -> Float[Tensor, "B T"]:
        scores = [score_tokens(model, batch.to(model.device)).cpu() for model in self._transformers]
        return torch.logsumexp(torch.stack(scores), 0) - math.log(len(scores)) if len(scores) > 1 else scores[0]

    def _attention(self, batch: Batch, layer: int) -> Float[Tensor, "B H T S"]:
        found = []
        for model in self._transformers:
            moved = batch.to(model.device)
            with torch.inference_mode():
                found.append(model.attention(moved.src_ids, moved.src_lengths, moved.decoder_input).cross[layer])
        heads = found if len(found) == 1 else [cross.mean(1, keepdim=True) for cross in found]
        return torch.cat([cross.float().cpu() for cross in heads], dim=1)


def score_tokens(model: Transformer, batch: Batch) -> Float[Tensor, "B T"]:
    """Log-probability (natural logarithm) of every target token and eos, given the tokens before it. 0 at padding.

    The model must be in eval mode, and the batch on its device.
    """
    with torch.inference_mode():
        logits = model(batch.src_ids, batch.src_lengths, batch.decoder_input).float()
        losses = functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), reduction="none")
        positions = torch.arange(batch.labels.size(1), device=batch.labels.device)
        return -losses.view_as(batch.labels).where(positions < batch.tgt_lengths[:, None], 0.0)

"""Beam search over a batch of sentences.

The beam of a sentence has `beam_size` live hypotheses. Each step works as follows:

1. Every live hypothesis is continued by every token.
2. Continuations that end (with eos, or at the length limit) and are among the `beam_size` best by log-probability
   become finished hypotheses.
3. The `beam_size` best continuations that do not end are the new live hypotheses.

The search of a sentence stops in one of two cases. Either `beam_size` hypotheses are finished, and the best live one
would score below all of them if it ended now. Or no live hypothesis can ever beat the `n_best` best finished ones.
A beam of 1 is therefore greedy search, and a beam as wide as the space of outputs equals exhaustive search. The
library transformers fills and ends its beam in the same way with early_stopping=False.

The result of a sentence does not depend on the other sentences in the batch. Finished sentences leave the batch.

References
----------
Length penalty: Wu et al. (2016), https://arxiv.org/abs/1609.08144, section 7. Length limit: Vaswani et al. (2017),
section 6.1.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from dragoman.config import InferenceSettings
from dragoman.engines.interface import length_penalties
from dragoman.engines.search.continuations import (
    BatchRecord,
    Constraints,
    Continuations,
    Finished,
    Paths,
    best_continuations,
)
from dragoman.engines.search.step_model import StepModel
from dragoman.records import BOS_ID, EOS_ID, Hypothesis

_NONE = float("-inf")


@dataclass(frozen=True, slots=True)
class _Beam(BatchRecord):
    """The B sentences that are still in search.

    Each has W live hypotheses, best first. Unused places have a log-probability of -inf. `sentences` are the indices
    of the sentences in the input.
    """

    sentences: Int64[Tensor, " B"]
    constraints: Constraints
    log_probs: Float[Tensor, "B W"]
    paths: Paths
    finished: Finished

    def extend(self, best: Continuations) -> "_Beam":
        """The beam one token later, with these continuations as its live hypotheses."""
        paths = self.paths.extend(best.parents, best.ids, best.token_log_probs)
        return replace(self, log_probs=best.log_probs, paths=paths)

    def certain_ids(self) -> list[int]:
        """The ids with which the first sentence's live hypotheses and its best finished one start.

        The best output continues a live hypothesis, or is the best finished one.
        """
        paths = self.paths.ids[0, self.log_probs[0] > _NONE].tolist()
        paths += [list(found.ids) for found in self.finished.select(slice(1)).best(1).hypotheses()[0]]
        return [column[0] for column in takewhile(lambda column: len(set(column)) == 1, zip(*paths, strict=False))]


@torch.inference_mode()
def beam_search(
    model: StepModel[Any],
    src_ids: Int64[Tensor, "B S"],
    src_lengths: Int64[Tensor, " B"],
    settings: InferenceSettings,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Find the best translations of each sentence.

    Parameters
    ----------
    model
        The model to search, such as a `FastModel` or an `Ensemble`.
    src_ids
        Source token ids (B, S), each row ending with eos and then padding.
    src_lengths
        Number of tokens of each source, eos included (B,).
    settings
        Beam size, length penalty, limits and `n_best`.
    prefixes
        Target ids that each output must start with, one sequence for each sentence. Scores include them.

    Returns
    -------
    list of list of Hypothesis
        Up to `n_best` distinct hypotheses for each sentence, best first. A hypothesis that reaches the length limit
        without eos is cut (its `finished` is False) and comes after all hypotheses that end with eos.
    """
    results: dict[int, list[Hypothesis]] = {}
    if src_lengths.numel():
        for _ in _beams(model, src_ids, src_lengths, settings, prefixes, results):
            pass
    return [results[sentence] for sentence in range(src_lengths.numel())]


@torch.inference_mode()
def stream_beam_search(
    model: StepModel[Any],
    src_ids: Int64[Tensor, "1 S"],
    src_lengths: Int64[Tensor, "1"],
    settings: InferenceSettings,
    prefix: Sequence[int] = (),
) -> Generator[list[int], None, list[Hypothesis]]:
    """Search one sentence as `beam_search` does, and yield what is certain of the output after each step.

    Parameters
    ----------
    model, src_ids, src_lengths, settings
        As for `beam_search`, with one sentence.
    prefix
        Target ids that the output must start with.

    Returns
    -------
    Generator of list of int
        Yields the ids with which the best hypothesis certainly starts. Returns the hypotheses of the sentence.
    """
    results: dict[int, list[Hypothesis]] = {}
    for beam in _beams(model, src_ids, src_lengths, settings, [prefix], results):
        yield beam.certain_ids()
    return results[0]


def _beams(
    model: StepModel[Any],
    src_ids: Int64[Tensor, "B S"],
    src_lengths: Int64[Tensor, " B"],
    settings: InferenceSettings,
    prefixes: Sequence[Sequence[int]] | None,
    results: dict[int, list[Hypothesis]],
) -> Iterator[_Beam]:
    """Yield the beam after each step. The hypotheses of sentences that are done are written into `results`."""
    constraints = Constraints.of(src_lengths, settings, model.max_length, prefixes)
    # One table for the scores and their bounds, so that they agree to the last bit.
    lengths = np.arange(1, int(constraints.limits.max()) + 1)
    penalties = torch.from_numpy(length_penalties(settings, lengths)).to(src_lengths.device)
    size, device = src_lengths.numel(), src_lengths.device
    nothing, finished = Paths.empty(size, 1, device), Finished.none(size, settings.beam_size, device)
    beam = _Beam(torch.arange(size, device=device), constraints, torch.zeros(size, 1, device=device), nothing, finished)
    state = model.start(src_ids, src_lengths)
    ids = torch.full_like(src_lengths, BOS_ID)
    for position in range(penalties.numel()):
        predictions = model.step(ids, state)
        # Up to half of the candidates can end, and the other half still fills the beam.
        candidates = best_continuations(predictions, beam.log_probs, beam.constraints, position, 2 * settings.beam_size)
        live, ending = _live_and_ending(beam, candidates, position, settings.beam_size)
        nothing_ends = (live.any(1) & ~ending.any(1)).all()
        keep = torch.arange(beam.sentences.numel(), device=ids.device)
        if not (beam.finished.is_empty and bool(nothing_ends)):  # in most steps, nothing has ended
            finished = beam.finished
            if bool(ending.any()):
                scores = (candidates.log_probs / penalties[position]).where(ending, _NONE)
                finished = finished.merge(scores, beam.extend(candidates).paths)
            best_live = candidates.log_probs.where(live, _NONE).amax(1)
            beaten = finished.unbeatable(best_live / penalties[position], settings.beam_size)
            beaten |= finished.unbeatable(best_live / penalties[beam.constraints.limits - 1], settings.n_best)
            going_on = live.any(1) & ~beaten
            done = (~going_on).nonzero()[:, 0]
            if done.numel():
                found = finished.best(settings.n_best).select(done).hypotheses()
                results.update(zip(beam.sentences[done].tolist(), found, strict=True))
            keep = going_on.nonzero()[:, 0]
            if not keep.numel():
                return
            beam, candidates, live = replace(beam, finished=finished).select(keep), candidates.select(keep), live[keep]
        candidates = _live_first(candidates, live)
        rows = (keep[:, None] * beam.log_probs.size(1) + candidates.parents).flatten()
        model.reorder(state, rows, keep)
        ids, beam = candidates.ids.flatten(), beam.extend(candidates)
        yield beam


def _live_and_ending(
    beam: _Beam, candidates: Continuations, position: int, beam_size: int
) -> tuple[Bool[Tensor, "B C"], Bool[Tensor, "B C"]]:
    """Masks of the candidates that stay live, and of those that end at this position.

    Live are the best that have neither ended nor reached the limit.
    """
    there = candidates.log_probs > _NONE
    below_limit = beam.constraints.limits > position + 1
    may_go_on = there & (candidates.ids != EOS_ID) & below_limit[:, None]
    among_the_best = torch.arange(there.size(1), device=there.device) < beam_size
    return may_go_on & (may_go_on.cumsum(1) <= beam_size), there & ~may_go_on & among_the_best


def _live_first(candidates: Continuations, live: Bool[Tensor, "B C"]) -> Continuations:
    """The live candidates of each sentence, then empty ones up to the largest number in any sentence."""
    order = live.long().sort(dim=1, descending=True, stable=True).indices[:, : int(live.sum(1).max())]
    chosen = candidates.choose(order)
    return replace(chosen, log_probs=chosen.log_probs.where(live.gather(1, order), _NONE))

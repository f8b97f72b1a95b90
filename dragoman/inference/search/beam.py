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

The result of a sentence does not depend on the other sentences in the batch. Finished sentences leave the batch, some
at a time.

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
from dragoman.inference.output_rules import length_penalties
from dragoman.inference.search.continuations import Constraints, Continuations, best_continuations
from dragoman.inference.search.hypotheses import Finished, Paths, Rows
from dragoman.inference.search.step_model import StepModel
from dragoman.records import Hypothesis
from dragoman.text.tokenization.control_ids import BOS_ID, EOS_ID

_NONE = float("-inf")
# Finished sentences leave the batch once they are one in eight of it.
_DONE_BEFORE_LEAVING = 8


@dataclass(frozen=True, slots=True)
class _Beam(Rows):
    """The B sentences that are still in search.

    Each has W live hypotheses, best first. Unused places have a log-probability of -inf. `sentences` are the indices
    of the sentences in the input.
    """

    sentences: Int64[Tensor, " B"]
    constraints: Constraints
    log_probs: Float[Tensor, "B W"]
    paths: Paths
    finished: Finished

    @staticmethod
    def first(constraints: Constraints, settings: InferenceSettings) -> "_Beam":
        """One empty hypothesis for each sentence."""
        sentences = torch.arange(constraints.limits.numel(), device=constraints.limits.device)
        size, device = sentences.numel(), sentences.device
        return _Beam(
            sentences,
            constraints,
            torch.zeros(size, 1, device=device),
            Paths.empty(size, 1, device),
            Finished.none(size, settings.beam_size, device),
        )

    @property
    def all_sentences(self) -> Int64[Tensor, " B"]:
        """0, 1, ... B - 1."""
        return torch.arange(self.sentences.numel(), device=self.sentences.device)

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
    results: list[list[Hypothesis]] = [[] for _ in range(src_lengths.numel())]
    if results:
        for _ in _beams(model, src_ids, src_lengths, settings, prefixes, results):
            pass
    return results


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
    results: list[list[Hypothesis]] = [[]]
    for beam in _beams(model, src_ids, src_lengths, settings, [prefix], results):
        yield beam.certain_ids()
    return results[0]


def _beams(
    model: StepModel[Any],
    src_ids: Int64[Tensor, "B S"],
    src_lengths: Int64[Tensor, " B"],
    settings: InferenceSettings,
    prefixes: Sequence[Sequence[int]] | None,
    results: list[list[Hypothesis]],
) -> Iterator[_Beam]:
    """Yield the beam after each step. The hypotheses of sentences that are done are written into `results`."""
    constraints = Constraints.of(src_lengths, settings, model.max_length, prefixes)
    penalties = _penalties(constraints, settings)
    beam = _Beam.first(constraints, settings)
    state = model.start(src_ids, src_lengths)
    ids = torch.full_like(src_lengths, BOS_ID)
    for position in range(penalties.numel()):
        predictions = model.step(ids, state)
        # Up to half of the candidates can end, and the other half still fills the beam.
        candidates = best_continuations(predictions, beam.log_probs, beam.constraints, position, 2 * settings.beam_size)
        live, ending = _live_and_ending(beam, candidates, position, settings.beam_size)
        nothing_ends = (live.any(1) & ~ending.any(1)).all()
        if beam.finished.is_empty and bool(nothing_ends):  # most steps
            candidates = _live_first(candidates, live)
            model.reorder(
                state, _rows(candidates.parents, beam.log_probs.size(1), beam.all_sentences), beam.all_sentences
            )
            ids, beam = candidates.ids.flatten(), beam.extend(candidates)
            yield beam
            continue
        finished = _add_finished(beam, candidates, ending, penalties[position])
        best_live = candidates.log_probs.where(live, _NONE).amax(1)
        beaten = finished.unbeatable(best_live / penalties[position], settings.beam_size)
        beaten |= finished.unbeatable(best_live / penalties[beam.constraints.limits - 1], settings.n_best)
        going_on = live.any(1) & ~beaten
        _collect(results, beam, finished.best(settings.n_best), ~going_on & (beam.log_probs[:, 0] > _NONE))
        if not bool(going_on.any()):
            return
        keep = _sentences_to_keep(going_on)
        going = _live_first(candidates.select(keep), (live & going_on[:, None])[keep])
        model.reorder(state, _rows(going.parents, beam.log_probs.size(1), keep), keep)
        ids = going.ids.flatten()
        beam = replace(beam, finished=finished).select(keep).extend(going)
        yield beam


def _sentences_to_keep(going_on: Bool[Tensor, " B"]) -> Int64[Tensor, " B2"]:
    """Indices of the unfinished sentences, or of all sentences while few are finished.

    Computing a few finished sentences in vain costs less than moving the others.
    """
    going = going_on.nonzero()[:, 0]
    if _DONE_BEFORE_LEAVING * (going_on.numel() - going.numel()) >= going_on.numel():
        return going
    return torch.arange(going_on.numel(), device=going_on.device)


def _rows(parents: Int64[Tensor, "B2 C"], width: int, sentences: Int64[Tensor, " B2"]) -> Int64[Tensor, " N2"]:
    """Row numbers of the parents, with W rows for each sentence."""
    return (sentences[:, None] * width + parents).flatten()


def _penalties(constraints: Constraints, settings: InferenceSettings) -> Float[Tensor, " T"]:
    """Length penalties of 1, 2, ... tokens. Scores and their bounds use one table, so they agree to the last bit."""
    limits = constraints.limits
    return torch.from_numpy(length_penalties(settings, np.arange(1, int(limits.max()) + 1))).to(limits.device)


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


def _add_finished(
    beam: _Beam, candidates: Continuations, ending: Bool[Tensor, "B C"], penalty: Float[Tensor, ""]
) -> Finished:
    """The finished hypotheses, including the candidates that end at this position."""
    if not bool(ending.any()):
        return beam.finished
    scores = (candidates.log_probs / penalty).where(ending, _NONE)
    paths = beam.paths.extend(candidates.parents, candidates.ids, candidates.token_log_probs)
    return beam.finished.merge(scores, paths)


def _collect(results: list[list[Hypothesis]], beam: _Beam, finished: Finished, done: Bool[Tensor, " B"]) -> None:
    """Write the hypotheses of finished sentences into `results`."""
    leaving = done.nonzero()[:, 0]
    if leaving.numel():
        for sentence, found in zip(
            beam.sentences[leaving].tolist(), finished.select(leaving).hypotheses(), strict=True
        ):
            results[sentence] = found


def _live_first(candidates: Continuations, live: Bool[Tensor, "B C"]) -> Continuations:
    """The live candidates of each sentence, then empty ones up to the largest number in any sentence."""
    order = live.long().sort(dim=1, descending=True, stable=True).indices[:, : int(live.sum(1).max())]
    chosen = candidates.choose(order)
    return replace(chosen, log_probs=chosen.log_probs.where(live.gather(1, order), _NONE))

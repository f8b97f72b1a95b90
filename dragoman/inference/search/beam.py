"""Beam search over a batch of sentences.

The beam of a sentence holds `beam_size` live hypotheses. At each step every one is continued by every token. Of the
`beam_size` best continuations by log_prob, those that end with eos are finished; the best others, as many as there are
places, go on. The search of a sentence ends when `beam_size` hypotheses are finished and the best live one would
score below all of them if it ended here, so that a beam of 1 is greedy; or when none can ever beat the `n_best` best.
A beam as wide as the space of outputs finds the same as exhaustive search. transformers (early_stopping=False) fills
and ends a beam alike.

Nothing a sentence does depends on the others in its batch, and those that are done leave the batch, a few at a time.
Length penalty: Wu et al. 2016, section 7; limit on the length: Vaswani et al. 2017, section 6.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from dragoman.config import InferenceSettings
from dragoman.inference.output_rules import length_penalties
from dragoman.inference.search.constraints import Constraints
from dragoman.inference.search.continuations import Continuations, best_continuations
from dragoman.inference.search.finished import Finished
from dragoman.inference.search.paths import Paths
from dragoman.inference.search.step_model import StepModel
from dragoman.records import Hypothesis
from dragoman.text.tokenization.tokenizer import BOS_ID, EOS_ID

_NONE = float("-inf")
# Done sentences leave the batch once they are one in so many of it.
_DONE_BEFORE_LEAVING = 8


@dataclass(frozen=True, slots=True)
class _Beam:
    """The B sentences still searched.

    Each has W live hypotheses, best first, then empty ones with a log_prob of -inf. `sentences` are their numbers in
    the input.
    """

    sentences: Int64[Tensor, "B"]
    constraints: Constraints
    log_probs: Float[Tensor, "B W"]
    paths: Paths
    finished: Finished

    @staticmethod
    def first(constraints: Constraints, settings: InferenceSettings) -> "_Beam":
        """One empty hypothesis a sentence."""
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
    def all_sentences(self) -> Int64[Tensor, "B"]:
        """0, 1, ... B - 1."""
        return torch.arange(self.sentences.numel(), device=self.sentences.device)

    def extend(self, best: Continuations) -> "_Beam":
        """The beam one token later, where all continuations go on."""
        paths = self.paths.extend(best.parents, best.ids, best.token_log_probs)
        return replace(self, log_probs=best.log_probs, paths=paths)


@torch.inference_mode()
def beam_search(
    model: StepModel[Any],
    src_ids: Int64[Tensor, "B S"],
    src_lengths: Int64[Tensor, "B"],
    settings: InferenceSettings,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """For each sentence its at most `n_best` best hypotheses, distinct, best first.

    Sources end with eos. `prefixes` are target ids that each output must begin with; scores count them. A hypothesis
    that reaches the limit without eos is cut (not `finished`) and comes after all that ended by themselves.
    """
    results: list[list[Hypothesis]] = [[] for _ in range(src_lengths.numel())]
    if not results:
        return results
    constraints = Constraints.of(src_lengths, settings, model.max_length, prefixes)
    penalties = _penalties(constraints, settings)
    beam = _Beam.first(constraints, settings)
    state = model.start(src_ids, src_lengths)
    ids = torch.full_like(src_lengths, BOS_ID)
    for position in range(penalties.numel()):
        predictions = model.step(ids, state)
        # Half of the candidates may end, and the others still fill the beam.
        candidates = best_continuations(predictions, beam.log_probs, beam.constraints, position, 2 * settings.beam_size)
        live, ending = _live_and_ending(beam, candidates, position, settings.beam_size)
        nothing_ends = (live.any(1) & ~ending.any(1)).all()
        if beam.finished.is_empty and bool(nothing_ends):  # most steps
            candidates = _live_first(candidates, live)
            model.reorder(
                state, _rows(candidates.parents, beam.log_probs.size(1), beam.all_sentences), beam.all_sentences
            )
            ids, beam = candidates.ids.flatten(), beam.extend(candidates)
            continue
        finished = _add_finished(beam, candidates, ending, penalties[position])
        best_live = candidates.log_probs.where(live, _NONE).amax(1)
        beaten = finished.unbeatable(best_live / penalties[position], settings.beam_size)
        beaten |= finished.unbeatable(best_live / penalties[beam.constraints.limits - 1], settings.n_best)
        going_on = live.any(1) & ~beaten
        _collect(results, beam, finished.best(settings.n_best), ~going_on & (beam.log_probs[:, 0] > _NONE))
        if not bool(going_on.any()):
            break
        keep = _sentences_to_keep(going_on)
        going = _live_first(candidates.select(keep), (live & going_on[:, None])[keep])
        model.reorder(state, _rows(going.parents, beam.log_probs.size(1), keep), keep)
        ids = going.ids.flatten()
        beam = _next(replace(beam, finished=finished), going, keep)
    return results


def _sentences_to_keep(going_on: Bool[Tensor, "B"]) -> Int64[Tensor, "B2"]:
    """Those that go on, or all while so few are done that computing them in vain costs less than moving the others."""
    going = going_on.nonzero()[:, 0]
    if _DONE_BEFORE_LEAVING * (going_on.numel() - going.numel()) >= going_on.numel():
        return going
    return torch.arange(going_on.numel(), device=going_on.device)


def _rows(parents: Int64[Tensor, "B2 C"], width: int, sentences: Int64[Tensor, "B2"]) -> Int64[Tensor, "N2"]:
    """The rows of the parents, of W a sentence."""
    return (sentences[:, None] * width + parents).flatten()


def _penalties(constraints: Constraints, settings: InferenceSettings) -> Float[Tensor, "T"]:
    """The length penalty of 1, 2, ... tokens: one table, so that scores and their bounds agree to the last bit."""
    limits = constraints.limits
    return torch.from_numpy(length_penalties(settings, np.arange(1, int(limits.max()) + 1))).to(limits.device)


def _live_and_ending(
    beam: _Beam, candidates: Continuations, position: int, beam_size: int
) -> tuple[Bool[Tensor, "B C"], Bool[Tensor, "B C"]]:
    """Which candidates go on (the best that have neither ended nor reached the limit), and which end here."""
    there = candidates.log_probs > _NONE
    below_limit = beam.constraints.limits > position + 1
    may_go_on = there & (candidates.ids != EOS_ID) & below_limit[:, None]
    among_the_best = torch.arange(there.size(1), device=there.device) < beam_size
    return may_go_on & (may_go_on.cumsum(1) <= beam_size), there & ~may_go_on & among_the_best


def _add_finished(
    beam: _Beam, candidates: Continuations, ending: Bool[Tensor, "B C"], penalty: Float[Tensor, ""]
) -> Finished:
    """The finished hypotheses with those that end here."""
    if not bool(ending.any()):
        return beam.finished
    scores = (candidates.log_probs / penalty).where(ending, _NONE)
    paths = beam.paths.extend(candidates.parents, candidates.ids, candidates.token_log_probs)
    return beam.finished.merge(scores, paths)


def _collect(results: list[list[Hypothesis]], beam: _Beam, finished: Finished, done: Bool[Tensor, "B"]) -> None:
    """Writes the hypotheses of the sentences that are done into `results`."""
    leaving = done.nonzero()[:, 0]
    if leaving.numel():
        for sentence, found in zip(
            beam.sentences[leaving].tolist(), finished.select(leaving).hypotheses(), strict=True
        ):
            results[sentence] = found


def _live_first(candidates: Continuations, live: Bool[Tensor, "B C"]) -> Continuations:
    """The live candidates, as many as the sentence with the most has; others become empty."""
    order = live.long().sort(dim=1, descending=True, stable=True).indices[:, : int(live.sum(1).max())]
    chosen = candidates.chosen(order)
    return replace(chosen, log_probs=chosen.log_probs.where(live.gather(1, order), _NONE))


def _next(beam: _Beam, going: Continuations, keep: Int64[Tensor, "B2"]) -> _Beam:
    """The beam one token later, of the sentences that go on."""
    paths = beam.paths.select(keep).extend(going.parents, going.ids, going.token_log_probs)
    return _Beam(
        beam.sentences[keep],
        beam.constraints.select(keep),
        going.log_probs,
        paths,
        beam.finished.select(keep),
    )

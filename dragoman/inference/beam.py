"""Beam search over a batch of sentences.

The beam of a sentence holds `beam_size` hypotheses. At each step every live one is continued by every token, and the
best continuations by log_prob take the live places. One that writes eos is finished and keeps its place, so that
fewer live ones remain; a beam of 1 is therefore greedy. The search of a sentence ends when no place is live, or when
no live hypothesis can still beat the `n_best` best finished ones: the rule is exact, so that a beam as wide as the
space of outputs finds the same as exhaustive search.

Nothing a sentence does depends on the others in its batch, and a sentence leaves the batch as soon as it is done.
Length penalty: Wu et al. 2016, section 7; limit on the length: Vaswani et al. 2017, section 6.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from dragoman.config import InferenceSettings
from dragoman.inference.constraints import Constraints
from dragoman.inference.finished import Finished
from dragoman.inference.length_penalty import length_penalty
from dragoman.inference.paths import Paths
from dragoman.inference.step_model import StepModel
from dragoman.records import Hypothesis
from dragoman.text.tokenizer import BOS_ID, EOS_ID

_NONE = float("-inf")


@dataclass(frozen=True, slots=True)
class _Beam:
    """The B sentences still searched.

    Each has W hypotheses that may go on, best first, then empty ones with a log_prob of -inf. `sentences` are their
    numbers in the input, `places` how many places of their beams no finished hypothesis has taken.
    """

    sentences: Int64[Tensor, "B"]
    places: Int64[Tensor, "B"]
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
            torch.full_like(sentences, settings.beam_size),
            constraints,
            torch.zeros(size, 1, device=device),
            Paths.empty(size, 1, device),
            Finished.none(size, settings.n_best, device),
        )


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The best continuations of each beam, best first: C of them, or fewer and then empty ones of -inf.

    `parents` are the places in the beam that they continue; `log_probs` are of the whole, `token_log_probs` of the
    last token.
    """

    log_probs: Float[Tensor, "B C"]
    parents: Int64[Tensor, "B C"]
    ids: Int64[Tensor, "B C"]
    token_log_probs: Float[Tensor, "B C"]

    def chosen(self, order: Int64[Tensor, "B C2"]) -> "_Candidates":
        """Those at the named ranks of each sentence."""
        return _Candidates(*(getattr(self, name).gather(1, order) for name in self.__slots__))

    def kept(self, sentences: Int64[Tensor, "B2"]) -> "_Candidates":
        """Those of some of the sentences."""
        return _Candidates(*(getattr(self, name)[sentences] for name in self.__slots__))


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
        candidates = _continued(beam, model.step(ids, state), position, settings.beam_size)
        live = _live(beam, candidates, position)
        finished = _with_finished(beam, candidates, live, penalties[position])
        best_attainable = candidates.log_probs.where(live, _NONE).amax(1) / penalties[beam.constraints.limits - 1]
        going_on = live.any(1) & ~finished.unbeatable(best_attainable)
        _collect(results, beam, finished, ~going_on)
        keep = going_on.nonzero()[:, 0]
        if not keep.numel():
            break
        going = _live_first(candidates.kept(keep), live[keep])
        model.reorder(state, (keep[:, None] * beam.log_probs.size(1) + going.parents).flatten(), keep)
        ids = going.ids.flatten()
        beam = _next(beam, candidates, going, finished, keep)
    return results


def _penalties(constraints: Constraints, settings: InferenceSettings) -> Float[Tensor, "T"]:
    """The length penalty of 1, 2, ... tokens: one table, so that scores and their bounds agree to the last bit."""
    limits = constraints.limits
    lengths = torch.arange(1, int(limits.max()) + 1, dtype=torch.float32, device=limits.device)
    return length_penalty(settings, lengths)


def _continued(beam: _Beam, log_probs: Float[Tensor, "N V"], position: int, beam_size: int) -> _Candidates:
    """The best continuations, as many as a sentence has places. `log_probs` is overwritten."""
    num_sentences, width = beam.log_probs.shape
    token_log_probs, ids = beam.constraints.best_tokens(log_probs, position, min(beam_size, log_probs.size(1)))
    token_log_probs, ids = token_log_probs.view(num_sentences, width, -1), ids.view(num_sentences, -1)
    totals = (beam.log_probs[:, :, None] + token_log_probs).flatten(1)
    ranked, order = totals.sort(dim=1, descending=True, stable=True)
    order = order[:, :beam_size]
    ranks = torch.arange(order.size(1), device=order.device)
    return _Candidates(
        ranked[:, :beam_size].masked_fill(ranks >= beam.places[:, None], _NONE),
        order // token_log_probs.size(2),
        ids.gather(1, order),
        token_log_probs.flatten(1).gather(1, order),
    )


def _live(beam: _Beam, candidates: _Candidates, position: int) -> Bool[Tensor, "B C"]:
    """Which candidates go on: neither empty, nor ended, nor at the limit."""
    below_limit = beam.constraints.limits > position + 1
    return (candidates.log_probs > _NONE) & (candidates.ids != EOS_ID) & below_limit[:, None]


def _with_finished(
    beam: _Beam, candidates: _Candidates, live: Bool[Tensor, "B C"], penalty: Float[Tensor, ""]
) -> Finished:
    """The finished hypotheses with those candidates that do not go on."""
    scores = (candidates.log_probs / penalty).masked_fill(live, _NONE)
    if not bool((scores > _NONE).any()):
        return beam.finished
    paths = beam.paths.extended(candidates.parents, candidates.ids, candidates.token_log_probs)
    return beam.finished.joined(scores, paths)


def _collect(results: list[list[Hypothesis]], beam: _Beam, finished: Finished, done: Bool[Tensor, "B"]) -> None:
    """Writes the hypotheses of the sentences that are done into `results`."""
    leaving = done.nonzero()[:, 0]
    if leaving.numel():
        for sentence, found in zip(beam.sentences[leaving].tolist(), finished.kept(leaving).hypotheses(), strict=True):
            results[sentence] = found


def _live_first(candidates: _Candidates, live: Bool[Tensor, "B C"]) -> _Candidates:
    """The live candidates, as many as the sentence with the most has; others become empty."""
    order = live.long().sort(dim=1, descending=True, stable=True).indices[:, : int(live.sum(1).max())]
    chosen = candidates.chosen(order)
    return replace(chosen, log_probs=chosen.log_probs.where(live.gather(1, order), _NONE))


def _next(
    beam: _Beam, candidates: _Candidates, going: _Candidates, finished: Finished, keep: Int64[Tensor, "B2"]
) -> _Beam:
    """The beam one token later, of the sentences that go on."""
    ended = (candidates.ids == EOS_ID) & (candidates.log_probs > _NONE)
    paths = beam.paths.kept(keep).extended(going.parents, going.ids, going.token_log_probs)
    return _Beam(
        beam.sentences[keep],
        (beam.places - ended.sum(1))[keep],
        beam.constraints.kept(keep),
        going.log_probs,
        paths,
        finished.kept(keep),
    )

"""The beam search of one sentence as a tree of all tokens considered, kept and pruned at each step.

The search is the regular one. A model that records its steps watches it.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.bundle import Model
from dragoman.config import InferenceSettings
from dragoman.engines.interface import unwritable
from dragoman.engines.search.beam import beam_search
from dragoman.engines.search.continuations import hide
from dragoman.engines.search.step_model import Predictions
from dragoman.engines.tensors.fast_model import FastModel, FastState
from dragoman.records import EOS_ID, NEVER_WRITTEN, Hypothesis
from dragoman.visualization.inspection.inspection import BeamNode

SearchTree = tuple[BeamNode, ...]
"""All nodes of a search in the order in which they were considered, one step after the other."""


def trace_search(
    model: Model, src_ids: Sequence[int], settings: InferenceSettings, prefix_ids: Sequence[int] = ()
) -> tuple[list[Hypothesis], SearchTree]:
    """The hypotheses of `beam_search` for one source (without eos), and the nodes of its search tree.

    Each step considers the best continuations, twice as many as the beam size. At the positions of `prefix_ids` the
    nodes show what an unforced search would have considered.
    """
    trace = _Trace(model, settings, prefix_ids)
    ids = torch.tensor([[*src_ids, EOS_ID]], device=trace.device)
    lengths = torch.tensor([len(src_ids) + 1], device=trace.device)
    hypotheses = beam_search(trace, ids, lengths, settings, [prefix_ids])[0]
    trace.record([], stopped=True)
    best, node = hypotheses[0], -1
    for token_id in (*best.ids, EOS_ID) if best.finished else best.ids:
        if (node, token_id) not in trace.children:
            break
        node = trace.children[node, token_id]
        trace.nodes[node] = replace(trace.nodes[node], best=True)
    return hypotheses, tuple(trace.nodes)


class RereadableModel(FastModel):
    """Limits the output to one token less than the model's positions: a full pass reads it again after bos."""

    @property
    def max_length(self) -> int | None:
        """The longest output in tokens."""
        most = super().max_length
        return None if most is None else most - 1


class _Trace(RereadableModel):
    """Records the search of one sentence."""

    def __init__(self, model: Model, settings: InferenceSettings, prefix_ids: Sequence[int]) -> None:
        super().__init__(model.transformer)
        self._settings, self._tokenizer, self._prefix_ids = settings, model.tokenizers.tgt, prefix_ids
        self.nodes: list[BeamNode] = []
        self.children: dict[tuple[int, int], int] = {}  # the place of a node by its parent and token id
        self._position = -1
        self._live = [-1]  # the node of each live hypothesis; `_log_probs` has their log-probabilities
        self._log_probs = torch.zeros(1)
        self._parents = [0]
        self._last: Float[Tensor, "W V"] | None = None

    def step(self, ids: Int64[Tensor, " N"], state: FastState) -> Predictions:
        if self._last is not None:
            self.record(list(zip(self._parents, ids.tolist(), strict=True)))
        self._position += 1
        predictions = super().step(ids, state)
        self._last = predictions.log_probs().clone().cpu()
        return predictions

    def reorder(self, state: FastState, rows: Int64[Tensor, " N2"], sentences: Int64[Tensor, " B2"]) -> None:
        self._parents = rows.tolist()
        super().reorder(state, rows, sentences)

    def record(self, kept: list[tuple[int, int]], *, stopped: bool = False) -> None:
        """Record the best continuations of the last step. `kept` holds the (row, token) pairs that the beam kept.

        If the search has stopped, hypotheses still in the beam are marked as open.
        """
        assert self._last is not None
        last = self._last.clone()  # the original cannot be modified outside inference mode
        is_forced = self._position < len(self._prefix_ids)
        is_end = is_forced and self._prefix_ids[self._position] == EOS_ID
        hide(last, NEVER_WRITTEN if is_end else unwritable(self._position, self._settings.min_tokens))
        totals = self._log_probs[:, None] + last
        best = totals.flatten().topk(min(2 * self._settings.beam_size, totals.numel())).indices.tolist()
        found = [divmod(place, last.size(1)) for place in best]
        unfinished = [pair for pair in found if pair[1] != EOS_ID]
        alive = unfinished[: self._settings.beam_size] if stopped and not is_end else []
        ending = [(0, EOS_ID)] if is_end else []  # a forced end, of the only hypothesis
        for pair in dict.fromkeys([*kept, *ending, *found]):
            (row, token_id), total = pair, float(totals[pair])
            if total == float("-inf"):
                continue
            ended = token_id == EOS_ID and (is_end or (pair in found[: self._settings.beam_size] and not is_forced))
            state = "kept" if pair in kept else "ended" if ended else "open" if pair in alive else "pruned"
            parent, [name] = self._live[row], self._tokenizer.tokens([token_id])
            self.children[parent, token_id] = len(self.nodes)
            self.nodes.append(BeamNode(parent, self._position, name, round(total, 4), state, best=False))  # type: ignore[arg-type]
        self._log_probs = torch.tensor([float(totals[pair]) for pair in kept])
        self._live = [self.children[self._live[row], token_id] for row, token_id in kept]

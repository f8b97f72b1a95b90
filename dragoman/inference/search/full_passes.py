"""The slow reference of every search: no cache, and no padding if the caller groups sentences by length.

`dragoman verify` compares the searches of a Translator with it (`inference/verification.py`), and so do tests.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from dragoman.config import InferenceSettings
from dragoman.data.batch import pad_ids
from dragoman.inference.search.beam import beam_search
from dragoman.inference.search.step_model import OfTransformer, Predictions, StepModel
from dragoman.inference.segments import Source
from dragoman.model.transformer import Transformer
from dragoman.records import Hypothesis
from dragoman.text.tokenization.control_ids import EOS_ID, PAD_ID

_SENTENCES_AT_ONCE = 16
_SEED = 1


class FullPasses(OfTransformer):
    """A StepModel without a cache, which recomputes all positions in each step.

    Every log-probability is changed by a random number between -`noise` and `noise`.
    """

    @dataclass(slots=True)
    class State:
        """Encoded sources, one row per sentence, and written tokens, one row per hypothesis."""

        memory: Float[Tensor, "B S D"]
        src_lengths: Int64[Tensor, " B"]
        written: Int64[Tensor, "N T"]

    def __init__(self, model: Transformer, noise: float = 0.0, seed: int = _SEED) -> None:
        super().__init__(model)
        self._noise = noise
        self._generator = torch.Generator(model.device).manual_seed(seed)

    def start(self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, " B"]) -> State:
        """Encode the sources."""
        nothing = src_lengths.new_empty(src_lengths.numel(), 0)
        return self.State(self._model.encode(src_ids, src_lengths), src_lengths, nothing)

    def step(self, ids: Int64[Tensor, " N"], state: State) -> Predictions:
        """Append one token to each hypothesis and compute the log-probabilities of the next."""
        state.written = torch.cat((state.written, ids[:, None]), dim=1)
        width = ids.numel() // state.src_lengths.numel()
        memory, lengths = (one.repeat_interleave(width, dim=0) for one in (state.memory, state.src_lengths))
        hidden = self._model.decode(state.written, memory, lengths)[:, -1]
        log_probs = functional.log_softmax(self._model.projection(hidden).float(), dim=-1)
        if self._noise:
            uniform = torch.rand(log_probs.shape, generator=self._generator, device=log_probs.device)
            log_probs += self._noise * (2 * uniform - 1)
        return Predictions.of(log_probs)

    def reorder(self, state: State, rows: Int64[Tensor, " N2"], sentences: Int64[Tensor, " B2"]) -> None:
        """Reorder hypotheses and sentences."""
        state.written, state.memory = state.written[rows], state.memory[sentences]
        state.src_lengths = state.src_lengths[sentences]


class GroupedSearch:
    """Beam search in given groups of sentences, with `padding` columns of padding more than necessary."""

    def __init__(
        self,
        model: StepModel[Any],
        groups: Callable[[Sequence[Source]], Iterable[Sequence[Source]]],
        padding: int = 0,
    ) -> None:
        self._model, self._groups, self._padding = model, groups, padding

    def search(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        """The hypotheses of every source, best first."""
        found: dict[int, list[Hypothesis]] = {}
        for group in self._groups([source for source in sources if source.ids]):
            ids, lengths = pad_ids([[*source.ids, EOS_ID] for source in group], PAD_ID)
            padded = functional.pad(ids, (0, self._padding), value=PAD_ID).to(self._model.device)
            prefixes = [source.prefix for source in group]
            hypotheses = beam_search(self._model, padded, lengths.to(self._model.device), settings, prefixes)
            found |= zip(map(id, group), hypotheses, strict=True)
        return [found.get(id(source), []) for source in sources]


def of_one_length(sources: Sequence[Source]) -> Iterator[Sequence[Source]]:
    """Groups of sources of the same length, which need no padding."""
    by_length = defaultdict(list)
    for source in sources:
        by_length[source.length].append(source)
    for group in by_length.values():
        yield from as_they_come(group)


def as_they_come(sources: Sequence[Source]) -> Iterator[Sequence[Source]]:
    """Groups of consecutive sources."""
    return (sources[start : start + _SENTENCES_AT_ONCE] for start in range(0, len(sources), _SENTENCES_AT_ONCE))

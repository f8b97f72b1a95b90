"""The slow reference of every search: no cache, and no padding if the caller groups sentences by length.

`dragoman verify` compares the searches of a Translator with it (`inference/verification.py`), and so do tests.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from dragoman.inference.search.step_model import OfTransformer, Predictions
from dragoman.inference.segments import Source
from dragoman.model.transformer import Transformer

_SENTENCES_AT_ONCE = 16
_SEED = 1


class FullPasses(OfTransformer):
    """A StepModel without a cache, which recomputes all positions in each step.

    Every log-probability is changed by a random number between -`noise` and `noise`.
    """

    @dataclass(slots=True)
    class State:
        """Encoded sources and their lengths, one row per sentence, and written tokens, one row per hypothesis.

        `src_lengths` count eos.
        """

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


def of_one_length(sources: Sequence[Source]) -> Iterator[list[int]]:
    """Groups of sources of the same length, as indices. They need no padding."""
    by_length = defaultdict(list)
    for place, source in enumerate(sources):
        if source.ids:
            by_length[source.length].append(place)
    for group in by_length.values():
        yield from _cut(group)


def as_they_come(sources: Sequence[Source]) -> Iterator[list[int]]:
    """Groups of consecutive sources, as indices."""
    return _cut([place for place, source in enumerate(sources) if source.ids])


def _cut(places: list[int]) -> Iterator[list[int]]:
    return (places[start : start + _SENTENCES_AT_ONCE] for start in range(0, len(places), _SENTENCES_AT_ONCE))

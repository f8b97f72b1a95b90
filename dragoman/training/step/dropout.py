"""Dropout on a CPU (Vaswani et al. 2017, section 5.4; Srivastava et al. 2014), with a generator per thread.

On a CPU, torch's dropout samples one uniform number per element and takes a fifth of a training step of a small model.
Here two integer operations turn 16 random bits per element into a mask: the bits of bfloat16's 1 where the element is
kept, else zero. The rate is rounded to a multiple of 1/65536. Kept elements are scaled by the rounded rate, so the
expectation stays exact.

Seeds of the random numbers of a step. They depend on seed, step and process alone, so resuming is exact.
"""

import contextlib
import math
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.training.step.fused import NO_DROPOUT, DropoutBits, random_words

_NUM_VALUES = 1 << 16
_ONE = 0x3F80  # the bits of 1 in bfloat16, as an integer


class Randomness:
    """The source of random numbers for dropout on a CPU.

    Every training thread has one, so that its numbers do not depend on the other threads.
    """

    def __init__(self) -> None:
        self.seed(0)
        self._rows: tuple[int, int, int] | None = None

    def seed(self, *numbers: int) -> None:
        """Make all following random numbers depend on `numbers` (not negative) alone."""
        self._generator = np.random.SFC64(np.random.SeedSequence(numbers))

    @contextlib.contextmanager
    def rows(self, start: int, stop: int, total: int) -> Iterator[None]:
        """Inside the block, rows `start` to `stop` get the numbers that they would get in a batch of `total` rows.

        Afterwards the generator returns to its state before the block, unless these were the last rows.
        """
        before = self._generator.state
        self._rows = (start, stop, total)
        try:
            yield
        finally:
            self._rows = None
            if stop < total:
                self._generator.state = before

    def sample_bits(self, *shape: int) -> Tensor:
        """Uniform int16 numbers. The first dimension of `shape` is the rows of a batch, or of several copies of it."""
        if self._rows is None:
            return self._sample_numbers(math.prod(shape)).view(shape)
        start, stop, total = self._rows
        whole = torch.Size((shape[0] // (stop - start), total, *shape[1:]))
        return self._sample_numbers(whole.numel()).view(whole)[:, start:stop].reshape(shape)

    def _sample_numbers(self, count: int) -> Tensor:
        return random_words(self._generator, (count + 3) // 4).view(torch.int16)[:count]


class Dropout(nn.Dropout):
    """torch's dropout, with random numbers from `randomness` on a CPU."""

    randomness: Randomness

    def forward(self, input: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop elements at random and scale the others. Shape and type stay."""
        if not self.training or self.p == 0:
            return input
        if input.device.type != "cpu":
            return super().forward(input)
        mask: Tensor = self._mask(input.shape)
        return (input * mask).mul_(1 / kept_share(self.p))

    def bits(self, *shape: int) -> DropoutBits:
        """The random numbers that `forward` would use on a CPU for a tensor of this shape."""
        if not self.training or self.p == 0:
            return NO_DROPOUT
        return DropoutBits(self.randomness.sample_bits(*shape), self._first_kept, 1 / kept_share(self.p))

    @property
    def _first_kept(self) -> int:
        return _NUM_VALUES // 2 - round(kept_share(self.p) * _NUM_VALUES)

    def _mask(self, shape: torch.Size) -> Float[Tensor, "*shape"]:
        """A bfloat16 mask: 1 where an element is kept, else 0."""
        kept = self.randomness.sample_bits(*shape).ge_(self._first_kept).mul_(_ONE)
        return kept.view(torch.bfloat16)

    # torch.compile has nothing to fuse here and cannot view bits as another type. This is what torch.compiler.disable
    # sets, which takes half a second to import.
    _mask._torchdynamo_disable = True  # type: ignore[attr-defined]


def kept_share(rate: float) -> float:
    """The share of elements that `Dropout(rate)` keeps on a CPU: the multiple of 1/65536 nearest to 1 - rate, not 1."""
    return min(_NUM_VALUES - 1, round((1 - rate) * _NUM_VALUES)) / _NUM_VALUES


_RANKS = 1 << 16


def cpu_seeds(seed: int, step: int, rank: int) -> tuple[int, ...]:
    """The numbers from which a process seeds the generators of its threads. Each thread appends its own number.

    They are distinct for distinct (step, rank, thread). NumPy ignores zeros at the end of a seed, so rank 1 must not
    look like thread 1 of the first process.
    """
    return (seed, step, _RANKS + rank) if rank else (seed, step)


def torch_seed(seed: int, step: int, rank: int) -> int:
    """The seed of torch's own generator, which dropout uses on GPUs. Distinct in the same way.

    For the first process this holds for seeds below 2**31 and steps below 2**32.
    """
    if rank:
        return int(np.random.SeedSequence((seed, step, rank)).generate_state(1, np.uint64)[0])
    return (seed << 32) | step

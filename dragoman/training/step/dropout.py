"""Dropout on a CPU (Vaswani et al. 2017, section 5.4; Srivastava et al. 2014), with random numbers of its own.

torch's dropout samples one uniform number an element there and takes a fifth of a training step of a small model. Here
a mask is made of 16 random bits an element with two integer operations: the bits of bfloat16's 1 where the element is
kept, else zero. The rate is rounded to a multiple of 1/65536, and what is kept is scaled by the rate actually used, so
the expectation stays exact.
"""

import contextlib
import math
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.kernels.compiling import can_compile
from dragoman.training.step.fused import NO_DROPOUT, DropoutBits, random_words

_NUM_VALUES = 1 << 16
_ONE = 0x3F80  # 1 in bfloat16, its bits as an integer


class Randomness:
    """The source of random numbers for dropout on a CPU: torch's default generator, until it is seeded.

    Every thread that trains has one, so that the numbers of a thread do not depend on the others.
    """

    def __init__(self) -> None:
        self._generator: np.random.SFC64 | None = None
        self._rows: tuple[int, int, int] | None = None

    def seed(self, *numbers: int) -> None:
        """From now on, all random numbers follow from `numbers` (not negative) alone."""
        self._generator = np.random.SFC64(np.random.SeedSequence(numbers))

    @contextlib.contextmanager
    def rows(self, start: int, stop: int, total: int) -> Iterator[None]:
        """Inside the block, rows `start` to `stop` get the numbers that they would get in a batch of `total` rows.

        Afterwards the generator is reset, unless these were the last rows.
        """
        before = None if self._generator is None else self._generator.state
        self._rows = (start, stop, total)
        try:
            yield
        finally:
            self._rows = None
            if self._generator is not None and before is not None and stop < total:
                self._generator.state = before

    def sample_bits(self, *shape: int) -> Tensor:
        """Uniform int16 of a shape, whose first dimension are the rows of a batch, or those of several copies of it."""
        if self._rows is None:
            return self._sample_words(math.prod(shape)).view(shape)
        start, stop, total = self._rows
        whole = torch.Size((shape[0] // (stop - start), total, *shape[1:]))
        return self._sample_words(whole.numel()).view(whole)[:, start:stop].reshape(shape)

    def _sample_words(self, count: int) -> Tensor:
        words = (count + 3) // 4
        if self._generator is None:
            sampled = torch.empty(words, dtype=torch.int64).random_(-(2**63), None)
        elif can_compile():
            sampled = random_words(self._generator, words)
        else:
            sampled = torch.from_numpy(self._generator.random_raw(words).view(np.int64))
        return sampled.view(torch.int16)[:count]


class Dropout(nn.Dropout):
    """torch's dropout, whose random numbers come from `randomness` on a CPU."""

    randomness: Randomness

    def forward(self, input: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The same shape and type."""
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
        """bfloat16: 1 where an element is kept, else 0."""
        kept = self.randomness.sample_bits(*shape).ge_(self._first_kept).mul_(_ONE)
        return kept.view(torch.bfloat16)

    # torch.compile has nothing to fuse here and cannot view bits as another type. This is what torch.compiler.disable
    # sets, which takes half a second to import.
    _mask._torchdynamo_disable = True  # type: ignore[attr-defined]


def kept_share(rate: float) -> float:
    """The share of elements that `Dropout(rate)` keeps on a CPU: the multiple of 1/65536 nearest to 1 - rate, not 1."""
    return min(_NUM_VALUES - 1, round((1 - rate) * _NUM_VALUES)) / _NUM_VALUES

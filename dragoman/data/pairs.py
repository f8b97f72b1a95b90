"""The `Pairs` protocol, which batching and training need from a data set: ids by index, and all lengths at once."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Ids: TypeAlias = npt.NDArray[np.integer[Any]]
Lengths: TypeAlias = npt.NDArray[np.int32]


class Pairs(Protocol):
    """A data set of encoded pairs with random access, without bos and eos: `PairStore` or `InMemoryPairs`."""

    def __len__(self) -> int: ...

    @property
    def src_lengths(self) -> Lengths:
        """The number of source ids of each pair without eos, (pairs,)."""
        ...

    @property
    def tgt_lengths(self) -> Lengths:
        """The number of target ids of each pair without eos, (pairs,)."""
        ...

    def src_ids(self, index: int) -> Ids:
        """Source ids of one pair."""
        ...

    def tgt_ids(self, index: int) -> Ids:
        """Target ids of one pair."""
        ...


class InMemoryPairs:
    """Pairs in memory, for the copy task, tests and small data."""

    def __init__(self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> None:
        if len(src) != len(tgt):
            raise ValueError(f"{len(src)} source and {len(tgt)} target sequences")
        self._src = [np.asarray(ids, dtype=np.int32) for ids in src]
        self._tgt = [np.asarray(ids, dtype=np.int32) for ids in tgt]
        self.src_lengths: Lengths = np.array([len(ids) for ids in src], dtype=np.int32)
        self.tgt_lengths: Lengths = np.array([len(ids) for ids in tgt], dtype=np.int32)

    def __len__(self) -> int:
        return len(self._src)

    def src_ids(self, index: int) -> Ids:
        """Source ids of one pair."""
        return self._src[index]

    def tgt_ids(self, index: int) -> Ids:
        """Target ids of one pair."""
        return self._tgt[index]

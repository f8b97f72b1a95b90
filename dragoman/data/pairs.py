"""The `Pairs` protocol, which batching and training need from a data set: ids by index, and all lengths at once.

The copy task: repeat a random sequence of symbols. A correct Transformer learns it in minutes on a CPU.

The sizes are those of "The Annotated Transformer" (Rush 2018): sequences of 10 over a vocabulary of 11 symbols. The
control ids are not used, so the symbols are the ids 4 to 14.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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


NUM_CONTROL_IDS = 4


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Two disjoint sets of sequences with equal source and target. Ids are below `vocab_size`."""

    train: InMemoryPairs
    held_out: InMemoryPairs
    vocab_size: int


def copy_task(num_train: int, num_held_out: int, seed: int, num_symbols: int = 11, length: int = 10) -> CopyTask:
    """Distinct random sequences, a pure function of the arguments. Raises ValueError if there are too few."""
    total = num_train + num_held_out
    if num_symbols**length < total:
        raise ValueError(f"there are only {num_symbols**length} sequences of {length} over {num_symbols} symbols")
    random = np.random.default_rng(seed)
    distinct: dict[tuple[int, ...], None] = {}
    while len(distinct) < total:
        drawn = random.integers(NUM_CONTROL_IDS, NUM_CONTROL_IDS + num_symbols, (total - len(distinct), length))
        distinct.update(dict.fromkeys(map(tuple, drawn.tolist())))
    sequences = list(distinct)
    train, held_out = sequences[:num_train], sequences[num_train:]
    return CopyTask(InMemoryPairs(train, train), InMemoryPairs(held_out, held_out), NUM_CONTROL_IDS + num_symbols)

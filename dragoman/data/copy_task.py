"""The copy task: repeat a random sequence of symbols. A correct Transformer learns it in minutes on a CPU.

The sizes are those of "The Annotated Transformer" (Rush 2018): sequences of 10 over a vocabulary of 11 symbols. The
control ids are not used, so the symbols are the ids 4 to 14.
"""

from dataclasses import dataclass

import numpy as np

from dragoman.data.pairs import InMemoryPairs

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

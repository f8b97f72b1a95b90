"""Seeds of the random numbers of a step. They depend on seed, step and process alone, so resuming is exact."""

import numpy as np

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

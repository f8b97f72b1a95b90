"""What dropout draws in a step: it follows from the seed, the step and who computes it, so resuming is exact."""

import numpy as np

_RANKS = 1 << 16


def cpu_seeds(seed: int, step: int, rank: int) -> tuple[int, ...]:
    """The numbers that a process seeds its workers' generators with, each followed by the worker's own number.

    Distinct for distinct (step, rank, worker). NumPy's seeds take no account of zeros at their end, so rank 1 must not
    look like worker 1 of the first process.
    """
    return (seed, step, _RANKS + rank) if rank else (seed, step)


def torch_seed(seed: int, step: int, rank: int) -> int:
    """The seed of torch's own generator, which dropout draws from on anything but a CPU; distinct in the same way.

    Of the first process exactly so for seeds below 2**31 and steps below 2**32.
    """
    if rank:
        return int(np.random.SeedSequence((seed, step, rank)).generate_state(1, np.uint64)[0])
    return (seed << 32) | step

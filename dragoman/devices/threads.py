"""Torch's thread count for Python threads that compute in parallel, one core each."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def compute_on_one_thread() -> None:
    """Make torch operations of the calling Python thread run on one thread. Call it once in each thread."""
    # The first call in a thread sets its number to the default, which would overwrite an earlier set_num_threads.
    torch.get_num_threads()
    torch.set_num_threads(1)


@contextmanager
def restore_num_threads() -> Iterator[None]:
    """Restore the thread count of the calling thread afterwards.

    Setting the number in one thread also changes what other threads read in the libraries that they share.
    """
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)

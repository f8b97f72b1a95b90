"""Python threads that compute side by side, each on one of torch's threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def compute_on_one_thread() -> None:
    """Called once in each of them: its own operations run on one thread."""
    torch.get_num_threads()  # the first call of a thread sets its number to the default, after any earlier setting
    torch.set_num_threads(1)


@contextmanager
def own_threads_restored() -> Iterator[None]:
    """Setting the number in one thread also changes what the others' libraries share."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)

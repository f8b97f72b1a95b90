"""Parallel batches: results in order, one torch thread each, and exceptions of workers."""

import time
from typing import Any

import pytest
import torch

from dragoman.devices.without_torch import map_in_threads
from dragoman.errors import ModelError


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_results_are_in_order(count: int, computing_on: Any) -> None:
    def work(item: int) -> tuple[int, int]:
        time.sleep(0.01 * (count - item))
        return item, torch.get_num_threads()

    with computing_on(3):
        found = map_in_threads(work, range(count), 3)
        assert torch.get_num_threads() == 3
    assert [item for item, _ in found] == list(range(count))
    assert count < 2 or {threads for _, threads in found} == {1}


def test_exception_of_a_worker_is_raised_unchanged(computing_on: Any) -> None:
    def work(item: int) -> int:
        if item == 5:
            raise ModelError("item 5 is bad. Leave it out.")
        return item

    with computing_on(3):
        with pytest.raises(ModelError, match=r"^item 5 is bad\. Leave it out\.$"):
            map_in_threads(work, range(20), 3)
        assert torch.get_num_threads() == 3

"""Batches side by side: results in order, one thread each, and errors that arrive."""

import time
from typing import Any

import pytest
import torch

from dragoman.errors import ModelError
from dragoman.inference.workers import each_of


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_results_are_in_order(count: int, computing_on: Any) -> None:
    def work(item: int) -> tuple[int, int]:
        time.sleep(0.01 * (count - item))
        return item, torch.get_num_threads()

    with computing_on(3):
        found = each_of(work, range(count), 3)
        assert torch.get_num_threads() == 3
    assert [item for item, _ in found] == list(range(count))
    assert count < 2 or {threads for _, threads in found} == {1}


def test_an_error_arrives_as_it_was() -> None:
    def work(item: int) -> int:
        if item == 1:
            raise ModelError("item 1 is bad. Leave it out.")
        return item

    with pytest.raises(ModelError, match=r"^item 1 is bad\. Leave it out\.$"):
        each_of(work, range(4), 2)


def test_workers_keep_the_order_pass_errors_on_and_leave_the_threads_as_they_were(computing_on: Any) -> None:
    with computing_on(3):
        found = each_of(lambda number: number * number, range(20), 3)
        assert torch.get_num_threads() == 3
    assert found == [number * number for number in range(20)]

    def fails_at_five(number: int) -> int:
        if number == 5:
            raise ValueError("five")
        return number

    with computing_on(3):
        with pytest.raises(ValueError, match="five"):
            each_of(fails_at_five, range(20), 3)
        assert torch.get_num_threads() == 3

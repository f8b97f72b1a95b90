"""Numbers of threads before and after torch is imported."""

import os
import subprocess
import sys
from types import ModuleType

import pytest

from dragoman.devices.without_torch import num_cpu_threads

PROGRAM = """
from dragoman.devices.without_torch import compute_on_one_thread, num_cpu_threads
import sys
predicted = num_cpu_threads()
assert "torch" not in sys.modules
import torch
print(predicted, torch.get_num_threads())
compute_on_one_thread()
print(num_cpu_threads(), torch.get_num_threads())
"""


@pytest.mark.parametrize("wanted", ["", "1"])
def test_the_number_before_torch_is_imported_is_that_of_torch(wanted: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    environment |= {"OMP_NUM_THREADS": wanted} if wanted else {}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    predicted, by_torch, *alone = map(int, done.stdout.split())
    assert predicted == by_torch
    assert alone == [1, 1]


def test_the_number_while_another_thread_imports_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first `/inspect` of a server imports torch for seconds, beside the translations of others."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    before = num_cpu_threads()
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    assert num_cpu_threads() == before

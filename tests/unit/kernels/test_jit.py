"""The cache of machine code on disk."""

import pickle
from pathlib import Path

import pytest

numba = pytest.importorskip("numba", reason="numba compiles for the processor at hand")

from dragoman.kernels.jit import jit_compile  # noqa: E402


class Renamed:
    """A type of an earlier version."""


def test_index_with_types_that_no_longer_exist_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def add_one(number: float) -> float:
        return number + 1

    assert jit_compile(add_one)(1.0) == 2.0
    (index,) = tmp_path.rglob("*.nbi")
    with index.open("rb") as stream:
        version = pickle.load(stream)
    stale = pickle.dumps(("stamp", Renamed()))
    index.write_bytes(pickle.dumps(version) + stale.replace(b"Renamed", b"Unknown"))
    assert jit_compile(add_one)(1.0) == 2.0
    assert b"Unknown" not in index.read_bytes()

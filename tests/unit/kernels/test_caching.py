"""The cache of training's machine code on disk, also with several processes, damaged files, and a disk that is full."""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="numba compiles for the processor at hand")

from dragoman.errors import ResourceError
from dragoman.files import user_cache_folder
from dragoman.kernels import compiling
from dragoman.kernels.caching import jit_cached
from dragoman.kernels.compiling import CODE_FOLDER, num_compiled


def add_one(number: float) -> float:
    return number + 1


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, which does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiling, "_compiled", [])
    return user_cache_folder(CODE_FOLDER)


def test_code_is_found_again_for_the_same_types(cache: Path) -> None:
    assert (jit_cached(add_one)(1.0), num_compiled()) == (2.0, 1)
    assert (jit_cached(add_one)(1.0), num_compiled()) == (2.0, 1)
    assert (jit_cached(add_one)(1), num_compiled()) == (2, 2)
    assert len([*cache.iterdir()]) == 2


def test_changed_sources_and_other_processors_compile_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jit_cached(add_one)(1.0)
    monkeypatch.setattr("dragoman.kernels.caching.hash_of_sources", lambda *modules: "other")
    jit_cached(add_one)(1.0)
    monkeypatch.setattr("numba.core.codegen.JITCPUCodegen.magic_tuple", lambda self: "other")
    jit_cached(add_one)(1.0)
    assert num_compiled() == len([*cache.iterdir()]) == 3


@pytest.mark.parametrize("damage", [lambda code: code[:-100], lambda code: b"", lambda code: b"text"])
def test_a_damaged_file_is_replaced(cache: Path, damage: Callable[[bytes], bytes]) -> None:
    jit_cached(add_one)(1.0)
    (path,) = cache.iterdir()
    code = path.read_bytes()
    path.write_bytes(damage(code))
    assert (jit_cached(add_one)(1.0), num_compiled()) == (2.0, 2)
    assert (jit_cached(add_one)(1.0), num_compiled()) == (2.0, 2)


def test_a_folder_that_cannot_be_written_stops_only_who_asks(cache: Path) -> None:
    cache.parent.parent.joinpath("dragoman").write_text("no folder")
    assert jit_cached(add_one)(1.0) == 2.0
    with pytest.raises(ResourceError, match=r"could not be written: .*\. Set `XDG_CACHE_HOME` to keep"):
        num_compiled()


def test_a_full_disk_leaves_no_part_of_a_file(cache: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        assert jit_cached(add_one)(1.0) == 2.0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not [*cache.iterdir()]
    with pytest.raises(ResourceError, match="File too large"):
        num_compiled()


IN_A_PROCESS = """
import sys
from dragoman.kernels.compiling import num_compiled
from dragoman.kernels.caching import jit_cached
from tests.unit.kernels.test_caching import add_one
number = eval(sys.argv[1])
sys.stdin.read()
function = jit_cached(add_one)
assert function(number) == 2 and type(function(number)) is type(number)
print(num_compiled())
"""


def test_processes_that_compile_at_the_same_time_find_their_own_code() -> None:
    numbers = ["1", "1.0", "1", "1.0"]
    for expected in (None, ["0"] * 4):
        command = [sys.executable, "-c", IN_A_PROCESS]
        pipe = subprocess.PIPE
        running = [subprocess.Popen([*command, one], stdin=pipe, stdout=pipe, text=True) for one in numbers]
        for process in running:
            assert process.stdin
            process.stdin.close()
            process.stdin = None
        printed = [process.communicate(timeout=60)[0].strip() for process in running]
        assert [process.returncode for process in running] == [0] * 4
        assert expected is None or printed == expected

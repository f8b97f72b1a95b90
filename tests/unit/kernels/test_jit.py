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
from dragoman.kernels.compiling import CODE_FOLDER, num_compiled, require_kept
from dragoman.kernels.jit import jit_cached


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
    monkeypatch.setattr("dragoman.kernels.compiling.hash_of_sources", lambda *modules: "other")
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


@pytest.mark.parametrize("level", [1, 2])
def test_a_folder_that_cannot_be_written_stops_only_those_who_require_it(cache: Path, level: int) -> None:
    file = [cache, *cache.parents][2 - level]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("no folder")
    assert jit_cached(add_one)(1.0) == 2.0
    error = rf"^{cache}/add_one-\w+\.pickle could not be written: [\w ]+\. Set `XDG_CACHE_HOME` to another folder"
    with pytest.raises(ResourceError, match=error):
        require_kept()


def test_a_user_without_a_home_folder_can_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    assert jit_cached(add_one)(1.0) == 2.0
    with pytest.raises(ResourceError, match="could not be written: Not a directory"):
        require_kept()


def test_a_full_disk_leaves_no_part_of_a_file(cache: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        assert jit_cached(add_one)(1.0) == 2.0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not [*cache.iterdir()]
    with pytest.raises(ResourceError, match="File too large"):
        require_kept()


IN_A_PROCESS = """
import sys
from dragoman.kernels.compiling import num_compiled
from dragoman.kernels.jit import jit_cached
from tests.unit.kernels.test_jit import add_one
number = eval(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
function = jit_cached(add_one)
assert function(number) == 2 and type(function(number)) is type(number)
print(num_compiled())
"""


def answers_at_once(running: "list[subprocess.Popen[str]]") -> list[str]:
    """What processes print after all of them have printed "ready" and got a line."""
    for process in running:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    return [process.communicate("\n", timeout=60)[0].strip() for process in running]


def test_processes_that_compile_at_the_same_time_find_their_own_code() -> None:
    numbers = ["1", "1.0", "1", "1.0"]
    for expected in (None, ["0"] * 4):
        command = [sys.executable, "-c", IN_A_PROCESS]
        pipe = subprocess.PIPE
        running = [subprocess.Popen([*command, one], stdin=pipe, stdout=pipe, text=True) for one in numbers]
        printed = answers_at_once(running)
        assert [process.returncode for process in running] == [0] * 4
        assert expected is None or printed == expected

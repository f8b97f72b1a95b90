"""Machine code that is compiled ahead of time: how it is found, loaded and called."""

import ctypes
import gc
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.bundle import Weights
from dragoman.config import InferenceSettings
from dragoman.engines.choice import compile_weights
from dragoman.engines.compiled.engine import Waiting, force_targets, search_all
from dragoman.engines.compiled.weights import CompiledWeights
from dragoman.engines.interface import Source
from dragoman.errors import ResourceError
from dragoman.kernels import compiling, library, processor
from dragoman.kernels.processor import FEATURES, find_target
from tests.contract.random_models import random_transformer
from tests.unit.kernels.test_jit import answers_at_once

pytestmark = pytest.mark.skipif(not library.is_available(), reason="needs a processor that machine code supports")
PRECISIONS = ["float32", "int16", "int8"]


def small_weights(precision: str) -> CompiledWeights:
    return compile_weights(Weights.of(random_transformer(30, d_model=16, num_heads=2, d_ff=32)), precision)


def search(weights: CompiledWeights) -> list[Any]:
    waiting = Waiting([Source("0", [5, 6, 7])], InferenceSettings(beam_size=2, max_extra_tokens=4), None, weights)
    search_all(weights, waiting, InferenceSettings(beam_size=2, max_extra_tokens=4), 1)
    return waiting.found


@pytest.mark.parametrize("precision", PRECISIONS)
def test_calls_pass_the_types_that_functions_are_compiled_for(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other types would not raise, but read and write the wrong memory."""
    numba = pytest.importorskip("numba")
    from dragoman.engines.compiled import build

    expected = {one.__name__: build.argument_types(one, precision) for one in build.ENTRIES}
    called, names = set(), {}
    bind, call = library.MachineCode.bind, library.BoundFunction.__call__

    def named(code: Any, name: str, *arguments: Any) -> Any:
        bound = bind(code, name, *arguments)
        names[bound] = name
        return bound

    def checked(bound: Any, *arguments: Any) -> int:
        plain = [one.record if isinstance(one, library.Packed) else one for one in (*bound._arguments, *arguments)]
        assert tuple(map(numba.typeof, plain)) == expected[names[bound]]
        called.add(names[bound])
        return call(bound, *arguments)

    monkeypatch.setattr(library.MachineCode, "bind", named)
    monkeypatch.setattr(library.BoundFunction, "__call__", checked)
    weights = small_weights(precision)
    search(weights)
    force_targets(weights, [([5, 6], [7, 8])], layer=0)
    assert called == {*expected}


@pytest.mark.parametrize(
    ("module", "sources"),
    [("engines.compiled.build", compiling.SEARCH_SOURCES), ("kernels.training", compiling.TRAINING_SOURCES)],
)
def test_the_hash_covers_every_file_that_the_code_comes_from(module: str, sources: tuple[str, ...]) -> None:
    """Otherwise a change of a file could leave old machine code in use."""
    listing = f"import sys, dragoman.{module}; print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    package = Path(library.__file__).parents[1]
    modules = {name.replace(".", "/") for name in run.stdout.split() if name.startswith("dragoman.")}
    imported = {name for name in modules if package.parent.joinpath(f"{name}.py").exists()}
    no_code = {"kernels/compiling", "display", "errors", "files", "lazy", "version"}
    no_code |= {"kernels/processor"} - {*sources}  # numba's own names of the processor are part of its keys
    assert {name.removeprefix("dragoman/") for name in imported} - no_code <= {*sources}


def test_the_package_looks_for_machine_code_where_setup_puts_it() -> None:
    root = Path(library.__file__).parents[2]
    [place] = re.findall(r"LIBRARIES = Path\((.*)\)", (root / "setup.py").read_text(encoding="utf-8"))
    assert root.joinpath(*re.findall(r'"(\w+)"', place)) == library.LIBRARIES


@pytest.mark.skipif(find_target("float32") is None, reason="needs a processor with code compiled ahead of time")
def test_installed_and_newly_compiled_code_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    library._load_code.cache_clear()
    expected = search(small_weights("float32"))
    forced = force_targets(small_weights("float32"), [([5, 6], [7, 8])])
    monkeypatch.setattr(library, "LIBRARIES", tmp_path)
    library._load_code.cache_clear()
    try:
        assert search(small_weights("float32")) == expected
        again = force_targets(small_weights("float32"), [([5, 6], [7, 8])])
        assert np.array_equal(again[0].log_probs, forced[0].log_probs)
    finally:
        library._load_code.cache_clear()


def test_damaged_code_of_the_package_is_one_line_without_numba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "LIBRARIES", tmp_path)
    monkeypatch.setattr(library, "can_compile", lambda: False)
    library._library_path("float32").write_bytes(b"text")
    library._load_code.cache_clear()
    try:
        with pytest.raises(ResourceError, match=rf"^Machine code cannot be loaded: {tmp_path}\S+: .*\. Reinstall Dra"):
            library.load_code("float32")
    finally:
        library._load_code.cache_clear()


def test_a_failed_compilation_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiling, "_COMPILER", "dragoman.no_such_module")
    with pytest.raises(ResourceError, match=r"^Machine code for this processor could not be compiled: .*\. Reinstall"):
        compiling.compile_search("float32", find_target("float32") or library._native_target())
    assert not [*tmp_path.rglob("*.o")]


def test_code_is_compiled_once_and_kept_if_the_folder_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    target, compiled = find_target("float32") or library._native_target(), []

    def compile_now(precision: str, _: Any) -> bytes:
        compiled.append(precision)
        return b"code"

    monkeypatch.setattr(compiling, "_compile_in_a_process", compile_now)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert [compiling.compile_search("int8", target) for _ in range(2)] == [b"code"] * 2
    assert compiled == ["int8"]
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)  # not a folder
    assert compiling.compile_search("int8", target) == b"code"
    assert compiled == ["int8"] * 2


def test_threads_that_ask_at_the_same_time_share_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each copy would have an engine of LLVM, and one could be freed while its functions are called."""
    loaded, barrier = [], threading.Barrier(4)

    def load_slowly(code: bytes) -> Any:
        loaded.append(code)
        time.sleep(0.2)
        return None

    def ask(_: int) -> library.MachineCode:
        barrier.wait()
        return library.load_code("float32")

    monkeypatch.setattr(library, "LIBRARIES", tmp_path)
    monkeypatch.setattr(library, "compile_search", lambda *_: b"code")
    monkeypatch.setattr(library, "load_object", load_slowly)
    library._load_code.cache_clear()
    try:
        with ThreadPoolExecutor(4) as threads:
            assert len({*threads.map(ask, range(4))}) == 1
    finally:
        library._load_code.cache_clear()
    assert loaded == [b"code"]


def test_functions_of_an_object_file_stay_in_memory() -> None:
    pytest.importorskip("numba")
    target = find_target("float32") or library._native_target()
    function = compiling.load_object(compiling.compile_search("float32", target))("encode")
    gc.collect()
    address = ctypes.cast(function, ctypes.c_void_p).value
    mapped = [line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines()]
    assert address
    assert any(int(first, 16) <= address < int(last, 16) for first, last in mapped)


# Memory with small holes, and larger free areas only more than 4 GB away from them.
LOAD_BETWEEN_LARGE_AREAS = """
import mmap
from dragoman.kernels import compiling, library, processor
from dragoman.kernels.processor import find_target
code = compiling.compile_search("float32", find_target("float32") or library._native_target())
holes = [mmap.mmap(-1, 1 << 16) for _ in range(400)]
areas = [mmap.mmap(-1, 1 << 32, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0) for _ in range(2)]
del holes[::2]
assert compiling.load_object(code)("encode")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reserves memory as only Linux can")
def test_an_object_file_is_loaded_into_one_place() -> None:
    """Its parts address each other with 32 bits. LLVM ends the process if they are too far apart."""
    pytest.importorskip("numba")
    subprocess.run([sys.executable, "-c", LOAD_BETWEEN_LARGE_AREAS], check=True, capture_output=True)


ASK = """
import sys, time
from dragoman.kernels import compiling
from dragoman.kernels.processor import Target

def compile_slowly(precision, target):
    with open(sys.argv[1], "a") as calls:
        calls.write("x")
    time.sleep(0.5)
    return b"code"

compiling._compile_in_a_process = compile_slowly
print("ready", flush=True)
sys.stdin.readline()
print(compiling.compile_search("int8", Target("some", "cpu", ())))
"""


def test_one_of_several_processes_compiles(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    calls, pipe = tmp_path / "calls", subprocess.PIPE
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", ASK, str(calls)]
    running = [subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
    assert answers_at_once(running) == ["b'code'"] * 4
    assert calls.read_text() == "x"


def test_without_proc_no_instruction_set_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processor, "_CPU_INFO", tmp_path / "cpuinfo")
    assert processor._features_of_linux() == frozenset()


def test_instruction_sets_have_the_names_of_llvm() -> None:
    binding = pytest.importorskip("llvmlite.binding")
    known = {name for name, there in binding.get_host_cpu_features().items() if there}
    used = {
        "avx2",
        "fma",
        "avx512f",
        "avx512bw",
        "avx512vl",
        "avx512dq",
        "avx512vnni",
        "avxvnni",
        "avx512bf16",
        "lzcnt",
        "sse4.2",
        "bmi",
    }
    assert known & used == FEATURES & used

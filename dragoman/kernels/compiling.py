"""Compile machine code on this machine, keep it in the user's cache folder, and build the libraries of a package.

numba compiles training's functions when they are called first (`jit.py`). The search's functions are compiled at
once, by a process of its own (`engines/compiled/build.py`), because that takes a few hundred megabytes.
"""

import ctypes
import errno
import hashlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from dragoman.display import say
from dragoman.errors import ResourceError
from dragoman.files import user_cache_folder, write_file
from dragoman.kernels.processor import TARGETS, Target

_PACKAGE = Path(__file__).parents[1]
CODE_FOLDER = "machine-code"
"""The name of the folder for machine code in the user's cache folder."""
SEARCH_SOURCES = (
    *(f"kernels/{name}" for name in ("__init__", "jit", "llvm", "matrix_products", "processor", "vectors")),
    *(f"engines/compiled/{name}" for name in ("beams", "build", "layers", "layout", "targets")),
    "records",
)
"""Modules that the search's machine code depends on, relative to the package."""
TRAINING_SOURCES = tuple(f"kernels/{name}" for name in ("__init__", "jit", "llvm", "processor", "training", "vectors"))
"""Modules that training's machine code depends on."""
_COMPILER = "dragoman.engines.compiled.build"
_NOTE = "compiling for this processor; this takes some seconds, and later runs reuse the code"
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
"""The type of the search's functions, which take the address of a table of words."""
_announced: list[str] = []
_compiled: list[str] = []
"""For each function or library that this process compiled, why it could not be kept, or ""."""


@lru_cache(maxsize=1)
def can_compile() -> bool:
    """Whether numba is installed and works. Warns with the reason if it is installed but fails."""
    if importlib.util.find_spec("numba") is None:
        return False
    try:
        from numba import config

        from dragoman.kernels import llvm  # noqa: F401
    except Exception as error:
        slower = "so that training and translating are slower"
        warnings.warn(f"numba cannot be used, {slower}: {error}", RuntimeWarning, stacklevel=2)
        return False
    return not config.DISABLE_JIT


def announce_compiling() -> None:
    """Print one note to the user when this process first has to compile something."""
    _announced[:] = [_NOTE]


def tell_compiling() -> None:
    """Print the note, if it was announced and not printed yet."""
    while _announced:
        say(_announced.pop())


def file_stem(precision: str, target: Target) -> str:
    """The name of a file with the search's machine code, without its ending. It changes when the sources change."""
    return f"{precision}-{target.name}-{hash_of_sources(*SEARCH_SOURCES)}"


@lru_cache
def hash_of_sources(*modules: str) -> str:
    """The first digits of the hash of modules, given as in `SEARCH_SOURCES`.

    Compiled code has functions of other modules inlined, so one hash covers all that it may depend on.
    """
    return hashlib.sha256(b"".join((_PACKAGE / f"{name}.py").read_bytes() for name in modules)).hexdigest()[:12]


def compile_search(precision: str, target: Target) -> bytes:
    """The search's machine code, as an object file, from the cache folder or compiled now.

    If several processes need the same code, one of them compiles it. If the cache folder cannot be written, nothing is
    kept. Raises ResourceError if compiling fails.
    """
    from importlib.metadata import version  # takes 2 MB

    path = user_cache_folder(CODE_FOLDER) / f"{file_stem(precision, target)}-numba{version('numba')}.o"
    with suppress(OSError):
        return read_code(path)
    with _only_one_process(path.with_suffix(".lock")):
        with suppress(OSError):
            return read_code(path)
        tell_compiling()
        code = _compile_in_a_process(precision, target)
        keep_code(path, code)
    return code


def read_code(path: Path) -> bytes:
    """The content of a file of the cache folder, which can run as this user.

    Raises OSError if it is missing or a link, or if another user than root could have written to it or its folder.
    """
    with open(path, "rb", opener=_open_no_link) as stream:
        for facts in (os.stat(path.parent), os.fstat(stream.fileno())):
            if hasattr(os, "getuid") and (facts.st_uid not in (0, os.getuid()) or facts.st_mode & 0o022):
                raise PermissionError(errno.EPERM, "other users can write to it", str(path))
        return stream.read()


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o600)


def _keep_others_from_writing(path: Path) -> None:
    path.chmod(path.stat().st_mode & 0o7755)


def keep_code(path: Path, code: bytes) -> None:
    """Write a file of the cache folder. If the disk is full or read-only, later processes compile again."""
    problem = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _keep_others_from_writing(path.parent)
        write_file(path, code)
        _keep_others_from_writing(path)
    except (OSError, ResourceError) as error:
        cause = error.__cause__ if isinstance(error, ResourceError) else error
        problem = f"{path} could not be written: {getattr(cause, 'strerror', None) or error}."
    _compiled.append(problem)


def num_compiled() -> int:
    """How many functions and libraries this process has compiled."""
    return len(_compiled)


def require_kept() -> None:
    """Raise ResourceError if this process has compiled code that it could not keep."""
    if problems := [*filter(None, _compiled)]:
        raise ResourceError(f"{problems[0]} Set `XDG_CACHE_HOME` to another folder for compiled code.")


def _compile_in_a_process(precision: str, target: Target) -> bytes:
    import subprocess  # installed code needs no other process

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_PACKAGE.parent), *sys.path])}
    if target.features:
        features = ",".join(f"+{name}" for name in target.features)
        environment |= {"NUMBA_CPU_NAME": target.cpu, "NUMBA_CPU_FEATURES": features}
    command = [sys.executable, "-m", _COMPILER, precision]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        reason = (done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ResourceError(f"Machine code for this processor could not be compiled: {reason}. Reinstall numba.")
    return done.stdout


@contextmanager
def _only_one_process(path: Path) -> Iterator[None]:
    """Hold a lock while compiling, if the system and the file system have locks."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl

        stream = open(path, "a", opener=_open_no_link)  # noqa: SIM115 (closed below)
    except (ImportError, OSError):
        yield
        return
    with stream:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def load_object(code: bytes) -> Callable[[str], Any]:
    """Load an object file into this process for good. Returns a function that finds its functions by name."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    # llvmlite's memory manager keeps the sections within the 2 GB that the code can address. LLVM's may scatter them.
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine, use_lmm=True)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return lambda name: FUNCTION(engine.get_function_address(name))


_engines: list[Any] = []
"""They own the memory of loaded functions, which may be called as long as the process runs."""


def build_libraries(folder: Path) -> list[Path]:
    """Build the shared libraries of a package for x86-64, with a C compiler, and return their paths.

    Libraries that exist are kept. Others in the folder, of earlier sources, are removed.
    """
    from concurrent.futures import ThreadPoolExecutor

    kinds = [(precision, target) for precision, targets in TARGETS.items() for target in targets]
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{file_stem(*kind)}.so" for kind in kinds]
    for stale in {*folder.glob("*.so")} - {*paths}:
        stale.unlink()
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(_build_library, kinds, paths))
    return paths


def _build_library(kind: tuple[str, Target], path: Path) -> None:
    import subprocess
    import tempfile

    if path.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        compiled, linked = Path(folder, "code.o"), Path(folder, "code.so")
        compiled.write_bytes(compile_search(*kind))
        compiler = os.environ.get("CC", "cc").split()
        flags = "-shared -nostartfiles -Wl,--strip-all -Wl,--build-id=none -Wl,--gc-sections -Wl,-z,noexecstack".split()
        subprocess.run([*compiler, *flags, "-o", str(linked), str(compiled), "-lm"], check=True)
        write_file(path, linked.read_bytes())

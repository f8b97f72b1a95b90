"""Load the machine code of the search and call its functions. Needs no numba where the code is installed.

The code of a precision is looked for in three places:

1. `engines/compiled/libraries`: shared libraries, which are built with the package (`setup.py`).
2. The user's cache folder: object files that were compiled on this machine.
3. Otherwise numba compiles it, in a process of its own, which takes some seconds and a few hundred megabytes.

Names of files have a hash of the sources, so that changed sources are compiled again.

A function gets the address of a table of 64-bit words: for each array its address and shape, for each number its value.
"""

import ctypes
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import ResourceError
from dragoman.kernels.compiling import FUNCTION, can_compile, compile_search, file_stem, load_object
from dragoman.kernels.processor import Target, find_target

LIBRARIES = Path(__file__).parents[1] / "engines" / "compiled" / "libraries"
"""The folder of the shared libraries."""
Record = TypeVar("Record", bound=tuple[Any, ...])
Address = Callable[[str], Callable[[int], int]]
"""Finds a function by its name."""


@dataclass(frozen=True, slots=True)
class Packed(Generic[Record]):
    """A named tuple of arrays and numbers, and its words. Pack a tuple once to pass it to several functions."""

    record: Record
    words: NDArray[np.int64]


def pack(record: Record) -> Packed[Record]:
    """The words of a named tuple, in the order of its fields, nested ones included. Arrays must be C-contiguous."""
    return Packed(record, np.array([*_words(record)], np.int64))


def _words(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, np.ndarray):
            yield value.ctypes.data
            yield from value.shape
        elif isinstance(value, Packed):
            yield from value.words.tolist()
        elif isinstance(value, tuple):
            yield from _words(value)
        elif isinstance(value, float):
            yield int(np.float64(value).view(np.int64))
        else:
            yield int(value)


class BoundFunction:
    """A function of machine code, bound to its first arguments. One thread at a time may call it."""

    def __init__(self, function: Callable[[int], int], arguments: tuple[Any, ...]) -> None:
        self._function, self._arguments = function, arguments  # arguments are kept alive
        bound = [one.words if isinstance(one, Packed) else np.array([*_words((one,))], np.int64) for one in arguments]
        self._first = sum(map(len, bound))
        self._words = np.concatenate([*bound, np.zeros(_MOST_WORDS, np.int64)])
        self._address = self._words.ctypes.data

    def __call__(self, *arguments: Any) -> int:
        """Call the function with its last arguments, without Python's lock."""
        words = [*_words(arguments)]
        self._words[self._first : self._first + len(words)] = words
        return self._function(self._address)


_MOST_WORDS = 8
"""The most words of the arguments of one call to a bound function."""


class MachineCode:
    """The functions of one library. `is_installed` tells whether it is part of the package."""

    def __init__(self, find: Address, is_installed: bool) -> None:
        self._find, self.is_installed = lru_cache(find), is_installed

    def bind(self, name: str, *arguments: Any) -> BoundFunction:
        """Bind a function to its first arguments: packed or plain named tuples, arrays, and numbers."""
        return BoundFunction(self._find(name), arguments)

    def call(self, name: str, *arguments: Any) -> int:
        """Call a function once."""
        return self.bind(name, *arguments)()


def is_installed(precision: str) -> bool:
    """Whether machine code for this processor is part of the package."""
    return _library_path(precision).exists()


def is_available() -> bool:
    """Whether machine code for this processor is installed, or can be compiled."""
    return is_installed("float32") or can_compile()


def load_code(precision: str) -> MachineCode:
    """The search's code for this processor, which is loaded once, and compiled first if necessary.

    Raises ResourceError if compiling fails, or if the package's code is damaged and numba is missing.
    """
    with _loading:
        return _load_code(precision)


_loading = threading.Lock()


@lru_cache
def _load_code(precision: str) -> MachineCode:
    try:
        library = ctypes.CDLL(str(_library_path(precision)))
        return MachineCode(lambda name: FUNCTION((name, library)), is_installed=True)
    except OSError as error:  # missing or damaged
        if not can_compile():
            raise ResourceError(f"Machine code cannot be loaded: {error}. Reinstall Dragoman.") from None
    target = find_target(precision) or _native_target()
    return MachineCode(load_object(compile_search(precision, target)), is_installed=False)


def _library_path(precision: str) -> Path:
    """The shared library of this processor, which need not exist."""
    target = find_target(precision)
    return LIBRARIES / (file_stem(precision, target) + ".so" if target else "none")


def _native_target() -> Target:
    """This processor, for code that only it runs. LLVM finds its instruction sets."""
    from llvmlite import binding

    cpu = os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES") or binding.get_host_cpu_features().flatten()
    return Target(hashlib.sha256(f"{cpu} {features}".encode()).hexdigest()[:12], cpu, ())

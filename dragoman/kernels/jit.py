"""Decorators that compile Python functions with numba, and keep the code of `jit_cached` in the user's cache folder.

Results must be reproducible to the last bit, so the compiler may not reorder floating-point operations.
"""

import hashlib
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import caching
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from dragoman.files import user_cache_folder
from dragoman.kernels import compiling

Function = TypeVar("Function", bound=Callable[..., Any])

NO_REFERENCE_COUNTING: Any = {"_nrt": False}
"""Turns numba's reference counting off. Compiled functions never own arrays, and counting took half of their time."""
STRICT_ARITHMETIC: Any = NO_REFERENCE_COUNTING | {"fastmath": False}
"""Options for `overload`: the arithmetic of `jit_compile`, even when called from `jit_without_nan` functions."""


def jit_without_nan(function: Function) -> Function:
    """Compile like `jit_compile`, and let the compiler assume that no number is NaN.

    Results for NaN are undefined, so callers must keep NaN out.
    """
    return _compile(function, {"nnan"})


def jit_compile(function: Function) -> Function:
    """Compile a function at its first call.

    The function releases Python's lock, so other threads run at the same time.

    Floating-point operations keep their order and rounding. For sums, which need reordering to be fast, `vectors` has
    explicit instructions. If the compiler could reorder operations, results would depend on memory addresses. It
    compiles loops twice, for arrays that are close to each other and for others.
    """
    return _compile(function, set())


def _compile(function: Function, float_rules: set[str]) -> Function:
    made: Any = numba.njit(nogil=True, error_model="numpy", fastmath=float_rules, **NO_REFERENCE_COUNTING)(function)
    return cast(Function, made)


def jit_cached(function: Function) -> Function:
    """Compile a function of `training.py` like `jit_compile`, and keep the code for later processes."""
    made: Any = jit_compile(function)
    made._cache = _Cache(function)
    return cast(Function, made)


class _Cache(caching.NullCache):  # type: ignore[misc]
    """Machine code on disk, one file for each function and types of arguments.

    numba's own cache has an index file for each function. Two processes that compile a function for different types at
    the same time may leave an index that gives the code of one for the other.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code of a function for these types of arguments, or None."""
        target_context.refresh()
        with suppress(Exception):  # there is no file, or it is damaged and will be replaced
            # The folder is the user's own. What is in it can run as that user, as with numba's cache and .pyc files.
            content = compiling.read_code(self._path(sig, target_context.codegen()))
            return CompileResult._rebuild(target_context, *pickle.loads(content))
        compiling.tell_compiling()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the code to disk, if that is possible and other processes can use it."""
        if not data.library.has_dynamic_globals:  # addresses of this process
            compiling.keep_code(self._path(sig, data.codegen), dumps(data._reduce()))

    def _path(self, sig: Any, codegen: Any) -> Path:
        """The file, whose name changes with everything that the code depends on: sources, compiler and processor."""
        name = self._function.__name__
        key = (
            sig,
            codegen.magic_tuple(),
            numba.__version__,
            sys.version_info[:2],
            compiling.hash_of_sources(*compiling.TRAINING_SOURCES),
        )
        return (
            user_cache_folder(compiling.CODE_FOLDER)
            / f"{name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.pickle"
        )

"""A decorator that compiles with numba and keeps the code in the user's cache folder."""

import hashlib
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numba
from numba.core import caching
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from dragoman.files import user_cache_folder
from dragoman.kernels.compiling import CODE_FOLDER, TRAINING_SOURCES, hash_of_sources, keep_code, read_code
from dragoman.kernels.jit import Function, jit_compile


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
            content = read_code(self._path(sig, target_context.codegen()))
            return CompileResult._rebuild(target_context, *pickle.loads(content))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the code to disk, if that is possible and other processes can use it."""
        if not data.library.has_dynamic_globals:  # addresses of this process
            keep_code(self._path(sig, data.codegen), dumps(data._reduce()))

    def _path(self, sig: Any, codegen: Any) -> Path:
        """The file, whose name changes with everything that the code depends on: sources, compiler and processor."""
        name = self._function.__name__
        key = sig, codegen.magic_tuple(), numba.__version__, sys.version_info[:2], hash_of_sources(*TRAINING_SOURCES)
        return user_cache_folder(CODE_FOLDER) / f"{name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.pickle"

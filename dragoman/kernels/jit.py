"""Decorators that compile Python functions with numba, and the cache on disk.

Two requirements shape this module. Results must be reproducible to the last bit, so the compiler may not reorder
floating-point operations. Code on disk must never be stale, so a change of any file in `kernels/` or
`inference/compiled/` invalidates it all.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import caching, event

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
    """Compile a function at its first call and keep the code on disk, if the disk is writable.

    The function releases Python's lock, so other threads run at the same time.

    Floating-point operations keep their order and rounding. For sums, which need reordering to be fast, `vectors` has
    explicit instructions. If the compiler could reorder operations, results would depend on memory addresses. It
    compiles loops twice, for arrays that are close to each other and for others. Results would also depend on whether
    the code is new or from disk.
    """
    return _compile(function, set())


def _compile(function: Function, float_rules: set[str]) -> Function:
    made: Any = numba.njit(nogil=True, error_model="numpy", fastmath=float_rules, **NO_REFERENCE_COUNTING)(function)
    with suppress(RuntimeError):  # neither the folder of the package nor the user's cache folder is writable
        made._cache = _Kept(function)
    return cast(Function, made)


_PACKAGE = Path(__file__).parents[1]


def _stamp() -> tuple[str, int]:
    """Hash and number of all files with compiled functions.

    Compiled code contains inlined functions of other files, but numba alone would check only the function's own file.
    """
    sources = sorted(
        path for folder in ("kernels", "inference/compiled") for path in _PACKAGE.joinpath(folder).glob("*.py")
    )
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest(), len(sources)


_STAMP = _stamp()


class _Code(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """numba's cache implementation with `_STAMP` as the version of every source file."""

    _locator_classes = [  # noqa: RUF012
        type(base.__name__, (base,), {"get_source_stamp": lambda self: _STAMP})
        for base in (caching.UserProvidedCacheLocator, caching.InTreeCacheLocator, caching.UserWideCacheLocator)
    ]


class _Index(caching.IndexDataCacheFile):  # type: ignore[misc]
    """numba's index of cached code. An unreadable index counts as empty."""

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # written by an earlier version, with types that no longer exist
            return {}


class _Kept(caching.FunctionCache):  # type: ignore[misc]
    """numba's cache of machine code on disk, valid until any file with compiled functions changes."""

    _impl_class = _Code

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _Index(self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # a full disk, for example: the next process compiles again
            super().save_overload(sig, data)


def on_first_compilation(tell: Callable[[], None]) -> None:
    """Call `tell` once, when the first compilation in this process starts."""

    class Listener(event.Listener):  # type: ignore[misc]
        told = False

        def on_start(self, event: Any) -> None:
            if not self.told:
                self.told = True
                tell()

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Listener())

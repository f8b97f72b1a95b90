"""How Python functions become machine code here, and what the processor can do."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import caching, event
from numba.core.codegen import get_host_cpu_features

Function = TypeVar("Function", bound=Callable[..., Any])

WITHOUT_COUNTING: Any = {"_nrt": False}
"""No array is made or kept here, so none is counted: counting took half of the time."""
AS_WRITTEN: Any = WITHOUT_COUNTING | {"fastmath": False}
"""For overloads: the arithmetic of `compiled_with_nan`, whoever calls."""


def compiled(function: Function) -> Function:
    """`compiled_with_nan` for numbers of which none is NaN, which the compiler may then take for granted."""
    return _made(function, {"nnan"})


def compiled_with_nan(function: Function) -> Function:
    """Compiled at its first call, other Python threads run meanwhile; kept on disk wherever that can be written.

    Each operation is rounded as it is written, and in that order; `lines` has sums for which many numbers are
    taken at once. With freer rules a result would depend on where arrays lie, because the compiler makes two loops of
    one that writes, for arrays that are near one another and for others, and on whether code is new or was kept.
    """
    return _made(function, set())


def _made(function: Function, float_rules: set[str]) -> Function:
    made: Any = numba.njit(nogil=True, error_model="numpy", fastmath=float_rules, **WITHOUT_COUNTING)(function)
    with suppress(RuntimeError):  # neither the package's folder nor the user's own can be written
        made._cache = _Kept(function)
    return cast(Function, made)


_PACKAGE = Path(__file__).parents[1]


def _stamp() -> tuple[str, int]:
    """Of all such files: what is compiled holds code of several, and numba itself looks at a function's own alone."""
    sources = sorted(
        path for folder in ("kernels", "inference/compiled") for path in _PACKAGE.joinpath(folder).glob("*.py")
    )
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest(), len(sources)


_STAMP = _stamp()


class _InPackage(caching.InTreeCacheLocator):  # type: ignore[misc]
    def get_source_stamp(self) -> tuple[str, int]:
        return _STAMP


class _AtUser(caching.UserWideCacheLocator):  # type: ignore[misc]
    def get_source_stamp(self) -> tuple[str, int]:
        return _STAMP


class _Asked(caching.UserProvidedCacheLocator):  # type: ignore[misc]
    def get_source_stamp(self) -> tuple[str, int]:
        return _STAMP


class _Code(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = [_Asked, _InPackage, _AtUser]  # noqa: RUF012


class _Kept(caching.FunctionCache):  # type: ignore[misc]
    """Machine code on disk, as numba keeps it, until any file here changes."""

    _impl_class = _Code

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # such as a full disk: then it is compiled again the next time
            super().save_overload(sig, data)


def when_compiling(tell: Callable[[], None]) -> None:
    """Calls `tell` once, when compiling first begins in this process."""

    class Listener(event.Listener):  # type: ignore[misc]
        told = False

        def on_start(self, event: Any) -> None:
            if not self.told:
                self.told = True
                tell()

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Listener())


def _features() -> set[str]:
    """Those that numba compiles for."""
    asked = numba.config.CPU_FEATURES
    names = get_host_cpu_features() if asked is None else asked
    return {name.removeprefix("+") for name in names.split(",") if name.startswith("+")}


FEATURES = _features()
"""Instructions of the processor, by LLVM's names, that code is made for."""

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

NO_REFERENCE_COUNTING: Any = {"_nrt": False}
"""No array is made or kept here, so none is counted: counting took half of the time."""
STRICT_ARITHMETIC: Any = NO_REFERENCE_COUNTING | {"fastmath": False}
"""For overloads: the arithmetic of `jit_compile`, also inside functions of `jit_without_nan`."""


def jit_without_nan(function: Function) -> Function:
    """`jit_compile` for numbers of which none is NaN, which the compiler may then take for granted."""
    return _compile(function, {"nnan"})


def jit_compile(function: Function) -> Function:
    """Compiled at its first call, other Python threads run meanwhile; kept on disk wherever that can be written.

    Each operation is rounded as it is written, and in that order; `vectors` has sums that take many numbers
    at once. With freer rules a result would depend on where arrays lie, because the compiler makes two loops of
    one that writes, for arrays that are near one another and for others, and on whether code is new or was kept.
    """
    return _compile(function, set())


def _compile(function: Function, float_rules: set[str]) -> Function:
    made: Any = numba.njit(nogil=True, error_model="numpy", fastmath=float_rules, **NO_REFERENCE_COUNTING)(function)
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


class _Code(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = [  # noqa: RUF012
        type(base.__name__, (base,), {"get_source_stamp": lambda self: _STAMP})
        for base in (caching.UserProvidedCacheLocator, caching.InTreeCacheLocator, caching.UserWideCacheLocator)
    ]


class _Index(caching.IndexDataCacheFile):  # type: ignore[misc]
    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # an earlier version wrote it, with types that no longer exist
            return {}


class _Kept(caching.FunctionCache):  # type: ignore[misc]
    """Machine code on disk, as numba keeps it, until any file here changes."""

    _impl_class = _Code

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _Index(self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # such as a full disk: then it is compiled again the next time
            super().save_overload(sig, data)


def on_first_compilation(tell: Callable[[], None]) -> None:
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

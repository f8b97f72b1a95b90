"""How Python functions become machine code here, and what the processor's registers hold."""

import hashlib
import platform
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import caching, event
from numba.core.codegen import get_host_cpu_features

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be taken in any order that does not change from call to call; infinities are meant.
_FLOAT_RULES = {"nnan", "nsz", "arcp", "contract", "reassoc"}
WITHOUT_COUNTING: Any = {"_nrt": False}
"""No array is made or kept here, so none is counted: counting took half of the time."""


def compiled(function: Function) -> Function:
    """Compiled at its first call, other Python threads run meanwhile; kept on disk wherever that can be written."""
    made: Any = numba.njit(nogil=True, error_model="numpy", fastmath=_FLOAT_RULES, **WITHOUT_COUNTING)(function)
    with suppress(RuntimeError):  # neither the package's folder nor the user's own can be written
        made._cache = _Kept(function)
    return cast(Function, made)


def _stamp() -> tuple[str, int]:
    """Of all files here: what is compiled holds code of several, and numba itself looks at a function's own alone."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
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


_FEATURES = _features()
MULTIPLIES_AND_ADDS = "fma" in _FEATURES or platform.machine().lower() in ("arm64", "aarch64")
"""Whether one instruction does both; where not, code for it is slower than torch's."""
MULTIPLIES_BYTES = "avx512vnni" in _FEATURES
"""Whether `vpdpbusd` is there, which adds four products of bytes to each of 16 sums."""

_WIDE = "avx512f" in _FEATURES
LANES = 16 if _WIDE else 8
"""Numbers of 32 bits in a register."""
VECTORS = 4 if _WIDE else 2
ROWS = 4
"""Rows of a tile: with `COLUMNS`, as many sums as registers hold beside what is multiplied."""
COLUMNS = VECTORS * LANES
"""Columns of a tile, and of a panel of packed weights."""
BYTES_AT_ONCE = 4
NUMBERS_AT_ONCE = 16
"""The width of an attention head is a multiple of this."""

"""Check whether numba can compile for this processor, and tell the user when compiling takes a while."""

import importlib.util
import warnings
from collections.abc import Callable
from functools import lru_cache

from dragoman.messages import say

_waiting_to_tell: list[Callable[[], None]] = []


@lru_cache(maxsize=1)
def can_compile() -> bool:
    """Whether numba is installed and works. Warns with the reason if it is installed but fails."""
    if importlib.util.find_spec("numba") is None:
        return False
    try:
        from numba import config

        from dragoman.kernels import arithmetic  # noqa: F401
    except Exception as error:
        slower = "so that training and translating are slower"
        warnings.warn(f"numba cannot be used, {slower}: {error}", RuntimeWarning, stacklevel=2)
        return False
    return not config.DISABLE_JIT


def announce_compiling() -> None:
    """Print one note to the user when this process first has to compile something."""
    _waiting_to_tell.append(
        lambda: say("compiling for this processor; this takes some seconds, and later runs reuse the code")
    )


def will_compile() -> None:
    """Activate the notes requested with `announce_compiling`. Call this before the first compiled function."""
    from dragoman.kernels import jit

    while _waiting_to_tell:
        jit.on_first_compilation(_waiting_to_tell.pop())

"""Whether functions can be compiled for the processor at hand, and who is told that it takes a while."""

import importlib.util
import warnings
from collections.abc import Callable
from functools import lru_cache

from dragoman.messages import say

_waiting_to_tell: list[Callable[[], None]] = []


@lru_cache(maxsize=1)
def can_compile() -> bool:
    """Whether numba is there and works; says why not where it is there."""
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
    """Tell the user, once, if this process has to compile something."""
    _waiting_to_tell.append(lambda: say("compiling for this processor, which is kept; that takes some seconds"))


def will_compile() -> None:
    """To be called before compiled functions are: those who wait to be told are told from now on."""
    from dragoman.kernels import jit

    while _waiting_to_tell:
        jit.on_first_compilation(_waiting_to_tell.pop())

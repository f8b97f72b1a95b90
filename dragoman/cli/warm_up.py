"""``dragoman warm-up``: compile machine code for this processor, so that no later command has to."""

import importlib.util
import time
from collections.abc import Sequence

from dragoman.cli.arguments import ArgumentParser
from dragoman.errors import has_torch
from dragoman.files import user_cache_folder
from dragoman.kernels.compiling import CODE_FOLDER, can_compile, num_compiled, require_kept
from dragoman.kernels.library import is_installed, load_code
from dragoman.kernels.tiles import MULTIPLIED_TOGETHER


def run(arguments: Sequence[str]) -> int:
    """Print for each kind of code whether it was installed, cached or newly compiled. Returns the exit code."""
    build_parser().parse(arguments)
    for precision in MULTIPLIED_TOGETHER:
        print(f"translating in {precision}: {_prepare_search(precision)}", flush=True)
    print(f"training: {_prepare_training() if has_torch() else 'not installed'}")
    return 0


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman warm-up``."""
    return ArgumentParser("warm-up", "dragoman warm-up")


def _prepare_search(precision: str) -> str:
    if not is_installed(precision) and not can_compile():
        return _WHY_NOT[importlib.util.find_spec("numba") is None]
    start = time.monotonic(), num_compiled()
    return "part of the package" if load_code(precision).is_installed else _describe(*start)


def _prepare_training() -> str:
    from dragoman.training.step.gradients import compile_kernels

    if not can_compile():
        return _WHY_NOT[importlib.util.find_spec("numba") is None]
    start = time.monotonic(), num_compiled()
    compile_kernels()
    return _describe(*start)


def _describe(start: float, before: int) -> str:
    """What was done since the time `start`, when `before` pieces of code had been compiled."""
    require_kept()
    if num_compiled() > before:
        return f"compiled in {time.monotonic() - start:.0f} s"
    return f"found in {user_cache_folder(CODE_FOLDER)}"


_WHY_NOT = ("numba cannot be used", "numba is not installed")

"""``dragoman warm-up``: compile machine code for this processor, so that no later command has to."""

import importlib.util
import time
from collections.abc import Callable
from functools import partial

from dragoman.cli.arguments import ArgumentParser, Options
from dragoman.errors import has_torch
from dragoman.files import user_cache_folder
from dragoman.kernels.compiling import CODE_FOLDER, can_compile, num_compiled, require_kept
from dragoman.kernels.library import is_installed, load_code
from dragoman.kernels.processor import MULTIPLIED_TOGETHER


def run(options: Options) -> None:
    """Print for each kind of code whether it was installed, cached or newly compiled."""
    for precision in MULTIPLIED_TOGETHER:
        load = partial(load_code, precision)
        is_there = is_installed(precision) and load().is_installed
        print(f"translating in {precision}: {'part of the package' if is_there else _prepare(load)}", flush=True)
    print(f"training: {_prepare(_prepare_training) if has_torch() else 'not installed'}")


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman warm-up``."""
    return ArgumentParser("warm-up", "dragoman warm-up")


def _prepare(compile_missing: Callable[[], object]) -> str:
    """Compile what is missing in the cache. Returns what was done."""
    if not can_compile():
        return "numba is not installed" if importlib.util.find_spec("numba") is None else "numba cannot be used"
    start, before = time.monotonic(), num_compiled()
    compile_missing()
    require_kept()
    if num_compiled() > before:
        return f"compiled in {time.monotonic() - start:.0f} s"
    return f"found in {user_cache_folder(CODE_FOLDER)}"


def _prepare_training() -> None:
    from dragoman.training.step.gradients import compile_kernels

    compile_kernels()

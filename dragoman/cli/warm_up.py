"""``dragoman warm-up``: compile machine code for this processor, so that no later command has to."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from dragoman.cli.arguments import ArgumentParser
from dragoman.errors import has_torch
from dragoman.files import user_cache_folder
from dragoman.kernels.compiling import CODE_FOLDER, can_compile, num_compiled
from dragoman.kernels.library import is_installed, load_code
from dragoman.kernels.tiles import MULTIPLIED_TOGETHER


def run(arguments: Sequence[str]) -> int:
    """Print where the code of each precision, and that of training, is. Returns the exit code."""
    build_parser().parse(arguments)
    for precision in MULTIPLIED_TOGETHER:
        place = "part of the package" if is_installed(precision) else _compile(partial(load_code, precision))
        print(f"translating in {precision}: {place}", flush=True)
    print(f"training: {_compile(_compile_training) if has_torch() else 'not installed'}")
    return 0


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman warm-up``."""
    return ArgumentParser("warm-up", "dragoman warm-up")


def _compile(compile_missing: Callable[[], object]) -> str:
    """Compile what is missing, and say what was done."""
    if not can_compile():
        return "numba is not installed"
    start, before = time.monotonic(), num_compiled()
    compile_missing()
    if num_compiled() > before:
        return f"compiled in {time.monotonic() - start:.0f} s"
    return f"found in {user_cache_folder(CODE_FOLDER)}"


def _compile_training() -> None:
    from dragoman.training.step.gradients import compile_kernels

    compile_kernels()

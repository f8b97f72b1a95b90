"""Runs work in the threads of an executor."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

from dragoman.errors import DataError

_Result = TypeVar("_Result")


def start_in_thread(
    executor: Executor, work: Callable[..., _Result], *arguments: Any
) -> tuple[asyncio.Future[None], list[_Result]]:
    """Start work in a thread. Returns its end, and a list that has the result then.

    The future of an executor refers to itself. If it had the result, or the frames of an error about a file, it would
    keep a document in memory until garbage is collected.
    """
    results: list[_Result] = []
    return asyncio.get_running_loop().run_in_executor(executor, _append_result, results, work, *arguments), results


async def run_in_thread(executor: Executor, work: Callable[..., _Result], *arguments: Any) -> _Result:
    """Run work in a thread, and return its result."""
    end, results = start_in_thread(executor, work, *arguments)
    await end
    return results.pop()


def _append_result(results: list[_Result], work: Callable[..., _Result], *arguments: Any) -> None:
    try:
        results.append(work(*arguments))
    except DataError as error:
        error.__context__ = None
        raise error.with_traceback(None) from None

"""Starts third-party programs, reads their output, and ends them with all their child processes."""

import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Heard:
    """A program that has ended: its exit code, its duration, and its lines with the time of each."""

    code: int = 0
    seconds: float = 0.0
    lines: list[tuple[float, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return its whole output."""
        return "".join(line for _, line in self.lines)


def run(
    command: list[str], log: Path, limit_seconds: float, enough: Callable[[float, str], bool] = lambda when, line: False
) -> Heard:
    """Run a program in a separate process group, until it ends, `enough` is true for a line, or the limit passes."""
    environment = os.environ | {
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "ignore",
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",  # OpenNMT-py pickles its options into its own checkpoint
    }
    environment.pop("PYTHONPATH", None)
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    )
    timer = threading.Timer(limit_seconds, _signal_group, (process, signal.SIGKILL))
    timer.start()
    heard = Heard()
    try:
        with log.open("w", encoding="utf-8") as stream:
            for line in process.stdout or ():
                now = time.perf_counter()
                stream.write(line)
                heard.lines.append((now, line))
                if enough(now, line):
                    _stop(process)
                    break
    except BaseException:
        _stop(process)
        raise
    finally:
        heard.code = process.wait()
        timer.cancel()
    heard.seconds = time.perf_counter() - began
    return heard


def _stop(process: "subprocess.Popen[str]") -> None:
    """Send SIGTERM first, so that the program ends its own workers."""
    _signal_group(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=2.0)
    _signal_group(process, signal.SIGKILL)


def _signal_group(process: "subprocess.Popen[str]", number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def children_peak_rss_mb() -> int:
    """Return the largest resident size of any ended child process."""
    return round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)

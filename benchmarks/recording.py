"""Helpers of several benchmarks: lines of text, results as JSON, progress, and peak memory."""

import gzip
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WIDTH = 1000


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file, plain or gzip, split at line feeds only."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="\n") as stream:
        return [line.removesuffix("\n") for line in stream]


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Write the lines, and return the path."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def write_json(path: Path, content: object) -> None:
    """Return JSON with everything that fits on a line on one line, so that files with many measurements stay short."""
    path.write_text(_layout(content) + "\n", encoding="utf-8")


def _layout(content: Any, indent: str = "") -> str:
    flat = json.dumps(content, ensure_ascii=False)
    if len(flat) <= WIDTH or not isinstance(content, dict | list):
        return flat
    deeper = indent + " "
    if isinstance(content, dict):
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {_layout(value, deeper)}" for key, value in content.items()]
    else:
        parts = [_layout(value, deeper) for value in content]
    brackets = "{}" if isinstance(content, dict) else "[]"
    return f"{brackets[0]}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{brackets[1]}"


def say(text: str) -> None:
    """Print progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def peak_bytes() -> int:
    """Return the peak resident memory of this process: per program on Linux, and from getrusage elsewhere."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="ascii").split("\n")
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

"""The line that both peers print at their end."""

import json
import time
from pathlib import Path


def print_result(began: float, learnt: float, rows: int) -> None:
    """Seconds of both halves until now, pairs written, and the peak of the main process's memory (Linux)."""
    lines = Path("/proc/self/status").read_text().split("\n")
    peak_bytes = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    seconds = {"learn": learnt - began, "encode": time.perf_counter() - learnt}
    print("RESULT", json.dumps({**seconds, "rows": rows, "peak_bytes": peak_bytes}))

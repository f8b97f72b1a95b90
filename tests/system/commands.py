"""The command in a separate process, and the log of a run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def dragoman(*arguments: object, stdin: str = "", code: int = 0) -> "subprocess.CompletedProcess[str]":
    """Run the command and check its exit code."""
    command = [sys.executable, "-m", "dragoman", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=280)
    assert done.returncode == code, done.stderr
    return done


def events(run: Path) -> list[dict[str, Any]]:
    """Return the entries of a run's log."""
    return [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").split("\n") if line]

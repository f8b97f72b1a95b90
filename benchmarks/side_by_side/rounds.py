"""The interleaved loop: all cells once, then all cells again, each measured alone in its own process."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from side_by_side.journal import Journal
from side_by_side.machine import Load, around, probe, wait_until_idle
from side_by_side.plan import Cell, Plan, rotated
from side_by_side.timing import MARK

FAILURES_BEFORE_LEAVING_OUT = 2
CLEARLY_SLOWER = 0.93
TIME_LIMIT_SECONDS = 3600
TIMED_OUT = 124


@dataclass(frozen=True, slots=True)
class Patience:
    """A measurement counts if other programs used at most `others` of a core; it is tried `attempts` times."""

    others: float
    wait_seconds: float
    attempts: int


@dataclass(slots=True)
class Rounds:
    """Measures the cells that are missing in the journal."""

    plan: Plan
    journal: Journal
    patience: Patience
    failures: Counter[str] = field(default_factory=Counter)
    prepared: set[tuple[str, str]] = field(default_factory=set)

    def run(self, number_of_rounds: int) -> None:
        """Measure all missing cells, calibration first."""
        self.calibrate()
        for number in range(1, number_of_rounds + 1):
            for cell in rotated(self.plan.cells(), number):
                if not self.journal.accepted(cell.key, number):
                    self.measure(self.with_best_batch(cell), number)

    def calibrate(self) -> None:
        """Try increasing batch sizes for each engine."""
        best: dict[tuple[Any, ...], float] = {}
        for cell in self.plan.calibration():
            group = (cell.size, cell.beam, cell.contender.name, cell.batch_type)
            if best.get(group) == float("inf"):
                continue
            if not self.journal.accepted(cell.key):
                self.measure(cell, 0)
            speed = max((record["speed"] for record in self.journal.accepted(cell.key)), default=0.0)
            clearly_slower = speed < CLEARLY_SLOWER * best.get(group, 0.0)
            best[group] = float("inf") if clearly_slower else max(speed, best.get(group, 0.0))

    def with_best_batch(self, cell: Cell) -> Cell:
        """Return the cell with the fastest batch of the calibration, if there was one."""
        tried = [
            record
            for other in self.plan.calibration()
            if (other.size, other.beam, other.contender) == (cell.size, cell.beam, cell.contender)
            for record in self.journal.accepted(other.key)
        ]
        if not tried or cell.part not in ("translation", "forced"):
            return cell
        fastest = max(tried, key=lambda record: record["speed"])
        return replace(cell, batch=fastest["batch"], batch_type=fastest.get("batch_type", ""))

    def measure(self, cell: Cell, number: int) -> None:
        """Measure once, and again if other programs used the machine."""
        if self.failures[cell.contender.name] >= FAILURES_BEFORE_LEAVING_OUT or not self.prepare(cell):
            return
        for _ in range(self.patience.attempts):
            idle = wait_until_idle(self.patience.wait_seconds)
            before, load, began = probe(self.plan.threads), Load(), time.perf_counter()
            result = self.result_of(self.plan.command(cell), cell)
            wall, others = time.perf_counter() - began, load.others()
            if result is None:
                self.failures[cell.contender.name] += 1
                return
            accepted = others is None or others <= self.patience.others
            meanwhile = {
                "others": others,
                "probe": around(before, probe(self.plan.threads)),
                "wall_seconds": round(wall, 1),
            }
            when = time.strftime("%Y-%m-%d %H:%M")
            record = {"key": list(cell.key), "round": number, "accepted": accepted, "when": when, **meanwhile}
            self.journal.append(record | result)
            note = (
                "" if accepted else f"  rejected: others used {others:.0%} of a core" + ("" if idle else ", never idle")
            )
            say(f"round {number}  {cell.label}: {result['speed']} {result['unit']}{note}")
            if accepted:
                return

    def prepare(self, cell: Cell) -> bool:
        """Run the preparation of a cell unless it is done. Return False if it failed."""
        command = self.plan.preparation(cell)
        name = (cell.contender.peer, cell.size)
        if command is None or name in self.prepared:
            return True
        if self.started(command, cell).returncode:
            self.failures[cell.contender.name] += 1
            say(f"{cell.label}: preparing it failed; see {self.log_of(cell)}")
            return False
        self.prepared.add(name)
        return True

    def result_of(self, command: list[str], cell: Cell) -> dict[str, Any] | None:
        """Return the adapter's last line. If it failed, print a message and return None."""
        finished = self.started(command, cell)
        lines = [line for line in finished.stdout.split("\n") if line.startswith(MARK)]
        if finished.returncode or not lines:
            say(f"{cell.label}: failed with code {finished.returncode}; see {self.log_of(cell)}")
            return None
        result: dict[str, Any] = json.loads(lines[-1].removeprefix(MARK))
        return result

    def started(self, command: list[str], cell: Cell) -> "subprocess.CompletedProcess[str]":
        """Run an adapter, and write its other output to its log."""
        threads = str(self.plan.threads)
        environment = os.environ | {
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "TOKENIZERS_PARALLELISM": "false",
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
            "PYTHONWARNINGS": "ignore",
        }
        log = self.log_of(cell)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w", encoding="utf-8") as stream, suppress(subprocess.TimeoutExpired):
            return subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
                env=environment,
                timeout=TIME_LIMIT_SECONDS,
                check=False,
            )
        return subprocess.CompletedProcess(command, TIMED_OUT, "")

    def log_of(self, cell: Cell) -> Path:
        """Return the path of the adapter's log."""
        name = "-".join("".join(letter if letter.isalnum() else "_" for letter in str(word)) for word in cell.key)
        return self.plan.folder / "logs" / f"{name}.log"

    def missing(self, number_of_rounds: int) -> list[str]:
        """Return a line for each cell that has no measurement in some round, with those rounds."""
        lacking = []
        for cell in self.plan.cells():
            rounds = [n for n in range(1, number_of_rounds + 1) if not self.journal.accepted(cell.key, n)]
            if rounds:
                lacking.append(f"{cell.label}: round{'s' * (len(rounds) > 1)} {', '.join(map(str, rounds))}")
        return lacking


def say(text: str) -> None:
    """Print progress with the time of day."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def settings_of(plan: Plan, patience: Patience) -> dict[str, Any]:
    """Return the settings for the results, without paths."""
    return {
        "sizes": list(plan.sizes),
        "parts": list(plan.parts),
        "options": list(plan.our_options),
        "patience": asdict(patience),
    }

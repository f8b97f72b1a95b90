"""Benchmarks run and write their tables, at the smallest size."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHORT = "--sizes tiny --rounds 1 --seconds 0.5 --sentences 16 --model-minutes 0.1 --threads 1"
"""Made-up sentences and a model of some seconds: the speeds mean nothing."""
BUSY = "--others 1000 --wait 0 --attempts 1"
"""Accepts a measurement on a busy machine."""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_small_benchmark_writes_its_figures(tmp_path: Path) -> None:
    for package in ("transformers", "sentencepiece", "ctranslate2"):  # they make the model that is translated with
        pytest.importorskip(package, reason=f"{package} is not installed: pip install '.[bench]'")
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), *SHORT.split(), *BUSY.split()]
    command += ["--parts", "training", "translation", "--folder", str(tmp_path), "--results", str(tmp_path / "results")]
    environment = {name: value for name, value in os.environ.items() if name != "DRAGOMAN_DATA"}
    done = subprocess.run(
        [*command, "--no-install", "--peers"], env=environment, capture_output=True, text=True, timeout=1100
    )
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "results").glob("*-side_by_side.json")
    tables = {(table["part"], table["beam"]): table for table in json.loads(path.read_text())["tables"]}
    assert set(tables) == {("training", 0), ("translation", 5), ("translation", 1)}, done.stderr
    for table in tables.values():
        rows = {row["contender"]: row for row in table["rows"]}
        assert {"Dragoman", "Dragoman, float32"} <= set(rows), done.stderr
        assert all(row["speed"]["median"] > 0 and row["peak_rss_mb"] > 0 for row in rows.values())
    assert "| **Dragoman** | " in path.with_suffix(".md").read_text()


@pytest.mark.slow
def test_an_attack_on_a_server_is_a_row_of_figures() -> None:
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "serving_attack.py"),
        "--seconds",
        "1",
        "--only",
        "^two_lengths$",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    names, *rows = (line.split("\t") for line in done.stdout.splitlines())
    assert len(rows) == 1, done.stderr
    row = dict(zip(names, rows[0], strict=True))
    assert row["attack"] == "two_lengths"
    assert set(row["answers"].replace(":", " ").split()[::2]) == {"400"}, "two lengths are no request"
    assert 0 < float(row["alone_ms"]) <= float(row["p99_ms"]) <= float(row["max_ms"])
    assert float(row["peak_mb"]) > 10
    assert (row["lost"], row["lines"]) == ("0", "0")
    assert done.returncode == (row["result"] != "pass"), "a limit that is broken is a failure"

"""The curve of `dragoman train`: the default recipe on raw text, with the points that its own validations measure.

Time counts from the start of the program, so it includes learning the tokenizer. It excludes validations: with one log
line per step, a validation takes from the line of its step to its own line.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from side_by_side.learning import Point, Task, in_time
from side_by_side.quality_corpora import VOCAB_SIZE
from side_by_side.tries import Settings

ROOT = Path(__file__).parents[2]
POLL_SECONDS = 0.05

Event = dict[str, Any]


def learn(task: Task, settings: Settings) -> dict[str, Any]:
    """Train, and return the record of the curve. Raises RuntimeError if training fails."""
    run, log = task.work / "run", task.work / "train.log"
    began = time.perf_counter()
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(
            _command(task, run, settings),
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        try:
            prepared = _seconds_until_first_step(process, run / "log.jsonl", began)
            code = process.wait()
        finally:
            process.kill()
    if code:
        raise RuntimeError(f"dragoman train ended with code {code}: see {log}")
    events = read_events(run / "log.jsonl")
    points, speed = points_of(events, prepared, task.metric)
    return {
        "curve": in_time(points, task),
        "steps": max(event["step"] for event in events),
        "tokens_per_second": round(speed),
        "preparation_seconds": round(prepared, 1),
        **_facts(run),
    }


def points_of(events: Sequence[Event], prepared: float, metric: str) -> tuple[list[Point], float]:
    """Return the points of a log with one line per step, without the time of validations, and target tokens/s.

    Steps have about equally many tokens, so the mean speed is the harmonic mean of those of the steps.
    """
    points: list[Point] = []
    validating = before = 0.0
    for event in events:
        if event["event"] == "validation" and metric in event:
            minutes = (prepared + before - validating) / 60
            points.append((round(minutes, 4), event["step"], round(event[metric], 2)))
            validating += event["seconds"] - before
        before = event.get("seconds", before)
    speeds = [event["tokens_per_second"] for event in events if event["event"] == "train"]
    return points, statistics.harmonic_mean(speeds)


def read_events(path: Path) -> list[Event]:
    """Return the complete lines of a log."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]] if path.exists() else []


def _command(task: Task, run: Path, settings: Settings) -> list[str]:
    corpus, folder = task.corpus, task.corpus.folder
    options = {
        "--src": folder / f"train.{corpus.src_lang}",
        "--tgt": folder / f"train.{corpus.tgt_lang}",
        "--src-lang": corpus.src_lang,
        "--tgt-lang": corpus.tgt_lang,
        "--data.dev-src": folder / f"val.{corpus.src_lang}",
        "--data.dev-tgt": folder / f"val.{corpus.tgt_lang}",
        "--out": run,
        "--model.preset": "tiny",
        "--tokenizer.vocab-size": VOCAB_SIZE,
        "--train.max-minutes": task.minutes,
        "--train.seed": task.seed,
        "--train.device": "cpu",
        "--train.log-every-steps": 1,
        "--validate.max-sentences": int(corpus.meta["val_pairs"]),
        **{f"--{name}": value for name, value in settings.items()},
    }
    return [sys.executable, "-m", "dragoman", "train", *(str(word) for pair in options.items() for word in pair)]


def _seconds_until_first_step(process: "subprocess.Popen[bytes]", log: Path, began: float) -> float:
    """Return the seconds from the start of the program to its first step, or 0 if it ends before."""
    while process.poll() is None:
        if events := read_events(log):
            return max(0.0, time.perf_counter() - began - float(events[0]["seconds"]))
        time.sleep(POLL_SECONDS)
    return 0.0


def _facts(run: Path) -> dict[str, Any]:
    from sacrebleu import __version__ as sacrebleu_version

    from dragoman.bundle import Model, resolve_model_folder

    card = Model.load(resolve_model_folder(run), "cpu").card
    return {
        "parameters": card.parameters,
        "precision": card.precision,
        "versions": {"dragoman": version("dragoman"), "torch": version("torch"), "sacrebleu": sacrebleu_version},
    }

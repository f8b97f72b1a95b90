"""The curve of a toolkit with its own programs: it trains without validating, and its checkpoints are translated later.

The time of a point is that of the checkpoint's file, counted from the start of the program. JoeyNMT saves only after a
validation, so it validates on two sentences.
"""

import re
import statistics
import time
from typing import Any

from recording import read_lines

from side_by_side.environments import programs_of
from side_by_side.learning import (
    GREEDY_BATCH,
    LOG_EVERY_STEPS,
    Point,
    Task,
    in_time,
    output_limit,
    score,
    steps_between,
    text_of,
)
from side_by_side.processes import run
from side_by_side.shapes import SIZES
from side_by_side.toolkits import TOOLKITS, versions_of
from side_by_side.toolkits.toolkit import NEVER, Search, Toolkit
from side_by_side.tries import Settings

GRACE_SECONDS = 120.0
TRANSLATION_SECONDS = 1800.0
PARAMETERS = re.compile(r"(?:number of parameters|Total params): *([\d,]+)")


def make_toolkit(name: str, environments: Any, task: Task, settings: Settings) -> Toolkit:
    """Return the toolkit for one curve, with these settings."""
    programs, size = programs_of(environments.resolve(), name), SIZES["tiny"]
    plain = TOOLKITS[name](task.corpus, programs, task.work, size)
    every = steps_between(task.every_tokens, settings["batch_size"])
    overrides = {key: str(value) for key, value in settings.items()}
    if name == "joeynmt":
        few = plain.first_lines("few", 2).with_suffix("")
        overrides |= {"random_seed": str(task.seed), "validation_freq": str(every), "dev": f'"{few}"'}
        overrides |= {"keep_best_ckpts": "-1"}
    else:
        overrides |= {"seed": str(task.seed), "save_checkpoint_steps": str(every)}
    return TOOLKITS[name](task.corpus, programs, task.work, size, overrides)


def learn(toolkit: Toolkit, task: Task) -> dict[str, Any]:
    """Train, translate the checkpoints, and return the record of the curve. Raises RuntimeError if that fails."""
    log, limit = task.work / "train.log", 60 * task.minutes
    command = toolkit.train_command(LOG_EVERY_STEPS, NEVER)
    began, began_at = time.time(), time.perf_counter()

    def enough(when: float, line: str) -> bool:
        """True at the first line of progress after the time is up: no checkpoint is being written."""
        return when - began_at >= limit and toolkit.speed_line.search(line) is not None

    heard = run(command, log, limit + GRACE_SECONDS, enough)
    speeds = [float(match["speed"]) for _, line in heard.lines if (match := toolkit.speed_line.search(line))]
    if len(speeds) < 2:
        raise RuntimeError(f"{toolkit.package} ended with code {heard.code} before its second line: see {log}")
    saved = toolkit.checkpoints()
    times: list[Point] = [(round((path.stat().st_mtime - began) / 60, 4), step, 0.0) for step, path in saved.items()]
    points: list[Point] = []
    signature = ""
    for minutes, step, _ in in_time(times, task):
        value, signature = _score(toolkit, task, saved[step])
        points.append((minutes, step, value))
    counted = PARAMETERS.search(heard.text)
    return {
        "curve": points,
        "steps": LOG_EVERY_STEPS * len(speeds),
        "tokens_per_second": round(statistics.harmonic_mean(speeds[1:]) * toolkit.tokens_per_unit()),
        "parameters": int(counted[1].replace(",", "")) if counted else None,
        "versions": versions_of(toolkit),
        "signature": signature,
    }


def _score(toolkit: Toolkit, task: Task, checkpoint: Any) -> tuple[float, str]:
    """Translate the validation set greedily with a checkpoint, and return its score and signature."""
    corpus, log = task.corpus, task.work / "translate.log"
    src, _ = toolkit.pieces("val")
    longest = output_limit(max(len(line.split()) for line in read_lines(src)))
    search = Search(src, task.work / "val.output", 1, GREEDY_BATCH, 0, longest, checkpoint)
    toolkit.written(search).unlink(missing_ok=True)
    heard = run(toolkit.translate_command(search), log, TRANSLATION_SECONDS)
    if heard.code or not toolkit.written(search).exists():
        raise RuntimeError(f"{toolkit.package} ended with code {heard.code}: see {log}")
    outputs = [text_of(line) for line in read_lines(toolkit.written(search))]
    return score(task.metric, outputs, corpus.texts("val", corpus.tgt_lang))

"""Measures minutes of training until a translator is good, for Dragoman's default recipe and its peers, side by side.

    python benchmarks/time_to_quality.py --minutes 40 --seeds 1 2 --try 0 1 2
    python benchmarks/time_to_quality.py --minutes 40 --report       only the report of what has been measured

All models have one size, read one corpus and are scored greedily on its whole validation set. One curve is measured at
a time, and its clock does not count validations. The same command continues an interrupted measurement. The report is
benchmarks/results/time_to_quality.{json,md,svg}. See docs/how-to/run-benchmarks.md.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from side_by_side import learn_dragoman, learn_toolkit
from side_by_side.curves import NAMES, write_curves
from side_by_side.environments import RECIPES, install, is_installed
from side_by_side.journal import Journal, Key
from side_by_side.learning import Task
from side_by_side.machine import HAS_BFLOAT16, Load, facts, wait_until_idle
from side_by_side.quality_corpora import QUALITY_CORPORA, prepare_quality_corpus
from side_by_side.rounds import say
from side_by_side.timing import MARK
from side_by_side.tries import TRIES

HERE = Path(__file__).parent
DEFAULT_CONTENDERS = ("dragoman", "eole", "joeynmt", "marian", "torch")
IN_BFLOAT16: frozenset[str] = frozenset()
"""The contenders of `learn_torch` that train faster in bfloat16 autocast on a CPU with bfloat16.

None does at this size: torch.nn.Transformer trains as fast as in float32, and Marian and Eole train more slowly.
"""


@dataclass(frozen=True, slots=True)
class CurveCell:
    """One curve to measure."""

    corpus: str
    contender: str
    number: int
    seed: int
    minutes: float

    @property
    def key(self) -> Key:
        """The key of its record, whose round is the seed."""
        return self.corpus, self.contender, self.number, f"{self.minutes:g}"

    @property
    def label(self) -> str:
        """The name for people."""
        return f"{self.corpus}: {NAMES[self.contender]}, {TRIES[self.contender][self.number].name}, seed {self.seed}"


def main() -> None:
    given = arguments().parse_args()
    journal = Journal.open(given.folder / "time_to_quality.jsonl")
    if not given.report:
        threads = str(given.threads)
        os.environ |= {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "CUDA_VISIBLE_DEVICES": ""}
        os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
        try:
            measure_all(given, journal)
        except KeyboardInterrupt:
            sys.exit(f"Stopped. The same command continues; finished curves are in {journal.path}.")
    about = {"date": time.strftime("%Y-%m-%d"), "minutes": given.minutes, "machine": facts(given.threads)}
    paths = write_curves(given.results, journal, about)
    print(paths[1].read_text(encoding="utf-8"))
    say(f"written: {', '.join(path.name for path in paths)}")
    if missing := [cell.label for cell in cells(given) if not journal.accepted(cell.key, cell.seed)]:
        say("still missing (the same command tries again):\n  " + "\n  ".join(missing))


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contenders", nargs="+", choices=list(NAMES), default=list(DEFAULT_CONTENDERS))
    parser.add_argument("--corpus", nargs="+", choices=list(QUALITY_CORPORA), default=["multi30k"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--minutes", type=float, default=40.0, help="training budget of each curve")
    parser.add_argument(
        "--try", dest="tries", nargs="+", type=int, choices=(0, 1, 2), default=[0], help="settings of the peers"
    )
    parser.add_argument(
        "--folder", type=Path, default=HERE.parent / ".bench" / "time_to_quality", help="for data, runs and the journal"
    )
    parser.add_argument("--environments", type=Path, help="where the toolkits are installed (FOLDER/environments)")
    parser.add_argument("--no-install", action="store_true", help="use the toolkits that are there already")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="all cores by default")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait for an idle machine before each curve")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "time_to_quality", help="without ending")
    parser.add_argument(
        "--every-tokens", type=int, default=200_000, help="of full batches between two points of a peer's curve"
    )
    parser.add_argument("--report", action="store_true", help="measure nothing")
    return parser


def cells(given: argparse.Namespace) -> Iterator[CurveCell]:
    """Yield all requested curves, with the contenders next to each other in time."""
    for seed in given.seeds:
        for corpus in given.corpus:
            for number in given.tries:
                for contender in given.contenders:
                    if number < len(TRIES[contender]):
                        yield CurveCell(corpus, contender, number, seed, given.minutes)


def measure_all(given: argparse.Namespace, journal: Journal) -> None:
    """Measure the curves that are missing in the journal. Leave out toolkits that are not installed."""
    environments = given.environments or given.folder / "environments"
    toolkits = [name for name in given.contenders if name in RECIPES]
    if not given.no_install:
        install(environments, toolkits)
    absent = {name for name in toolkits if not is_installed(environments, name)}
    if absent:
        say(f"not installed and left out: {', '.join(sorted(absent))}")
    for cell in cells(given):
        if cell.contender in absent or journal.accepted(cell.key, cell.seed):
            continue
        wait_until_idle(given.wait)
        load, began = Load(), time.perf_counter()
        try:
            record = measured(cell, given, environments)
        except (RuntimeError, OSError) as error:
            say(f"{cell.label}: failed: {error}")
            continue
        wall = round(time.perf_counter() - began, 1)
        about = {"when": time.strftime("%Y-%m-%d %H:%M"), "others": load.others(), "wall_seconds": wall}
        settings = dict(TRIES[cell.contender][cell.number].settings)
        common = {"key": list(cell.key), "round": cell.seed, "accepted": True, "settings": settings}
        journal.append(common | about | record)
        best = max((point[2] for point in record["curve"]), default=0.0)
        say(f"{cell.label}: best {best:.2f} in {record['steps']:,} steps, {record['tokens_per_second']:,} tokens/s")


def measured(cell: CurveCell, given: argparse.Namespace, environments: Path) -> dict[str, Any]:
    """Measure one curve in a new working folder, and return its record. The folder of a failed curve stays."""
    corpus = prepare_quality_corpus(cell.corpus, (given.folder / cell.corpus).resolve())
    work = (given.folder / "work" / f"{cell.corpus}-{cell.contender}-{cell.number}-{cell.seed}").resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    say(f"{cell.label}: {cell.minutes:g} minutes")
    task = Task(corpus, QUALITY_CORPORA[cell.corpus].metric, cell.seed, cell.minutes, work, given.every_tokens)
    settings = TRIES[cell.contender][cell.number].settings
    if cell.contender == "dragoman":
        record = learn_dragoman.learn(task, settings)
    elif cell.contender in RECIPES:
        toolkit = learn_toolkit.make_toolkit(cell.contender, environments, task, settings)
        record = {"precision": "float32"} | learn_toolkit.learn(toolkit, task)
    else:
        record = learned_by_program(cell, task, given.threads)
    shutil.rmtree(work)
    return record


def learned_by_program(cell: CurveCell, task: Task, threads: int) -> dict[str, Any]:
    """Measure a curve with `side_by_side.learn_torch`, and return its record."""
    options = {
        "--contender": cell.contender,
        "--try": cell.number,
        "--data": task.corpus.folder,
        "--metric": task.metric,
        "--seed": task.seed,
        "--minutes": task.minutes,
        "--every-tokens": task.every_tokens,
        "--threads": threads,
        "--began": time.time(),
    }
    command = [
        sys.executable,
        "-m",
        "side_by_side.learn_torch",
        *(str(each) for pair in options.items() for each in pair),
    ]
    command += ["--langs", *task.corpus.langs]
    command += ["--bfloat16"] if HAS_BFLOAT16 and cell.contender in IN_BFLOAT16 else []
    log = task.work / "train.log"
    with log.open("w", encoding="utf-8") as stream:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join((str(HERE), str(HERE.parent)))},
            check=False,
        )
    lines = [line for line in done.stdout.split("\n") if line.startswith(MARK)]
    if done.returncode or not lines:
        raise RuntimeError(f"it ended with code {done.returncode}: see {log}")
    record: dict[str, Any] = json.loads(lines[-1].removeprefix(MARK))
    return record


if __name__ == "__main__":
    main()

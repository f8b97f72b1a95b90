"""Compares two checkouts of Dragoman: are results equal to the last bit, and are speeds equal?

    export DRAGOMAN_DATA=...                                 the folder that holds multi30k/
    git worktree add ../before main~20
    python benchmarks/two_checkouts.py ../before . --results             hashes of training, resuming and translating
    python benchmarks/two_checkouts.py ../before . --speed               interleaved, medians and ratios

Both checkouts run in the Python of this script, with one process per command, and only through the command line. A
refactoring is finished when every hash agrees and every ratio is at least 0.97.
"""

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from recording import read_lines
from safetensors.numpy import load_file

MULTI30K = Path(os.environ.get("DRAGOMAN_DATA", ".")) / "multi30k"
TRAINING = ("--train.precision", "float32", "--train.device", "cpu", "--train.batch-tokens", "2048")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--results", action="store_true", help="compare hashes")
    parser.add_argument("--speed", action="store_true", help="compare times")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "two_checkouts")
    parser.add_argument("--preset", default="tiny", help="size of the model that is trained (default: tiny)")
    parser.add_argument("--steps", type=int, default=50, help="training steps compared (default: 50)")
    parser.add_argument("--model-steps", type=int, default=400, help="steps of the model before that (default: 400)")
    parser.add_argument("--sentences", type=int, default=1000, help="sentences translated (default: 1000)")
    parser.add_argument("--only", default="", help="with --speed: only the measures whose names contain this")
    parser.add_argument("--rounds", type=int, default=15, help="timings of each side (default: 15)")
    given = parser.parse_args()
    if not MULTI30K.is_dir():
        sys.exit(f"{MULTI30K} is missing. Set DRAGOMAN_DATA to the folder that holds multi30k/.")
    given.folder.mkdir(parents=True, exist_ok=True)
    checkouts = {"before": given.before.resolve(), "after": given.after.resolve()}
    model = trained_model(given, checkouts["before"])
    if given.results:
        differing = compare_results(given, checkouts, model)
        sys.exit(f"different: {', '.join(differing)}" if differing else 0)
    if given.speed:
        compare_speed(given, checkouts, model)


def dragoman(checkout: Path, *arguments: str | Path, stdin: str = "") -> str:
    """Run a command of one checkout, and return its standard output."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "dragoman", *map(str, arguments)]
    done = subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, cwd="/")
    if done.returncode:
        sys.exit(f"{checkout}: {' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def train(checkout: Path, out: Path, preset: str, max_steps: int, *flags: str) -> None:
    dragoman(
        checkout, "train", "--src", MULTI30K / "train.en.gz", "--tgt", MULTI30K / "train.de.gz",
        "--data.dev-src", MULTI30K / "val.en.gz", "--data.dev-tgt", MULTI30K / "val.de.gz", "--out", out, *TRAINING,
        "--model.preset", preset, "--train.max-steps", str(max_steps), "--train.log-every-steps", "10", *flags,
    )  # fmt: skip


def trained_model(given: argparse.Namespace, checkout: Path) -> Path:
    """Return a run of the earlier checkout for translation. It is trained once and reused by later calls."""
    run: Path = given.folder / f"run_{given.preset}"
    if not (run / "finished.json").exists():
        train(checkout, run, given.preset, given.model_steps)
    return run


def compare_results(given: argparse.Namespace, checkouts: dict[str, Path], model: Path) -> list[str]:
    """Print each hash of both sides, and return the names of those that differ."""
    text = "".join(sentences(given.sentences))
    found: dict[str, dict[str, str]] = {}
    for side, checkout in checkouts.items():
        new, resumed = given.folder / f"{side}_new", given.folder / f"{side}_resumed"
        for run in (new, resumed):
            shutil.rmtree(run, ignore_errors=True)
        train(checkout, new, given.preset, given.steps)
        shutil.copytree(model, resumed)
        train(checkout, resumed, given.preset, given.model_steps + given.steps)
        hashes = found[side] = run_hashes("new run", new) | run_hashes("resumed run", resumed)
        for precision in ("float32", "auto"):
            for beam in ("1", "5"):
                output = dragoman(
                    checkout, "translate", model, "--inference.precision", precision, "--inference.beam-size", beam,
                    "--format", "jsonl", "--alignment", stdin=text,
                )  # fmt: skip
                hashes[f"translations, {precision}, beam {beam}"] = digest(output.encode())
    for name, before in found["before"].items():
        after = found["after"][name]
        print(f"{name:40} {before} {after} {'same' if before == after else 'DIFFERENT'}")
    return [name for name, value in found["before"].items() if found["after"][name] != value]


def run_hashes(name: str, run: Path) -> dict[str, str]:
    """Hash a run's newest weights, the state that continues it, and every number in its log except times."""
    last = run / (run / "last").read_text().strip()
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    timings = {"seconds", "tokens_per_second", "time", "versions"}
    log = [{key: value for key, value in event.items() if key not in timings} for event in events]
    tensors = {path.name: load_file(path) for path in sorted(last.glob("*.safetensors"))}
    return {f"{name}, {file}": tensor_hash(content) for file, content in tensors.items()} | {
        f"{name}, log": digest(json.dumps(log).encode())
    }


def tensor_hash(tensors: dict[str, Any]) -> str:
    """Return the hash of names, shapes and values, independent of their order in the file."""
    return digest(
        b"".join(f"{name}{tensors[name].shape}".encode() + tensors[name].tobytes() for name in sorted(tensors))
    )


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def sentences(count: int) -> list[str]:
    lines = [f"{line}\n" for line in read_lines(MULTI30K / "test_2016_flickr.en.gz")]
    return (lines * (count // len(lines) + 1))[:count]


def compare_speed(given: argparse.Namespace, checkouts: dict[str, Path], model: Path) -> None:
    """Print medians of both sides and of the ratio before / after: above 1, the later checkout is faster."""
    with contextlib.ExitStack() as stack:
        workers = {side: stack.enter_context(worker(checkout, model)) for side, checkout in checkouts.items()}
        measures: dict[str, Callable[[str], float]] = {
            "3,000 sentences, beam 5": lambda side: workers[side]("many 5"),
            "3,000 sentences, greedy": lambda side: workers[side]("many 1"),
            "30 sentences, one at a time": lambda side: workers[side]("one 5"),
            "start of `dragoman translate`": lambda side: seconds_to_start(checkouts[side], model),
            "40 training steps": lambda side: seconds_to_train(checkouts[side], given),
        }
        for name, measure in measures.items():
            if given.only not in name:
                continue
            times: dict[str, list[float]] = {side: [] for side in checkouts}
            for side in checkouts:
                measure(side)  # compiles and warms caches
            for number in range(given.rounds):
                for side in list(checkouts)[:: -1 if number % 2 else 1]:
                    times[side].append(measure(side))
            before, after = (statistics.median(times[side]) for side in ("before", "after"))
            ratio = statistics.median(b / a for b, a in zip(times["before"], times["after"], strict=True))
            print(f"{name:32} before {before:8.4f} s  after {after:8.4f} s  before / after {ratio:.3f}", flush=True)


WORKER = """
import sys, time
from dragoman import Translator
translator = Translator.load(sys.argv[1])
texts = sys.stdin.readline()
texts = [text for text in open(sys.argv[2], encoding="utf-8").read().split("\\n")[:-1]]
for line in sys.stdin:
    kind, beam = line.split()
    begin = time.perf_counter()
    if kind == "many":
        for _ in range(3):
            translator.translate(texts, beam_size=int(beam))
    else:
        for text in texts[:30]:
            translator.translate([text], beam_size=int(beam))
    print(time.perf_counter() - begin, flush=True)
"""


@contextlib.contextmanager
def worker(checkout: Path, model: Path) -> Iterator[Callable[[str], float]]:
    """A process of one checkout that holds a translator and returns the seconds of each request."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as text:
        text.writelines(sentences(1000))
        text.flush()
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(model), text.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
            env={**os.environ, "PYTHONPATH": str(checkout)},
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(request: str) -> float:
            stdin.write(request + "\n")
            stdin.flush()
            return float(stdout.readline())

        try:
            stdin.write("\n")
            yield ask
        finally:
            stdin.close()
            process.wait()


def seconds_to_start(checkout: Path, model: Path) -> float:
    begin = time.perf_counter()
    dragoman(checkout, "translate", model, stdin="A man rides a bike.\n")
    return time.perf_counter() - begin


def seconds_to_train(checkout: Path, given: argparse.Namespace) -> float:
    """Return the seconds between the tenth and the fiftieth step of a new run, from its log."""
    run = given.folder / "timed"
    shutil.rmtree(run, ignore_errors=True)
    prepared = given.folder / f"data_{checkout.name}"
    if prepared.exists():
        shutil.copytree(prepared, run / "data")
    train(checkout, run, given.preset, 50, "--validate.max-sentences", "1")
    if not prepared.exists():
        shutil.copytree(run / "data", prepared)
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    seconds = {event["step"]: event["seconds"] for event in events if event["event"] == "train"}
    return float(seconds[50] - seconds[10])


if __name__ == "__main__":
    main()

"""Measures memory per sentence pair: anonymous memory (RssAnon, Linux) of preparing and of reading batches.

For a small and a large synthetic corpus, each in a separate process, it runs the whole preparation (holding out,
training the tokenizer, cleaning, encoding) and then reads training batches. It observes both from outside, and prints
the growth of the peak per pair. The limit that we promise is 32 bytes.

    python benchmarks/memory_per_pair.py [--small 200000] [--large 2000000]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

PROMISED_BYTES = 32
STEPS = 300


def main() -> None:
    parser = argparse.ArgumentParser(description="anonymous memory per sentence pair")
    parser.add_argument("--small", type=int, default=200_000)
    parser.add_argument("--large", type=int, default=2_000_000)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        prepare_and_read(arguments.inside)
        return
    sizes = arguments.small, arguments.large
    measured = [measure(size) for size in sizes]
    growth = {stage: (measured[1][stage][0] - measured[0][stage][0]) / (sizes[1] - sizes[0]) for stage in measured[0]}
    for size, stages in zip(sizes, measured, strict=True):
        for stage, (peak, seconds) in stages.items():
            print(f"{size:>10,} pairs  {stage:<8} peak {peak / 1e6:7.1f} MB  {seconds:6.1f} s")
    for stage, value in growth.items():
        print(f"{stage}: {value:.1f} bytes a pair")
    worst = max(growth.values())
    print(json.dumps({"bytes_per_pair": round(worst, 1), "promised": PROMISED_BYTES}))
    sys.exit(worst > PROMISED_BYTES)


def measure(num_pairs: int) -> dict[str, tuple[int, float]]:
    """Return the peak of RssAnon in bytes, and the seconds, of each stage for a number of pairs."""
    with tempfile.TemporaryDirectory() as name:
        write_corpus(Path(name), num_pairs)
        command = [sys.executable, __file__, "--inside", name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            stages: dict[str, tuple[int, float]] = {}
            current = ["start"]
            threading.Thread(target=watch, args=(process, current, stages), daemon=True).start()
            for line in process.stdout or ():
                current[0] = line.strip()
        if process.returncode:
            sys.exit(f"the process for {num_pairs} pairs failed")
    del stages["start"]
    return stages


def watch(process: subprocess.Popen[str], current: list[str], stages: dict[str, tuple[int, float]]) -> None:
    began: dict[str, float] = {}
    while process.poll() is None:
        stage = current[0]
        began.setdefault(stage, time.monotonic())
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            return
        anonymous = [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon")]
        peak = max([stages.get(stage, (0, 0.0))[0], *anonymous])
        stages[stage] = peak, time.monotonic() - began[stage]
        time.sleep(0.005)


def write_corpus(folder: Path, num_pairs: int) -> None:
    """Yield random sentences of 3 to 20 words, from 30,000 words with the frequencies of a language (Zipf)."""
    random = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = np.array(["".join(random.choice(letters, length)) for length in random.integers(2, 9, 30_000)])
    with (folder / "train.xx").open("w") as src, (folder / "train.yy").open("w") as tgt:
        for start in range(0, num_pairs, 10_000):
            for file in (src, tgt):
                lengths = random.integers(3, 21, min(10_000, num_pairs - start))
                drawn = words[(len(words) ** random.random(int(lengths.sum()))).astype(np.int64) - 1].tolist()
                ends = np.cumsum(lengths).tolist()
                file.writelines(
                    " ".join(drawn[end - length : end]) + "\n"
                    for end, length in zip(ends, lengths.tolist(), strict=True)
                )


def prepare_and_read(folder: Path) -> None:
    from dragoman.config import Config
    from dragoman.data.prepare import prepare
    from dragoman.data.stream import BatchStream, Position, StepPlan
    from dragoman.text.corpus.corpus import Corpora
    from dragoman.text.corpus.opening import open_aligned

    corpus = open_aligned(folder / "train.xx", folder / "train.yy")
    print("prepare", flush=True)
    prepared = prepare(Config(), Corpora(corpus, None, None), folder / "data")
    print("train", flush=True)
    with BatchStream(prepared.train, StepPlan(4096, 4096, seed=1)) as stream:
        for _ in range(STEPS):
            next(stream)
    with BatchStream(
        prepared.train, StepPlan(4096, 4096, seed=1), start=Position(0, last_step(prepared.train))
    ) as stream:
        for _ in range(STEPS):
            next(stream)


def last_step(pairs: object) -> int:
    """Return a position shortly before the end of the first epoch, so that the second is also shuffled."""
    from dragoman.data.batching import epoch_batches
    from dragoman.data.store import PairStore

    assert isinstance(pairs, PairStore)
    return len(epoch_batches(pairs, 4096, 1, 0)) - 10


if __name__ == "__main__":
    main()

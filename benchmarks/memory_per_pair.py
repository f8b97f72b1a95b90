"""Measures memory per sentence pair: anonymous memory (RssAnon, Linux) of preparing and of reading batches.

For a small and a large synthetic corpus, each in a separate process, it runs the whole preparation (holding out,
training the tokenizer, cleaning, encoding) and then reads training batches. It observes both from outside, and prints
the growth of the peak per pair. The limit that we promise is 32 bytes.

    python benchmarks/memory_per_pair.py [--small 200000] [--large 2000000] [--mixed]

With `--mixed`, the pairs are in three corpora with weights of 3, 1 and 0.5, and the first one is tagged.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

PROMISED_BYTES = 32
STEPS = 300
WEIGHTS = (3.0, 1.0, 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description="anonymous memory per sentence pair")
    parser.add_argument("--small", type=int, default=200_000)
    parser.add_argument("--large", type=int, default=2_000_000)
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        prepare_and_read(arguments.inside, WEIGHTS if arguments.mixed else WEIGHTS[:1])
        return
    sizes = arguments.small, arguments.large
    measured = [measure(size, arguments.mixed) for size in sizes]
    growth = {stage: (measured[1][stage][0] - measured[0][stage][0]) / (sizes[1] - sizes[0]) for stage in measured[0]}
    for size, stages in zip(sizes, measured, strict=True):
        for stage, (peak, seconds) in stages.items():
            print(f"{size:>10,} pairs  {stage:<8} peak {peak / 1e6:7.1f} MB  {seconds:6.1f} s")
    for stage, value in growth.items():
        print(f"{stage}: {value:.1f} bytes a pair")
    worst = max(growth.values())
    print(json.dumps({"bytes_per_pair": round(worst, 1), "promised": PROMISED_BYTES}))
    sys.exit(worst > PROMISED_BYTES)


def measure(num_pairs: int, mixed: bool) -> dict[str, tuple[int, float]]:
    """Return the peak of RssAnon in bytes, and the seconds, of each stage for a number of pairs."""
    with tempfile.TemporaryDirectory() as name:
        parts = 1 if not mixed else len(WEIGHTS)
        for number in range(parts):
            write_corpus(Path(name) / f"{number}", num_pairs // parts, number)
        command = [sys.executable, __file__, "--inside", name, *["--mixed"] * mixed]
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


def write_corpus(stem: Path, num_pairs: int, seed: int) -> None:
    """Yield random sentences of 3 to 20 words, from 30,000 words with the frequencies of a language (Zipf)."""
    random = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = np.array(["".join(random.choice(letters, length)) for length in random.integers(2, 9, 30_000)])
    with stem.with_suffix(".xx").open("w") as src, stem.with_suffix(".yy").open("w") as tgt:
        for start in range(0, num_pairs, 10_000):
            for file in (src, tgt):
                lengths = random.integers(3, 21, min(10_000, num_pairs - start))
                drawn = words[(len(words) ** random.random(int(lengths.sum()))).astype(np.int64) - 1].tolist()
                ends = np.cumsum(lengths).tolist()
                file.writelines(
                    " ".join(drawn[end - length : end]) + "\n"
                    for end, length in zip(ends, lengths.tolist(), strict=True)
                )


def prepare_and_read(folder: Path, weights: Sequence[float]) -> None:
    from dragoman.config import Config, CorpusSettings
    from dragoman.data.prepare import mix_corpora, prepare
    from dragoman.data.stream import BatchStream, Position, StepPlan
    from dragoman.text.corpus.corpus import Corpora
    from dragoman.text.corpus.opening import open_aligned

    files = [[str(folder / f"{number}.{side}") for side in ("xx", "yy")] for number in range(len(weights))]
    corpora = [
        CorpusSettings(src=src, tgt=tgt, weight=weight) for (src, tgt), weight in zip(files, weights, strict=True)
    ]
    corpora[0] = replace(corpora[0], tag="first" if len(corpora) > 1 else "")
    config = Config(corpora=tuple(corpora))
    print("prepare", flush=True)
    prepared = prepare(config, Corpora(tuple(open_aligned(*each) for each in files), None, None), folder / "data")
    train = mix_corpora(prepared, config)
    print("train", flush=True)
    with BatchStream(train, StepPlan(4096, 4096, seed=1)) as stream:
        for _ in range(STEPS):
            next(stream)
    with BatchStream(train, StepPlan(4096, 4096, seed=1), start=Position(0, last_step(train))) as stream:
        for _ in range(STEPS):
            next(stream)


def last_step(pairs: Any) -> int:
    """Return a position shortly before the end of the first epoch, so that the second is also shuffled."""
    from dragoman.data.batching import epoch_batches

    return len(epoch_batches(pairs, 4096, 1, 0)) - 10


if __name__ == "__main__":
    main()

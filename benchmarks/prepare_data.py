"""Measures preparation, from raw text to ids of a joint 10k BPE on disk, beside JoeyNMT and OpenNMT-py.

    python benchmarks/prepare_data.py [--pairs 2000000] [--peer-pairs 200000] [--rounds 3] [--venvs DIR] [--out FILE]

All contenders read the same synthetic text (see `synthetic_corpus`). In each round, each of them does the whole job in
a separate process: `learn` ends with the vocabulary, and `encode` ends with ids on disk. Dragoman also drops empty,
repeated and lopsided pairs, and holds out validation pairs. The peers do not clean. Because the peers take long, they
get `--peer-pairs` pairs, and Dragoman is compared with them on the same number. Nothing is extrapolated.

`encode_batch` is the `tokenizers` library alone, with Dragoman's vocabulary on the same lines: from lists of lines in
memory to `Encoding` objects in batches of 1,000, the fastest size, without reading or writing.

DIR/joeynmt/bin/python and DIR/opennmt/bin/python run the peers. A missing one is left out.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from recording import peak_bytes, say, write_json
from synthetic_corpus import SyntheticCorpus, write_corpus

VOCAB_SIZE = 10_000
BATCH_LINES = 1000
PEERS = {"JoeyNMT": ("joeynmt", "joeynmt_prepare.py"), "OpenNMT-py": ("opennmt", "opennmt_prepare.py")}
TIME_LIMIT_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of both halves (`learn_seconds` is 0 with a given vocabulary) and the memory of the main process."""

    learn_seconds: float
    encode_seconds: float
    peak_bytes: int

    @property
    def seconds(self) -> float:
        return self.learn_seconds + self.encode_seconds


Contender = Callable[[SyntheticCorpus, Path], Measured]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--peer-pairs", type=int, default=200_000, help="pairs of the comparison with peers; 0: none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--venvs", type=Path, default=Path("venvs"), help="the folder of the peers' environments")
    parser.add_argument("--out", type=Path, help="a file for the JSON result")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given, rest = parser.parse_known_args()
    if given.inside:
        print("RESULT", json.dumps(INSIDE[given.inside](*map(Path, rest))))
        return
    with tempfile.TemporaryDirectory(prefix="prepare_data_") as name:
        say(f"writing {given.pairs:,} made-up pairs")
        whole = write_corpus(made(Path(name) / "whole"), given.pairs)
        groups: list[tuple[SyntheticCorpus, Mapping[str, Contender]]] = [(whole, OURS)]
        if given.peer_pairs:
            share = write_corpus(made(Path(name) / "share"), given.peer_pairs)
            groups.append((share, OURS | peers_in(given.venvs)))
        results: list[dict[str, Any]] = [
            {"pairs": corpus.num_pairs, "contenders": measured(corpus, contenders, given.rounds, Path(name))}
            for corpus, contenders in groups
        ]
    report = {"benchmark": "prepare_data", "machine": machine(), "rounds": given.rounds, "results": results}
    for result in results:
        say(table(result["pairs"], result["contenders"]))
    print(json.dumps(report))
    if given.out:
        write_json(given.out, report)


def measured(
    corpus: SyntheticCorpus, contenders: Mapping[str, Contender], rounds: int, work: Path
) -> dict[str, list[dict[str, float]]]:
    """Run each contender once per round. The first run of Dragoman writes the vocabulary for the bare library."""
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    for number in range(1, rounds + 1):
        for name, contender in contenders.items():
            with tempfile.TemporaryDirectory(dir=work) as out:
                one = contender(corpus, Path(out))
            rate = corpus.num_pairs * 2 / one.seconds
            say(f"{corpus.num_pairs:,} pairs, round {number}: {name} {one.seconds:.1f} s, {rate:,.0f} lines/s")
            found[name].append(
                {
                    "learn_seconds": round(one.learn_seconds, 2),
                    "encode_seconds": round(one.encode_seconds, 2),
                    "peak_mb": round(one.peak_bytes / 1e6),
                }
            )
    return dict(found)


def table(pairs: int, contenders: Mapping[str, list[dict[str, float]]]) -> str:
    """Return medians, and the ratio of Dragoman's rate to each contender's in the same rounds."""
    rows = [f"\n{pairs:,} pairs{'':12} {'learn s':>9} {'encode s':>9} {'lines/s':>10} {'peak MB':>8} {'ours is':>9}"]
    for name, rounds in contenders.items():
        learn, encode, peak = (
            statistics.median(each[key] for each in rounds) for key in ("learn_seconds", "encode_seconds", "peak_mb")
        )
        has_learnt = learn > 0
        ratios = [
            seconds_of(theirs, has_learnt) / seconds_of(ours, has_learnt)
            for theirs, ours in zip(rounds, contenders[DRAGOMAN], strict=True)
        ]
        rows.append(
            f"{name:<24} {learn:9.1f} {encode:9.1f} {2 * pairs / (learn + encode):10,.0f} {peak:8,.0f} "
            f"{statistics.median(ratios):8.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"
            + ("" if has_learnt else ", encoding only")
        )
    return "\n".join(rows)


def seconds_of(one: Mapping[str, float], with_learning: bool) -> float:
    return one["encode_seconds"] + (one["learn_seconds"] if with_learning else 0.0)


def dragoman(corpus: SyntheticCorpus, out: Path) -> Measured:
    """Run `dragoman.data.prepare` as `dragoman train` does, and keep the tokenizer beside the corpus."""
    return result_of([sys.executable, __file__, "--inside", "dragoman", str(corpus.src.parent), str(out)])


def encode_batch(corpus: SyntheticCorpus, out: Path) -> Measured:
    """Run the library alone."""
    return result_of([sys.executable, __file__, "--inside", "encode_batch", str(corpus.src.parent)])


def peers_in(venvs: Path) -> dict[str, Contender]:
    """Return the peers that are installed."""
    found: dict[str, Contender] = {}
    for name, (environment, script) in PEERS.items():
        python = venvs / environment / "bin" / "python"
        if python.exists():
            found[name] = peer(python, Path(__file__).parent / "prepare_peers" / script)
        else:
            say(f"{name} is left out: there is no {python}")
    return found


def peer(python: Path, script: Path) -> Contender:
    def run(corpus: SyntheticCorpus, out: Path) -> Measured:
        return result_of([str(python), str(script), str(corpus.src.with_suffix("")), str(out), str(VOCAB_SIZE)])

    return run


def result_of(command: list[str]) -> Measured:
    """Run a contender, and read the RESULT line that it prints."""
    done = subprocess.run(command, capture_output=True, timeout=TIME_LIMIT_SECONDS)
    lines = [line for line in done.stdout.decode().split("\n") if line.startswith("RESULT ")]
    if done.returncode or not lines:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr.decode()[-2000:]}")
    result = json.loads(lines[-1].removeprefix("RESULT "))
    return Measured(result["learn"], result["encode"], result["peak_bytes"])


def run_dragoman(folder: Path, out: Path) -> dict[str, float]:
    from dragoman.config import Config, TokenizerSettings
    from dragoman.data.prepare import prepare
    from dragoman.text.corpus.corpus import Corpora
    from dragoman.text.corpus.opening import open_aligned

    encoding_began = 0.0

    def progress(stage: str, pairs: int) -> None:
        nonlocal encoding_began
        if stage.startswith("encoding") and not encoding_began:
            encoding_began = time.perf_counter()

    corpus = open_aligned(folder / "train.xx", folder / "train.yy")
    began = time.perf_counter()
    config = Config(tokenizer=TokenizerSettings(vocab_size=VOCAB_SIZE))
    prepared = prepare(config, Corpora((corpus,), None, None), out / "data", progress=progress)
    ended = time.perf_counter()
    prepared.tokenizers.save(folder)
    return {"learn": encoding_began - began, "encode": ended - encoding_began, "peak_bytes": peak_bytes()}


def run_encode_batch(folder: Path) -> dict[str, float]:
    from tokenizers import Tokenizer

    from dragoman.text.tokenization.tokenizer import TokenizerPair

    library = TokenizerPair.load(folder).src.library
    assert isinstance(library, Tokenizer)
    seconds = 0.0
    for name in ("train.xx", "train.yy"):
        with (folder / name).open(encoding="utf-8") as file:
            lines = file.read().split("\n")[:-1]
        batches = [lines[start : start + BATCH_LINES] for start in range(0, len(lines), BATCH_LINES)]
        began = time.perf_counter()
        for batch in batches:
            library.encode_batch(batch, add_special_tokens=False)
        seconds += time.perf_counter() - began
    return {"learn": 0.0, "encode": seconds, "peak_bytes": peak_bytes()}


def machine() -> dict[str, object]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    packages = {name: version(name) for name in ("dragoman", "tokenizers", "numpy")}
    return {"platform": platform.platform(), "cores": cores, "python": platform.python_version(), "versions": packages}


def made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


DRAGOMAN = "Dragoman"
OURS: dict[str, Contender] = {DRAGOMAN: dragoman, "tokenizers.encode_batch": encode_batch}
INSIDE: dict[str, Callable[..., dict[str, float]]] = {"dragoman": run_dragoman, "encode_batch": run_encode_batch}

if __name__ == "__main__":
    main()

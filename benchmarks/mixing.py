"""Measures the shares of three corpora in the first pairs of a run, beside OpusTrainer on the same files.

    python benchmarks/mixing.py [--pairs 100000] [--opustrainer FOLDER/bin/opustrainer-train]

The corpora have 5,000, 40,000 and 12,000 pairs, and weights of 4, 0.5 and 1. OpusTrainer gets their shares, because it
knows no weights. It needs an environment of its own, since it pins sentencepiece 0.1.99. The table also has the number
of pairs seen of each corpus, and how often they were seen at least and at most.
"""

import argparse
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from dragoman.data.batching import epoch_batches
from dragoman.data.mixing import MixedCorpus, MixedPairs
from dragoman.data.store import InMemoryPairs

CORPORA = {"memory": (5_000, 4.0), "crawl": (40_000, 0.5), "manuals": (12_000, 1.0)}
BATCH_TOKENS = 2000
Taken = list[tuple[str, int]]


def main() -> None:
    parser = argparse.ArgumentParser(description="shares of mixed corpora")
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--opustrainer", type=Path)
    arguments = parser.parse_args()
    systems = {"Dragoman": dragoman_order(arguments.pairs)}
    if arguments.opustrainer:
        systems["OpusTrainer"] = opustrainer_order(arguments.opustrainer, arguments.pairs)
    parts = {name: count * weight for name, (count, weight) in CORPORA.items()}
    print("| system | corpus | exact share | share | pairs seen | at least | at most |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for system, taken in systems.items():
        counts, worst = Counter(taken), 0.0
        for name, (size, _) in CORPORA.items():
            exact = parts[name] / sum(parts.values())
            share = sum(count for (corpus, _), count in counts.items() if corpus == name) / len(taken)
            times = [counts[name, number] for number in range(size)]
            worst = max(worst, abs(share - exact))
            seen = sum(time > 0 for time in times)
            print(f"| {system} | {name} | {exact:.3%} | {share:.3%} | {seen:,} | {min(times)} | {max(times)} |")
        print(f"{system}: the largest difference of {len(taken):,} pairs is {100 * worst:.3f} points")


def dragoman_order(wanted: int) -> Taken:
    """The corpus and the number of each pair, in the order of training."""
    names, counts = list(CORPORA), [count for count, _ in CORPORA.values()]
    rows = [(name, number) for name, count in zip(names, counts, strict=True) for number in range(count)]
    lengths = np.random.default_rng(1).integers(1, 40, len(rows)).tolist()
    stored = InMemoryPairs([[4] * length for length in lengths], [[4] * length for length in lengths])
    mixed = MixedPairs(stored, [MixedCorpus(name, *each) for name, each in CORPORA.items()])
    order: list[int] = []
    epoch = 0
    while len(order) < wanted:
        order += epoch_batches(mixed, BATCH_TOKENS, 1, epoch).order.tolist()
        epoch += 1
    return [rows[index] for index in order[:wanted]]


def opustrainer_order(program: Path, wanted: int) -> Taken:
    """The same from OpusTrainer, which pipes the lines to `head`."""
    total = sum(count * weight for count, weight in CORPORA.values())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for corpus, (count, _) in CORPORA.items():
            lines = (f"{corpus} {number}\t{corpus} {number}\n" for number in range(count))
            (folder / f"{corpus}.tsv").write_text("".join(lines))
        datasets = "".join(f"  {corpus}: {folder / corpus}.tsv\n" for corpus in CORPORA)
        shares = "".join(f"  - {corpus} {count * weight / total}\n" for corpus, (count, weight) in CORPORA.items())
        out = folder / "out.tsv"
        (folder / "config.yml").write_text(
            f"datasets:\n{datasets}stages: [start]\nstart:\n{shares}  - until crawl 20\nmodifiers: []\nseed: 1\n"
            f"trainer: head -n {wanted}\nnum_fields: 2\n"
        )
        with out.open("w") as stream:
            command = [str(program), "--config", f"{folder}/config.yml", "--sync", "--temporary-directory", name]
            subprocess.run(command, stdout=stream, stderr=subprocess.PIPE, check=False)
        taken = [line.split("\t")[0].split(" ") for line in out.read_text().splitlines()]
    return [(corpus, int(number)) for corpus, number in taken]


if __name__ == "__main__":
    main()

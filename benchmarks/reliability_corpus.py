"""What the corpus doctor finds, one row an item: planted slides and leaks, hostile text, TMX attacks, bad training data.

    DRAGOMAN_DATA=... python benchmarks/reliability_corpus.py [slides leaks hostile tmx training million] [--trials 50]

The corpora are read from DRAGOMAN_DATA (see docs/check.md); what needs none runs without it. Times are of this machine
and moment, so they are given, not judged, except where a ratio or a limit is the promise.
"""

import argparse
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dragoman.text.corpus import open_aligned, open_corpus
from dragoman.text.doctor.slides import find_slides

Sides = tuple[list[str], list[str]]
NEAR_LINES = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--trials", type=int, default=50, help="planted slides a corpus (default 50)")
    options = parser.parse_args()
    for part in options.parts:
        for row in PARTS[part](options):
            print("| " + " | ".join(map(str, row)) + " |", flush=True)


def corpus(name: str) -> Sides:
    """Multi30k's or Tatoeba's training pairs, in the order of their files."""
    folder = Path(os.environ["DRAGOMAN_DATA"])
    opened = {
        "multi30k": lambda: open_aligned(folder / "multi30k/train.en.gz", folder / "multi30k/train.de.gz"),
        "tatoeba": lambda: open_corpus(folder / "tatoeba_en_de/deu.txt.gz", src_lang="en", tgt_lang="de"),
    }[name]()
    pairs = list(opened.pairs())
    return [pair.src for pair in pairs], [pair.tgt for pair in pairs]


def slides(options: argparse.Namespace) -> Iterator[Sequence[object]]:
    """A line dropped or doubled on one side, as it is and with the longer file cut at its end; intact parts."""
    for name in ("multi30k", "tatoeba"):
        sides, numbers = corpus(name), random.Random(1)
        found, found_cut, seconds = 0, 0, time.perf_counter()
        for _ in range(options.trials):
            place, damaged = numbers.randrange(len(sides[0])), (list(sides[0]), list(sides[1]))
            side = damaged[numbers.randrange(2)]
            if numbers.randrange(2):
                del side[place]
            else:
                side.insert(place, side[place])
            shorter = min(map(len, damaged))
            found += _is_near(_slides(*damaged), place)
            found_cut += _is_near(_slides(damaged[0][:shorter], damaged[1][:shorter]), place)
        seconds = (time.perf_counter() - seconds) / max(2 * options.trials, 1)
        within = f"of {options.trials} within {NEAR_LINES} lines"
        yield f"slides, {name}, lengths differ", f"{found} {within}", f"{seconds:.1f} s each"
        yield f"slides, {name}, lengths equal", f"{found_cut} {within}", ""
        alarms = 0
        for _ in range(20):
            length = len(sides[0]) // 2
            start = numbers.randrange(len(sides[0]) - length)
            alarms += bool(_slides(*(side[start : start + length] for side in sides)))
        yield f"alarms, {name}, intact halves", f"{alarms} of 20", ""


def _slides(src: list[str], tgt: list[str]) -> list[int]:
    return [slide.line for slide in find_slides(lambda: src, lambda: tgt, len(src), len(tgt))]


def _is_near(lines: list[int], place: int) -> bool:
    """Whether the only line named is near enough to the damaged one (counted from 0)."""
    return len(lines) == 1 and abs(lines[0] - (place + 1)) <= NEAR_LINES


Part = Callable[[argparse.Namespace], Iterator[Sequence[object]]]
PARTS: dict[str, Part] = {"slides": slides}

if __name__ == "__main__":
    main()

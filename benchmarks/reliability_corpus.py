"""What the corpus doctor finds, one row an item: planted slides and leaks, hostile text, TMX attacks, bad data.

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
    parser.add_argument("--corpora", nargs="+", default=["multi30k", "tatoeba"], help="for slides (default both)")
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
    """A line dropped or doubled on one side, every other time with the longer file cut at its end; intact parts."""
    for name in options.corpora:
        sides, numbers = corpus(name), random.Random(1)
        found, seconds = [0, 0], time.perf_counter()
        for trial in range(options.trials):
            place, damaged = numbers.randrange(len(sides[0])), (list(sides[0]), list(sides[1]))
            side = damaged[numbers.randrange(2)]
            if numbers.randrange(2):
                del side[place]
            else:
                side.insert(place, side[place])
            shortest = min(map(len, damaged))
            cut = trial % 2
            found[cut] += _is_near(_slides(*(texts[: shortest if cut else None] for texts in damaged)), place, cut)
        seconds = (time.perf_counter() - seconds) / max(options.trials, 1)
        text = f"{sum(found)} of {options.trials} within {NEAR_LINES} lines"
        text += f" ({found[1]} of the {options.trials // 2} of which both files were cut to one length)"
        yield f"slides, {name}", text, f"{seconds:.1f} s each"
        alarms = 0
        for _ in range(20):
            length = len(sides[0]) // 2
            start = numbers.randrange(len(sides[0]) - length)
            alarms += bool(_slides(*(side[start : start + length] for side in sides)))
        yield f"alarms, {name}, intact halves", f"{alarms} of 20", ""


def _slides(src: list[str], tgt: list[str]) -> list[int]:
    return [slide.line for slide in find_slides(lambda: src, lambda: tgt, len(src), len(tgt))]


def _is_near(lines: list[int], place: int, cut: int) -> bool:
    """Whether the damaged line (counted from 0) was named, and none besides but the end where that was cut."""
    return 1 <= len(lines) <= 1 + cut and abs(lines[0] - (place + 1)) <= NEAR_LINES


Part = Callable[[argparse.Namespace], Iterator[Sequence[object]]]
PARTS: dict[str, Part] = {"slides": slides}

if __name__ == "__main__":
    main()

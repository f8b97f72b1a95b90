"""What the corpus doctor finds, one row an item: planted slides and leaks, hostile text, TMX attacks, bad data.

    DRAGOMAN_DATA=... python benchmarks/reliability_corpus.py [slides leaks hostile tmx training million] [--trials 50]

The corpora are read from DRAGOMAN_DATA (see docs/check.md); what needs none runs without it. Times are of this machine
and moment, so they are given, not judged, except where a ratio or a limit is the promise.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from synthetic_corpus import write_corpus

from dragoman.config import DataSettings
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.records import SentencePair
from dragoman.text.corpus import open_aligned, open_corpus
from dragoman.text.corpus.cleaning import Cleaner
from dragoman.text.corpus.tmx import ReadReport
from dragoman.text.doctor.evidence import WordTable
from dragoman.text.doctor.languages import language_findings
from dragoman.text.doctor.overlap import FEWEST_WORDS, Overlap
from dragoman.text.doctor.slides import find_slides
from dragoman.text.doctor.tallies import Tallies
from dragoman.text.lines import one_line, read_lines
from dragoman.text.tokenization.sentence_splitting import split_to_fit

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


def leaks(_: argparse.Namespace) -> Iterator[Sequence[object]]:
    """100 sentences of a test put into the training text as they are, and 100 with a small edit."""
    for name in ("multi30k", "tatoeba"):
        sources, numbers = corpus(name)[0], random.Random(2)
        test, training = _split(name, sources, numbers)
        long_enough = [place for place in range(len(test)) if len(test[place].split()) >= FEWEST_WORDS]
        before = _leaked(test, training)
        clean = [place for place in long_enough if not before[1][place]]
        planted = numbers.sample(clean, 200)
        exact, near = planted[:100], planted[100:]
        added = [test[place] for place in exact] + [_edited(test[place], numbers) for place in near]
        mixed = training + added
        numbers.shuffle(mixed)
        after = _leaked(test, mixed)
        others = set(range(len(test))) - set(planted)
        false = sum(bool(after[1][place]) and not before[1][place] for place in others)
        yield f"leaks, {name}, exact", f"{sum(map(bool, after[0][exact]))} of 100 found", ""
        yield f"leaks, {name}, near", f"{sum(map(bool, after[1][near]))} of 100 found", f"{false} other sentences named"
        own = f"{sum(map(bool, before[0]))} exact and {sum(map(bool, before[1] * (before[0] == 0)))} near"
        yield f"leaks, {name}, intact", f"{own} of {len(test)}", "test sources in the training text of their own"


def _split(name: str, sources: list[str], numbers: random.Random) -> Sides:
    """A test and training text that do not share a sentence: Multi30k's own test, a part of Tatoeba's sentences."""
    if name == "multi30k":
        folder = Path(os.environ["DRAGOMAN_DATA"]) / "multi30k"
        return list(read_lines(folder / "test_2016_flickr.en.gz")), sources
    distinct = list(dict.fromkeys(sources))
    numbers.shuffle(distinct)
    return distinct[:2000], distinct[2000:]


def _edited(text: str, numbers: random.Random) -> str:
    """A small edit: case, punctuation, or another word in the place of one."""
    words = text.split()
    kind, place = numbers.randrange(3), numbers.randrange(len(words))
    if kind == 0:
        return text.upper() if numbers.randrange(2) else text.lower() + " "
    if kind == 1:
        return text.rstrip(".?!") + numbers.choice(["", "!", " .", "..."]) if numbers.randrange(2) else f'"{text}"'
    words[place] = numbers.choice(["green", "seven", "Peter", "quickly"])
    return " ".join(words)


def _leaked(test: list[str], training: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    overlap = Overlap(test)
    for start in range(0, len(training), 1 << 13):
        overlap.add(training[start : start + (1 << 13)])
    return overlap.exact(), overlap.near()


HOSTILE = {
    "'a. '": "a. ",
    "'('": "(",
    "combining marks": "\u0301",
    "zero width": "\u200b",
    "one long word": "x",
    "digits": "7",
    "'<'": "<",
    "alternating scripts": "aаαあ",
    "spaces": " ",
    "'&lt;'": "&lt;",
}


def hostile(_: argparse.Namespace) -> Iterator[Sequence[object]]:
    """Splitting into sentences and everything that looks at a pair, on one line of 10, 20, 40 thousand characters."""
    for name, piece in HOSTILE.items():
        for what, work in (("splitting", _split_text), ("cleaning", _clean_text)):
            seconds = [_least_seconds(work, (piece * size)[:size]) for size in (10_000, 20_000, 40_000)]
            ratios = [seconds[1] / seconds[0], seconds[2] / seconds[1]]
            verdict = "ok" if max(ratios) <= 2.5 else "TOO SLOW"
            times = ", ".join(f"{second * 1000:.1f}" for second in seconds)
            yield f"hostile, {what}, {name}", f"x{ratios[0]:.2f}, x{ratios[1]:.2f}: {verdict}", f"{times} ms"


def _split_text(text: str) -> None:
    split_to_fit(text, len, 200)


def _clean_text(text: str) -> None:
    pair = SentencePair(text, text + "\n")
    one_line(pair.tgt)
    Cleaner(DataSettings()).keep_texts([pair])
    Tallies().add([pair])
    WordTable().evidence([text])
    overlap = Overlap([text])
    overlap.add([text])
    language_findings([(1, pair)], ("en", "de"))


def _least_seconds(work: Callable[[str], None], text: str) -> float:
    least = float("inf")
    for _ in range(25):
        start = time.process_time()
        work(text)
        least = min(least, time.process_time() - start)
    return max(least, 1e-4)


def _bomb(depth: int) -> str:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, depth))
    return f'<!DOCTYPE tmx [<!ENTITY e0 "lol">{entities}]>'


def _memory(text: str = "a", prolog: str = "", attribute: str = "", between: str = "") -> str:
    unit = f'<tu {attribute}><tuv xml:lang="en"><seg>{text}</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu>'
    return f'<?xml version="1.0"?>{prolog}<tmx version="1.4"><header srclang="en"/><body>{between}{unit}</body></tmx>'


ATTACKS: dict[str, Callable[[], str]] = {
    "entity bomb (billion laughs)": lambda: _memory("&e9;", _bomb(10)),
    "quadratic bomb": lambda: _memory("&e;" * 50_000, f'<!DOCTYPE tmx [<!ENTITY e "{"x" * 50_000}">]>'),
    "external entity": lambda: _memory("&e;", '<!DOCTYPE tmx [<!ENTITY e SYSTEM "file:///etc/passwd">]>'),
    "parameter entity": lambda: _memory("a", '<!DOCTYPE tmx [<!ENTITY % e SYSTEM "http://localhost/x"> %e;]>'),
    "depth 100,000": lambda: _memory("<hi>" * 100_000 + "x" + "</hi>" * 100_000),
    "depth 100,000, never closed": lambda: _memory("<hi>" * 100_000),
    "attribute of 200 MB": lambda: _memory(attribute=f'note="{"x" * 200_000_000}"'),
    "text of 200 MB": lambda: _memory("x" * 200_000_000),
    "a million elements in a segment": lambda: _memory("<hi/>" * 10_000_000),
    "a million notes and no unit": lambda: _memory(between="<note>x</note>" * 10_000_000),
    "a million attributes": lambda: _memory(attribute=" ".join(f'a{n}="x"' for n in range(5_000_000))),
    "comment of 200 MB": lambda: _memory(between=f"<!--{'x' * 200_000_000}-->"),
}
_READ = """
import sys, time
from dragoman.errors import DataError
from dragoman.text.corpus import open_corpus
def peak(): return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
before, start = peak(), time.perf_counter()
try:
    sum(1 for _ in open_corpus(sys.argv[1], src_lang="en", tgt_lang="de").pairs())
    said = "READ"
except DataError as error:
    said = "refused"
seconds, grown = time.perf_counter() - start, peak() - before
print(said, f"{seconds:.2f}", grown // 1024)
"""


def tmx(_: argparse.Namespace) -> Iterator[Sequence[object]]:
    """Attacks by TMX, each read in a process of its own, and a real file."""
    for name, attack in ATTACKS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "attack.tmx")
            path.write_text(attack(), encoding="utf-8")
            size = path.stat().st_size / 1e6
            done = subprocess.run([sys.executable, "-c", _READ, path], capture_output=True, text=True, check=True)
        said, seconds, megabytes = done.stdout.split()
        verdict = "ok" if said == "refused" and float(seconds) <= 0.5 and int(megabytes) <= 100 else "BAD"
        yield f"TMX, {name} ({size:,.1f} MB)", f"{said}: {verdict}", f"{seconds} s, {megabytes} MB more"
    report = ReadReport()
    path = Path(os.environ["DRAGOMAN_DATA"]) / "omegat_en_de/project_save.tmx.gz"
    pairs = sum(1 for _ in open_corpus(path).pairs(report))
    yield "TMX, a real file", f"{report.units:,} units", f"{pairs:,} pairs"


def _slid(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    targets = [tgt for _, tgt in pairs]
    return [(src, tgt) for (src, _), tgt in zip(pairs, targets[1:] + targets[:1], strict=True)]


BAD_DATA: dict[str, Callable[[list[tuple[str, str]]], bytes]] = {
    "empty": lambda pairs: b"",
    "slid by one line from the first": lambda pairs: _tsv(_slid(pairs)),
    "slid by one line from the middle": lambda pairs: _tsv(pairs[:1000] + _slid(pairs[1000:])),
    "all the same": lambda pairs: _tsv([pairs[0]] * 2000),
    "Latin-1": lambda pairs: _tsv(pairs).decode().encode("latin-1", "replace"),
    "UTF-16": lambda pairs: _tsv(pairs).decode().encode("utf-16"),
    "UTF-8 read as Latin-1": lambda pairs: _tsv(pairs).decode("latin-1").encode(),
    "a line of a million characters": lambda pairs: _tsv([*pairs[:1500], ("a " * 500_000, "b"), *pairs[1500:]]),
}


def _tsv(pairs: Sequence[tuple[str, str]]) -> bytes:
    return "".join(f"{src}\t{tgt}\n" for src, tgt in pairs).encode()


def training(_: argparse.Namespace) -> Iterator[Sequence[object]]:
    """What `dragoman train` says to data that cannot be right."""
    phrases = list({pair.src: pair.tgt for pair in load_phrasebook().generate(seed=3, count=6000)}.items())[:2500]
    for name, bad in BAD_DATA.items():
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "bad.en-de.tsv").write_bytes(bad(phrases))
            command = [sys.executable, "-m", "dragoman", "train", "--data", "bad.en-de.tsv", "--train.max-steps", "1"]
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
            left = [path.name for path in Path(folder).iterdir() if path.name != "bad.en-de.tsv"]
        last = done.stderr.strip().split("\n")[-1]
        named = done.returncode == 2 and last.startswith("dragoman: bad.en-de.tsv") and not left
        yield f"training, {name}", "named error" if named else f"BAD ({done.returncode}, left {left})", last


_CHECK = """
import sys, time
from dragoman.cli.check import run
def peak(): return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
before, start = peak(), time.perf_counter()
code = run(sys.argv[1:])
seconds, grown = time.perf_counter() - start, peak() - before
print(code, f"{seconds:.0f}", grown // 1024, file=sys.stderr)
"""


def million(_: argparse.Namespace) -> Iterator[Sequence[object]]:
    """`dragoman check` on a million pairs, with a test of a thousand."""
    with tempfile.TemporaryDirectory() as folder:
        large, small = (write_corpus(_made(Path(folder, str(size))), size) for size in (1_000_000, 1000))
        files = [large.src, large.tgt, "--test", small.src, small.tgt]
        done = subprocess.run([sys.executable, "-c", _CHECK, *map(str, files)], capture_output=True, text=True)
    code, seconds, megabytes = done.stderr.split()[-3:]
    yield "a million pairs", f"{seconds} s, {megabytes} MB more", f"exit code {code}"


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


Part = Callable[[argparse.Namespace], Iterator[Sequence[object]]]
PARTS: dict[str, Part] = {
    "slides": slides,
    "leaks": leaks,
    "hostile": hostile,
    "tmx": tmx,
    "training": training,
    "million": million,
}

if __name__ == "__main__":
    main()

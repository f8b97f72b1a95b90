"""The corpus doctor finds planted shifts and leaks, hostile text, TMX attacks, and corpora that cannot be right.

The corpora are read from DRAGOMAN_DATA (see docs/explanation/corpus-checks.md).
"""

import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from synthetic_corpus import write_corpus

from dragoman.cli.main import run_command
from dragoman.config import DataSettings
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.errors import DataError
from dragoman.records import SentencePair
from dragoman.text.corpus.cleaning import Cleaner
from dragoman.text.corpus.opening import open_aligned, open_corpus
from dragoman.text.corpus.splitting import FEWEST_WORDS, Overlap
from dragoman.text.corpus.tmx import ReadReport
from dragoman.text.doctor.evidence import WordTable
from dragoman.text.doctor.findings import Tallies
from dragoman.text.doctor.side_findings import language_findings
from dragoman.text.doctor.slides import compare_sides
from dragoman.text.lines import join_lines, read_lines
from dragoman.text.tokenization.sentence_splitting import split_to_fit
from tests.soak.conftest import Report
from tests.soak.processes import Cost, least_seconds, run_in_new_process

NEAR_LINES = 20
HALVES = 20
Sides = tuple[list[str], list[str]]


@pytest.fixture(scope="module", params=["Multi30k", "Tatoeba"])
def corpus(request: pytest.FixtureRequest, data_folder: Path) -> tuple[str, Sides]:
    """The training pairs of a corpus, in the order of their files."""
    if request.param == "Multi30k":
        opened = open_aligned(data_folder / "multi30k/train.en.gz", data_folder / "multi30k/train.de.gz")
    else:
        opened = open_corpus(data_folder / "tatoeba_en_de/deu.txt.gz", src_lang="en", tgt_lang="de")
    pairs = list(opened.pairs())
    return request.param, ([pair.src for pair in pairs], [pair.tgt for pair in pairs])


def test_a_dropped_or_doubled_line_is_found(
    corpus: tuple[str, Sides], scaled: Callable[[int], int], report: Report
) -> None:
    """On one side. Every other time the longer file is cut to the length of the other."""
    (name, sides), numbers, broken = corpus, random.Random(1), []
    for trial in range(scaled(50)):
        place, damaged = numbers.randrange(len(sides[0])), (list(sides[0]), list(sides[1]))
        side = damaged[numbers.randrange(2)]
        if numbers.randrange(2):
            del side[place]
        else:
            side.insert(place, side[place])
        cut = trial % 2
        end = min(map(len, damaged)) if cut else None
        lines = slide_lines(*(texts[:end] for texts in damaged))
        # The damaged line, counted from 0, is named, and no other line, except the end if it was cut.
        if not (1 <= len(lines) <= 1 + cut and abs(lines[0] - (place + 1)) <= NEAR_LINES):
            broken.append((place, lines))
    figures = f"within {NEAR_LINES} lines; in every other one both files were cut to one length"
    report(f"slides, {name}", scaled(50), broken, figures)


def test_intact_halves_raise_no_alarm(corpus: tuple[str, Sides], report: Report) -> None:
    (name, sides), numbers, alarms = corpus, random.Random(1), []
    length = len(sides[0]) // 2
    for _ in range(HALVES):
        start = numbers.randrange(len(sides[0]) - length)
        alarms += [start] * bool(slide_lines(*(side[start : start + length] for side in sides)))
    report(f"alarms on intact halves, {name}", HALVES, alarms)


def slide_lines(src: list[str], tgt: list[str]) -> list[int]:
    return [slide.line for slide in compare_sides(lambda: (src, tgt), len(src), len(tgt)).slides]


def test_leaked_sentences_are_found(corpus: tuple[str, Sides], data_folder: Path, report: Report) -> None:
    """100 test sentences are added to the training text unchanged, and 100 with a small edit."""
    (name, (sources, _)), numbers = corpus, random.Random(2)
    if name == "Multi30k":
        test, training = list(read_lines(data_folder / "multi30k/test_2016_flickr.en.gz")), sources
    else:
        distinct = list(dict.fromkeys(sources))
        numbers.shuffle(distinct)
        test, training = distinct[:2000], distinct[2000:]
    exact_before, near_before = leaked(test, training)
    clean = [place for place, text in enumerate(test) if len(text.split()) >= FEWEST_WORDS and not near_before[place]]
    planted = numbers.sample(clean, 200)
    exact, near = planted[:100], planted[100:]
    mixed = training + [test[place] for place in exact] + [edited(test[place], numbers) for place in near]
    numbers.shuffle(mixed)
    exact_after, near_after = leaked(test, mixed)
    own = f"{sum(map(bool, exact_before))} exact and {sum(map(bool, near_before * (exact_before == 0)))} near"
    others = set(range(len(test))) - set(planted)
    alarms = [place for place in others if near_after[place] and not near_before[place]]
    figures = f"{own} of {len(test)} test sources were in the training text before"
    report(f"leaks, exact, {name}", 100, [place for place in exact if not exact_after[place]], figures)
    figures = f"{len(alarms)} other sentences named"
    report(f"leaks, near, {name}", 100, [place for place in near if not near_after[place]], figures)


def edited(text: str, numbers: random.Random) -> str:
    """A small edit: case, punctuation, or one word replaced."""
    words = text.split()
    kind, place = numbers.randrange(3), numbers.randrange(len(words))
    if kind == 0:
        return text.upper() if numbers.randrange(2) else text.lower() + " "
    if kind == 1:
        return text.rstrip(".?!") + numbers.choice(["", "!", " .", "..."]) if numbers.randrange(2) else f'"{text}"'
    words[place] = numbers.choice(["green", "seven", "Peter", "quickly"])
    return " ".join(words)


def leaked(test: list[str], training: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
MOST_GROWTH = 2.5


def split_text(text: str) -> None:
    split_to_fit(text, len, 200)


def clean_text(text: str) -> None:
    pair = SentencePair(text, text + "\n")
    join_lines(pair.tgt)
    Cleaner(DataSettings()).keep_texts([pair])
    Tallies().add([pair])
    WordTable().evidence([text])
    overlap = Overlap([text])
    overlap.add([text])
    language_findings([(1, pair)], ("en", "de"))


@pytest.mark.parametrize("work", [split_text, clean_text])
@pytest.mark.parametrize("name", HOSTILE)
def test_time_is_linear_in_the_length_of_hostile_text(name: str, work: Callable[[str], None], report: Report) -> None:
    seconds = [least_seconds(work, (HOSTILE[name] * size)[:size], repeats=25) for size in (10_000, 20_000, 40_000)]
    ratios = [seconds[1] / seconds[0], seconds[2] / seconds[1]]
    figures = f"{max(ratios):.2f} times a doubling; {', '.join(f'{each * 1000:.1f}' for each in seconds)} ms"
    report(f"hostile text, {work.__name__}, {name}", 1, [ratios] * (max(ratios) > MOST_GROWTH), figures)


def entity_bomb(depth: int) -> str:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, depth))
    return f'<!DOCTYPE tmx [<!ENTITY e0 "lol">{entities}]>'


def translation_memory(text: str = "a", prolog: str = "", attribute: str = "", between: str = "") -> str:
    unit = f'<tu {attribute}><tuv xml:lang="en"><seg>{text}</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu>'
    return f'<?xml version="1.0"?>{prolog}<tmx version="1.4"><header srclang="en"/><body>{between}{unit}</body></tmx>'


ATTACKS: dict[str, Callable[[], str]] = {
    "entity bomb (billion laughs)": lambda: translation_memory("&e9;", entity_bomb(10)),
    "quadratic bomb": lambda: translation_memory("&e;" * 50_000, f'<!DOCTYPE tmx [<!ENTITY e "{"x" * 50_000}">]>'),
    "external entity": lambda: translation_memory("&e;", '<!DOCTYPE tmx [<!ENTITY e SYSTEM "file:///etc/passwd">]>'),
    "parameter entity": lambda: translation_memory(
        prolog='<!DOCTYPE tmx [<!ENTITY % e SYSTEM "http://localhost/x"> %e;]>'
    ),
    "depth 100,000": lambda: translation_memory("<hi>" * 100_000 + "x" + "</hi>" * 100_000),
    "depth 100,000, never closed": lambda: translation_memory("<hi>" * 100_000),
    "attribute of 200 MB": lambda: translation_memory(attribute=f'note="{"x" * 200_000_000}"'),
    "text of 200 MB": lambda: translation_memory("x" * 200_000_000),
    "a million elements in a segment": lambda: translation_memory("<hi/>" * 10_000_000),
    "a million notes and no unit": lambda: translation_memory(between="<note>x</note>" * 10_000_000),
    "a million attributes": lambda: translation_memory(attribute=" ".join(f'a{n}="x"' for n in range(5_000_000))),
    "comment of 200 MB": lambda: translation_memory(between=f"<!--{'x' * 200_000_000}-->"),
}
MOST_SECONDS, MOST_BYTES = 0.5, 100 << 20


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_by_tmx_is_refused(name: str, tmp_path: Path, report: Report) -> None:
    path = tmp_path / "attack.tmx"
    path.write_text(ATTACKS[name](), encoding="utf-8")
    size = path.stat().st_size
    refused, seconds, peak_bytes = run_in_new_process(read_memory, path)
    path.unlink()
    broken = [name] * (not refused or seconds > MOST_SECONDS or peak_bytes > MOST_BYTES)
    figures = f"refused after {seconds:.2f} s and {peak_bytes / 1e6:.0f} MB"
    report(f"TMX, {name} ({size / 1e6:,.1f} MB)", 1, broken, figures)


def read_memory(path: Path) -> tuple[bool, float, int]:
    """Whether a TMX is refused, and the time and memory of that."""
    refused = False
    with Cost() as cost:
        try:
            for _ in open_corpus(path, src_lang="en", tgt_lang="de").pairs():
                pass
        except DataError:
            refused = True
    return refused, cost.seconds, cost.peak_bytes


def test_a_real_tmx_is_read(data_folder: Path, report: Report) -> None:
    found = ReadReport()
    pairs = sum(1 for _ in open_corpus(data_folder / "omegat_en_de/project_save.tmx.gz").pairs(found))
    assert pairs
    report("TMX, a real file", found.units, figures=f"units, {pairs:,} pairs")


Pairs = Sequence[tuple[str, str]]


def tsv(pairs: Pairs) -> bytes:
    return "".join(f"{src}\t{tgt}\n" for src, tgt in pairs).encode()


def shifted(pairs: Pairs) -> list[tuple[str, str]]:
    targets = [tgt for _, tgt in pairs]
    return [(src, tgt) for (src, _), tgt in zip(pairs, targets[1:] + targets[:1], strict=True)]


BAD_DATA: dict[str, Callable[[Pairs], bytes]] = {
    "empty": lambda pairs: b"",
    "shifted by one line from the first": lambda pairs: tsv(shifted(pairs)),
    "shifted by one line from the middle": lambda pairs: tsv([*pairs[:1000], *shifted(pairs[1000:])]),
    "all the same": lambda pairs: tsv([pairs[0]] * 2000),
    "Latin-1": lambda pairs: tsv(pairs).decode().encode("latin-1", "replace"),
    "UTF-16": lambda pairs: tsv(pairs).decode().encode("utf-16"),
    "UTF-8 read as Latin-1": lambda pairs: tsv(pairs).decode("latin-1").encode(),
    "a line of a million characters": lambda pairs: tsv([*pairs[:1500], ("a " * 500_000, "b"), *pairs[1500:]]),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_training_refuses_data_that_cannot_be_right(name: str, tmp_path: Path, report: Report) -> None:
    phrases = {pair.src: pair.tgt for pair in load_phrasebook().generate(seed=3, count=6000)}
    (tmp_path / "bad.en-de.tsv").write_bytes(BAD_DATA[name](list(phrases.items())[:2500]))
    command = [sys.executable, "-m", "dragoman", "train", "--data", "bad.en-de.tsv", "--train.max-steps", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    last = done.stderr.strip().split("\n")[-1]
    left = [path.name for path in tmp_path.iterdir() if path.name != "bad.en-de.tsv"]
    named = done.returncode == 2 and last.startswith("dragoman: bad.en-de.tsv") and not left
    report(f"bad data given to `train`: {name}", 1, [(done.returncode, left)] * (not named), last)


def test_a_million_pairs_are_checked(tmp_path: Path, scaled: Callable[[int], int], report: Report) -> None:
    count, files = scaled(1_000_000), []
    for size in (count, 1000):
        (tmp_path / str(size)).mkdir()
        made = write_corpus(tmp_path / str(size), size)
        files += [str(made.src), str(made.tgt), "--test"]
    code, seconds, peak_bytes = run_in_new_process(check_corpus, files[:-1])
    assert code == 2, "random sides do not belong together"
    report(f"{count:,} pairs through `check`", 1, figures=f"{seconds:.0f} s, {peak_bytes >> 20} MB")


def check_corpus(arguments: list[str]) -> tuple[int, float, int]:
    with Cost() as cost:
        code = run_command(["check", *arguments])
    return code, cost.seconds, cost.peak_bytes

"""Every figure of the README follows from the results files, and its picture shows commands that it names."""

import json
import math
import re
import statistics
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import PRESETS
from tools.terminal_svg import draw

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
README = (ROOT / "README.md").read_text(encoding="utf-8")

SPEED = "2026-11-27-speed.json"
"""The results file behind every figure of speed."""
SIZES = ("tiny", "base")
BEAM = 5
WORDS = {1: "one", 2: "two", 3: "three"}
FIGURE = re.compile(r"\w*\d\w*(?:[.,]\d\w*)*|(?:one|two|three)(?= (?:CPU|core|round|seed|run)s?\b)")
"""A word with a digit, such as 5,973, float32 or 13a, or a number in letters before a word that is counted here."""


def section(title: str) -> str:
    """Return a section of the README without the targets of its links."""
    assert f"\n## {title}\n" in README
    return re.sub(r"\]\([^)]*\)", "]", README.split(f"\n## {title}\n")[1].split("\n## ")[0])


def prose(title: str) -> str:
    """Return what a section says outside its tables."""
    lines = [line for line in section(title).split("\n") if not line.startswith("|")]
    return re.sub(r"\s+", " ", " ".join(lines))


def table_of(title: str) -> list[list[str]]:
    """Return the table of a section, with its header as first row and without emphasis."""
    [block] = re.findall(r"(?:^\|.*\n)+", section(title), re.MULTILINE)
    lines = re.sub(r"^\| ---.*\n", "", block, flags=re.MULTILINE).split("\n")
    return [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in lines if line]


def figures(text: str) -> list[str]:
    """Return the figures of a text in reading order."""
    return FIGURE.findall(text)


@cache
def result(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


@cache
def page(name: str) -> str:
    return re.sub(r"\s+", " ", (RESULTS / name).read_text(encoding="utf-8"))


def found(pattern: str, name: str) -> str:
    """Return the only match of a pattern in a page of results."""
    [match] = re.findall(pattern, page(name))
    return str(match)


def beam_of(part: str) -> int:
    return 0 if part == "training" else BEAM


def rows_of(part: str, size: str) -> list[dict[str, Any]]:
    """Return the rows of one table of speed. Dropout as in the paper is less work, so its row is left out."""
    [table] = [
        each
        for each in result(SPEED)["tables"]
        if (each["part"], each["size"], each["beam"]) == (part, size, beam_of(part))
    ]
    return [row for row in table["rows"] if "dropout" not in row["contender"]]


def tool_of(row: dict[str, Any]) -> str:
    return str(row["contender"].split(",")[0])


def row_of(rows: list[dict[str, Any]], tool: str, precision: str) -> dict[str, Any]:
    """Return the row of a tool in a precision."""
    [row] = [row for row in rows if (tool_of(row), row["precision"]) == (tool, precision)]
    return row


def speed_ratio(part: str, size: str, ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """Return how many times as fast one row is as another: the median of the ratios in the same round."""
    speeds: list[dict[int, float]] = [
        {
            record["round"]: record["speed"]
            for record in result(SPEED)["measurements"]
            if record["accepted"] and record["key"] == [part, size, beam_of(part), row["contender"]]
        }
        for row in (ours, theirs)
    ]
    assert speeds[0].keys() == speeds[1].keys()
    return statistics.median(speeds[0][number] / speed for number, speed in speeds[1].items())


def least_ratio(part: str, size: str, precision: str = "") -> str:
    """Return how many times as fast we are as the fastest other tool, rounded down: all of them in that precision."""
    rows = [row for row in rows_of(part, size) if precision in ("", row["precision"])]
    ours = row_of(rows, "Dragoman", precision or "bfloat16")
    ratios = [speed_ratio(part, size, ours, row) for row in rows if tool_of(row) != "Dragoman"]
    return f"{math.floor(min(ratios) * 10) / 10:.1f}"


def test_the_figures_of_speed_are_those_of_the_results() -> None:
    """Ratios of speed are rounded down and ratios of memory up, so that no claim is larger than the measurement."""
    [rounds] = {row["rounds"] for table in result(SPEED)["tables"] for row in table["rows"]}
    shapes = [PRESETS[size] for size in SIZES]
    engines = [
        [row_of(rows_of(part, size), tool, "int8") for tool in ("Dragoman", "CTranslate2")]
        for part in ("translation", "latency")
        for size in SIZES
    ]
    gains = [ours["details"]["bleu"] - theirs["details"]["bleu"] for ours, theirs in engines[:2]]
    assert gains[0] > 0 > gains[1]
    assert figures(prose("Speed")) == [
        WORDS[result(SPEED)["machine"]["cores"]],
        *(least_ratio("training", size, precision) for precision in ("", "float32") for size in SIZES),
        "float32",
        *("int8", str(BEAM), *(least_ratio("translation", size, "int8") for size in SIZES), "CTranslate2"),
        *(f"{math.ceil(10 * ours['peak_rss_mb'] / theirs['peak_rss_mb']) / 10:.1f}" for ours, theirs in engines[:2]),
        "CTranslate2",
        *(f"{abs(gain):.2f}" for gain in gains),
        *(f"{pair[place]['speed']['median']:.1f}" for place in (0, 1) for pair in engines[2:]),
        found(r"\| Dragoman, to translate \| (\d+) \|", "footprint.md"),
        found(r"\| Dragoman, to translate \| \d+ \| ([\d.]+) ", "footprint.md"),
        WORDS[rounds],
        *(
            str(number)
            for shape in shapes
            for number in (shape.num_encoder_layers, shape.num_decoder_layers, shape.d_model)
        ),
        "AVX2",
    ]


def test_the_results_of_speed_are_the_newest_and_shown() -> None:
    assert README.count(f"(benchmarks/results/{Path(SPEED).stem}.svg)") == 1
    assert README.count(f"(benchmarks/results/{Path(SPEED).stem}.md)") == 1
    others = [result(path.name) for path in RESULTS.glob("*.json") if path.name != SPEED]
    newer = [other for other in others if "tables" in other and other["date"] > result(SPEED)["date"]]
    capability = result(SPEED)["machine"]["cpu_capability"]
    assert all(other["machine"]["cpu_capability"] != capability for other in newer), "take the newest figures"


def scores_of(name: str, metric: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an entry of quality.json and its score on the test set."""
    [entry] = [entry for entry in result("quality.json") if entry["name"] == name]
    [score] = [score for score in entry["scores"]["test"] if score["metric"] == metric]
    return entry, score


def time_of(entry: dict[str, Any]) -> str:
    cores = entry["machine"]["threads"]
    return f"{entry['minutes']:.0f} minutes on {WORDS[cores]} core{'s' if cores > 1 else ''}"


def test_the_table_of_quality_has_the_scores_of_the_results() -> None:
    paper = "tokenised lower-cased BLEU"
    german = "wu2021_multi30k_en_de"
    seeds = [scores_of(name, paper) for name in (german, f"{german}_seed_2", f"{german}_seed_3")]
    values = [score["value"] for _, score in seeds]
    minutes = [entry["minutes"] for entry, _ in seeds]
    cores = " or ".join(WORDS[count] for count in sorted({entry["machine"]["threads"] for entry, _ in seeds}))
    french, french_score = scores_of("wu2021_multi30k_en_fr", paper)
    assert {entry["precision"] for entry, _ in seeds} | {french["precision"]} == {"bfloat16"}
    wu = "as in Wu et al. 2021"
    published = [
        found(rf"tokenized, lower-cased BLEU\. Wu et al\. report ([\d.]+\d)\. {after}", "README.md")
        if after
        else found(r"Wu et al\. report ([\d.]+\d), and a public", "README.md")
        for after in ("On the validation", "")
    ]
    assert table_of("Quality")[1:] == [
        [
            f"Multi30k, English to German, {wu}, {WORDS[len(seeds)]} seeds, "
            f"{min(minutes):.0f} to {max(minutes):.0f} minutes on {cores} cores",
            f"{statistics.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})",
            published[0],
        ],
        [
            f"Multi30k, English to French, {wu}, one seed, {time_of(french)}",
            f"{french_score['value']:.2f} ± {french_score['interval']:.2f}",
            published[1],
        ],
    ]


def test_the_scores_by_pairs_are_those_of_the_results() -> None:
    assert README.count("(benchmarks/results/scores_by_pairs.svg)") == 1
    rows = result("scores_by_pairs.json")
    largest = [
        max((row for row in rows if row["corpus"] == corpus), key=lambda row: row["pairs"])
        for corpus in ("multi30k", "tatoeba")
    ]
    [minutes] = {f"{row['limit']:g}" for row in rows}
    [cores] = {row["machine"]["cores"] for row in rows}
    [sentences] = {f"{row['BLEU']['sentences']:,}" for row in rows}
    assert not re.search(r"tok:(?!13a)", str(rows))
    telugu, score = scores_of("english_telugu_by_the_rule_to_its_end", "BLEU")
    level = found(r"± is half of the (\d+) % interval", "scores_by_pairs.md")
    assert figures(prose("Quality")) == [
        *(level, "bfloat16", "one", minutes, WORDS[cores], "13a", level, "Multi30k"),
        *(text for row in largest for text in (f"{row['BLEU']['value']:.2f}", f"{row['pairs']:,}")),
        *(sentences, f"{telugu['train_pairs']:,}", f"{score['value']:.2f}"),
    ]


def test_the_sizes_of_measured_corpora_are_those_of_the_results() -> None:
    [bullet] = re.findall(r"^- \*\*own parallel text\*\*.*(?:\n  .*)*", README, re.MULTILINE)
    pairs = [row["pairs"] for row in result("scores_by_pairs.json")]
    assert figures(bullet) == [f"{min(pairs):,}", f"{max(pairs):,}"]
    assert all(entry["train_pairs"] >= min(pairs) for entry in result("quality.json"))


def reliability(first_words: str) -> tuple[int, str]:
    """Return how often a fault was planted, if each was held, and the figures of a row of reliability.md."""
    lines = (RESULTS / "reliability.md").read_text(encoding="utf-8").split("\n")
    [cells] = [line.split(" | ") for line in lines if line.startswith(f"| {first_words}")]
    assert cells[1] == cells[2], cells
    return int(cells[1].replace(",", "")), f"{cells[0]} {cells[3]}"


def test_the_table_of_tests_has_the_counts_of_the_results() -> None:
    kills, text = reliability("SIGKILLs in")
    [(runs, steps)] = re.findall(r"in (\d+) runs of (\d+) steps", text)
    kinds = ("bit flipped", "truncated", "4,096 bytes zeroed")
    damaged = [reliability(f"{what}: {kind}") for what in ("checkpoint", "model") for kind in kinds]
    files = sum(int(count) for _, text in damaged for count in re.findall(r"(\d+) files", text))
    translations, text = reliability("translations in company")
    [sentences] = re.findall(r"\(([\d,]+) sentences of Multi30k\)", text)
    ways = translations / int(sentences.replace(",", ""))
    counts = {
        "A killed run continues": f"{kills} kills in {runs} runs of {steps} steps",
        "A kill while saving": f"{reliability('SIGKILL while saving')[0]} kills",
        "A damaged checkpoint": f"{sum(count for count, _ in damaged):,} faults in {files} files, "
        f"{reliability('hostile model folders')[0]} models",
        "A translation does": f"{sentences} sentences in {ways:g} ways",
        "Each input line": f"{reliability('lines through')[0]:,} lines",
        "`check` finds": f"{sum(reliability(f'slides, {name}')[0] for name in ('Multi30k', 'Tatoeba'))} shifts, "
        f"{sum(reliability(f'leaks, {kind}')[0] for kind in ('exact', 'near'))} leaked sentences",
    }
    rows = table_of("Tested")[1:]
    assert len(rows) == len(counts)
    for (label, tested), (words, count) in zip(rows, counts.items(), strict=True):
        assert label.startswith(words)
        assert figures(label) in ([], ["float32"])
        assert tested == count, label
    assert figures(prose("Tested")) == []


@pytest.mark.parametrize(
    "name", ["docs/faq.md", "docs/how-to", "docs/explanation", "docs/reference/results.md", "README.md"]
)
def test_a_score_with_an_interval_is_the_same_on_every_page(name: str) -> None:
    """A run has one score: each score on a page is in a file of the results."""
    score = re.compile(r"\d+\.\d\d ± \d\.\d\d")
    recorded = {each for path in RESULTS.glob("*.md") for each in score.findall(path.read_text(encoding="utf-8"))}
    path = ROOT / name
    for each in sorted(path.glob("*.md")) if path.is_dir() else [path]:
        assert set(score.findall(each.read_text(encoding="utf-8"))) <= recorded, each


def test_the_page_of_the_benchmarks_shows_the_figures_of_the_results() -> None:
    """Each number in a table below "Results" is in the files that its subsection links."""
    text = (ROOT / "docs/explanation/benchmarks.md").read_text(encoding="utf-8").split("\n## Results\n")[1]
    checked = 0
    for part in text.split("\n### ")[1:]:
        measured = " ".join(page(Path(name).name) for name in re.findall(r"\]\(\S*/results/([^)]+\.md)\)", part))
        for line in re.findall(r"^\|(?! ---).*", part, re.MULTILINE)[1:]:
            numbers = [number for number in figures(line) if number[0].isdigit()]
            assert set(numbers) <= set(figures(measured)), line
            checked += len(numbers)
    assert checked > 100


def test_the_figures_of_the_demo_model_are_those_of_its_results() -> None:
    facts, caption = result("demo_model.json"), README.split("terminal.svg)<br>\n")[1].split("\n\n")[0]
    [bleu] = [one["value"] for one in facts["test"] if one["metric"] == "BLEU"]
    right = f"{facts['judged']['right']}"
    assert figures(caption) == [f"{facts['bytes'] / 1e6:.1f}", f"{bleu}", "1,000", right, f"{facts['sentences']}"]
    session = (ROOT / "docs" / "images" / "terminal.txt").read_text(encoding="utf-8")
    assert f"\nBLEU {bleu} [" in session


def test_python_and_the_chapters_are_those_of_the_project() -> None:
    requires = re.findall(
        r'^requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE
    )
    assert re.findall(r"Python (\d[\d.]*\d)", README) == requires
    chapters = len(list((ROOT / "docs" / "guide").glob("[0-9]*.md")))
    assert ("fifteen short chapters" in README) == (chapters == 15)


def test_the_picture_is_drawn_from_its_session_and_shows_commands_of_the_readme() -> None:
    images = ROOT / "docs" / "images"
    session = (images / "terminal.txt").read_text(encoding="utf-8")
    assert (images / "terminal.svg").read_text(encoding="utf-8") == draw(session)
    verbs = re.findall(r"^\$ .*?dragoman (\w+)", session, re.MULTILINE)
    assert verbs == ["train", "translate", "evaluate"]
    assert "docs/images/terminal.svg" in README


def test_the_readme_is_a_front_page() -> None:
    assert len(README.split("\n")) <= 121
    assert len(README.split()) <= 1200

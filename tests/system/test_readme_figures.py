"""The figures of the README are those of the newest results files, and its picture shows commands that it names."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tools.terminal_svg import draw

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
README = (ROOT / "README.md").read_text(encoding="utf-8")

COLUMNS = {
    "training tiny": ("2026-11-22-tiny.json", "training", "tiny"),
    "training base": ("2026-11-22-base.json", "training", "base"),
    "translation": ("2026-11-21-side_by_side.json", "translation", "tiny"),
    "one sentence": ("2026-11-21-side_by_side.json", "latency", "tiny"),
}
"""The results file, part and model size behind each column of the table of speed. Searches have a beam of 5."""
CONTENDERS = {"Marian in transformers": "transformers Marian"}
"""Rows of the table of speed that have another name in the results files."""
RECIPES = {
    "English to German, as in": "wu2021_multi30k_en_de",
    "English to French, as in": "wu2021_multi30k_en_fr",
    "40 minutes on one core": "multi30k_en_de_by_the_rule_40_minutes",
}
"""The recipe in quality.json behind each row of the table of quality."""
FAULTS = {
    "killed run": ("SIGKILLs in 70 steps",),
    "kill while saving": ("SIGKILL while saving",),
    "damaged checkpoint": tuple(
        f"{what}: {how}"
        for what in ("checkpoint", "model")
        for how in ("bit flipped", "truncated", "4,096 bytes zeroed")
    ),
    "hostile model": ("hostile model folders",),
    "batch size": ("translations in company",),
    "one output line": ("lines through",),
    "slid against": ("slides, Multi30k", "slides, Tatoeba"),
    "test sentences": ("leaks, exact", "leaks, near"),
}
"""The rows of reliability.md behind each row of the table of guarantees, by their first words."""


def table_of(section: str) -> list[list[str]]:
    """Return the rows of the table in a section of the README, the header first, without bold type."""
    text = README.split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.split("\n") if line.startswith("|") and "---" not in line]
    return [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in lines]


def number_in(cell: str) -> float:
    found = re.search(r"\d[\d,]*(\.\d+)?", cell)
    assert found, cell
    return float(found[0].replace(",", ""))


@cache
def result(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def side_by_side() -> list[Path]:
    """Return the results files of `benchmarks/run.py`."""
    return [path for path in sorted(RESULTS.glob("*.json")) if "tables" in result(path.name)]


def rows_of(name: str, part: str, size: str, beam: int = 5) -> list[dict[str, Any]]:
    """Return the rows of one table of a results file; training has no beam."""
    tables = result(name)["tables"]
    [table] = [
        each
        for each in tables
        if (each["part"], each["size"]) == (part, size) and (part == "training" or each["beam"] == beam)
    ]
    rows: list[dict[str, Any]] = table["rows"]
    return rows


def contender_of(row: dict[str, Any]) -> str:
    """Return the name of a row without its precision."""
    return re.sub(r", (bfloat16 autocast|bfloat16)$", "", row["contender"])


def best(rows: list[dict[str, Any]], contender: str, key: str) -> float | None:
    """Return the median of a contender in its faster precision; None if it was not measured."""
    faster = min if key == "one sentence" else max
    speeds = [row["speed"]["median"] for row in rows if contender_of(row) == contender]
    return faster(speeds) if speeds else None


def fastest_ratios(rows: list[dict[str, Any]]) -> Iterator[float]:
    """Yield how many times as fast Dragoman is as each peer in the peer's faster precision."""
    peers = {contender_of(row) for row in rows if not row["contender"].startswith("Dragoman")}
    for peer in peers:
        own = [row for row in rows if contender_of(row) == peer]
        yield max(own, key=lambda row: row["speed"]["median"])["ratio"]["median"]


def test_the_table_of_speed_has_the_medians_of_the_results() -> None:
    header, *rows = table_of("Speed")
    columns = [next(key for key in COLUMNS if title.startswith(key)) for title in header[1:]]
    assert columns == list(COLUMNS)
    for label, *cells in rows:
        for key, cell in zip(columns, cells, strict=True):
            median = best(rows_of(*COLUMNS[key]), CONTENDERS.get(label, label), key)
            if median is None:
                assert not cell, f"{label}, {key}: no result, but {cell}"
                continue
            digits = 1 if key == "one sentence" and median < 10 else 0
            assert number_in(cell) == round(median, digits), f"{label}, {key}: {median}"


def test_the_ratios_of_speed_are_those_of_the_results() -> None:
    sentence = re.sub(r"\s+", " ", README.split("\n## Speed\n")[1].split("\n|")[0])
    training, translation = re.findall(r"([\d.]+) to ([\d.]+) times", sentence)
    measured = [ratio for size in ("tiny", "base") for ratio in fastest_ratios(rows_of(*COLUMNS[f"training {size}"]))]
    assert training == (f"{min(measured):.1f}", f"{max(measured):.1f}")
    measured = [
        row["ratio"]["median"]
        for path in side_by_side()
        for table in result(path.name)["tables"]
        if (table["part"], table["beam"]) == ("translation", 5)
        for row in table["rows"]
        if row["contender"] == "CTranslate2, int8"
    ]
    assert translation == (f"{min(measured):.1f}", f"{max(measured):.1f}")


@pytest.mark.parametrize("key", COLUMNS)
def test_the_results_behind_the_table_of_speed_are_the_newest(key: str) -> None:
    """Of the same part and size on a processor with the same vector instructions."""
    name, part, size = COLUMNS[key]
    assert f"benchmarks/results/{Path(name).stem}.md" in README
    machine = result(name)["machine"]
    for path in side_by_side():
        other = result(path.name)
        is_newer = other["date"] > result(name)["date"]
        if is_newer and other["machine"]["cpu_capability"] == machine["cpu_capability"]:
            measured = {(table["part"], table["size"]) for table in other["tables"]}
            assert (part, size) not in measured, f"{path.name} is newer than {name}: take its figures"


def test_the_scores_are_those_of_the_results() -> None:
    recipes = {entry["name"]: entry for entry in result("quality.json")}

    def test_score(name: str) -> str:
        score = next(score for score in recipes[name]["scores"]["test"] if score["metric"] == "BLEU")
        return f"{score['value']:.2f} ± {score['interval']:.2f}"

    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    published = re.findall(r"Wu et\s+al\.\s+report ([\d.]+\d)", page)
    for label, score, reported in table_of("Quality")[1:]:
        name = next((name for phrase, name in RECIPES.items() if phrase in label), None)
        if name is None:  # a run from before quality.json was kept
            assert f"| test | **{score}**" in page
        else:
            assert score == test_score(name), label
        assert not reported or reported in published
    seeds = [test_score(f"wu2021_multi30k_en_de_seed_{seed}").split()[0] for seed in (2, 3)]
    assert " and ".join(seeds) in README


def test_the_guarantees_have_the_counts_of_the_results() -> None:
    page = (RESULTS / "reliability.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in page.split("\n") if line.startswith("|")]
    for label, tested in table_of("Guarantees")[1:]:
        [names] = [names for phrase, names in FAULTS.items() if phrase in label]
        counts = [0, 0]
        for name in names:
            [(_, planted, held)] = [row for row in rows if row[0].startswith(name)]
            counts = [counts[0] + int(held.replace(",", "")), counts[1] + int(planted.replace(",", ""))]
        assert tested.startswith(f"{counts[0]:,} of {counts[1]:,} "), f"{label}: {counts}"


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

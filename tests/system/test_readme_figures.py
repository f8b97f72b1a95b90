"""Every figure of the README follows from the results files, and its picture shows commands that it names."""

import json
import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import PRESETS
from tools.terminal_svg import draw

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
README = (ROOT / "README.md").read_text(encoding="utf-8")

TRAINING = {"tiny": "2026-11-22-tiny.json", "base": "2026-11-22-base.json"}
"""The results file behind the columns of each size in the table of training."""
TRANSLATION = "2026-11-21-side_by_side.json"
AVX2 = {"tiny": "2026-11-23-avx2.json", "base": "2026-11-23-avx2_base.json"}
BEAM = 5
LABELS = {"Marian in transformers": "transformers Marian"}
"""Contenders that have another name in the results files."""
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


def tables_of(title: str, count: int = 1) -> list[list[list[str]]]:
    """Return the `count` tables of a section, each with its header as first row and without emphasis."""
    blocks = re.findall(r"(?:^\|.*\n)+", section(title), re.MULTILINE)
    assert len(blocks) == count
    return [
        [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in block.split("\n") if line]
        for block in (re.sub(r"^\| ---.*\n", "", block, flags=re.MULTILINE) for block in blocks)
    ]


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


def rows_of(name: str, part: str, size: str, beam: int = BEAM) -> list[dict[str, Any]]:
    """Return the rows of one table of a results file. Dropout as in the paper is less work, so its row is left out."""
    [table] = [
        each
        for each in result(name)["tables"]
        if (each["part"], each["size"], each["beam"]) == (part, size, 0 if part == "training" else beam)
    ]
    return [row for row in table["rows"] if "dropout" not in row["contender"]]


def contender_of(row: dict[str, Any]) -> str:
    """Return the name of a row without its precision, as the README has it."""
    name = row["contender"].split(",")[0]
    return next((label for label, other in LABELS.items() if other == name), name)


def row_of(rows: list[dict[str, Any]], label: str, precision: str) -> dict[str, Any] | None:
    """Return the row of a contender in a precision; None if it was not measured."""
    return next((row for row in rows if (contender_of(row), row["precision"]) == (label, precision)), None)


def speed_ratio(name: str, key: list[Any], ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """Return how many times as fast one contender is as another: the median of the ratios in the same round."""
    speeds: list[dict[int, float]] = [
        {
            record["round"]: record["speed"]
            for record in result(name)["measurements"]
            if record["accepted"] and record["key"] == [*key, row["contender"]]
        }
        for row in (ours, theirs)
    ]
    return statistics.median(speeds[0][number] / speed for number, speed in speeds[1].items() if number in speeds[0])


def duels(
    files: dict[str, str], part: str, precision: str, peer_precision: str = ""
) -> Iterator[tuple[float, dict[str, Any], dict[str, Any]]]:
    """Yield the ratio of speeds, our row and the peer's row, for each peer in that precision."""
    for size, name in files.items():
        rows = rows_of(name, part, size)
        ours = row_of(rows, "Dragoman", precision)
        assert ours
        for peer in rows:
            if contender_of(peer) != "Dragoman" and peer["precision"] == (peer_precision or precision):
                yield speed_ratio(name, [part, size, BEAM if part != "training" else 0], ours, peer), ours, peer


def span(values: Iterable[float], low: Callable[[float], float], high: Callable[[float], float]) -> list[str]:
    """Return both ends of a range with one decimal, rounded by `low` and `high`."""
    found = list(values)
    return [f"{rounded(value * 10) / 10:.1f}" for rounded, value in ((low, min(found)), (high, max(found)))]


def at_least(values: Iterable[float]) -> list[str]:
    """Return a range of ratios that are good for us: both ends rounded down."""
    return span(values, math.floor, math.floor)


def memory_ratios(rows: Iterable[tuple[float, dict[str, Any], dict[str, Any]]]) -> list[float]:
    return [ours["peak_rss_mb"] / theirs["peak_rss_mb"] for _, ours, theirs in rows]


def test_the_table_of_training_has_every_measurement() -> None:
    header, *rows = tables_of("Speed", 2)[0]
    columns = [tuple(re.findall(r"\w+", title)) for title in header[1:]]
    assert columns == [(size, precision) for size in TRAINING for precision in ("bfloat16", "float32")]
    measured = {contender_of(row) for size, name in TRAINING.items() for row in rows_of(name, "training", size)}
    assert {label for label, *_ in rows} == measured
    for label, *cells in rows:
        for (size, precision), cell in zip(columns, cells, strict=True):
            row = row_of(rows_of(TRAINING[size], "training", size), label, precision)
            assert cell == (f"{row['speed']['median']:,.0f} ({row['peak_rss_mb']:,})" if row else ""), (label, size)


def test_the_table_of_translation_has_the_measurements_in_two_precisions() -> None:
    header, *rows = tables_of("Speed", 2)[1]
    assert figures(header[0]) == [str(BEAM)]
    assert header[1:] == ["precision", "sentences/s", "peak MB", "BLEU", "one sentence"]
    assert [row[:2] for row in rows] == [
        [label, precision] for precision in ("int8", "float32") for label in ("Dragoman", "CTranslate2")
    ]
    for label, precision, *cells in rows:
        row = row_of(rows_of(TRANSLATION, "translation", "tiny"), label, precision)
        alone = row_of(rows_of(TRANSLATION, "latency", "tiny"), label, precision)
        assert row
        assert alone
        speed, memory = f"{row['speed']['median']:,.0f}", f"{row['peak_rss_mb']:,}"
        expected = [speed, memory, f"{row['details']['bleu']:.2f}", f"{alone['speed']['median']:.1f} ms"]
        assert cells == expected, (label, precision)


def test_the_ranges_of_speed_compare_like_with_like() -> None:
    """Ratios of speed are rounded down, and ratios of memory up, so that no claim is larger than the measurement."""
    training = {precision: list(duels(TRAINING, "training", precision)) for precision in ("bfloat16", "float32")}
    avx512 = dict.fromkeys(("tiny", "base"), TRANSLATION)
    engines = {
        "int8": list(duels(avx512, "translation", "int8")),
        "float32": [
            duel
            for files in (avx512, AVX2)
            for duel in duels(files, "translation", "float32")
            if contender_of(duel[2]) == "CTranslate2"
        ],
        "int16": list(duels(AVX2, "translation", "int16", "int8")),
    }
    multiples = memory_ratios(duel for each in engines.values() for duel in each)
    gains = [ours["details"]["bleu"] - theirs["details"]["bleu"] for _, ours, theirs in engines["int16"]]
    rounds = {"tiny": {3}, "base": {1}}
    for size, expected in rounds.items():
        rows = rows_of(TRANSLATION, "translation", size)
        assert {row["rounds"] for row in rows if contender_of(row) in ("Dragoman", "CTranslate2")} == expected
    assert {row["rounds"] for size, name in TRAINING.items() for row in rows_of(name, "training", size)} == {3}
    files = {*TRAINING.values(), TRANSLATION, *AVX2.values()}
    [cores] = {result(name)["machine"]["cores"] for name in files}
    sizes = [PRESETS[size] for size in ("tiny", "base")]
    shapes = [(size.num_encoder_layers, size.num_decoder_layers, size.d_model) for size in sizes]
    assert figures(prose("Speed")) == [
        WORDS[cores],
        *(word for precision, each in training.items() for word in (*at_least(ratio for ratio, *_ in each), precision)),
        str(BEAM),
        *(word for key in ("int8", "float32") for word in (*at_least(ratio for ratio, *_ in engines[key]), key)),
        "CTranslate2",
        *span(multiples, math.floor, math.ceil),
        *("AVX2", "int16", *at_least(ratio for ratio, *_ in engines["int16"]), "CTranslate2", "int8"),
        *(f"{gain:.2f}" for gain in (min(gains), max(gains))),
        *(WORDS[count] for size in ("tiny", "base") for count in rounds[size]),
        *(str(number) for shape in shapes for number in shape),
        *(result(TRANSLATION)["machine"]["cpu_capability"], "AVX2"),
    ]


def test_the_results_behind_the_tables_of_speed_are_the_newest() -> None:
    """Of the same part and size on a processor with the same vector instructions."""
    used = [*((name, "training", size) for size, name in TRAINING.items())]
    used += [(TRANSLATION, "translation", "tiny"), (TRANSLATION, "latency", "tiny")]
    used += [(name, "translation", size) for size, name in AVX2.items()]
    for name, part, size in used:
        machine = result(name)["machine"]
        for path in sorted(RESULTS.glob("*.json")):
            other = result(path.name)
            if "tables" not in other or other["date"] <= result(name)["date"]:
                continue
            if other["machine"]["cpu_capability"] == machine["cpu_capability"]:
                measured = {(table["part"], table["size"]) for table in other["tables"]}
                assert (part, size) not in measured, f"{path.name} is newer than {name}: take its figures"


def test_the_links_to_measurements_are_those_of_the_files_behind_the_tables() -> None:
    linked = re.findall(r"\]\(benchmarks/results/(\d{4}-[^)]+)\.md\)", README)
    assert linked == [Path(name).stem for name in (*TRAINING.values(), TRANSLATION)]


def scores_of(name: str, metric: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an entry of quality.json and its score on the test set."""
    [entry] = [entry for entry in result("quality.json") if entry["name"] == name]
    [score] = [score for score in entry["scores"]["test"] if score["metric"] == metric]
    return entry, score


def time_of(entry: dict[str, Any]) -> str:
    cores = entry["machine"]["threads"]
    return f"{entry['minutes']:.0f} minutes on {WORDS[cores]} core{'s' if cores > 1 else ''}"


def test_the_table_of_quality_has_the_scores_of_the_results() -> None:
    paper, own = "tokenised lower-cased BLEU", "BLEU"
    german = "wu2021_multi30k_en_de"
    seeds = [scores_of(name, paper) for name in (german, f"{german}_seed_2", f"{german}_seed_3")]
    values = [score["value"] for _, score in seeds]
    minutes = [entry["minutes"] for entry, _ in seeds]
    cores = " or ".join(WORDS[count] for count in sorted({entry["machine"]["threads"] for entry, _ in seeds}))
    french, french_score = scores_of("wu2021_multi30k_en_fr", paper)
    default, default_score = scores_of("multi30k_en_de_by_the_rule_40_minutes", own)
    assert {entry["precision"] for entry, _ in seeds} | {french["precision"], default["precision"]} == {"bfloat16"}
    assert not re.search(r"tok:(?!13a)", default_score["signature"])
    tatoeba = re.search(r"## Tatoeba, English to German, without a config.*?(?= ## )", page("README.md"))
    assert tatoeba
    assert "30 minutes" in tatoeba[0]
    [tatoeba_score] = re.findall(r"\| test \| \*\*([\d.]+)\*\*", tatoeba[0])
    wu = "as in Wu et al. 2021"
    published = [
        found(rf"tokenized, lower-cased BLEU\. Wu et al\. report ([\d.]+\d)\. {after}", "README.md")
        if after
        else found(r"Wu et al\. report ([\d.]+\d), and a public", "README.md")
        for after in ("On the validation", "")
    ]
    assert tables_of("Quality")[0][1:] == [
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
        [
            f"Multi30k, English to German, no settings, {time_of(default)}",
            f"{default_score['value']:.2f} ± {default_score['interval']:.2f}",
            "",
        ],
        ["Tatoeba, English to German, no settings, 30 minutes on two cores", tatoeba_score, ""],
    ]


def test_the_limits_of_the_scores_are_those_of_the_results() -> None:
    telugu, score = scores_of("english_telugu_by_the_rule_to_its_end", "BLEU")
    held_out = found(r"Validation and test sets of ([\d,]+) pairs each were held out", "README.md")
    level = found(r"± is half of the (\d+) % interval", "quality.md")
    assert figures(prose("Quality")) == [
        *(level, "1", "2", "3", "4", "one", "13a", held_out, "bfloat16"),
        *(f"{telugu['train_pairs']:,}", f"{score['value']:.2f}"),
    ]


def test_the_sizes_of_measured_corpora_are_those_of_the_results() -> None:
    [bullet] = re.findall(r"^- \*\*own parallel text\*\*.*(?:\n  .*)*", README, re.MULTILINE)
    smallest = found(r"# ([\d,]+) pairs of Multi30k", "small_data.md")
    largest = found(r"The corpus has ([\d,]+) pairs", "README.md")
    assert figures(bullet) == [smallest, largest]
    assert all(entry["train_pairs"] >= int(smallest.replace(",", "")) for entry in result("quality.json"))


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
    rows = tables_of("Tested")[0][1:]
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

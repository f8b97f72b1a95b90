"""The benchmark of scores by pairs: nested training sets, and a report of what was measured."""

from pathlib import Path
from typing import Any

import pytest
import scores_by_pairs
from quality import Corpus, Parts, Recipe
from recording import write_json
from scores_by_pairs import draw, first_pairs, markdown

TRAIN = [(f"source {number % 90}", f"target {number % 90}") for number in range(100)]


def read(data: Path, src: str, tgt: str) -> Parts:
    return {"train": TRAIN, "test": [("one", "eins")]}


def row(corpus: str, pairs: int, bleu: float) -> dict[str, Any]:
    score = {"value": bleu, "interval": 1.5, "signature": "nrefs:1"}
    facts = {"steps": 100, "epochs": 2.0, "minutes": 19.5, "parameters": 2_000_000, "precision": "bfloat16"}
    machine = {"cores": 2, "processor": "a processor"}
    key = {"corpus": corpus, "pairs": pairs, "limit": 20.0}
    return key | {"BLEU": score, "chrF2": score, "machine": machine, **facts}


def test_a_larger_size_contains_the_smaller_one_and_no_pair_twice() -> None:
    small, large, whole = (first_pairs(read, pairs)(Path(), "en", "de")["train"] for pairs in (10, 40, 1000))
    assert large[:10] == small != TRAIN[:10]
    assert whole[:40] == large
    assert sorted(whole) == sorted(set(TRAIN))


def test_the_test_set_is_that_of_the_whole_corpus() -> None:
    assert first_pairs(read, 10)(Path(), "en", "de")["test"] == [("one", "eins")]


def test_the_report_has_a_line_and_a_point_per_model(tmp_path: Path) -> None:
    rows = [row("multi30k", 2500, 17.25), row("multi30k", 29000, 38.5), row("tatoeba", 2500, 9.75)]
    table = markdown(rows)
    assert "| Multi30k, English to German | 29,000 | 38.50 ± 1.50 |" in table
    assert "- 2 cores of a processor, bfloat16" in table
    draw(rows, tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").stat().st_size > 1000


def test_a_measured_size_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def trains(*command: object, **settings: object) -> None:
        raise AssertionError("it trains")

    monkeypatch.setattr("subprocess.run", trains)
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path))
    monkeypatch.setattr(scores_by_pairs, "RECIPES", {"multi30k_en_de_by_the_rule": Recipe(Corpus("en", "de", read))})
    write_json(tmp_path / "scores.json", [row("multi30k", 40, 20.0)])
    given = scores_by_pairs.arguments(["--folder", str(tmp_path / "work"), "--results", str(tmp_path / "scores")])
    scores_by_pairs.measure("multi30k", 40, given)
    with pytest.raises(AssertionError, match="it trains"):
        scores_by_pairs.measure("multi30k", 50, given)

"""The report of minutes to quality: interpolated times, medians of seeds, and curves that are measured once."""

import json
from pathlib import Path
from typing import Any

import pytest
import time_to_quality
from side_by_side.curves import median_minutes, minutes_to, rows_of, write_curves
from side_by_side.environments import RECIPES
from side_by_side.journal import Journal
from side_by_side.learn_dragoman import points_of
from side_by_side.learning import Point, text_of
from side_by_side.toolkits import TOOLKITS
from side_by_side.tries import TRIES

MACHINE = {"processor": "a processor", "cores": 2, "threads": 2, "memory_gb": 8, "torch": "2.0", "python": "3.11"}
ABOUT = {"date": "2026-01-01", "minutes": 40.0, "machine": MACHINE}
SLOW: list[Point] = [(10, 100, 10.0), (20, 200, 32.0), (40, 400, 36.0)]
FAST: list[Point] = [(5, 100, 25.0), (10, 200, 35.0), (15, 300, 33.0), (20, 400, 39.0)]


def record(contender: str, seed: int, curve: list[Point], minutes: str = "40") -> dict[str, Any]:
    measured = {"curve": curve, "steps": 400, "tokens_per_second": 2000 + seed, "parameters": 2_400_000}
    facts = {"precision": "float32", "versions": {"torch": "2.0"}, "others": 0.05}
    key = ["multi30k", contender, 0, minutes]
    return {"key": key, "round": seed, "accepted": True, **measured, **facts}


def journal_of(path: Path, *records: dict[str, Any]) -> Journal:
    journal = Journal(path)
    for each in records:
        journal.append(each)
    return journal


@pytest.mark.parametrize(
    ("target", "minutes"), [(5, 10), (10, 10), (21, 15), (32, 20), (34, 30), (36, 40), (36.1, None)]
)
def test_minutes_are_interpolated_between_points(target: float, minutes: float | None) -> None:
    assert minutes_to(SLOW, target) == minutes


def test_the_first_time_counts_when_a_score_falls_again() -> None:
    assert minutes_to(FAST, 34) == 9.5


def test_an_empty_curve_reaches_nothing() -> None:
    assert minutes_to([], 0) is None


def test_a_seed_that_never_reaches_a_score_counts_as_the_slowest() -> None:
    assert median_minutes([SLOW, FAST], 30) == pytest.approx((7.5 + 19.09) / 2, abs=0.01)
    assert median_minutes([SLOW, FAST], 38) is None
    assert median_minutes([SLOW, FAST, FAST], 38) == pytest.approx(19.17, abs=0.01)


def test_rows_have_the_budget_of_the_report(tmp_path: Path) -> None:
    found = [record("dragoman", 1, FAST), record("torch", 2, SLOW), record("torch", 1, FAST), record("torch", 3, SLOW)]
    journal = journal_of(tmp_path / "journal.jsonl", *found, record("dragoman", 2, SLOW, "20"))
    first, second = rows_of(journal, 40.0)
    assert (first.contender, first.seeds) == ("dragoman", (1,))
    assert first.minutes["38"] == pytest.approx(19.17)
    assert (second.seeds, second.best, second.tokens_per_second) == ((1, 2, 3), 36.0, 2002)
    assert second.minutes == {"30": pytest.approx(19.09), "35": 35.0, "38": None}


def test_the_report_has_a_table_the_curves_and_a_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    journal = journal_of(tmp_path / "journal.jsonl", record("dragoman", 1, FAST), record("torch", 1, SLOW))
    data, page, picture = write_curves(tmp_path / "results" / "time_to_quality", journal, ABOUT)
    text = page.read_text(encoding="utf-8")
    assert "| Dragoman, default recipe | 7.5 | 10.0 | 19.2 | 39.00 | 400 | 2,001 | 2,400,000 | float32 | 1 |" in text
    assert "| torch.nn.Transformer, as in the paper | 19.1 | 35.0 | not within 40 minutes | 36.00 |" in text
    content = json.loads(data.read_text(encoding="utf-8"))
    assert [each["curve"] for each in content["curves"]] == [[list(point) for point in each] for each in (FAST, SLOW)]
    assert picture.read_text(encoding="utf-8").startswith("<?xml")


def test_a_measurement_continues_with_the_missing_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[tuple[str, int]] = []

    def fake(cell: time_to_quality.CurveCell, *_: object) -> dict[str, Any]:
        measured.append((cell.contender, cell.seed))
        if (cell.contender, cell.seed) == ("torch", 2):
            raise RuntimeError("it failed")
        return record(cell.contender, cell.seed, FAST)

    monkeypatch.setattr(time_to_quality, "measured", fake)
    words = ["--contenders", "dragoman", "torch", "--seeds", "1", "2", "--folder", str(tmp_path)]
    given = time_to_quality.arguments().parse_args(words)
    path = tmp_path / "time_to_quality.jsonl"
    journal_of(path, record("torch", 1, SLOW), record("dragoman", 2, SLOW, "20"))
    time_to_quality.measure_all(given, Journal.open(path))
    assert measured == [("dragoman", 1), ("dragoman", 2), ("torch", 2)]
    measured.clear()
    time_to_quality.measure_all(given, Journal.open(path))
    assert measured == [("torch", 2)], "only the failed curve is measured again"


def test_the_points_of_a_run_do_not_count_its_validations() -> None:
    events: list[dict[str, Any]] = [
        {"event": "train", "step": 1, "seconds": 30.0, "tokens_per_second": 1000.0},
        {"event": "validation", "step": 1, "seconds": 50.0, "bleu": 1.0},
        {"event": "settings", "step": 1},
        {"event": "train", "step": 2, "seconds": 110.0, "tokens_per_second": 3000.0},
        {"event": "validation", "step": 2, "seconds": 120.0, "bleu": 2.0},
    ]
    points, speed = points_of(events, 30.0, "bleu")
    assert points == [(1.0, 1, 1.0), (2.0, 2, 2.0)]
    assert speed == 1500


def test_the_tries_replace_settings_that_the_toolkits_have(tmp_path: Path) -> None:
    from side_by_side.corpus import Corpus, write_corpus
    from side_by_side.learn_toolkit import make_toolkit
    from side_by_side.learning import Task

    pytest.importorskip("sentencepiece")
    corpus = Corpus(tmp_path / "corpus", "en", "te")
    pairs = [(f"a house {number}", f"ఒక ఇల్లు {number}") for number in range(50)]
    write_corpus(corpus, {"train": pairs, "val": pairs[:3]}, "houses", 60)
    task = Task(corpus, "chrf", 7, 1.0, tmp_path)
    for name in TOOLKITS.keys() & TRIES.keys() & RECIPES.keys():
        for each in TRIES[name]:
            make_toolkit(name, tmp_path, task, each.settings).train_command(5, 10)
            text = (tmp_path / "train.yaml").read_text(encoding="utf-8")
            assert "seed: 7" in text
            assert f"learning_rate: {each.settings['learning_rate']}\n" in text
            assert f"batch_size: {each.settings['batch_size']}\n" in text


def test_pieces_become_text() -> None:
    assert text_of("▁Ein ▁M ann .") == "Ein Mann."

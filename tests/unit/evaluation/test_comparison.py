import pytest

from dragoman.errors import DataError
from dragoman.evaluation import comparison
from dragoman.evaluation.comparison import compare_outputs
from dragoman.evaluation.metrics import score_outputs

REFERENCES = [f"the old house number {n} stands alone under {n % 7} green trees ." for n in range(120)]
SOURCES = [f"das alte Haus Nummer {n}{' und noch mehr' * (n % 5)}" for n in range(120)]
WORSE = [line.replace("green ", "").replace("alone", "lonely") for line in REFERENCES]


@pytest.fixture(autouse=True)
def few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "TRIALS", 200)


def test_the_scores_are_those_of_evaluate() -> None:
    found = compare_outputs(SOURCES, REFERENCES, WORSE, REFERENCES)
    assert tuple(one.a for one in found.metrics) == score_outputs(WORSE, REFERENCES, intervals=True).scores
    assert [one.b.value for one in found.metrics] == pytest.approx([100, 100, 0])
    assert all("bs:1000|seed:12345" in one.a.signature for one in found.metrics)


def test_the_better_one_is_named_whichever_comes_first() -> None:
    for outputs, name, wins in (((WORSE, REFERENCES), "B", 120), ((REFERENCES, WORSE), "A", 0)):
        found = compare_outputs(SOURCES, REFERENCES, *outputs)
        assert found.verdict == f"{name} is better by BLEU, chrF2 and TER."
        assert (found.b_wins, found.b_losses, found.ties) == (wins, 120 - wins, 0)


def test_without_significance_nothing_is_called_better() -> None:
    changed = [line.replace("green", "big") if n % 60 == 0 else line for n, line in enumerate(REFERENCES)]
    other = [line.replace("old", "big") if n % 60 == 1 else line for n, line in enumerate(REFERENCES)]
    for a, b in ((changed, other), (REFERENCES, REFERENCES)):
        found = compare_outputs(SOURCES, REFERENCES, a, b)
        assert found.verdict == "By BLEU, chrF2 and TER no difference is shown."
        assert not any(one.better for one in found.metrics)


def test_it_is_the_same_every_time() -> None:
    assert compare_outputs(SOURCES, REFERENCES, WORSE, REFERENCES) == compare_outputs(
        SOURCES, REFERENCES, WORSE, REFERENCES
    )


def test_groups_by_length_hold_every_sentence() -> None:
    outputs = [
        worse if len(source) > 40 else best for source, worse, best in zip(SOURCES, WORSE, REFERENCES, strict=True)
    ]
    groups = compare_outputs(SOURCES, REFERENCES, outputs, REFERENCES).by_length
    assert sum(group.sentences for group in groups) == 120
    assert [group.shortest for group in groups] == sorted(group.shortest for group in groups)
    for group in groups:
        rows = [source for source in SOURCES if group.shortest <= len(source) <= group.longest]
        assert group.sentences == len(rows)
        assert group.b_wins == sum(len(source) > 40 for source in rows)


def test_words_are_counted_by_how_often_they_were_seen() -> None:
    training = ["green house"] * 3 + ["alone"] + ["the old number"] * 200
    found = compare_outputs(SOURCES, REFERENCES, WORSE, REFERENCES, training_text=training)
    groups = {(group.at_least, group.at_most): group for group in found.by_rarity}
    assert (groups[1, 1].words, groups[1, 1].a_found, groups[1, 1].b_found) == (120, 0, 120)  # alone
    assert (groups[2, 5].words, groups[2, 5].a_found) == (240, 120)  # green, house
    assert groups[101, None].words == groups[101, None].a_found == 360
    assert sum(group.words for group in groups.values()) == 11 * 120


def test_the_most_changed_lines_come_with_both_outputs() -> None:
    outputs = list(REFERENCES)
    outputs[17] = "quite another thing"
    (change,) = compare_outputs(SOURCES, REFERENCES, REFERENCES, outputs).changes
    assert (change.line, change.a, change.b) == (18, REFERENCES[17], "quite another thing")
    assert change.a_chrf > 99 > 30 > change.b_chrf


def test_a_test_without_sentences_is_refused() -> None:
    with pytest.raises(DataError, match="no translations"):
        compare_outputs([], [], [], [])


def test_very_long_lines_are_compared_without_ter() -> None:
    long = " ".join(map(str, range(201)))
    found = compare_outputs(["a", "b"], ["x", long], ["x", "b"], ["x", long])
    assert [metric.a.name for metric in found.metrics] == ["BLEU", "chrF2"]
    assert found.warnings[0].startswith("line 2 has more than 200 words")

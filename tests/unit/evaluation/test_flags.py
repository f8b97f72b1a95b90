"""Faulty translations must be flagged. tests/soak has more of them and checks references of larger tests."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.evaluation.flags import FLAGS, flags_of, text_flags
from dragoman.records import Candidate, Translation
from tests.soak.faulty_translations import GOOD, has_new_characters, made_cases, references


@pytest.mark.parametrize("flag", FLAGS)
def test_made_cases_are_flagged(flag: str) -> None:
    made = made_cases()[flag]
    missed = [case for case in made if flag not in flags_of(case, has_new_characters)]
    assert len(made) == 20
    assert len(missed) <= 1, missed


def test_translations_by_people_are_hardly_flagged() -> None:
    assert [(pair, text_flags(*pair)) for pair in GOOD if text_flags(*pair)] == []
    pairs = load_phrasebook().generate(seed=11, count=500)
    assert sum(bool(text_flags(pair.src, pair.tgt)) for pair in pairs) <= 10


@pytest.mark.data
def test_the_references_of_real_tests_are_hardly_flagged() -> None:
    for name, pairs in references():
        flagged = sum(bool(text_flags(*pair)) for pair in pairs[:1500])
        assert flagged <= 0.02 * len(pairs[:1500]), name


def translation(src: str, tgt: str, log_prob: float = -0.1, cut: bool = False) -> Translation:
    return Translation(src, (Candidate(tgt, (tgt,), (log_prob,), log_prob, log_prob),), 1, cut)


def test_flags_come_in_their_order_and_a_blank_source_has_none() -> None:
    found = flags_of(translation("See page 14.", "a a a a", -3.0, cut=True), lambda _: True)
    assert found == ("loop", "cut", "number", "characters", "unsure")
    assert flags_of(Translation(" ", (), 0, False), lambda _: True) == ()
    assert flags_of(translation("A long sentence to be translated.", ""), lambda _: False) == ("short",)


@pytest.mark.parametrize(
    ("probabilities", "is_unsure"),
    [
        ([0.9] * 8, False),
        ([0.35] * 8, True),
        ([0.95] * 7 + [0.12], True),  # one wrong word in a fluent sentence
        ([0.95] * 7 + [0.2], False),
        ([0.95] * 29 + [0.12], False),  # the lowest of many
        ([0.95] * 29 + [0.03], True),
        ([0.45], False),
        ([0.9, 0.2], True),
    ],
)
def test_one_improbable_word_is_enough_to_be_unsure(probabilities: list[float], is_unsure: bool) -> None:
    log_probs = tuple(map(math.log, probabilities))
    best = Candidate("Ein Satz.", ("Ein", "Satz."), log_probs, sum(log_probs), sum(log_probs))
    found = flags_of(Translation("A sentence.", (best,), 1, False), lambda _: False)
    assert ("unsure" in found) == is_unsure


def test_what_the_source_has_may_be_in_the_output() -> None:
    assert text_flags("Row, row, row, row the boat!", "Rudert, rudert, rudert, rudert das Boot!") == ()
    assert text_flags("Mail a@example.org about <b>14</b> items", "<b>14</b> Stück: Mail an a@example.org.") == ()


@given(st.text(max_size=200), st.text(max_size=200))
@settings(deadline=None)
def test_any_text_has_flags_that_are_known(src: str, tgt: str) -> None:
    assert set(text_flags(src, tgt)) <= FLAGS.keys()
    assert not {"number", "url", "tag", "loop"} & set(text_flags(src, src))

"""sacreBLEU's own paired tests are the oracle: with its seed all random numbers and results are equal."""

import random

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, _bootstrap_resample, estimate_ci

from dragoman.evaluation import metrics as module
from dragoman.evaluation.metrics import interval_of, resampled_scores, significance, statistics_of

WORDS = "the a cat dog house is was in on under green old sees sleeps".split()


def outputs_and_references(num_sentences: int, *dropped: float, seed: int = 3) -> tuple[list[list[str]], list[str]]:
    """Systems that omit these shares of the references' words."""
    draw = random.Random(seed)
    references = [" ".join(draw.choices(WORDS, k=draw.randint(4, 20))) for _ in range(num_sentences)]
    return [
        [" ".join(word for word in line.split() if draw.random() >= share) for line in references] for share in dropped
    ], references


@pytest.mark.parametrize("metric", [BLEU(force=True), CHRF(), TER()], ids=["bleu", "chrf", "ter"])
@pytest.mark.parametrize("at_once", [2_000_000, 5000])
def test_p_values_and_intervals_are_sacrebleus(
    metric: BLEU | CHRF | TER, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DRAWS_AT_ONCE", at_once)
    (a, b), references = outputs_and_references(83, 0.2, 0.23)
    named = [("a", a), ("b", b)]
    counts = [statistics_of(metric, outputs, references) for outputs in (a, b)]
    resampled = resampled_scores(metric, *counts)
    found = significance(metric, counts[0], counts[1], resampled, trials=700)
    for kind, samples, p_value in (("bs", 1000, found.p_bootstrap), ("ar", 700, found.p_randomisation)):
        _, scores = PairedTest(named, {"metric": metric}, [references], kind, n_samples=samples)()
        theirs = next(results for name, results in scores.items() if name != "System")
        assert p_value == theirs[1].p_value
        assert found.difference == pytest.approx(theirs[1].score - theirs[0].score, abs=1e-9)
    _, oracle = _bootstrap_resample(counts[0].tolist(), metric)
    assert resampled[0] == pytest.approx([one.score for one in oracle], abs=1e-4)
    low, high = interval_of(resampled[0])
    assert (high - low) / 2 == pytest.approx(estimate_ci(np.array([one.score for one in oracle]))[1], abs=1e-4)


def test_a_large_difference_is_significant_and_lies_in_its_interval() -> None:
    (a, b), references = outputs_and_references(60, 0.4, 0.1)
    counts = [statistics_of(CHRF(), outputs, references) for outputs in (a, b)]
    found = significance(CHRF(), counts[0], counts[1], resampled_scores(CHRF(), *counts), trials=500)
    assert found.is_significant
    assert 0 < found.interval[0] < found.difference < found.interval[1]


@pytest.mark.parametrize(("sentences", "can_be"), [(1, False), (5, False), (6, True)])
def test_a_handful_of_sentences_never_makes_a_difference_significant(sentences: int, can_be: bool) -> None:
    references = [f"a man walks along street number {index}" for index in range(sentences)]
    counts = [statistics_of(CHRF(), outputs, references) for outputs in (references, ["dogs bark"] * sentences)]
    found = significance(CHRF(), counts[0], counts[1], resampled_scores(CHRF(), *counts), trials=500)
    assert found.p_randomisation < 0.05
    assert found.is_significant == can_be


def test_the_same_outputs_are_never_different() -> None:
    (a,), references = outputs_and_references(30, 0.3)
    counts = statistics_of(TER(), a, references)
    found = significance(TER(), counts, counts, resampled_scores(TER(), counts, counts), trials=100)
    assert (found.difference, found.interval, found.p_bootstrap, found.p_randomisation) == (0, (0, 0), 1, 1)
    assert not found.is_significant


def test_equal_systems_are_seldom_called_different(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESAMPLES", 100)
    called, metric = 0, BLEU(force=True)
    for seed in range(60):
        (a, b), references = outputs_and_references(60, 0.2, 0.2, seed=seed)
        counts = [statistics_of(metric, outputs, references) for outputs in (a, b)]
        resampled = resampled_scores(metric, *counts)
        called += significance(metric, counts[0], counts[1], resampled, trials=100).is_significant
    assert called <= 8, "of 60 tests of equals about 3 may look different at 0.05"

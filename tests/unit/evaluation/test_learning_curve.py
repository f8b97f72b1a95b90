"""Forecasts of BLEU, against curves of known shape and against recorded runs."""

import json
import math
from pathlib import Path

import pytest

from dragoman.evaluation.learning_curve import forecast_bleu

RUNS = json.loads(Path("benchmarks/results/learning_forecast.json").read_text(encoding="utf-8"))


def curve(limit: float, tau: float, shape: float, tokens: float) -> float:
    return limit * (1 - math.exp(-((tokens / tau) ** shape)))


@pytest.mark.parametrize("limit", [4.0, 20.0, 55.0])
@pytest.mark.parametrize("tau", [0.8e6, 1.6e6, 3.2e6])
@pytest.mark.parametrize("shape", [0.75, 1.0, 1.3])
def test_the_interval_has_the_end_of_a_curve_and_shrinks(limit: float, tau: float, shape: float) -> None:
    end, widths = 10e6, []
    for count in (2, 5, 9):
        tokens = [1e6 * number for number in range(1, count + 1)]
        found = forecast_bleu([(each, curve(limit, tau, shape, each)) for each in tokens], end)
        assert found.low <= curve(limit, tau, shape, end) <= found.high
        assert found.low <= found.median <= found.high
        widths.append(found.high - found.low)
    assert sorted(widths, reverse=True) == widths


@pytest.mark.parametrize("tau", [2e5, 4e7, 3e8])
def test_a_model_of_another_size_shows_its_pace(tau: float) -> None:
    tokens = [tau * share for share in (0.2, 0.4, 0.6, 0.8, 1.0)]
    found = forecast_bleu([(each, curve(30.0, tau, 1.0, each)) for each in tokens], 4 * tau)
    assert found.low <= curve(30.0, tau, 1.0, 4 * tau) <= found.high


def test_an_endless_run_approaches_the_score_of_a_long_one() -> None:
    points = [(1e6, 14.0), (2e6, 21.0), (4e6, 27.0), (8e6, 29.0)]
    assert forecast_bleu(points, math.inf) == forecast_bleu(points, 1e12)


@pytest.mark.parametrize("scores", [(91.2, 95.3), (58.0, 91.0, 95.0, 99.0), (1.0, 1.0), (100.0, 100.0, 40.0)])
def test_bleu_stays_between_0_and_100(scores: tuple[float, ...]) -> None:
    found = forecast_bleu([(0.6e6 + 0.2e6 * number, score) for number, score in enumerate(scores)], 2e6)
    assert 0 <= found.low <= found.median <= found.high <= 100


@pytest.mark.parametrize("share", [1 / 3, 1 / 2, 3 / 4])
def test_most_intervals_have_the_end_of_a_recorded_run(share: float) -> None:
    inside = []
    for points in RUNS.values():
        seen = [point for point in points if point[0] <= share * points[-1][0]]
        if len(seen) >= 2:
            found = forecast_bleu(seen, points[-1][0])
            inside.append(found.low <= sum(bleu for _, bleu in points[-3:]) / 3 <= found.high)
    assert len(inside) >= 5
    assert sum(inside) >= 0.9 * len(inside)

"""Length penalties: values, monotony and exactness."""

import numpy as np
import pytest

from dragoman.config import InferenceSettings
from dragoman.engines.interface import length_penalties


@pytest.mark.parametrize(
    ("kind", "alpha", "length", "expected"),
    [
        ("paper", 0.6, 1, 1.0),
        ("paper", 0.6, 13, 3**0.6),
        ("paper", 1.0, 7, 2.0),
        ("paper", 0.0, 50, 1.0),
        ("power", 1.0, 7, 7.0),
        ("power", 0.5, 16, 4.0),
        ("power", 0.0, 50, 1.0),
    ],
)
def test_penalties_equal_hand_computed_ones(kind: str, alpha: float, length: int, expected: float) -> None:
    settings = InferenceSettings(length_penalty=kind, length_penalty_alpha=alpha)  # type: ignore[arg-type]
    assert length_penalties(settings, [length]).tolist() == pytest.approx([expected])


@pytest.mark.parametrize("kind", ["paper", "power"])
@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.6, 1.0, 10.0])
def test_penalty_is_non_decreasing_in_the_length(kind: str, alpha: float) -> None:
    settings = InferenceSettings(length_penalty=kind, length_penalty_alpha=alpha)  # type: ignore[arg-type]
    penalties = length_penalties(settings, np.arange(1, 600))
    assert bool((np.diff(penalties) >= 0).all())


@pytest.mark.parametrize("kind", ["paper", "power"])
@pytest.mark.parametrize("alpha", [0.2, 0.6, 0.9, 1.3])
def test_penalty_does_not_depend_on_the_other_lengths(kind: str, alpha: float) -> None:
    settings = InferenceSettings(length_penalty=kind, length_penalty_alpha=alpha)  # type: ignore[arg-type]
    lengths = np.arange(1, 70)
    together = length_penalties(settings, lengths)
    for count in range(1, 70):
        assert np.array_equal(length_penalties(settings, lengths[:count]), together[:count])
        assert length_penalties(settings, lengths[count - 1]) == together[count - 1]

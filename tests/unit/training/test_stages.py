from dataclasses import replace

import pytest

from dragoman.config import TrainSettings
from dragoman.data.mixing import MixedCorpus, MixedPairs, epoch_tokens
from dragoman.data.store import InMemoryPairs
from dragoman.training.run.run_folder import TrainState, ValidationRecord
from dragoman.training.stages import last_stage, stages_of

END = 1 << 40


def mixed(long: int = 9) -> MixedPairs:
    """A corpus of 50 short pairs, and one of 50 pairs with targets of `long` tokens."""
    pairs = InMemoryPairs([[4]] * 100, [[4]] * 50 + [[4] * long] * 50)
    return MixedPairs(pairs, [MixedCorpus("short", 50), MixedCorpus("long", 50)])


@pytest.mark.parametrize(
    ("shares", "epochs", "expected"),
    [
        ([(0.0, 1.0), (0.0, 0.8)], 10, [[0, END], [0, 8]]),
        ([(0.0, 1.0), (0.25, 0.5)], 10, [[0, END], [3, 5]]),
        ([(0.0, 1.0), (0.375, 0.625)], 4, [[0, END], [2, 3]]),  # exactly one epoch
        ([(0.5, 1.0), (0.0, 0.5)], 3, [[2, END], [0, 2]]),
        ([(0.0, 1.0), (0.9, 1.0)], 4, [[0, END], [4, END]]),
    ],
)
def test_shares_of_epochs_become_whole_epochs(
    shares: list[tuple[float, float]], epochs: int, expected: list[list[int]]
) -> None:
    assert stages_of(mixed(), shares, TrainSettings(max_epochs=epochs)) == (expected, epochs)


def test_shares_of_steps_become_epochs_by_the_length_of_each_stage() -> None:
    pairs, settings = mixed(), TrainSettings(max_steps=1000, batch_tokens=100)
    stages, total = stages_of(pairs, [(0.0, 1.0), (0.0, 0.5)], settings)
    both, short = epoch_tokens(pairs) / 100, epoch_tokens(pairs.with_epochs([(0, END), (END, END)])) / 100
    assert (both, short) == (6, 2)
    assert stages == [[0, END], [0, round(500 / both)]]
    assert total == round(500 / both + 500 / short)
    by_epochs = stages_of(pairs, [(0.0, 1.0), (0.0, 0.5)], replace(settings, max_epochs=20))
    assert by_epochs == ([[0, END], [0, 10]], 20)  # the nearer limit counts
    assert stages_of(pairs, [(0.0, 1.0), (0.0, 0.5)], replace(settings, max_epochs=9000))[0] == stages


def test_patience_counts_from_the_last_stage() -> None:
    assert last_stage([[0, END], [0, 4], [2, END]]) == 4
    assert last_stage([[0, END], [0, END]]) == 0
    scores = [ValidationRecord(step, -step) for step in range(10, 100, 10)]
    state = TrainState(step=90, validations=scores)
    assert state.validations_since_best == 8
    assert replace(state, patience_step=-1).validations_since_best == 0
    assert replace(state, patience_step=70).validations_since_best == 2
    again = TrainState.from_json(replace(state, patience_step=70, stages=[[0, END]]).to_json())
    assert (again.patience_step, again.stages) == (70, [[0, END]])

"""The state of a run is read back exactly, also from older versions."""

import json

import pytest

from dragoman.training.run.run_folder import TrainState, ValidationRecord


def test_a_state_is_read_back_exactly() -> None:
    state = TrainState(step=7, epoch=1, seconds=0.1 + 0.2, window_loss=1 / 3, micro_batch_splits=4)
    state.validations.append(ValidationRecord(5, 2 / 3))
    assert TrainState.from_json(state.to_json()) == state


def test_a_state_of_an_older_version_has_its_splits_under_another_name() -> None:
    content = json.loads(TrainState(step=7, micro_batch_splits=4).to_json())
    content["parts"] = content.pop("micro_batch_splits")
    assert TrainState.from_json(json.dumps(content)) == TrainState(step=7, micro_batch_splits=4)


def test_a_state_with_unknown_fields_is_refused() -> None:
    content = json.loads(TrainState().to_json()) | {"halves": 2}
    with pytest.raises(ValueError, match="not those of a training state"):
        TrainState.from_json(json.dumps(content))

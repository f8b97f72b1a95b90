import pytest

from dragoman.model.trained import TrainedModel


@pytest.fixture(scope="session")
def trained(small_bundle: TrainedModel) -> TrainedModel:
    return small_bundle

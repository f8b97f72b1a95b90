import pytest

from dragoman.model.trained import TrainedModel


@pytest.fixture(scope="session")
def bundle(small_bundle: TrainedModel) -> TrainedModel:
    return small_bundle

import pytest

from dragoman.bundle import Model


@pytest.fixture(scope="session")
def trained(small_bundle: Model) -> Model:
    return small_bundle

import pytest

from dragoman.bundle import Bundle


@pytest.fixture(scope="session")
def bundle(small_bundle: Bundle) -> Bundle:
    return small_bundle

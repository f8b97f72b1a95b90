"""Counts of finished texts, from a search to a receiver."""

import time

import pytest

from dragoman.bundle import Model
from dragoman.counting import count_items, count_share, counting, start_window
from dragoman.devices.without_torch import map_in_threads
from dragoman.inference.translator import Translator

Counts = list[tuple[str, int, int | None, str]]


@pytest.fixture
def counts() -> Counts:
    return []


def receiver(counts: Counts):  # type: ignore[no-untyped-def]
    return lambda name, done, total=None, unit="pairs": counts.append((name, done, total, unit))


def test_counts_only_grow_and_a_second_search_of_some_texts_is_not_shown(counts: Counts) -> None:
    with counting("translating", receiver(counts), total=30):
        for window in (20, 10):
            start_window(window)
            for share in (0.25, 0.5, 0.1, 1.0):
                count_share(share)
            count_items(window)
    assert [done for _, done, *_ in counts] == [5, 10, 20, 22, 25, 30]
    assert {(name, total, unit) for name, _, total, unit in counts} == {("translating", 30, "texts")}
    count_items(7)
    assert len(counts) == 6


def test_a_block_without_a_receiver_counts_for_the_block_around_it(counts: Counts) -> None:
    with counting("outside", receiver(counts)):
        with counting("inside", total=3):
            count_items(3)
        with counting("other", receiver(counts), unit="pairs"):
            count_items(1)
        count_items(1)
    assert counts == [("outside", 3, None, "texts"), ("other", 1, None, "pairs"), ("outside", 4, None, "texts")]


def test_a_translator_counts_its_texts(small_bundle: Model, counts: Counts) -> None:
    translator = Translator.from_models([small_bundle])
    texts = ["one two three", "", "ONE TWO THREE FOUR FIVE", "four five. " * 20] * 5
    with counting("translating", receiver(counts), total=len(texts)):
        counted = translator.translate(texts, batch_tokens=60)
    assert counts[-1] == ("translating", 20, 20, "texts")
    assert counted == translator.translate(texts)


def test_finished_items_are_watched_and_errors_end_the_watch() -> None:
    watched: list[int] = []

    def work(seconds: float) -> float:
        time.sleep(seconds)
        if seconds > 1:
            raise ValueError("too long")
        return seconds

    assert map_in_threads(work, [0.0, 0.6], 2, watch=watched.append) == [0.0, 0.6]
    assert watched[0] == 1
    assert map_in_threads(work, [0.0, 0.0], 1, watch=watched.append) == [0.0, 0.0]
    assert watched[-2:] == [1, 2]
    with pytest.raises(ValueError, match="too long"):
        map_in_threads(work, [1.1, 0.0], 2, watch=watched.append)

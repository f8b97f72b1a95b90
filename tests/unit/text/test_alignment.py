import random

import pytest

from dragoman.text.alignment import find_slide

RNG = random.Random(0)
NAMES = ["Anna", "Berlin", "Carlos", "Dresden", "Elena", "Fiji"]


def sides(count):
    src, tgt = [], []
    for _ in range(count):
        words, name = RNG.randrange(2, 14), RNG.choice(NAMES)
        src.append(" ".join(["the", name, *["house"] * words]) + RNG.choice(".?!"))
        tgt.append(" ".join(["das", name, *["Haus"] * (words + RNG.randrange(2))]) + src[-1][-1])
    return src, tgt


@pytest.mark.parametrize("place", [30, 500, 960])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("lines", [1, 3])
def test_a_missing_line(place, side, lines):
    both = sides(1000)
    del both[side][place : place + lines]
    assert abs(find_slide(*both) - (place + 1)) <= 20


def test_the_first_of_two_places():
    src, tgt = sides(1000)
    del tgt[200], tgt[700]
    assert abs(find_slide(src, tgt) - 201) <= 20


def test_a_missing_block():
    src, tgt = sides(1000)
    del tgt[400:440]
    assert abs(find_slide(src, tgt) - 401) <= 50


def test_phrases_that_differ_in_numbers_only():
    src, tgt = [f"Room {n}" for n in range(300)], [f"Zimmer {n}" for n in range(300) if n != 120]
    assert abs(find_slide(src, tgt) - 121) <= 2


@pytest.mark.parametrize(("src", "tgt"), [([], ["a"]), (["a"], []), (["a"], ["a", "b"]), (["a"] * 9, ["a"] * 99)])
def test_tiny_files(src, tgt):
    assert 1 <= find_slide(src, tgt) <= max(len(src), 1)

import random

import numpy as np
import pytest

from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.text.corpus.opening import open_aligned
from dragoman.text.doctor import slides
from dragoman.text.doctor.slides import Slide, compare_sides

NAMES = ["Anna", "Berlin", "Carlos", "Dresden", "Elena", "Fiji"]


def found(src, tgt, **options):
    return compare_sides(lambda: (src, tgt), len(src), len(tgt), **options).slides


def related(src, tgt):
    return compare_sides(lambda: (src, tgt), len(src), len(tgt)).related


def similar_lines(count):
    """Lines that differ only in length, one name and the final mark."""
    rng, src, tgt = random.Random(0), [], []
    for _ in range(count):
        words, name = rng.randrange(2, 14), rng.choice(NAMES)
        src.append(" ".join(["the", name, *["house"] * words]) + rng.choice(".?!"))
        tgt.append(" ".join(["das", name, *["Haus"] * (words + rng.randrange(2))]) + src[-1][-1])
    return src, tgt


@pytest.fixture(scope="module")
def phrases():
    """Two lists of 1,500 phrases in different alphabets, so that only lengths and words show which lines match."""
    pairs = {pair.src: pair.tgt for pair in load_phrasebook().generate(seed=3, count=3500)}
    hidden = str.maketrans("abcdefghijklmnopqrstuvwxyzäöü", "αβγδεζηθικλμνξοπρστυφχψωάέήίϊ")
    rows = list(pairs.items())[:1500]
    return [src for src, _ in rows], [tgt.lower().translate(hidden).rstrip(".?!") for _, tgt in rows]


@pytest.mark.parametrize("place", [30, 500, 960])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("lines", [1, 3])
def test_a_missing_line(place, side, lines):
    both = similar_lines(1000)
    del both[side][place : place + lines]
    first = found(*both)[0]
    assert abs(first.line - (place + 1)) <= 20
    assert (first.before, first.after) == (0, lines if side == 0 else -lines)


def test_the_first_of_two_places():
    src, tgt = similar_lines(1000)
    del tgt[200], tgt[700]
    one, two = found(src, tgt)
    assert abs(one.line - 201) <= 20
    assert abs(two.line - 702) <= 20
    assert [(slide.before, slide.after) for slide in (one, two)] == [(0, -1), (-1, -2)]


def test_a_missing_block():
    src, tgt = similar_lines(1000)
    del tgt[400:440]
    assert abs(found(src, tgt)[0].line - 401) <= 50


def test_phrases_that_differ_in_numbers_only():
    src, tgt = [f"Room {n}" for n in range(300)], [f"Zimmer {n}" for n in range(300) if n != 120]
    assert abs(found(src, tgt)[0].line - 121) <= 2


@pytest.mark.parametrize(("src", "tgt"), [(["a"], ["a", "b"]), (["a"] * 9, ["a"] * 99), ([""] * 3, [""] * 2)])
def test_tiny_files_of_different_lengths(src, tgt):
    assert [1 <= slide.line <= min(len(src), len(tgt)) + 1 for slide in found(src, tgt)] == [True]


@pytest.mark.parametrize(("src", "tgt"), [([], ["a"]), (["a"], []), (["a"], ["b"]), (["a"] * 99, ["b"] * 99)])
def test_no_alarm_where_nothing_can_be_known(src, tgt):
    assert found(src, tgt) == ()


def test_no_alarm_where_the_sides_are_unrelated(monkeypatch):
    monkeypatch.setattr(slides, "_COST_OF_CHANGE", 1.0)
    rng = random.Random(5)
    src, tgt = (
        [" ".join(rng.choices(words, k=rng.randrange(2, 9))) for _ in range(3000)] for words in ("abcdef", "uvwxyz")
    )
    assert found(src, tgt) == ()
    assert not related(src, tgt)
    assert related(src[:900], tgt[:900])  # too few to tell


@pytest.mark.parametrize(
    "parted", [sorted, lambda lines: lines[::-1], lambda lines: random.Random(2).sample(lines, len(lines))]
)
def test_sides_of_one_text_in_different_orders(phrases, parted):
    src, tgt = phrases
    assert related(src, tgt)
    assert not related(src, parted(tgt))
    assert found(src, parted(tgt)) == ()


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_noise_is_not_taken_for_another_text(phrases, noise):
    src, tgt = phrases
    rng = random.Random(3)
    noisy = [rng.choice(tgt) if rng.random() < noise else line for line in tgt]
    assert related(src, noisy)


def test_a_file_that_ends_too_early_slides_at_its_end():
    src, tgt = similar_lines(1000)
    assert found(src, tgt[:900]) == (Slide(901, 0, -100),)
    assert found(src[:999], tgt) == (Slide(1000, 0, 1),)


def test_words_alone_tell_where_files_of_one_length_slide(phrases):
    src, tgt = phrases
    assert found(src, tgt) == ()
    middle, end = found(src[:-1], tgt[:734] + tgt[735:])
    assert abs(middle.line - 735) <= 2
    assert (middle.after, end) == (-1, Slide(1500, -1, 0))


def test_files_that_slide_from_the_first_line(phrases):
    src, tgt = phrases
    first, end = found(src[:-1], tgt[1:])
    assert (first, end.line) == (Slide(1, 0, -1), 1500)


def test_a_sample_finds_the_slide_and_reading_all_finds_the_line(phrases, monkeypatch):
    monkeypatch.setattr(slides, "_SAMPLE_LINES", 1024)
    monkeypatch.setattr(slides, "_WINDOW_LINES", 128)
    src, tgt = (list(side) for side in phrases)
    del tgt[1200]
    assert abs(found(src[:-1], tgt, thorough=False)[0].line - 1201) <= 512
    assert abs(found(src[:-1], tgt)[0].line - 1201) <= 2


@pytest.mark.parametrize("margin", [0, 3, 30])
def test_windows_with_gaps(monkeypatch, margin):
    monkeypatch.setattr(slides, "_WINDOW_LINES", 10)
    lines = [str(number) for number in range(100)]
    padded = [*[""] * margin, *lines, *[""] * margin]
    for window in slides._windows(lambda: (lines, lines), [0, 10, 40, 95], margin):
        assert window.src == lines[window.start : window.start + 10]
        assert window.tgt == padded[window.start : window.start + len(window.src) + 2 * margin]


def test_the_best_path_changes_only_where_it_pays():
    sums = np.array([[0.0, 5.0]] * 4 + [[20.0, 0.0]] * 4)
    assert slides._best_path(sums, (0, 1)).tolist() == [0] * 8
    sums = np.array([[20.0, 0.0]] * 4 + [[0.0, 20.0]] * 4)
    assert slides._best_path(sums, (0, 1), ending=1).tolist() == [0] * 4 + [1] * 4


@pytest.mark.data
def test_real_text(data_folder):
    """Includes a thousand similar captions in another order, which must count as unrelated."""
    pairs = list(open_aligned(data_folder / "multi30k/val.en.gz", data_folder / "multi30k/val.fr.gz").pairs())
    src, tgt = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
    assert found(src, tgt) == ()
    assert related(src, tgt)
    assert not related(src, tgt[::-1])
    for place in (100, 500, 900):
        assert abs(found(src[:-1], tgt[:place] + tgt[place + 1 :])[0].line - (place + 1)) <= 5

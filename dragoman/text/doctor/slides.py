"""Find slides: places where two files that should be parallel line by line shift against each other.

A shift of s pairs source line n with target line n + s. For each source line and each of a few shifts, the features of
the two lines (`dragoman.text.doctor.evidence`) give a log-likelihood ratio: do the lines translate each other or not?
The likelihoods are learned from this very text. The most likely path through the shifts, with a cost for each change,
shows where lines are missing or extra. Gale & Church 1993 do the same with lengths alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat

import numpy as np
from numpy.typing import NDArray

from dragoman.text.doctor.evidence import (
    CooccurrenceTable,
    Evidence,
    Vectors,
    WordTable,
    line_vectors,
    similarities,
)

Sides = Callable[[], tuple[Iterable[str], Iterable[str]]]
"""Returns iterators over the lines of both sides, from the start on every call."""

Codes = NDArray[np.uint8]
_Scores = NDArray[np.int8]
_Path = NDArray[np.intp]
_Coded = tuple[int, Codes]  # first line, codes

_SAMPLE_LINES = 1 << 15
_WINDOW_LINES = 1024
_NEAR_SHIFTS = range(-4, 5)
_LEXICON_SHIFTS = range(-2, 3)
_MAX_SHIFT = 512
_BLOCK_LINES = 16
_COST_OF_CHANGE = 30.0  # nats
_CERTAIN_NATS_A_LINE = 1.5
_LEAST_TIMES_CHANCE = 1.5
_FEW_LINES = 1000
_MOST_NATS = 6.0
_STEPS_A_NAT = 20.0
_COSINE_BINS, _SHARED_BINS, _LENGTH_BINS = 25, 5, 9
_BITS = np.array([bin(value).count("1") for value in range(1 << 16)], np.uint8)


@dataclass(frozen=True, slots=True)
class Slide:
    """A change of shift: from source line `line` (from 1) on, line n belongs to target line n + `after`.

    Before `line`, line n belongs to target line n + `before`.
    """

    line: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class _Window:
    """Source lines from `start` (from 0) on, and the target lines from `margin` before to `margin` after them."""

    start: int
    src: list[str]
    tgt: list[str]


@dataclass(frozen=True, slots=True)
class SideComparison:
    """The slides between two sides, and whether their lines are related at all."""

    slides: tuple[Slide, ...]
    related: bool = True


def compare_sides(sides: Sides, num_src: int, num_tgt: int, *, thorough: bool = True) -> SideComparison:
    """Find all slides between two sides, in order.

    Files of different lengths have at least one slide, at the end of the shorter file. If the lines of a sample match
    their partners no better than shuffled lines, the sides are unrelated and no slides are searched. Sides of fewer
    than 1,000 lines always count as related. Memory: at most 32 bytes per line, plus the sample and its lexicon.

    Parameters
    ----------
    sides
        Returns iterators over the lines of both sides. Called several times.
    num_src, num_tgt
        The number of lines of each side.
    thorough
        Compare every line. If false, only about 32,000 evenly spread lines are compared, and the line of a slide is
        only as exact as the distance between two sampled windows of 1,024 lines.
    """
    if not (num_src and num_tgt):
        return SideComparison(())
    ending = num_tgt - num_src
    shifts = _shifts(ending)
    margin = max(map(abs, shifts))
    sample = _spread(num_src)
    learner, coded = _Learner.learn(_windows(sides, sample, margin), shifts, margin, num_tgt)
    starts = range(0, num_src, _WINDOW_LINES)
    if thorough and len(sample) < len(starts):
        lines, scores = learner.scores(learner.encode(_windows(sides, starts, margin)))
    else:
        lines, scores = learner.scores(coded)
    path, nats = _follow(scores, shifts, ending)
    related = True
    if nats < _CERTAIN_NATS_A_LINE:
        others = map(_shuffle_targets, _windows(sides, sample, margin))
        learner, coded = _Learner.learn(others, shifts, margin, num_tgt)
        _, by_chance = learner.scores(coded)
        related = nats > _LEAST_TIMES_CHANCE * _follow(by_chance, shifts, ending)[1]
    if not related:
        path[:] = shifts.index(0)  # any other path follows chance
    return SideComparison(tuple(_slides(lines, scores, path, shifts, ending, num_src)), related or num_src < _FEW_LINES)


def _shuffle_targets(window: "_Window") -> "_Window":
    """The same window with its target lines shuffled."""
    order = np.random.default_rng(window.start).permutation(len(window.tgt))
    return replace(window, tgt=[window.tgt[place] for place in order])


def _shifts(ending: int) -> tuple[int, ...]:
    """The shifts to consider: those near 0, and those near the difference in length of the files."""
    far = range(ending - 1, ending + 2) if abs(ending) <= _MAX_SHIFT else ()
    between = range(min(ending, 0), max(ending, 0)) if abs(ending) <= 2 * max(_NEAR_SHIFTS) else ()
    return tuple(sorted({*_NEAR_SHIFTS, *far, *between}))


def _spread(num_lines: int) -> Sequence[int]:
    """The first lines of the sampled windows. The last window of the file is always in the sample."""
    starts = range(0, num_lines, _WINDOW_LINES)
    most = _SAMPLE_LINES // _WINDOW_LINES
    if len(starts) <= most:
        return starts
    return [starts[number * (len(starts) - 1) // (most - 1)] for number in range(most)]


def _windows(sides: Sides, starts: Iterable[int], margin: int) -> Iterator[_Window]:
    src, tgt = sides()
    left, right = iter(src), chain(repeat("", margin), tgt, repeat(""))
    read, kept = 0, list[str]()  # `kept` has the target lines already read, from `read` (with the margin) on
    for start in starts:
        gap = start - read
        for passed in range(0, gap, _WINDOW_LINES):  # in steps, so that neither side runs far ahead of the other
            _skip(left, min(gap - passed, _WINDOW_LINES))
            _skip(right, min(gap - len(kept) - passed, _WINDOW_LINES))
        lines, kept = list(islice(left, _WINDOW_LINES)), kept[gap:]
        kept += islice(right, len(lines) + 2 * margin - len(kept))
        yield _Window(start, lines, kept)
        read, kept = start + len(lines), kept[len(lines) :]


def _skip(lines: Iterator[str], count: int) -> None:
    next(islice(lines, max(count, 0), max(count, 0)), None)


@dataclass(frozen=True, slots=True)
class _Learner:
    """A model of how lines of this text match: vocabularies, lexicon, and log-odds of each code of evidence."""

    src_words: WordTable
    tgt_words: WordTable
    lexicon: tuple[Vectors, Vectors]
    length_bias: float
    odds: tuple[Vectors, ...]
    shifts: tuple[int, ...]
    margin: int
    num_tgt: int

    @staticmethod
    def learn(
        windows: Iterable[_Window], shifts: tuple[int, ...], margin: int, num_tgt: int
    ) -> tuple["_Learner", list[_Coded]]:
        """Learn from windows whose slides are unknown: the lexicon over all near shifts, the odds in two rounds.

        Also returns the codes of these windows, so that they need not be read again.
        """
        words = WordTable(), WordTable()
        starts, read = list[int](), (list[Evidence](), list[Evidence]())
        for window in windows:
            starts.append(window.start)
            for side, texts in enumerate((window.src, window.tgt)):
                read[side].append(words[side].evidence(texts))
        sides = [words[side].settle(read[side]) for side in (0, 1)]
        table = CooccurrenceTable(*(max(len(side), 1) for side in words))
        for src, tgt in zip(*sides, strict=True):
            lines = np.arange(len(src.counts))
            for shift in _LEXICON_SHIFTS:
                table.add(src, tgt, lines, lines + margin + shift)
        lengths = [np.concatenate([evidence.lengths for evidence in side]) for side in sides]
        bias = float(np.median(lengths[0]) - np.median(lengths[1][lengths[1] > 0])) if lengths[1].any() else 0.0
        learner = _Learner(*words, table.lexicon(), bias, _FIRST_ODDS, shifts, margin, num_tgt)
        coded = [(start, learner.codes(src, tgt)) for start, src, tgt in zip(starts, *sides, strict=True)]
        odds = _FIRST_ODDS
        for _ in range(2):
            scores = np.concatenate([_scores(codes, odds) for _, codes in coded])
            path = np.repeat(_best_path(_block_sums(scores), shifts), _BLOCK_LINES)[: len(scores)]
            odds = _odds(np.concatenate([codes for _, codes in coded], axis=1), path)
        return replace(learner, odds=odds), coded

    def encode(self, windows: Iterable[_Window]) -> Iterator[_Coded]:
        """The codes of evidence of each window, with the number of its first line."""
        for window in windows:
            yield window.start, self.codes(self.src_words.evidence(window.src), self.tgt_words.evidence(window.tgt))

    def scores(self, coded: Iterable[_Coded]) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
        """The numbers (lines,) of the compared lines, and their log-likelihood ratios (lines, shifts) in 1/20 nat."""
        lines, scores = [], []
        for start, codes in coded:
            lines.append(np.arange(start, start + codes.shape[1], dtype=np.int32))
            found = np.rint(_scores(codes, self.odds) * _STEPS_A_NAT).astype(np.int8)
            partners = lines[-1][:, None] + np.array(self.shifts)
            found[(partners < 0) | (partners >= self.num_tgt)] = 0
            scores.append(found)
        return np.concatenate(lines), np.concatenate(scores)

    def codes(self, src: Evidence, tgt: Evidence) -> Codes:
        """Three kinds of evidence, (3, lines, shifts): similarity of words, shared numbers and names, lengths."""
        vectors = line_vectors(src, self.lexicon[0]), line_vectors(tgt, self.lexicon[1])
        cosines = similarities(*vectors, self.margin, self.shifts)
        rows = [_surface_codes(src, tgt, self.margin + shift, self.length_bias) for shift in self.shifts]
        shared, lengths = (np.stack(kind, axis=1) for kind in zip(*rows, strict=True))
        return np.stack([np.rint((cosines + 1) * (_COSINE_BINS // 2)).astype(np.uint8), shared, lengths])


def _surface_codes(src: Evidence, tgt: Evidence, first: int, bias: float) -> tuple[Codes, Codes]:
    part = slice(first, first + len(src.lengths))
    distance = np.minimum(np.abs(src.lengths - tgt.lengths[part] - bias), 1.0)
    numbers, other = src.numbers, tgt.numbers[part]
    same_numbers = np.where(numbers == other, np.where(numbers > 0, 2, 1), 0)
    anchors = tgt.anchors[part]
    shared = _bits(src.anchors & anchors) / np.maximum(_bits(src.anchors | anchors), 1)
    codes = same_numbers * _SHARED_BINS + np.rint(shared * (_SHARED_BINS - 1)).astype(np.int64)
    return codes.astype(np.uint8), np.rint(distance * (_LENGTH_BINS - 1)).astype(np.uint8)


def _bits(values: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """The number of bits set in each value."""
    counts: NDArray[np.uint8] = _BITS[values & 0xFFFF] + _BITS[values >> 16]
    return counts


_FIRST_ODDS: tuple[Vectors, ...] = (
    np.linspace(-4, 4, _COSINE_BINS, dtype=np.float32),
    (np.array([[-1], [0], [1]]) + np.linspace(0, 1, _SHARED_BINS)).ravel().astype(np.float32),
    np.linspace(0, -1, _LENGTH_BINS, dtype=np.float32),
)


def _scores(codes: Codes, odds: Sequence[Vectors]) -> Vectors:
    """The sum of the log-odds of all kinds of evidence, (lines, shifts)."""
    total = np.zeros(codes.shape[1:], np.float32)
    for values, kind in zip(odds, codes, strict=True):
        total += values[kind]
    return np.clip(total, -_MOST_NATS, _MOST_NATS)


def _odds(codes: Codes, path: NDArray[np.intp]) -> tuple[Vectors, ...]:
    """The log-odds of each code: how often it occurs on the path, compared with beside it."""
    on_path = np.arange(codes.shape[2]) == path[:, None]
    odds = []
    for kind, first in zip(codes, _FIRST_ODDS, strict=True):
        on = np.bincount(kind[on_path], minlength=len(first)) + 1.0
        beside = np.bincount(kind[~on_path], minlength=len(first)) + 1.0
        odds.append(np.log(on / on.sum() * beside.sum() / beside).astype(np.float32))
    return tuple(odds)


def _block_sums(scores: NDArray[np.floating | np.int8]) -> NDArray[np.float64]:
    """Sums over blocks of lines, (blocks, shifts)."""
    return np.add.reduceat(scores, range(0, len(scores), _BLOCK_LINES), axis=0, dtype=np.float64)


def _best_path(sums: NDArray[np.float64], shifts: Sequence[int], ending: int = 0) -> NDArray[np.intp]:
    """The index of each block's shift on the best path (Viterbi). A start not at 0 or an end not at `ending` costs."""
    best = np.where(np.array(shifts) == 0, 0.0, -_COST_OF_CHANGE)
    came_from = np.empty(sums.shape, np.uint16)
    stay = np.arange(len(shifts))
    for block, own in enumerate(sums):
        top = int(best.argmax())
        changes = best[top] - _COST_OF_CHANGE > best
        came_from[block] = np.where(changes, top, stay)
        best = np.maximum(best, best[top] - _COST_OF_CHANGE) + own
    at = int((best - np.where(np.array(shifts) == ending, 0.0, _COST_OF_CHANGE)).argmax())
    path = np.empty(len(sums), np.intp)
    for block in range(len(sums) - 1, -1, -1):
        path[block] = at
        at = int(came_from[block, at])
    return path


def _follow(scores: _Scores, shifts: Sequence[int], ending: int) -> tuple[_Path, float]:
    """The best path, and the mean log-likelihood ratio per line on it, less the mean over all shifts, in nats.

    Scores are in steps of 1/20 nat.
    """
    sums = _block_sums(scores)
    path = _best_path(sums / _STEPS_A_NAT, shifts, ending)
    on_path = sums[np.arange(len(path)), path].sum() / len(scores)
    return path, float(on_path - scores.mean(dtype=np.float64)) / _STEPS_A_NAT


def _slides(
    lines: NDArray[np.int32], scores: _Scores, path: _Path, shifts: Sequence[int], ending: int, num_src: int
) -> Iterator[Slide]:
    at = 0
    for block in np.flatnonzero(np.diff(path, prepend=shifts.index(0))).tolist():
        shift = shifts[path[block]]
        place = _best_cut(scores, block * _BLOCK_LINES, shifts.index(at), int(path[block])) if block else 0
        yield Slide(int(lines[place]) + 1, at, shift)
        at = shift
    if at != ending:
        yield Slide(min(num_src, num_src + ending - at) + 1, at, ending)


def _best_cut(scores: NDArray[np.int8], near: int, before: int, after: int) -> int:
    """The best line to change from shift `before` to `after`, at most two blocks away from `near`."""
    start, stop = max(near - 2 * _BLOCK_LINES, 0), min(near + 2 * _BLOCK_LINES, len(scores))
    gains = scores[start:stop, before].astype(np.int64) - scores[start:stop, after]
    return min(start + int(np.concatenate([[0], np.cumsum(gains)]).argmax()), len(scores) - 1)

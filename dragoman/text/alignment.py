"""Where two files that should be parallel line by line begin to slide.

Each line leaves 8 bytes of evidence: its length, its numbers, and the words that often stay as they are (names,
and words with digits) together with its last punctuation mark. A shift of the target against the source is
scored by how well this evidence agrees, and the place where changing the shift pays most is the slide: the most
likely change point, found with cumulative sums (compare Gale & Church 1993 for the use of lengths).
"""

import re
import unicodedata
import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MAX_SHIFT = 8
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"(?<=\s)[^\W\d_a-zà-ÿ]\w+|\w*\d\w*")

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Evidence:
    lengths: NDArray[np.uint16]
    numbers: NDArray[np.uint16]
    words: NDArray[np.uint32]


def find_slide(src: Iterable[str], tgt: Iterable[str]) -> int:
    """The line (from 1) near which the sides stop matching; right within some dozens of lines where lines vary."""
    left, right = _evidence(src), _evidence(tgt)
    shift = len(right.lengths) - len(left.lengths)
    total = min(len(left.lengths), len(right.lengths))
    if total == 0:
        return 1
    bias = float(np.median(np.log1p(left.lengths[:total])) - np.median(np.log1p(right.lengths[:total])))
    step = 1 if shift >= 0 else -1
    shifts = [step * size for size in range(min(abs(shift), _MAX_SHIFT) + 1)]
    if abs(shift) > _MAX_SHIFT:
        shifts = [0, shift]
    agreements = (_agreement(left, right, by, total, bias) for by in shifts)
    return _first_change(np.cumsum(agreement, dtype=np.float64) for agreement in agreements) + 1


def _evidence(lines: Iterable[str]) -> _Evidence:
    lengths, numbers, words = array("H"), array("H"), array("I")
    for line in lines:
        lengths.append(min(len(line), 0xFFFF))
        digits = " ".join(sorted(_NUMBER.findall(line)))
        numbers.append(zlib.crc32(digits.encode()) % 0xFFFF + 1 if digits else 0)
        marks = 0
        for word in (*_NAME.findall(line), _last_mark(line)):
            marks |= 1 << zlib.crc32(word.encode()) % 32
        words.append(marks)
    return _Evidence(
        np.frombuffer(lengths, np.uint16) if lengths else np.zeros(0, np.uint16),
        np.frombuffer(numbers, np.uint16) if numbers else np.zeros(0, np.uint16),
        np.frombuffer(words, np.uint32) if words else np.zeros(0, np.uint32),
    )


def _last_mark(line: str) -> str:
    """The last character in its compatibility form where it is punctuation: a full-width ？ is a ?."""
    last = unicodedata.normalize("NFKC", line.rstrip()[-1:])
    return last if last and not last[-1].isalnum() else ""


def _agreement(left: _Evidence, right: _Evidence, shift: int, total: int, bias: float) -> Floats:
    """Per source line, how well the target line `shift` further on fits it; (total,)."""
    places = np.clip(np.arange(total) + shift, 0, len(right.lengths) - 1)
    distance = np.abs(np.log1p(left.lengths[:total]) - np.log1p(right.lengths[places]) - bias)
    numbers, other = left.numbers[:total], right.numbers[places]
    same_numbers = np.where(numbers == other, np.where(numbers > 0, 1.0, 0.0), -1.0)
    shared = _bits(left.words[:total] & right.words[places])
    either = _bits(left.words[:total] | right.words[places])
    score: Floats = (same_numbers - np.minimum(distance, 1.0) + shared / np.maximum(either, 1)).astype(np.float32)
    return score


def _bits(values: NDArray[np.uint32]) -> Floats:
    """How many bits are set in each value."""
    counts = np.zeros(len(values), np.float32)
    for bit in range(32):
        counts += (values >> np.uint32(bit)) & np.uint32(1)
    return counts


def _first_change(sums: Iterable[NDArray[np.float64]]) -> int:
    """The first change on the best path through the shifts in their order, given cumulative scores (total,) of each."""
    ordered = iter(sums)
    best = next(ordered)
    total = len(best)
    first: NDArray[np.intp] = np.zeros(total, np.intp)
    for index, own in enumerate(ordered):
        gain = np.concatenate([[0.0], best[:-1] - own[:-1]])  # score of changing to this shift before line n
        change = np.maximum.accumulate(np.where(gain >= np.maximum.accumulate(gain), np.arange(total), 0))
        first = change if index == 0 else first[np.maximum(change - 1, 0)]
        best = own + gain[change]
    return int(first[-1])

"""Evidence that two lines translate each other: features that they share, and a lexicon learned from the corpus.

`dragoman.text.doctor.slides` compares these features to find where two files are misaligned. Words are cut to their
first six letters, so that inflected forms count together. In scripts without spaces every character is a word.

A bilingual lexicon learned from the corpus itself: vectors for the words of both sides in one space.

The method is canonical correlation analysis (Hotelling 1936) with diagonal covariances, by randomized projection
(Halko et al. 2011). It counts how often two words occur in lines that may translate each other, subtracts the count
expected by chance, and divides by the roots of the word frequencies. The top singular vectors of this table are the
word vectors.

The vector of a line is the sum of its word vectors. Lines that translate each other point in the same direction. This
also works if the table counts all pairs of lines up to a few lines apart: the true pair is among them, and the others
only add chance.
"""

import re
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from dragoman.text.tokenization.words import UNSPACED

_MAX_WORDS = 4096
_STEM_LETTERS = 6
_MIN_COUNT = 3
_MAX_WORDS_A_LINE = 100
_MAX_CHARACTERS = 1000
_MAX_FORMS = 1 << 17
_WORD = re.compile(f"[{UNSPACED}]|\\w+|[^\\w\\s]")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Features of some lines of one side.

    `words` has the word ids of all lines in order, `counts` (lines,) the number of words in each line. `lengths`
    (lines,) are log(1 + characters). `numbers` (lines,) is a hash of the numbers in a line, or 0 without numbers.
    `anchors` (lines,) has one bit for each name, word with digits and final punctuation mark.
    """

    words: NDArray[np.int32]
    counts: NDArray[np.int64]
    lengths: NDArray[np.float32]
    numbers: NDArray[np.uint32]
    anchors: NDArray[np.uint32]

    def with_ids(self, ids: NDArray[np.int32]) -> "Evidence":
        """The same features with word `n` renumbered to `ids[n]`. Words with a negative number are removed."""
        words = ids[self.words]
        line = np.repeat(np.arange(len(self.counts)), self.counts)[words >= 0]
        counts = np.bincount(line, minlength=len(self.counts))
        return Evidence(words[words >= 0], counts, self.lengths, self.numbers, self.anchors)


class WordTable:
    """The vocabulary of one side: every word until `settle` is called, then only the frequent ones."""

    def __init__(self) -> None:
        self._stems: dict[str, int] = {}
        self._settled = False
        self._forget()

    def __len__(self) -> int:
        return len(self._stems)

    def _forget(self) -> None:
        self._forms: dict[str, int] = {}
        self._facts = np.zeros((0, 3), np.int64)  # stem, number hash and anchor bit of each form

    def evidence(self, lines: Sequence[str]) -> Evidence:
        """The features of each line, from its first 1,000 characters."""
        if len(self._forms) > _MAX_FORMS:
            self._forget()
        found = [_WORD.findall(line, 0, _MAX_CHARACTERS)[:_MAX_WORDS_A_LINE] for line in lines]
        counts = np.fromiter(map(len, found), np.int64, len(found))
        total = int(counts.sum())
        forms = np.fromiter(map(self._forms.get, chain.from_iterable(found), repeat(-1)), np.int64, total)
        if (forms < 0).any():
            new = {form: None for form in chain.from_iterable(found) if form not in self._forms}
            self._forms.update(zip(new, range(len(self._forms), len(self._forms) + len(new)), strict=True))
            self._facts = np.concatenate([self._facts, np.array(list(map(self._facts_of, new)), np.int64)])
            forms = np.fromiter(map(self._forms.__getitem__, chain.from_iterable(found)), np.int64, total)
        stems, numbers, anchors = self._facts[forms].T
        starts = (np.cumsum(counts) - counts)[counts > 0]
        anchors[starts] = np.where(numbers[starts] > 0, anchors[starts], 0)  # every sentence starts with a capital
        per_line = np.zeros((2, len(lines)), np.uint32)
        if total:
            per_line[0, counts > 0] = np.add.reduceat(numbers, starts)
            per_line[1, counts > 0] = np.bitwise_or.reduceat(anchors, starts)
        per_line[1] |= np.fromiter((_mark(line[-32:].rstrip()[-1:]) for line in lines), np.uint32, len(lines))
        lengths = np.log1p(np.fromiter(map(len, lines), np.float32, len(lines)))
        evidence = Evidence(np.maximum(stems, 0).astype(np.int32), counts, lengths, *per_line)
        return evidence.with_ids(np.arange(-1, len(self._stems), dtype=np.int32)) if self._settled else evidence

    def settle(self, sample: Sequence[Evidence]) -> list[Evidence]:
        """Keep only the `_MAX_WORDS` most frequent words. Returns the sample with the new word ids."""
        counts = sum(np.bincount(evidence.words, minlength=len(self._stems)) for evidence in sample)
        chosen = np.argsort(-np.asarray(counts), kind="stable")[:_MAX_WORDS]
        chosen = chosen[np.asarray(counts)[chosen] >= _MIN_COUNT]
        ids = np.full(max(len(self._stems), 1), -1, np.int32)
        ids[chosen] = np.arange(len(chosen))
        self._stems = {stem: int(ids[index]) + 1 for stem, index in self._stems.items() if ids[index] >= 0}
        self._settled = True
        self._forget()
        return [evidence.with_ids(ids) for evidence in sample]

    def _facts_of(self, form: str) -> tuple[int, int, int]:
        stem = form[:_STEM_LETTERS].lower()
        index = self._stems.get(stem, 0) if self._settled else self._stems.setdefault(stem, len(self._stems))
        code = zlib.crc32(form.encode("utf-8", "surrogatepass"))
        digits = any(map(str.isdecimal, form))
        stays = digits or form[0].isupper()
        return index, code >> 8 if digits else 0, 1 << code % 32 if stays else 0


@lru_cache(maxsize=1 << 12)
def _mark(last: str) -> int:
    """A bit for the last character of a line if it is punctuation. Full-width forms count as their ASCII forms."""
    last = unicodedata.normalize("NFKC", last)
    return 1 << zlib.crc32(last.encode("utf-8", "surrogatepass")) % 32 if last and not last[-1].isalnum() else 0


Vectors = NDArray[np.float32]

_DIRECTIONS = 64
_SPARE_DIRECTIONS = 16
_LINES_AT_ONCE = 2048
_PRIOR_COUNT = 3.0


class CooccurrenceTable:
    """Counts of word pairs in pairs of lines, (source words, target words)."""

    def __init__(self, src_words: int, tgt_words: int) -> None:
        self._pairs = np.zeros(src_words * tgt_words, np.float32)
        self._src, self._tgt = np.zeros(src_words, np.float32), np.zeros(tgt_words, np.float32)
        self._lines = 0

    def add(self, src: Evidence, tgt: Evidence, src_lines: NDArray[np.intp], tgt_lines: NDArray[np.intp]) -> None:
        """Count the words of the line pairs ``(src_lines[n], tgt_lines[n])``."""
        src_starts, tgt_starts = np.cumsum(src.counts) - src.counts, np.cumsum(tgt.counts) - tgt.counts
        for start in range(0, len(src_lines), _LINES_AT_ONCE):
            left, right = src_lines[start : start + _LINES_AT_ONCE], tgt_lines[start : start + _LINES_AT_ONCE]
            products = src.counts[left] * tgt.counts[right]
            line = np.repeat(np.arange(len(products)), products)
            within = np.arange(len(line)) - np.repeat(np.cumsum(products) - products, products)
            width = tgt.counts[right][line]
            src_words = src.words[src_starts[left][line] + within // width]
            tgt_words = tgt.words[tgt_starts[right][line] + within % width]
            np.add.at(self._pairs, src_words.astype(np.int64) * len(self._tgt) + tgt_words, np.float32(1))
            np.add.at(self._src, src_words, (1 / width).astype(np.float32))
            np.add.at(self._tgt, tgt_words, (1 / src.counts[left][line]).astype(np.float32))
            self._lines += len(products)

    def lexicon(self) -> tuple[Vectors, Vectors]:
        """One vector per word of each side, (words, directions), deterministic for the same counts.

        Call it once: it drops the table.
        """
        src, tgt = np.sqrt(self._src + _PRIOR_COUNT)[:, None], np.sqrt(self._tgt + _PRIOR_COUNT)[:, None]
        table = self._pairs.reshape(len(src), len(tgt))
        table -= np.outer(self._src, self._tgt / max(self._lines, 1))
        table /= src
        table /= tgt.T
        size = min(_DIRECTIONS + _SPARE_DIRECTIONS, *table.shape)
        basis = table @ np.random.default_rng(0).standard_normal((len(tgt), size)).astype(np.float32)
        for _ in range(2):
            basis = np.linalg.qr(table @ (table.T @ basis))[0]
        left, strengths, right = np.linalg.svd(basis.T @ table, full_matrices=False)
        roots = np.sqrt(strengths[:_DIRECTIONS])
        self._pairs = np.zeros(0, np.float32)
        return (basis @ left)[:, : len(roots)] * roots / src, right[: len(roots)].T * roots / tgt


def line_vectors(evidence: Evidence, words: Vectors) -> Vectors:
    """Unit vectors of the lines, (lines, directions). Zero for a line without known words."""
    vectors = np.zeros((len(evidence.counts), words.shape[1]), np.float32)
    known = np.flatnonzero(evidence.counts)
    starts = np.cumsum(evidence.counts) - evidence.counts
    if len(known):
        vectors[known] = np.add.reduceat(words[evidence.words], starts[known], axis=0)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return vectors


def similarities(src: Vectors, tgt: Vectors, first: int, shifts: Sequence[int]) -> Vectors:
    """Cosines (lines, shifts) between source line n and target line `first` + n + shift."""
    return np.stack([np.einsum("ij,ij->i", src, tgt[first + by : first + by + len(src)]) for by in shifts], axis=1)

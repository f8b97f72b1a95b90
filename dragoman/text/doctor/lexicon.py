"""A bilingual lexicon learned from the corpus itself: vectors for the words of both sides in one space.

The method is canonical correlation analysis (Hotelling 1936) with diagonal covariances, by randomized projection
(Halko et al. 2011). It counts how often two words occur in lines that may translate each other, subtracts the count
expected by chance, and divides by the roots of the word frequencies. The top singular vectors of this table are the
word vectors.

The vector of a line is the sum of its word vectors. Lines that translate each other point in the same direction. This
also works if the table counts all pairs of lines up to a few lines apart: the true pair is among them, and the others
only add chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.text.doctor.evidence import Evidence

Vectors = NDArray[np.float32]

_DIRECTIONS = 64
_SPARE_DIRECTIONS = 16
_LINES_AT_ONCE = 2048
_PRIOR_COUNT = 3.0


@dataclass(frozen=True, slots=True)
class Lexicon:
    """One vector per word of each side, (words, directions)."""

    src: Vectors
    tgt: Vectors


class CooccurrenceTable:
    """Counts of word pairs in pairs of lines, (source words, target words)."""

    def __init__(self, src_words: int, tgt_words: int) -> None:
        self._pairs = np.zeros(src_words * tgt_words, np.float32)
        self._src, self._tgt = np.zeros(src_words, np.float32), np.zeros(tgt_words, np.float32)
        self._lines = 0

    def add(self, src: Evidence, tgt: Evidence, src_lines: NDArray[np.intp], tgt_lines: NDArray[np.intp]) -> None:
        """Count the words of the line pairs ``(src_lines[n], tgt_lines[n])``."""
        for start in range(0, len(src_lines), _LINES_AT_ONCE):
            part = slice(start, start + _LINES_AT_ONCE)
            self._add(src, tgt, src_lines[part], tgt_lines[part])

    def _add(self, src: Evidence, tgt: Evidence, src_lines: NDArray[np.intp], tgt_lines: NDArray[np.intp]) -> None:
        src_counts, tgt_counts = src.counts[src_lines], tgt.counts[tgt_lines]
        products = src_counts * tgt_counts
        line = np.repeat(np.arange(len(products)), products)
        within = np.arange(len(line)) - np.repeat(np.cumsum(products) - products, products)
        starts, width = np.cumsum(src.counts) - src.counts, tgt_counts[line]
        left = src.words[starts[src_lines][line] + within // width]
        starts = np.cumsum(tgt.counts) - tgt.counts
        right = tgt.words[starts[tgt_lines][line] + within % width]
        np.add.at(self._pairs, left.astype(np.int64) * len(self._tgt) + right, np.float32(1))
        np.add.at(self._src, left, (1 / width).astype(np.float32))
        np.add.at(self._tgt, right, (1 / src_counts[line]).astype(np.float32))
        self._lines += len(products)

    def lexicon(self) -> Lexicon:
        """The word vectors, deterministic for the same counts. Call it once: it drops the table."""
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
        return Lexicon((basis @ left)[:, : len(roots)] * roots / src, right[: len(roots)].T * roots / tgt)


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

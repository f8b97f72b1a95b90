"""Find test sentences that are also in the training text, exactly or nearly.

Exact matches ignore case, spacing and Unicode composition. Near matches have the same words apart from punctuation, or
one word changed, added or left out in sentences of at least five words.

Every word has a random number, and the hash of a sentence is a polynomial of its words. The hash without any one word
then follows from prefix sums, and two sentences that differ in one word share such a hash. Memory is proportional to
the test, not to the training text.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from dragoman.text.corpus.splitting import Fingerprints, fingerprints, normalize_text
from dragoman.text.tokenization.words import UNSPACED

FEWEST_WORDS = 5
_MAX_WORDS = 200
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_WORD = re.compile(f"[{UNSPACED}]|[^\\W_]+(?:['’][^\\W_]+)*")
_FILTER_BITS = 22


class Overlap:
    """Finds the first training sentence that matches each test sentence. Feed the training text to `add` in order."""

    def __init__(self, sentences: Sequence[str]) -> None:
        distinct = dict.fromkeys(chain.from_iterable(map(_words, sentences)))
        self._words = {word: number for number, word in enumerate(distinct)}
        self._numbers = np.random.default_rng(0).integers(1, 1 << 63, len(self._words) + 1, np.uint64)
        filled = np.array([place for place, sentence in enumerate(sentences) if sentence.strip()], np.int64)
        texts = (normalize_text(sentences[place]) for place in filled.tolist())
        self._exact = _Places(fingerprints(texts), filled, len(sentences))
        self._near = _Places(*self._hashes(sentences), len(sentences))
        self._read = 0

    def add(self, texts: Sequence[str]) -> None:
        """Compare the next training sentences."""
        self._exact.add(fingerprints(map(normalize_text, texts)), self._read + np.arange(len(texts)))
        hashes, lines = self._hashes(texts)
        self._near.add(hashes, self._read + lines)
        self._read += len(texts)

    def exact(self) -> NDArray[np.int64]:
        """The number (from 1) of the first training sentence that matches exactly, or 0, (sentences,)."""
        return self._exact.first()

    def near(self) -> NDArray[np.int64]:
        """The number (from 1) of the first training sentence that matches exactly, else nearly, or 0, (sentences,)."""
        exact, near = self._exact.first(), self._near.first()
        return np.where(exact > 0, exact, near)

    def _hashes(self, texts: Sequence[str]) -> tuple[Fingerprints, NDArray[np.int64]]:
        """Hashes of each sentence, whole and (from five words on) without each word, and the sentence of each hash."""
        found = [_words(text) for text in texts]
        counts = np.fromiter(map(len, found), np.int64, len(found))
        unknown, total = len(self._words), int(counts.sum())
        places = np.fromiter(map(self._words.get, chain.from_iterable(found), repeat(unknown)), np.int64, total)
        line = np.repeat(np.arange(len(texts)), counts)
        index = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        terms = self._numbers[places] * _POWERS[index]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms)])  # modulo 2 ** 64, like all arithmetic here
        ends = np.cumsum(counts)
        starts = ends - counts
        whole = sums[ends] - sums[starts]
        before = sums[:-1] - sums[starts][line]
        left_out = before + (whole[line] - before - terms) * np.uint64(_INVERSE)
        enough = counts[line] >= FEWEST_WORDS
        has_words = counts > 0
        sizes = counts[line][enough].astype(np.uint64) - np.uint64(1)  # keeps sentences of different lengths apart
        hashes = np.concatenate([whole[has_words] ^ counts[has_words].astype(np.uint64), left_out[enough] ^ sizes])
        return hashes, np.concatenate([np.flatnonzero(has_words), line[enough]])


_POWERS = np.cumprod(np.array([1] + [_BASE] * (_MAX_WORDS - 1), np.uint64))


def _words(text: str) -> list[str]:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text.casefold())[:_MAX_WORDS]


class _Places:
    """Hashes with their owners, and the first line in which each hash occurs."""

    def __init__(self, hashes: Fingerprints, owners: NDArray[np.int64], num_owners: int) -> None:
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._owners, self._num_owners = hashes[order], owners[order], num_owners
        self._distinct, self._of = np.unique(self._hashes, return_inverse=True)
        self._filter = np.zeros(1 << _FILTER_BITS, np.bool_)
        self._filter[self._distinct >> np.uint64(64 - _FILTER_BITS)] = True
        self._first = np.full(len(self._distinct), np.iinfo(np.int64).max)

    def add(self, hashes: Fingerprints, lines: NDArray[np.int64]) -> None:
        maybe = np.flatnonzero(self._filter[hashes >> np.uint64(64 - _FILTER_BITS)])
        wanted = hashes[maybe]
        places = np.minimum(np.searchsorted(self._distinct, wanted), len(self._distinct) - 1)
        met = self._distinct[places] == wanted
        np.minimum.at(self._first, places[met], lines[maybe][met] + 1)

    def first(self) -> NDArray[np.int64]:
        found = np.full(self._num_owners, np.iinfo(np.int64).max)
        np.minimum.at(found, self._owners, self._first[self._of])
        return np.where(found == np.iinfo(np.int64).max, 0, found)

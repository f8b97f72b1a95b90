"""Hold out validation and test pairs, and find test sentences that are also in the training text.

Sources are compared without case, spacing and Unicode composition. The held-out sources are those with the smallest
keyed fingerprints, so the choice depends only on the seed and the text, not on the order of the file. 64-bit
fingerprints find repeated pairs and leaks without holding the text in memory. With ten million texts, the probability
that any two of them collide is about 3 in a million (birthday bound n ** 2 / 2 ** 65).

`Overlap` also finds near matches: the same words apart from punctuation, or one word changed, added or left out in
sentences of at least five words. Every word has a random number, and the hash of a sentence is a polynomial of its
words. The hash without any one word then follows from prefix sums, and two sentences that differ in one word share such
a hash. Memory is proportional to the test, not to the training text.
"""

import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate, chain, islice, pairwise, repeat
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import DataError
from dragoman.records import SentencePair
from dragoman.text.tokenization.words import UNSPACED

Fingerprints = NDArray[np.uint64]
_SMALLEST_LEVEL = 1 << 16


def fingerprints(texts: Iterable[str], key: bytes = b"") -> Fingerprints:
    """One fingerprint per text, (texts,), the same on every machine. Different keys give independent fingerprints."""
    keyed = blake2b(digest_size=8, key=key)

    def digest(text: str) -> bytes:
        hashed = keyed.copy()  # takes two thirds of the time of a new keyed hash
        hashed.update(text.encode("utf-8", "surrogatepass"))
        return hashed.digest()

    return np.frombuffer(b"".join(map(digest, texts)), dtype="<u8").astype(np.uint64)


def normalize_text(text: str) -> str:
    """The text in Unicode composition (NFC), casefolded, with single spaces: equal for texts that look the same."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return " ".join(text.casefold().split())


class FingerprintSet:
    """A growing set of fingerprints, 8 bytes each, and up to 24 bytes each during a merge.

    It is a list of sorted arrays, each at least twice as long as the next. Shorter arrays are merged as they fill.
    """

    def __init__(self) -> None:
        self._levels: list[Fingerprints] = []

    def __len__(self) -> int:
        return sum(map(len, self._levels))

    def contains(self, values: Fingerprints) -> NDArray[np.bool_]:
        """True for every value that is in the set, (values,)."""
        order = np.argsort(values)
        found = np.zeros(len(values), np.bool_)
        found[order] = self._contains_sorted(values[order])
        return found

    def add(self, values: Fingerprints) -> NDArray[np.bool_]:
        """Add the values. True for every value that is neither in the set nor earlier in `values`, (values,)."""
        distinct, first = np.unique(values, return_index=True)
        unseen = ~self._contains_sorted(distinct)
        new = np.zeros(len(values), np.bool_)
        new[first[unseen]] = True
        if unseen.any():
            self._push(distinct[unseen])
        return new

    def _contains_sorted(self, values: Fingerprints) -> NDArray[np.bool_]:
        found = np.zeros(len(values), np.bool_)
        for level in self._levels:
            places = np.minimum(np.searchsorted(level, values), len(level) - 1)
            found |= level[places] == values
        return found

    def _push(self, level: Fingerprints) -> None:
        while self._levels and (len(self._levels[-1]) < 2 * len(level) or len(self._levels[-1]) < _SMALLEST_LEVEL):
            level = np.concatenate([self._levels.pop(), level])
            level.sort()
        self._levels.append(level)


CHUNK_PAIRS = 1 << 13
_OWN_SHARE = 0.02
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Validation and test pairs taken from the training text, and all sources that training must not see.

    Each source occurs once in `dev` and `test` together. `sources` also has the sources of validation and test files.
    `read` has the fingerprints of the training sources in file order, in chunks of `CHUNK_PAIRS`, if the choice needed
    them. A `Cleaner` of the same file consumes them instead of computing them again. `own` has pairs on which only the
    loss is measured.
    """

    dev: tuple[SentencePair, ...] = ()
    test: tuple[SentencePair, ...] = ()
    sources: FingerprintSet = field(default_factory=FingerprintSet)
    seed: int = 0
    read: deque[Fingerprints] = field(default_factory=deque)
    own: tuple[SentencePair, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldOutShares:
    """How much of a corpus to hold out: shares of its pairs for validation and test, and the most pairs of each.

    `own` is the number of pairs to hold out besides, at most 2 % of the corpus, to measure the loss on this corpus.
    """

    dev: float
    test: float
    most: int
    own: int = 0


def take_held_out(
    train: Iterable[SentencePair],
    shares: HeldOutShares,
    sources: FingerprintSet,
    seed: int,
    names: tuple[str, str] | None = None,
) -> HeldOut:
    """Hold out pairs of one corpus whose sources are not in `sources`, and add these sources.

    Several corpora share `sources`, so that no corpus trains on what another one holds out. Without `names`, a small
    corpus may hold out nothing. Raises DataError as `hold_out` does.
    """
    fractions = [shares.dev, shares.test, _OWN_SHARE if shares.own else 0.0]
    limits = [shares.most, shares.most, shares.own]
    if not any(fractions):
        return HeldOut(sources=sources, seed=seed)
    parts = sum(fraction > 0.0 for fraction in fractions)
    pool = _Pool(2 * sum(limit for limit, fraction in zip(limits, fractions, strict=True) if fraction), sources)
    read: deque[Fingerprints] = deque()
    for chunk in chunks(train, CHUNK_PAIRS):
        read.append(source_fingerprints(chunk, seed))
        pool.add(chunk, read[-1])
    chosen = pool.smallest()
    if names and pool.shared and not chosen:
        raise only_shared_sources_error(*names)
    if len(chosen) <= parts and names:
        besides = f" besides those in {names[1]}" if pool.shared else ""
        raise DataError(
            f"The training data has {len(chosen)} different source sentences{besides}, too few to hold some out. "
            "Add more text, or set `data.dev` to a file."
        )
    if len(chosen) <= parts:
        return HeldOut(sources=sources, seed=seed, read=read)
    most = max(len(chosen) // (2 * parts), 1)
    sizes = [
        min(max(round(fraction * pool.read), bool(names)), most, limit) if fraction else 0
        for fraction, limit in zip(fractions, limits, strict=True)
    ]
    ends = list(accumulate(sizes, initial=0))
    sources.add(np.array([fingerprint for fingerprint, _ in chosen[: ends[-1]]], np.uint64))
    dev, test, own = (_in_file_order(chosen[start:end]) for start, end in pairwise(ends))
    return HeldOut(dev, test, sources, seed, read, own)


def only_shared_sources_error(train: str, given: str) -> DataError:
    """The error if every source of the training text is also in the validation or test data. Takes both names."""
    return DataError(
        f"every source sentence of {train} is also in {given}, so that no pair is left to train on. Name another file "
        "for validation and test, or name none: then a part of the training data is held out for validation."
    )


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` consecutive items. The last list may be shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def source_fingerprints(pairs: Sequence[SentencePair], seed: int) -> Fingerprints:
    """Fingerprints of the normalized sources, (pairs,), keyed by the seed."""
    return fingerprints((normalize_text(pair.src) for pair in pairs), key=seed.to_bytes(8, "big"))


_Placed = tuple[int, tuple[int, SentencePair]]


class _Pool:
    """The pairs with the smallest source fingerprints so far, one pair per source.

    `read` counts all pairs, `shared` the pairs whose source is excluded.
    """

    def __init__(self, size: int, excluded: FingerprintSet) -> None:
        self.read = self.shared = 0
        self._size, self._excluded = size, excluded
        self._kept: dict[int, tuple[int, SentencePair]] = {}
        self._limit = np.uint64(2**64 - 1)

    def add(self, chunk: Sequence[SentencePair], values: Fingerprints) -> None:
        excluded = self._excluded.contains(values)
        self.shared += int(excluded.sum())
        for place in np.flatnonzero((values <= self._limit) & ~excluded).tolist():
            pair = chunk[place]
            if pair.src.strip() and pair.tgt.strip():
                self._kept.setdefault(int(values[place]), (self.read + place, pair))
        self.read += len(chunk)
        if len(self._kept) > self._size:
            self._kept = dict(self.smallest())
            self._limit = np.uint64(max(self._kept))

    def smallest(self) -> list[_Placed]:
        return sorted(self._kept.items())[: self._size]


def _in_file_order(chosen: Sequence[_Placed]) -> tuple[SentencePair, ...]:
    return tuple(pair for _, pair in sorted((placed for _, placed in chosen), key=lambda placed: placed[0]))


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

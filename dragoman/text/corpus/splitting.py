"""Hold out validation and test pairs from the training text, so that they share no source sentence with training.

Sources are compared without case, spacing and Unicode composition. The held-out sources are those with the smallest
keyed fingerprints, so the choice depends only on the seed and the text, not on the order of the file.

64-bit fingerprints of texts, and a compact set of fingerprints.

They find repeated pairs and leaks between training and test without holding the text in memory. With ten million
texts, the probability that any two of them collide is about 3 in a million (birthday bound n ** 2 / 2 ** 65).
"""

import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dragoman.config import DataSettings
from dragoman.errors import DataError
from dragoman.records import SentencePair

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
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Validation and test pairs taken from the training text, and all sources that training must not see.

    Each source occurs once in `dev` and `test` together. `sources` also has the sources of validation and test files.
    `read` has the fingerprints of the training sources in file order, in chunks of `CHUNK_PAIRS`, if the choice needed
    them. A `Cleaner` of the same file consumes them instead of computing them again.
    """

    dev: tuple[SentencePair, ...] = ()
    test: tuple[SentencePair, ...] = ()
    sources: FingerprintSet = field(default_factory=FingerprintSet)
    seed: int = 0
    read: deque[Fingerprints] = field(default_factory=deque)


def hold_out(
    train: Iterable[SentencePair],
    settings: DataSettings,
    seed: int,
    *,
    dev: Iterable[SentencePair] | None = None,
    test: Iterable[SentencePair] | None = None,
    names: tuple[str, str] = ("the training data", "the validation or test data"),
) -> HeldOut:
    """Hold out a validation and a test set, unless they are given. Reads `train` once if something is held out.

    A held-out part has at least one pair, at most `data.max_held_out`, and both together at most half of the distinct
    sources. The first pair of a source is taken. Memory is proportional to `max_held_out` and the given parts, plus 8
    bytes per pair read.

    Parameters
    ----------
    dev, test
        The pairs of validation and test files, if there are any.
    names
        Names of the training text and of the given parts in errors.

    Raises
    ------
    DataError
        If too few distinct sources are left.
    """
    sources = FingerprintSet()
    for chunk in chunks(chain(dev or (), test or ()), CHUNK_PAIRS):
        sources.add(source_fingerprints(chunk, seed))
    fractions = [0.0 if dev is not None else settings.dev_fraction, 0.0 if test is not None else settings.test_fraction]
    if not any(fractions):
        return HeldOut(sources=sources, seed=seed)
    parts = sum(fraction > 0.0 for fraction in fractions)
    pool = _Pool(2 * parts * settings.max_held_out, sources)
    read: deque[Fingerprints] = deque()
    for chunk in chunks(train, CHUNK_PAIRS):
        read.append(source_fingerprints(chunk, seed))
        pool.add(chunk, read[-1])
    chosen = pool.smallest()
    if pool.shared and not chosen:
        raise only_shared_sources_error(*names)
    if len(chosen) <= parts:
        besides = f" besides those in {names[1]}" if pool.shared else ""
        raise DataError(
            f"The training data has {len(chosen)} different source sentences{besides}, too few to hold some out. "
            "Add more text, or set `data.dev` to a file."
        )
    most = min(settings.max_held_out, max(len(chosen) // (2 * parts), 1))
    sizes = [min(max(round(fraction * pool.read), 1), most) if fraction else 0 for fraction in fractions]
    sources.add(np.array([fingerprint for fingerprint, _ in chosen[: sum(sizes)]], np.uint64))
    first, second = chosen[: sizes[0]], chosen[sizes[0] : sum(sizes)]
    return HeldOut(_in_file_order(first), _in_file_order(second), sources, seed, read)


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

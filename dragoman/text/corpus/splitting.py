"""Holding out validation and test pairs, so that no source sentence is on both sides.

Sources are compared without case, spacing and Unicode composition. Which are held out depends only on the seed
and the text, not on the order of the file: those with the smallest keyed fingerprints.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TypeVar

import numpy as np

from dragoman.config import DataSettings
from dragoman.errors import DataError
from dragoman.records import SentencePair
from dragoman.text.fingerprints import Fingerprints, FingerprintSet, fingerprints, normalize_text

CHUNK_PAIRS = 1 << 15
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Validation and test pairs taken from the training text, and every source that training must not see.

    Each source occurs once in `dev` and `test` together. `sources` also holds those of validation and test files.
    `read` are the fingerprints of the training sources in the order of the file, where they were made to choose the
    pairs: a `Cleaner` of the same file takes them out instead of computing them again.
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
    """Holds out what is not given as `dev` or `test`; reads `train` once where something is to be held out.

    At least one pair and at most `max_held_out` a part, and never more than half of the distinct sources; the first
    pair of a source is taken. `names` are what errors call the training text and the given parts. Memory follows
    `max_held_out`, the given parts, and 8 bytes a pair read. Raises DataError where too few different sources are left.
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
            "Give more text, or set `data.dev` to a file."
        )
    most = min(settings.max_held_out, max(len(chosen) // (2 * parts), 1))
    sizes = [min(max(round(fraction * pool.read), 1), most) if fraction else 0 for fraction in fractions]
    sources.add(np.array([fingerprint for fingerprint, _ in chosen[: sum(sizes)]], np.uint64))
    first, second = chosen[: sizes[0]], chosen[sizes[0] : sum(sizes)]
    return HeldOut(_in_file_order(first), _in_file_order(second), sources, seed, read)


def only_shared_sources_error(train: str, given: str) -> DataError:
    """The error for a training text of which every source is in the validation or test data, by their names."""
    return DataError(
        f"every source sentence of {train} is also in {given}, so that no pair is left to train on. Name another file "
        "for validation and test, or leave it out: a part of the training data is held out for validation then."
    )


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` items, the last one shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def source_fingerprints(pairs: Sequence[SentencePair], seed: int) -> Fingerprints:
    """Fingerprints of the normalised sources, keyed by the seed."""
    return fingerprints((normalize_text(pair.src) for pair in pairs), key=seed.to_bytes(8, "big"))


_Placed = tuple[int, tuple[int, SentencePair]]


class _Pool:
    """The pairs with the smallest source fingerprints seen so far, the first of each source.

    Of the `read` pairs, `shared` have a source that is excluded.
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

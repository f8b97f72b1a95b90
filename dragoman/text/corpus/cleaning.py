"""Cleaning: remove training pairs that do not help or do harm, and count the pairs that each rule removes.

A pair counts for the first rule that removes it. Rules on text run before tokenization, rules on lengths after it. Both
work on chunks of pairs. Memory grows by 8 bytes per pair (24 during a merge) if duplicates are removed, and by one bit
per pair otherwise.

Data augmentation: all capitals, all lower case, no final full stop, typing errors.

A model trained on clean text alone translates such text badly. How a pair changes depends only on (seed, epoch,
index), so a resumed run sees the same text as an uninterrupted one.
"""

import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.config import DataSettings
from dragoman.records import SentencePair
from dragoman.text.corpus import splitting
from dragoman.text.corpus.splitting import CHUNK_PAIRS, Fingerprints, FingerprintSet, HeldOut, chunks
from dragoman.text.tokenization.encoding import BatchEncoderPair, EncodedChunk
from dragoman.text.tokenization.encoding_processes import ProcessEncoderPair

_Mask = NDArray[np.bool_]

EMPTY, DUPLICATE = "a side is empty", "repeated pair"
HELD_OUT, SHARED = "held out for validation or test", "source also in validation or test"
TOO_LONG, RATIO = "longer than max_tokens", "lengths too different"
RULES = (EMPTY, HELD_OUT, SHARED, DUPLICATE, TOO_LONG, RATIO)
RATIO_SLACK_TOKENS = 5


@dataclass(slots=True)
class CleaningReport:
    """Number of pairs read, kept, and removed by each rule. At the end ``read == kept + sum(dropped.values())``."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))

    @classmethod
    def of_notes(cls, notes: Mapping[str, Any]) -> "CleaningReport":
        """The counts in the notes of a training store, without those of its several corpora."""
        return cls(**{name: count for name, count in notes.items() if name != "corpora"})

    def __add__(self, other: "CleaningReport") -> "CleaningReport":
        """The counts of both."""
        dropped = {rule: count + other.dropped[rule] for rule, count in self.dropped.items()}
        return CleaningReport(self.read + other.read, self.kept + other.kept, dropped)

    @property
    def num_dropped(self) -> int:
        """Number of pairs removed so far, by any rule."""
        return sum(self.dropped.values())

    def rows(self) -> list[tuple[str, int, float]]:
        """Rows of a table, (name, pairs, share of the pairs read): read, each rule that removed pairs, kept."""
        taken = [(rule, count) for rule, count in self.dropped.items() if count]
        counts = [("read", self.read), *taken, ("kept", self.kept)]
        return [(name, count, count / max(self.read, 1)) for name, count in counts]


class Cleaner:
    """Applies the cleaning rules of [data] to one corpus.

    The first complete pass decides which pairs to keep and stores one bit per pair. Later passes over the same pairs
    repeat its decisions and do not count again.
    """

    def __init__(
        self,
        settings: DataSettings,
        held_out: HeldOut | None = None,
        read: deque[Fingerprints] | None = None,
        seen: FingerprintSet | None = None,
    ) -> None:
        """`read` has fingerprints of the first sources of the corpus in chunks, if known. The first pass empties it.

        `seen` has the pairs of the corpora before this one, which must all have been read, and receives its own.
        """
        self.report = CleaningReport()
        self._read = read or deque()
        self._settings = settings
        self._held_out = held_out
        self._own = {*held_out.dev, *held_out.test, *held_out.own} if held_out else set()
        self._seen = FingerprintSet() if seen is None else seen
        self._decided: list[NDArray[np.uint8]] = []

    def clean(
        self, pairs: Iterable[SentencePair], encoder: BatchEncoderPair | ProcessEncoderPair
    ) -> Iterator[EncodedChunk]:
        """The pairs that all rules keep, in order, with their ids. Counts every removed pair in `report`."""
        for chunk in encoder.encode_chunks(self._kept(pairs)):
            keep = self.keep_lengths(chunk.src.lengths, chunk.tgt.lengths)
            kept = list(compress(chunk.pairs, keep.tolist()))
            yield EncodedChunk(kept, chunk.src.select(keep), chunk.tgt.select(keep))

    def clean_texts(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """The pairs that the rules on text keep, for training a tokenizer. `report.kept` stays 0."""
        return chain.from_iterable(self._kept(pairs))

    def _kept(self, pairs: Iterable[SentencePair]) -> Iterator[list[SentencePair]]:
        """The pairs that the rules on text keep, in chunks."""
        if self._decided:
            for chunk, packed in zip(chunks(pairs, CHUNK_PAIRS), self._decided, strict=True):
                yield list(compress(chunk, np.unpackbits(packed, count=len(chunk)).tolist()))
            return
        decided = []
        for chunk in chunks(pairs, CHUNK_PAIRS):
            keep = self.keep_texts(chunk)
            decided.append(np.packbits(keep))
            yield list(compress(chunk, keep.tolist()))
        self._decided, self._seen = decided, FingerprintSet()

    def keep_texts(self, pairs: Sequence[SentencePair]) -> _Mask:
        """True for pairs with two non-empty sides, no held-out source, and no earlier duplicate, (pairs,)."""
        self.report.read += len(pairs)
        keep = np.fromiter((bool(pair.src.strip() and pair.tgt.strip()) for pair in pairs), np.bool_, len(pairs))
        self.report.dropped[EMPTY] += len(pairs) - int(keep.sum())
        if self._held_out is not None and len(self._held_out.sources):
            values = self._fingerprints(pairs, self._held_out.seed)
            shared = keep & self._held_out.sources.contains(values)
            own = self._held_out_here(pairs, shared)
            self._drop(keep, own[keep], HELD_OUT)
            self._drop(keep, shared[keep], SHARED)
        if self._settings.drop_duplicates:
            # The length in front keeps ("ab", "c") and ("a", "bc") apart.
            texts = (f"{len(pair.src)} {pair.src}{pair.tgt}" for pair in compress(pairs, keep.tolist()))
            self._drop(keep, ~self._seen.add(splitting.fingerprints(texts)), DUPLICATE)
        return keep

    def _held_out_here(self, pairs: Sequence[SentencePair], shared: _Mask) -> _Mask:
        """True for the first occurrence of every held-out pair. The other `shared` pairs only share its source."""
        own = np.zeros(len(pairs), np.bool_)
        for place in np.flatnonzero(shared).tolist() if self._own else ():
            own[place] = pairs[place] in self._own
            self._own.discard(pairs[place])
        return own

    def _fingerprints(self, pairs: Sequence[SentencePair], seed: int) -> Fingerprints:
        """Fingerprints of the sources, taken from the known ones while they last."""
        known = self._read.popleft() if self._read else np.zeros(0, np.uint64)
        return np.concatenate([known, splitting.source_fingerprints(pairs[len(known) :], seed)])

    def _drop(self, keep: _Mask, taken: _Mask, rule: str) -> None:
        """Clear `keep` in place for the kept pairs where `taken` is true, and count them."""
        self.report.dropped[rule] += int(taken.sum())
        keep[np.flatnonzero(keep)[taken]] = False

    def keep_lengths(self, src: NDArray[np.int64], tgt: NDArray[np.int64]) -> _Mask:
        """True for pairs that are short enough and similar in length. Lengths are in tokens, without control tokens."""
        longer, shorter = np.maximum(src, tgt), np.minimum(src, tgt)
        short = longer <= self._settings.max_tokens
        alike = longer <= self._settings.max_length_ratio * shorter + RATIO_SLACK_TOKENS
        keep: _Mask = short & alike
        self.report.dropped[TOO_LONG] += int((~short).sum())
        self.report.dropped[RATIO] += int((short & ~alike).sum())
        self.report.kept += int(keep.sum())
        return keep


_DOTS = (".", "。", "।")
_LETTERS_AN_ERROR = 20
_STREAM = 0x5EED << 129  # separates the random numbers from those of BPE dropout, which uses the same key


def is_augmented(settings: DataSettings) -> bool:
    """Whether any pair can change."""
    return max(settings.augment_case, settings.augment_punctuation, settings.augment_noise) > 0


def augment(settings: DataSettings, src: str, tgt: str, seed: int, epoch: int, index: int) -> tuple[str, str]:
    """The pair for this epoch. A side that is not empty never becomes empty.

    Each kind of change applies to its share of the pairs, independently of the others. Capitals and the missing full
    stop apply to both sides, so that the model keeps the style of the source. Lower case and typing errors apply to the
    source alone, so that the model learns to correct them.
    """
    rng = random.Random(_STREAM + (seed << 96) + (epoch << 64) + index)
    without_dot, other_case, capitals, noisy = (rng.random() for _ in range(4))
    if without_dot < settings.augment_punctuation and _ends_in_one_dot(src) and _ends_in_one_dot(tgt):
        src, tgt = src.rstrip()[:-1].rstrip(), tgt.rstrip()[:-1].rstrip()
    if noisy < settings.augment_noise:
        src = add_typos(src, rng)
    if other_case < settings.augment_case:
        src, tgt = (src.upper(), tgt.upper()) if capitals < 0.5 else (src.lower(), tgt)
    return src, tgt


def add_typos(text: str, rng: random.Random) -> str:
    """The text with about one error per 20 letters: a swap, a missing, a doubled or a wrong letter."""
    written, place = [], 0
    letters = [char for char in text if char.isalpha()]
    while place < len(text):
        char, following = text[place], text[place + 1 : place + 2]
        place += 1
        if not (char.isalpha() and following.isalpha()) or rng.random() * _LETTERS_AN_ERROR >= 1:
            written.append(char)
            continue
        kind = rng.randrange(4)
        if kind == 0:
            written += [following, char]
            place += 1
        elif kind == 1:
            written += [char, char]
        elif kind == 2:
            written.append(rng.choice(letters))
    return "".join(written)


def _ends_in_one_dot(text: str) -> bool:
    text = text.rstrip()
    rest = text[:-1].rstrip()
    return text.endswith(_DOTS) and bool(rest) and not rest.endswith(_DOTS)

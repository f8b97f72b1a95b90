"""Leaving out training pairs that teach nothing or harm: every rule counts what it takes.

A pair counts for the first rule that takes it. Rules on text come before tokenising, rules on lengths after it;
both work on chunks of pairs. Memory grows by 8 bytes a pair (24 in the moment of a merge) where repetitions
are left out, and not at all otherwise.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dragoman.config import DataSettings
from dragoman.records import EncodedPair, SentencePair
from dragoman.text.fingerprints import FingerprintSet, fingerprints
from dragoman.text.splitting import HeldOut, chunks
from dragoman.text.tokenizer import TokenizerPair

Mask = NDArray[np.bool_]

EMPTY, HELD_OUT, DUPLICATE = "a side is empty", "source in dev or test", "repeated pair"
TOO_LONG, RATIO = "longer than max_tokens", "lengths too different"
RULES = (EMPTY, HELD_OUT, DUPLICATE, TOO_LONG, RATIO)
RATIO_SLACK_TOKENS = 5
_CHUNK_PAIRS = 1 << 14


@dataclass(slots=True)
class CleaningReport:
    """Pairs read, pairs kept, and pairs left out by each rule: ``read == kept + sum(dropped.values())`` at the end."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))

    def rows(self) -> list[tuple[str, int, float]]:
        """(what, pairs, share of the pairs read), for a table: read, each rule that took something, kept."""
        taken = [(rule, count) for rule, count in self.dropped.items() if count]
        counts = [("read", self.read), *taken, ("kept", self.kept)]
        return [(name, count, count / max(self.read, 1)) for name, count in counts]


class Cleaner:
    """The rules as settings make them, with their memory of what was seen; one for each pass over the data."""

    def __init__(self, settings: DataSettings, held_out: HeldOut | None = None) -> None:
        self.report = CleaningReport()
        self._settings = settings
        self._held_out = held_out
        self._seen = FingerprintSet()

    def clean(
        self, pairs: Iterable[SentencePair], tokenizers: TokenizerPair
    ) -> Iterator[tuple[SentencePair, EncodedPair]]:
        """The pairs that all rules keep, in order, with their ids."""
        for chunk in chunks(pairs, _CHUNK_PAIRS):
            kept = self.keep_texts(chunk)
            src = tokenizers.src.encode_batch([pair.src for pair in kept])
            tgt = tokenizers.tgt.encode_batch([pair.tgt for pair in kept])
            keep = self.keep_lengths([len(ids) for ids in src], [len(ids) for ids in tgt])
            for place in np.flatnonzero(keep).tolist():
                yield kept[place], EncodedPair(src[place], tgt[place])

    def clean_texts(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """The pairs that the rules on text keep, for training a tokeniser; `report.kept` stays 0."""
        for chunk in chunks(pairs, _CHUNK_PAIRS):
            yield from self.keep_texts(chunk)

    def keep_texts(self, pairs: Sequence[SentencePair]) -> list[SentencePair]:
        """A chunk without empty sides, held-out sources, and repetitions of a pair in this or an earlier chunk."""
        self.report.read += len(pairs)
        kept = [pair for pair in pairs if pair.src.strip() and pair.tgt.strip()]
        self.report.dropped[EMPTY] += len(pairs) - len(kept)
        if self._held_out is not None and len(self._held_out.sources):
            kept = self._select(kept, ~self._held_out.contains(kept), HELD_OUT)
        if self._settings.drop_duplicates:
            # The length in front keeps ("ab", "c") and ("a", "bc") apart.
            new = self._seen.add(fingerprints(f"{len(pair.src)} {pair.src}{pair.tgt}" for pair in kept))
            kept = self._select(kept, new, DUPLICATE)
        return kept

    def _select(self, pairs: list[SentencePair], keep: Mask, rule: str) -> list[SentencePair]:
        self.report.dropped[rule] += len(pairs) - int(keep.sum())
        return [pair for pair, is_kept in zip(pairs, keep.tolist(), strict=True) if is_kept]

    def keep_lengths(self, src_lengths: Sequence[int], tgt_lengths: Sequence[int]) -> Mask:
        """True for pairs short enough and alike enough in length; lengths in tokens, without control tokens."""
        src, tgt = np.asarray(src_lengths, np.int64), np.asarray(tgt_lengths, np.int64)
        longer, shorter = np.maximum(src, tgt), np.minimum(src, tgt)
        short = longer <= self._settings.max_tokens
        alike = longer <= self._settings.max_length_ratio * shorter + RATIO_SLACK_TOKENS
        keep: Mask = short & alike
        self.report.dropped[TOO_LONG] += int((~short).sum())
        self.report.dropped[RATIO] += int((short & ~alike).sum())
        self.report.kept += int(keep.sum())
        return keep

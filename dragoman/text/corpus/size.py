"""Measure the size of a corpus: pairs, words, alphabet. The default recipe chooses settings by it."""

import re
from collections import Counter
from collections.abc import Sequence

from dragoman.config.recipes import CorpusSize
from dragoman.records import SentencePair
from dragoman.text.tokenization.words import UNSPACED

COVERAGE = 0.9995
"""The share of the text that the alphabet covers, as in SentencePiece. Rarer characters can be spelled in bytes."""

_CHARACTERS_A_WORD = 2
_SAMPLED_AFTER, _SAMPLE_EVERY = 1 << 21, 8
_UNSPACED = re.compile(f"[{UNSPACED}]")


def num_words(text: str) -> int:
    """The number of words between white space. In scripts without spaces, two characters count as one word."""
    if text.isascii():
        return len(text.split())
    spaced, characters = _UNSPACED.subn(" ", text)
    return len(spaced.split()) + -(-characters // _CHARACTERS_A_WORD)


class SizeCounter:
    """Counts pairs, target words and characters, chunk by chunk, in constant memory."""

    def __init__(self) -> None:
        self._pairs = self._words = self._chunks = self._characters = 0
        self._alphabet: Counter[str] = Counter()

    def add(self, chunk: Sequence[SentencePair]) -> None:
        """Count more pairs. After 2 million characters, only every eighth chunk counts for the alphabet."""
        self._pairs += len(chunk)
        self._words += sum(num_words(pair.tgt) for pair in chunk)
        if self._characters < _SAMPLED_AFTER or not self._chunks % _SAMPLE_EVERY:
            text = "".join([side for pair in chunk for side in (pair.src, pair.tgt)])
            self._alphabet.update(text)
            self._characters += len(text)
        self._chunks += 1

    def size(self) -> CorpusSize:
        """The size of everything added so far."""
        needed, covered = 0, 0
        for _, count in self._alphabet.most_common():
            if covered >= COVERAGE * self._characters:
                break
            needed, covered = needed + 1, covered + count
        return CorpusSize(self._pairs, self._words, needed)

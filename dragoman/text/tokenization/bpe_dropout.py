"""BPE dropout: random segmentations for training (Provilkov et al. 2020, section 3).

At every merge step each possible merge is dropped with some probability, and the best remaining merge is made. The word
is done when no merge remains. The random numbers depend only on seed, epoch, sentence and side, so a resumed run sees
the same segmentations as an uninterrupted one. The dropout of the `tokenizers` library cannot be seeded.
"""

import json
import math
import random
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

from tokenizers import Tokenizer as LibraryTokenizer

from dragoman.errors import ConfigError
from dragoman.text.charsets import replace_surrogates
from dragoman.text.tokenization.pipelines import byte_token
from dragoman.text.tokenization.tokenizer import Tokenizer

_MAX_SYMBOLS = 200
_MAX_CACHED_WORDS = 1 << 17


class BpeDropout:
    """Segments text like `tokenizer`, with merges dropped at random.

    A word of more than 200 characters is first cut into parts of 200, so that no input takes quadratic time.
    `probability` is at least 0 and below 1. Raises ConfigError for tokenizers without merges.
    """

    def __init__(self, tokenizer: Tokenizer, probability: float) -> None:
        if tokenizer.kind not in ("byte_bpe", "fallback_bpe"):
            raise ConfigError(
                f"`tokenizer.bpe_dropout` is {probability}, but a tokenizer of kind {tokenizer.kind} has no merges. "
                "Set `tokenizer.kind` to bpe, or `tokenizer.bpe_dropout` to 0."
            )
        model = json.loads(tokenizer.library.to_str())["model"]
        self._tokenizer = tokenizer
        self._probability = probability
        self._vocab: dict[str, int] = model["vocab"]
        self._merges = {
            (self._vocab[left], self._vocab[right]): (rank, self._vocab[left + right])
            for rank, (left, right) in enumerate(model["merges"])
        }
        self._segmented = lru_cache(_MAX_CACHED_WORDS)(self._segment)

    def encode(self, text: str, seed: int, epoch: int, index: int, side: int) -> list[int]:
        """The ids of a text, deterministic in all arguments. `index` is the sentence, `side` 0 (src) or 1 (tgt)."""
        if self._probability == 0.0:
            return self._tokenizer.encode(text)
        draw = random.Random((seed << 97) + (epoch << 65) + (index << 1) + side).random
        scale = 1.0 / math.log1p(-self._probability)
        ids: list[int] = []
        for word in self._words(text):
            symbols, merged = self._segmented(word)
            num_merges = len(symbols) - len(merged)
            # The number of merges before the best one is first dropped follows a geometric distribution.
            undisturbed = int(math.log(1.0 - draw()) * scale) if num_merges else 0
            if undisturbed >= num_merges:
                ids += merged
            else:
                ids += self._merge(symbols, undisturbed, draw)
        return ids

    def _words(self, text: str) -> list[str]:
        library = self._tokenizer.library
        assert isinstance(library, LibraryTokenizer)
        normalized = library.normalizer.normalize_str(replace_surrogates(text)) if text else text
        return [
            word[start : start + _MAX_SYMBOLS]
            for word, _ in library.pre_tokenizer.pre_tokenize_str(normalized)
            for start in range(0, len(word), _MAX_SYMBOLS)
        ]

    def _segment(self, word: str) -> tuple[list[int], list[int]]:
        """The ids of a word before its first merge and after its last one. Each merge makes one id of two."""
        spelled = ([char] if char in self._vocab else map(byte_token, char.encode("utf-8")) for char in word)
        symbols = [self._vocab[token] for tokens in spelled for token in tokens]
        return symbols, self._merge(symbols, len(symbols), random.random)

    def _merge(self, symbols: list[int], undisturbed: int, draw: Callable[[], float]) -> list[int]:
        """Merge while possible: `undisturbed` steps without dropout, one without its best merge, then with dropout."""
        symbols, merges, probability = list(symbols), self._merges, self._probability
        for step in range(len(symbols)):
            found = ((merges.get(pair), place) for place, pair in enumerate(pairwise(symbols)))
            possible = [(merge, place) for merge, place in found if merge is not None]
            if step < undisturbed:
                best = min(possible, default=None)
            else:
                possible.sort()
                left = iter(possible[1:] if step == undisturbed else possible)
                best = next((candidate for candidate in left if draw() >= probability), None)
            if best is None:
                break
            (_, merged), place = best
            symbols[place : place + 2] = [merged]
        return symbols

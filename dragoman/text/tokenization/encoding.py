"""Encode many texts at once, each distinct word only once, and cut words at random (BPE dropout).

A text of words separated by single spaces is always cut at these spaces (`pipelines.py`), so its ids are those of its
words in order. Most words of a corpus are frequent: a table lookup is several times faster than tokenization. Other
texts (double spaces, other white space) go through the tokenizer as a whole. The ids are the same either way.

BPE dropout (Provilkov et al. 2020, section 3) drops each possible merge with some probability. The random numbers
depend only on seed, epoch, sentence and side, so a resumed run sees the same segmentations. The dropout of the
`tokenizers` library cannot be seeded.
"""

import json
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise, repeat

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as LibraryTokenizer

from dragoman.errors import ConfigError
from dragoman.records import UNK_ID, SentencePair
from dragoman.text.corpus.splitting import chunks
from dragoman.text.lines import replace_surrogates
from dragoman.text.tokenization.pipelines import WORD_PATTERN, byte_token
from dragoman.text.tokenization.tokenizer import Tokenizer, TokenizerPair

_MAX_CACHED_WORDS = 1 << 17
"""Words that an encoder caches, about 25 MB. It keeps the first ones, which include all frequent words."""

_WORDS_AT_ONCE = 32
_TEXTS_SIDE_BY_SIDE = 16
_END, _MIXED, _NOTHING = 0, 1, 2  # the first rows of the table, without ids
_UNKNOWN = -1
_BETWEEN = " \n "


@dataclass(frozen=True, slots=True)
class RaggedIds:
    """Rows of ids of different lengths: `ids` of all rows in order, and `lengths` (rows,)."""

    ids: NDArray[np.int32]
    lengths: NDArray[np.int64]

    @staticmethod
    def of(rows: Sequence[Sequence[int]]) -> "RaggedIds":
        """Rows from lists of ids."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return RaggedIds(np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def select(self, keep: NDArray[np.bool_]) -> "RaggedIds":
        """The rows where `keep` (rows,) is true."""
        return self if keep.all() else RaggedIds(self.ids[np.repeat(keep, self.lengths)], self.lengths[keep])

    def concatenate(self, other: "RaggedIds") -> "RaggedIds":
        """These rows, then the rows of `other`."""
        return RaggedIds(np.concatenate((self.ids, other.ids)), np.concatenate((self.lengths, other.lengths)))

    def regroup(self, order: NDArray[np.int64], ends: NDArray[np.int64]) -> "RaggedIds":
        """Join rows to new rows: the first one has the ids of the rows ``order[: ends[0]]``, and so on."""
        lengths = self.lengths[order]
        sums = np.concatenate(([0], np.cumsum(lengths)))
        shifts = (np.cumsum(self.lengths) - self.lengths)[order] - sums[:-1]
        return RaggedIds(self.ids[np.repeat(shifts, lengths) + np.arange(sums[-1])], np.diff(sums[ends], prepend=0))

    def to_lists(self) -> list[list[int]]:
        """The rows as lists of ids."""
        ends = np.cumsum(self.lengths).tolist()
        ids = self.ids.tolist()
        return [ids[end - length : end] for end, length in zip(ends, self.lengths.tolist(), strict=True)]


class BatchEncoder:
    """`Tokenizer.encode_batch` with a cache of at most `max_words` words. Not thread-safe."""

    def __init__(self, tokenizer: Tokenizer, max_words: int = _MAX_CACHED_WORDS) -> None:
        self._tokenizer = tokenizer
        self._max_words = max_words
        self._cuts_at_spaces = splits_at_spaces(tokenizer)
        self._line_feed_id = _line_feed_id(tokenizer)
        self._places = {"\n": _END}
        self._table = RaggedIds.of([[], [], []])

    def encode(self, texts: Sequence[str]) -> RaggedIds:
        """The ids of each text, without control ids. The row of an empty text is empty."""
        if isinstance(texts, str) or not self._cuts_at_spaces:
            return self._whole(texts)
        words = _BETWEEN.join(texts).split(" ")
        order = np.fromiter(map(self._places.get, words, repeat(_UNKNOWN)), np.int64, len(words))
        ends = np.append(np.flatnonzero(order == _END), len(order))
        if len(ends) != len(texts):  # there is no text, or a text contains the separator
            return self._whole(texts)
        table = self._with_new_words(words, order)
        return self._with_whole_texts(table, texts, order, ends).regroup(order, ends)

    def _whole(self, texts: Sequence[str]) -> RaggedIds:
        return RaggedIds.of(self._tokenizer.encode_batch(texts))

    def _apart(self, words: list[str]) -> RaggedIds:
        """The ids of each word. Several words are encoded as one text, separated by line feeds, which is faster."""
        if self._line_feed_id is None:
            return self._whole(words)
        starts = range(0, len(words), _WORDS_AT_ONCE)
        ids = self._whole(["\n ".join(words[start : start + _WORDS_AT_ONCE]) + "\n" for start in starts]).ids
        is_word = ids != self._line_feed_id
        return RaggedIds(ids[is_word], np.diff(np.flatnonzero(~is_word), prepend=-1) - 1)

    def _with_new_words(self, words: list[str], order: NDArray[np.int64]) -> RaggedIds:
        """The table plus the unknown words, whose rows are written into `order`. Keeps up to `max_words` words."""
        unknown = np.flatnonzero(order == _UNKNOWN).tolist()
        if not unknown:
            return self._table
        new = [word for word in dict.fromkeys(words[index] for index in unknown) if word.split() == [word]]
        table = self._table.concatenate(self._apart(new))
        places = dict(zip(new, range(len(self._table), len(table)), strict=True))
        order[unknown] = [places.get(words[index], _MIXED) for index in unknown]
        if len(table) <= self._max_words:
            self._table = table
            self._places.update(places)
        return table

    def _with_whole_texts(
        self, table: RaggedIds, texts: Sequence[str], order: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> RaggedIds:
        """The table plus the texts that are not just words and single spaces. Each replaces its words in `order`."""
        mixed = np.unique(np.searchsorted(ends, np.flatnonzero(order == _MIXED))).tolist()
        if not mixed:
            return table
        for place, text in enumerate(mixed, start=len(table)):
            start = int(ends[text - 1]) + 1 if text else 0
            order[start : ends[text]] = _NOTHING
            order[start] = place
        return table.concatenate(self._whole([texts[text] for text in mixed]))


def concatenate_texts(texts: Iterable[str]) -> Iterator[str]:
    """Join texts to fewer and longer ones with the same words, from which a tokenizer learns the same in less time.

    Texts are joined by a space, at which the tokenizer cuts. Groups with a text that starts or ends in white space are
    not joined.
    """
    for group in chunks(texts, _TEXTS_SIDE_BY_SIDE):
        if all(group) and not any(text[0].isspace() or text[-1].isspace() for text in group):
            yield " ".join(group)
        else:
            yield from group


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    """Pairs with the ids of both sides."""

    pairs: list[SentencePair]
    src: RaggedIds
    tgt: RaggedIds


@dataclass(frozen=True, slots=True)
class BatchEncoderPair:
    """The encoders of both sides. Both are the same object if the vocabulary is joint."""

    src: BatchEncoder
    tgt: BatchEncoder

    @staticmethod
    def of(tokenizers: TokenizerPair) -> "BatchEncoderPair":
        """Encoders with empty caches."""
        src = BatchEncoder(tokenizers.src)
        return BatchEncoderPair(src, src if tokenizers.joint else BatchEncoder(tokenizers.tgt))

    def encode(self, pairs: Sequence[SentencePair]) -> tuple[RaggedIds, RaggedIds]:
        """The ids of the sources and of the targets."""
        return self.src.encode([pair.src for pair in pairs]), self.tgt.encode([pair.tgt for pair in pairs])

    def encode_chunks(self, chunks: Iterable[list[SentencePair]]) -> Iterator[EncodedChunk]:
        """Each chunk with the ids of both sides, in order."""
        for chunk in chunks:
            yield EncodedChunk(chunk, *self.encode(chunk))


def _line_feed_id(tokenizer: Tokenizer) -> int | None:
    """The id that stands for a line feed and nothing else, or None."""
    word = tokenizer.encode("a")
    found = tokenizer.encode("a\n a")[len(word) : -len(word) or None]
    return found[0] if len(found) == 1 and found[0] != UNK_ID else None


def splits_at_spaces(tokenizer: Tokenizer) -> bool:
    """Whether a space between two other characters always starts a piece, as with the pattern of the tokenizers."""
    pipeline = json.loads(tokenizer.library.to_str())
    first = ((pipeline.get("pre_tokenizer") or {}).get("pretokenizers") or [{}])[0]
    split = {"type": "Split", "pattern": {"Regex": WORD_PATTERN}, "behavior": "Isolated", "invert": False}
    return bool(first == split and pipeline.get("normalizer") == {"type": "Prepend", "prepend": " "})


_MAX_SYMBOLS = 200


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

"""Many texts to ids at once, every different word cut and merged only once.

A text of words with single spaces between them is cut at each of the spaces, whatever stands beside them (see
`pipelines.py`), so its ids are those of its words one after the other. Nearly all words of a corpus
occur often: they are looked up in a table, several times faster than they are tokenised. What is not so simple (double
spaces, other white space) goes through the tokeniser as a whole. The ids are the same either way.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dragoman.records import SentencePair
from dragoman.text.corpus.splitting import chunks
from dragoman.text.tokenization.pipelines import WORD_PATTERN
from dragoman.text.tokenization.tokenizer import UNK_ID, Tokenizer, TokenizerPair

_MAX_CACHED_WORDS = 1 << 17
"""Words remembered by an encoder, some 25 MB: the first ones met, so all that are frequent."""

_WORDS_AT_ONCE = 32
_TEXTS_SIDE_BY_SIDE = 16
_END, _MIXED, _NOTHING = 0, 1, 2  # the first rows of the table, which have no ids
_UNKNOWN = -1
_BETWEEN = " \n "


@dataclass(frozen=True, slots=True)
class RaggedIds:
    """The ids of several texts, one text after the other, and how many each has."""

    ids: NDArray[np.int32]
    lengths: NDArray[np.int64]

    @staticmethod
    def of(rows: Sequence[Sequence[int]]) -> "RaggedIds":
        """Lists of ids as rows."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return RaggedIds(np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def select(self, keep: NDArray[np.bool_]) -> "RaggedIds":
        """The rows where `keep` (rows,) is true."""
        return self if keep.all() else RaggedIds(self.ids[np.repeat(keep, self.lengths)], self.lengths[keep])

    def concatenate(self, other: "RaggedIds") -> "RaggedIds":
        """The rows of both."""
        return RaggedIds(np.concatenate((self.ids, other.ids)), np.concatenate((self.lengths, other.lengths)))

    def regroup(self, order: NDArray[np.int64], ends: NDArray[np.int64]) -> "RaggedIds":
        """Rows put together: the first is made of the rows named in ``order[: ends[0]]``, and so on."""
        lengths = self.lengths[order]
        sums = np.concatenate(([0], np.cumsum(lengths)))
        shifts = (np.cumsum(self.lengths) - self.lengths)[order] - sums[:-1]
        return RaggedIds(self.ids[np.repeat(shifts, lengths) + np.arange(sums[-1])], np.diff(sums[ends], prepend=0))

    def to_lists(self) -> list[list[int]]:
        """The ids of each text."""
        ends = np.cumsum(self.lengths).tolist()
        ids = self.ids.tolist()
        return [ids[end - length : end] for end, length in zip(ends, self.lengths.tolist(), strict=True)]


class BatchEncoder:
    """`Tokenizer.encode_batch` with a memory of at most `max_words` words. For one thread at a time."""

    def __init__(self, tokenizer: Tokenizer, max_words: int = _MAX_CACHED_WORDS) -> None:
        self._tokenizer = tokenizer
        self._max_words = max_words
        self._cuts_at_spaces = splits_at_spaces(tokenizer)
        self._line_feed_id = _line_feed_id(tokenizer)
        self._places = {"\n": _END}
        self._table = RaggedIds.of([[], [], []])

    def encode(self, texts: Sequence[str]) -> RaggedIds:
        """The ids of each text, without control ids; a row without ids where the text is empty."""
        if not self._cuts_at_spaces:
            return self._whole(texts)
        words = _BETWEEN.join(texts).split(" ")
        order = np.fromiter(map(self._places.get, words, repeat(_UNKNOWN)), np.int64, len(words))
        ends = np.append(np.flatnonzero(order == _END), len(order))
        if len(ends) != len(texts):  # there is no text, or one holds what was put between them
            return self._whole(texts)
        table = self._with_new_words(words, order)
        return self._with_whole_texts(table, texts, order, ends).regroup(order, ends)

    def _whole(self, texts: Iterable[str]) -> RaggedIds:
        return RaggedIds.of(self._tokenizer.encode_batch(list(texts)))

    def _apart(self, words: list[str]) -> RaggedIds:
        """The ids of each word: through texts of several words that end in line feeds, which is faster."""
        if self._line_feed_id is None:
            return self._whole(words)
        starts = range(0, len(words), _WORDS_AT_ONCE)
        ids = self._whole("\n ".join(words[start : start + _WORDS_AT_ONCE]) + "\n" for start in starts).ids
        is_word = ids != self._line_feed_id
        return RaggedIds(ids[is_word], np.diff(np.flatnonzero(~is_word), prepend=-1) - 1)

    def _with_new_words(self, words: list[str], order: NDArray[np.int64]) -> RaggedIds:
        """The table with the unknown words, whose places are written into `order`; they are kept up to `max_words`."""
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
        """The table with the texts that are more than words and single spaces, each in the place of its words."""
        mixed = np.unique(np.searchsorted(ends, np.flatnonzero(order == _MIXED))).tolist()
        if not mixed:
            return table
        for place, text in enumerate(mixed, start=len(table)):
            start = int(ends[text - 1]) + 1 if text else 0
            order[start : ends[text]] = _NOTHING
            order[start] = place
        return table.concatenate(self._whole(texts[text] for text in mixed))


def concatenate_texts(texts: Iterable[str]) -> Iterator[str]:
    """Fewer and longer texts with the same pieces of the same words: a tokeniser learns the same from them, sooner.

    Texts stand next to each other with a space between, which is where they are cut, unless one begins or ends in white
    space.
    """
    for group in chunks(texts, _TEXTS_SIDE_BY_SIDE):
        if all(group) and not any(text[0].isspace() or text[-1].isspace() for text in group):
            yield " ".join(group)
        else:
            yield from group


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    """Some pairs with the ids of both sides."""

    pairs: list[SentencePair]
    src: RaggedIds
    tgt: RaggedIds


class PairEncoder(Protocol):
    """What encodes many pairs."""

    def encode_chunks(self, chunks: Iterable[list[SentencePair]]) -> Iterator[EncodedChunk]:
        """Each chunk with the ids of both sides, in order."""
        ...


@dataclass(frozen=True, slots=True)
class BatchEncoderPair:
    """The encoders of both sides; one and the same object where the vocabulary is joint."""

    src: BatchEncoder
    tgt: BatchEncoder

    @staticmethod
    def of(tokenizers: TokenizerPair) -> "BatchEncoderPair":
        """Encoders that remember nothing yet."""
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
    """The id that a line feed, and nothing else, becomes; None where there is none."""
    word = tokenizer.encode("a")
    found = tokenizer.encode("a\n a")[len(word) : -len(word) or None]
    return found[0] if len(found) == 1 and found[0] != UNK_ID else None


def splits_at_spaces(tokenizer: Tokenizer) -> bool:
    """Whether a space between two other characters is always the beginning of a piece, as in this project's own cut."""
    pipeline = json.loads(tokenizer.library.to_str())
    first = ((pipeline.get("pre_tokenizer") or {}).get("pretokenizers") or [{}])[0]
    split = {"type": "Split", "pattern": {"Regex": WORD_PATTERN}, "behavior": "Isolated", "invert": False}
    return bool(first == split and pipeline.get("normalizer") == {"type": "Prepend", "prepend": " "})

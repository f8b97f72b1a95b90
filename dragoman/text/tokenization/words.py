"""Group tokens into words. Only the tokens are needed, so this works for a model's output too.

There are two kinds of words. *Spaced words* stand between white space, as `str.split` and every reader of the Pharaoh
format count them. *Units* are finer: each punctuation mark is a unit, and in scripts without spaces (Chinese, Japanese,
Thai, ...) each character is a unit.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

from dragoman.text.tokenization.pipelines import SPACE_SYMBOL

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_INSIDE_WORDS = "-'’.,:"
_JOINER = "\u200d"
_READ_ALOUD = "%‰&@#*§†/\\"
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Characters of scripts without spaces between words, for a class in a regular expression."""

_UNSPACED = re.compile(f"[{UNSPACED}]")


@dataclass(frozen=True, slots=True)
class Word:
    """A word, made of the tokens `start` to `stop` - 1."""

    text: str
    start: int
    stop: int


def spaced_words(tokens: Sequence[str]) -> list[tuple[int, ...]]:
    """For each token (as `Tokenizer.tokens` formats it), the numbers of the words it belongs to. () for a space."""
    text, starts = "".join(tokens), [token.startswith(SPACE_SYMBOL) for token in tokens]
    is_plain = text.count(SPACE_SYMBOL) == sum(starts) and SPACE_SYMBOL not in tokens and "<0x" not in text
    if is_plain and len(text.split()) == 1:  # spaces only where tokens start, in nearly all texts: ten times as fast
        return [(number,) for number in accumulate(starts[1:], initial=0)]
    return _touched_units(tokens, _number_spaced)


def words_of(tokens: Sequence[str]) -> tuple[Word, ...]:
    """Group all tokens into units. Units that share a token form one word."""
    starts: list[int] = []
    last_unit, after_word = -1, True
    for index, units in enumerate(_touched_units(tokens, _number_units)):
        continues = bool(units) and units[0] <= last_unit
        if after_word and not continues:
            starts.append(index)
        after_word = bool(units)  # a token that is only a space belongs to the word after it
        last_unit = max(last_unit, *units) if units else last_unit
    if not after_word and len(starts) > 1:
        starts.pop()
    stops = [*starts[1:], len(tokens)][: len(starts)]
    texts = [b"".join(map(_bytes_of, tokens[start:stop])) for start, stop in zip(starts, stops, strict=True)]
    return tuple(map(Word, [text.decode("utf-8", "replace").strip() or " " for text in texts], starts, stops))


def is_punctuation(token: str) -> bool:
    """Whether a token is punctuation only. Signs that are read aloud, such as %, &, @, #, * and §, are none."""
    text = token.lstrip(SPACE_SYMBOL)
    return bool(text) and all(unicodedata.category(char)[0] == "P" and char not in _READ_ALOUD for char in text)


@lru_cache(maxsize=1 << 15)
def _bytes_of(token: str) -> bytes:
    """The bytes that a token stands for. U+2581 is a space."""
    parts = _BYTE.split(token)
    texts = [part.replace(SPACE_SYMBOL, " ").encode("utf-8", "replace") for part in parts[::2]]
    codes = map(bytes.fromhex, [*parts[1::2], ""])
    return b"".join(text + code for text, code in zip(texts, codes, strict=True))


def _touched_units(tokens: Sequence[str], number: Callable[[str], list[int]]) -> list[tuple[int, ...]]:
    """For each token, the unit numbers of the characters it has a byte of, in order.

    `number` returns the unit number of each character of a text, -1 for characters in no unit.
    """
    raw = [_bytes_of(token) for token in tokens]
    text = b"".join(raw).decode("utf-8", "surrogateescape")
    owners = [index for index, part in enumerate(raw) for _ in part]
    found: list[dict[int, None]] = [{} for _ in tokens]
    place = 0
    for char, unit in zip(text, number(text), strict=True):
        size = len(char.encode("utf-8", "surrogateescape"))
        if unit >= 0:
            for owner in owners[place : place + size]:
                found[owner][unit] = None
        place += size
    return [tuple(units) for units in found]


def _number_spaced(text: str) -> list[int]:
    spaces = [char.isspace() for char in text]
    counts = accumulate(before and not space for before, space in pairwise([True, *spaces]))
    return [-1 if space else count - 1 for space, count in zip(spaces, counts, strict=True)]


def _number_units(text: str) -> list[int]:
    numbers: list[int] = []
    count, kind = 0, "space"
    for index in range(len(text)):
        before, kind = kind, _kind(text, index)
        if kind == "space":
            numbers.append(-1)
            continue
        joined = before != "space" and (kind == "attached" or text[index - 1] == _JOINER)
        joined = joined or (kind in ("word", "inner") and before in ("word", "inner"))
        count += not joined
        numbers.append(count - 1)
        if joined and kind == "attached":
            kind = before
    return numbers


def _kind(text: str, index: int) -> str:
    """The kind of a character: space, word (letter, digit), inner (mark inside a word), attached, unspaced or mark."""
    char = text[index]
    if char.isspace():
        return "space"
    category = unicodedata.category(char)
    if category in ("Mn", "Mc", "Me", "Cf", "Cs") or "\U0001f3fb" <= char <= "\U0001f3ff":
        return "attached"
    if _UNSPACED.match(char):
        return "unspaced"
    if category[0] in "LN" or char == "_":
        return "word"
    between = char in _INSIDE_WORDS and 0 < index < len(text) - 1 and text[index + 1].isalnum()
    return "inner" if between and text[index - 1].isalnum() else "mark"

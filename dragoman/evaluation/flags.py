"""Flags: signs of errors in a translation, found from the texts alone, without a reference or the model.

A flag means "check this", not "this is wrong". Every rule takes time linear in the texts.

The translator computes `flags_of` if a caller requests flags (`dragoman translate --flags`, the server's /v1).
`text_flags` needs no model, so the verdict of a training also applies it to references: a kind of flag that references
have too is not a fault of the model. Thresholds are the same for all languages, which only `_length` and `_WORD` adapt.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

from dragoman.records import Translation

FLAGS = {
    "loop": "words or letters repeat several times in a row, but not in the source",
    "copied": "most of the source is left untranslated",
    "cut": "the output reached the limit on its length",
    "short": "the output is much shorter than the source, or empty",
    "long": "the output is much longer than the source",
    "number": "a number is missing or replaced by another one",
    "url": "a web or mail address differs from the source",
    "tag": "a tag, placeholder or character entity differs from the source",
    "lost": "a protected span or the target of a term occurs less or more often than it should",
    "characters": "the source has characters that the model's vocabulary has no token for",
    "unsure": "the model assigned a low probability to its output",
}
"""Each flag and its meaning. The flags of a translation are in this order."""

# Repetitions that count as a loop: 1 to 3 words three times ("very very" is normal), 4 to 8 words twice.
_LONGEST_PERIOD = 8
_PERIOD_TIMES = (3, 3, 3, 2)
# One to eight letters, five times in a row.
_LETTERS_AGAIN = re.compile(r"([^\W\d_]{1,8}?)\1{4,}")
# Scripts without spaces between words: Thai and Lao, Burmese, Khmer, kana, ideographs. A character is a word there.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_MARKS = r"!-/:-@\[-`{-~«»¿¡‚‘’“”„‹›…‐-―।،؟。，、！？；：「」（）"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}{_MARKS}]+")
# Shorter texts may be names or titles, which are the same in both languages.
_COPIED_WORDS = 3
_COPIED_SHARE = 0.75
_THOUSANDS = re.compile(r"(?<!\d)\d{1,3}(?:[.,'’\u00a0\u202f ]\d{3})+(?!\d)")
_DIGITS = re.compile(r"\d+")
# Numbers up to twelve are often written as words, in one language and not in the other.
_MOSTLY_WRITTEN_OUT = 12
_HOURS = 12
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|\{[\w.]*\}|%(?:\d+\$)?[sd]\b|&(?:#\d+|[A-Za-z]+);")
_ADDRESS_EDGES = ".,;:!?()[]{}<>\"'“”„’»«。，"
# Ratios of the lengths of output and source. The slack, in letters, excuses short texts.
_SHORT, _LONG, _SLACK = 0.5, 2.0, 12
# Below a geometric mean of the token probabilities of 0.4.
_UNSURE_LOG_PROB = math.log(0.4)
_SYLLABLE = re.compile("[\u3040-\u30ff\uac00-\ud7af]")
_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


def flags_of(translation: Translation, has_new_characters: Callable[[str], bool]) -> tuple[str, ...]:
    """The flags of a translation, in the order of `FLAGS`. A blank source has none.

    Parameters
    ----------
    translation
        The translation. "unsure" needs the log-probabilities of its best candidate, and is never set without them.
    has_new_characters
        Returns whether a source has characters without a token.
    """
    if not translation.src.strip():
        return ()
    checks = {
        "cut": translation.cut,
        "lost": translation.lost,
        "characters": has_new_characters(translation.src),
        "unsure": translation.candidates and _is_unsure(translation.candidates[0].token_log_probs),
    }
    found = text_flags(translation.src, translation.text)
    return tuple(flag for flag in FLAGS if flag in found or checks.get(flag))


def text_flags(src: str, tgt: str) -> tuple[str, ...]:
    """The flags that depend only on the texts of source and translation.

    A loop counts only if the source has none: a song may repeat itself.
    """
    src_words, tgt_words = (_WORD.findall(text.casefold()) for text in (src, tgt))
    checks = {
        "loop": _loops(tgt_words, tgt) and not _loops(src_words, src),
        "copied": _is_copied(src_words, tgt_words),
        "short": _length(tgt) < _SHORT * (_length(src) - _SLACK) or not tgt.strip(),
        "long": _length(tgt) > _LONG * _length(src) + _SLACK,
        "number": _numbers_differ(src, tgt),
        "url": _addresses(src) != _addresses(tgt),
        "tag": Counter(_TAG.findall(src)) != Counter(_TAG.findall(tgt)),
    }
    return tuple(flag for flag, is_so in checks.items() if is_so)


def _loops(words: Sequence[str], text: str) -> bool:
    """Whether words or letters repeat: one to three words three times in a row, up to eight words twice."""
    for period in range(1, _LONGEST_PERIOD + 1):
        times = _PERIOD_TIMES[min(period, len(_PERIOD_TIMES)) - 1]
        again = 0
        for first, second in zip(words, words[period:], strict=False):
            again = again + 1 if first == second else 0
            if again >= period * (times - 1):
                return True
    return bool(_LETTERS_AGAIN.search(text))


def _is_copied(src: Sequence[str], tgt: Sequence[str]) -> bool:
    """Whether at least 75 % of the word bigrams are those of the source. Single words may be the same."""
    if min(len(src), len(tgt)) < _COPIED_WORDS:
        return False
    there, copied = Counter(pairwise(src)), Counter(pairwise(tgt))
    return (there & copied).total() >= _COPIED_SHARE * max(there.total(), copied.total())


def _length(text: str) -> int:
    """The length in letters of an alphabet: an ideograph counts as three letters, a syllable as two."""
    text = text.strip()
    return len(text) + (0 if text.isascii() else len(_SYLLABLE.findall(text)) + 2 * len(_IDEOGRAPH.findall(text)))


def _numbers_differ(src: str, tgt: str) -> bool:
    """Whether the numbers differ. Small numbers may be spelled out, so a missing one needs a wrong one to count."""
    there, found = count_numbers(src), count_numbers(tgt)
    missing, added = there - found, found - there
    for one, other in ((missing, added), (added, missing)):
        for hour in range(1, _HOURS):  # 8 pm is 20 Uhr
            both = min(one[hour], other[hour + _HOURS])
            one[hour] -= both
            other[hour + _HOURS] -= both
    missing, added = +missing, +added
    large = any(number > _MOSTLY_WRITTEN_OUT for number in (*missing, *added))
    return large or bool(missing and added)


def count_numbers(text: str) -> Counter[int]:
    """Count the numbers in a text. 1,000 and 1.000 and 1 000 are the same number."""
    if not any(map(str.isdecimal, text)):
        return Counter()
    joined = _THOUSANDS.sub(lambda match: re.sub(r"\D", "", match[0]), text)
    return Counter(_number(digits) for digits in _DIGITS.findall(joined))


def _number(digits: str) -> int:
    """The value of digits in any script. Only the last 1,000 digits count, because `int` is not linear in time."""
    return int(digits[-1000:])


def _addresses(text: str) -> Counter[str]:
    """Web and mail addresses, without the punctuation around them."""
    if "." not in text:
        return Counter()
    words = (word.strip(_ADDRESS_EDGES) for word in text.split())
    with_dots = [word for word in words if "." in word]
    return Counter(word for word in with_dots if "://" in word or word.startswith("www.") or "@" in word[1:-1])


def _is_unsure(token_log_probs: Sequence[float]) -> bool:
    """Whether the mean log-probability of the tokens is low. Without tokens it is unknown."""
    return bool(token_log_probs) and sum(token_log_probs) / len(token_log_probs) < _UNSURE_LOG_PROB

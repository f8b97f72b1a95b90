"""Notes on a translation: checks for words that were dropped, invented, repeated, copied or unknown."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragoman.visualization.inspection.inspection import Note, Side

# A source word is uncovered if it gets less than this share of the mean attention per word.
_MIN_ATTENTION = 0.2
# A target word is independent of the source if its probability without it, divided by that with it, is at least this.
_MIN_RATIO = 0.5
# A target word is improbable below this probability.
_MIN_PROBABILITY = 0.5
# Lengths do not match if one side has this many times the words of the other, and more than `_FEW_WORDS`.
_MAX_LENGTH_RATIO, _FEW_WORDS = 3, 6
_MOST_REPEATED_WORDS = 4

_Matrix = NDArray[np.float64]


def find_notes(
    src: Side, tgt: Side, links: _Matrix, log_probs: Sequence[float], log_probs_alone: Sequence[float]
) -> tuple[Note, ...]:
    """The notes of all checks that found something.

    `links` is attention (target tokens, source tokens). `log_probs` holds the log-probability of each target token,
    and `log_probs_alone` the same with an empty source.
    """
    found = [
        _uncovered_words(src, links),
        _source_independent_words(tgt, log_probs, log_probs_alone),
        _improbable_words(tgt, log_probs),
        _length_mismatch(src, tgt),
        _repeated_words(src, tgt),
        _copied_words(src, tgt),
        _unknown_words(src),
    ]
    return tuple(note for note in found if note is not None)


def length_notes(num_src: int, max_src_tokens: int, *, finished: bool) -> tuple[Note, ...]:
    """Notes on an input that is too long, and on an output that was cut."""
    notes = []
    if num_src > max_src_tokens:
        text = f"The text has {num_src} tokens, but the model was trained with at most {max_src_tokens}. "
        notes.append(Note("long", text + "`translate` would split it; here the model reads it whole."))
    if not finished:
        notes.append(Note("cut", "The translation was cut at the length limit."))
    return tuple(notes)


def _words_where(side: Side, is_odd: Callable[[slice], bool]) -> tuple[int, ...]:
    """The indices of the words with letters or digits for whose tokens `is_odd` is true."""
    spans = [slice(word.start, word.stop) for word in side.words]
    words = zip(side.words, spans, strict=True)
    return tuple(number for number, (word, span) in enumerate(words) if _has_alphanumerics(word.text) and is_odd(span))


def _uncovered_words(src: Side, links: _Matrix) -> Note | None:
    if not links.size:
        return None
    received = links.sum(0)
    totals = np.array([received[word.start : word.stop].sum() for word in src.words])
    fair = totals.sum() / len(src.words)
    words = _words_where(src, lambda span: len(src.words) > 2 and received[span].sum() < _MIN_ATTENTION * fair)
    text = "Source words with little attention. They may be missing in the translation:"
    return Note("uncovered", text, src_words=words) if words else None


def _source_independent_words(tgt: Side, log_probs: Sequence[float], alone: Sequence[float]) -> Note | None:
    """Words that would be at least half as likely after the same beginning without the source."""
    words = _words_where(tgt, lambda span: sum(alone[span]) >= sum(log_probs[span]) + np.log(_MIN_RATIO))
    text = "Target words that hardly depend on the source. Without it they would be at least half as likely:"
    return Note("prefix", text, tgt_words=words) if words else None


def _improbable_words(tgt: Side, log_probs: Sequence[float]) -> Note | None:
    words = _words_where(tgt, lambda span: sum(log_probs[span]) < np.log(_MIN_PROBABILITY))
    text = f"Target words with a probability below {_MIN_PROBABILITY:.0%}:"
    return Note("improbable", text, tgt_words=words) if words else None


def _length_mismatch(src: Side, tgt: Side) -> Note | None:
    """A large difference in length, which hints at missing or invented text."""
    here, there = len(src.words), len(tgt.words)
    if max(here, there) <= _FEW_WORDS or _MAX_LENGTH_RATIO * min(here, there) > max(here, there):
        return None
    text = f"The source has {here} words and the translation has {there}. Check for missing or invented text."
    return Note("length", text)


def _repeated_words(src: Side, tgt: Side) -> Note | None:
    """Repetitions of up to four words that are longer or more numerous than repetitions in the source."""
    allowed = sorted((run.times for run in _runs([word.text for word in src.words])), reverse=True)
    runs = sorted(_runs([word.text for word in tgt.words]), key=lambda run: -run.times)
    odd = [run for place, run in enumerate(runs) if run.times > (allowed[place] if place < len(allowed) else 1)]
    words = tuple(sorted(number for run in odd for number in range(run.start, run.start + run.size * run.times)))
    return Note("repeated", "Repeated words in the translation:", tgt_words=words) if words else None


class _Run(NamedTuple):
    """`size` words from `start` on that occur `times` times in a row."""

    start: int
    size: int
    times: int


def _runs(texts: Sequence[str]) -> list[_Run]:
    """Repetitions from left to right, without overlaps. If several start at a word, the longest one counts."""
    folded = [text.casefold() for text in texts]
    found: list[_Run] = []
    start = 0
    while start < len(folded):
        here = [_Run(start, size, _times(folded, start, size)) for size in range(1, _MOST_REPEATED_WORDS + 1)]
        best = max(here, key=lambda run: (run.times > 1, run.size * run.times, -run.size))
        if best.times > 1 and any(map(_has_alphanumerics, folded[start : start + best.size])):
            found.append(best)
            start += best.size * best.times
        else:
            start += 1
    return found


def _times(texts: Sequence[str], start: int, size: int) -> int:
    run = texts[start : start + size]
    times = 1
    while texts[start + times * size : start + (times + 1) * size] == run:
        times += 1
    return times


def _copied_words(src: Side, tgt: Side) -> Note | None:
    known = {word.text: number for number, word in enumerate(src.words) if _has_letters(word.text)}
    tgt_words = tuple(number for number, word in enumerate(tgt.words) if word.text in known)
    src_words = tuple(sorted({known[tgt.words[number].text] for number in tgt_words}))
    text = "Words that are the same on both sides: names, loan words or untranslated text:"
    return Note("copied", text, src_words, tgt_words) if tgt_words else None


def _unknown_words(src: Side) -> Note | None:
    words = tuple(number for number, word in enumerate(src.words) if "<unk>" in src.tokens[word.start : word.stop])
    text = "Source words without a token in the model's vocabulary, which the model reads as unknown:"
    return Note("unknown", text, src_words=words) if words else None


def _has_alphanumerics(text: str) -> bool:
    return any(char.isalnum() for char in text)


def _has_letters(text: str) -> bool:
    return sum(char.isalpha() for char in text) > 1

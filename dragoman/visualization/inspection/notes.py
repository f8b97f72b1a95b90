"""Notes on a translation: checks for words that were dropped, invented, repeated, copied or unknown."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragoman.config import Config
from dragoman.inference.preservation.capitals import is_all_caps, sentence_case
from dragoman.visualization.inspection.attributions import MOST_TOKENS_WITH_HEADS, shows_heads
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
) -> Iterator[Note]:
    """The notes of all checks that found something.

    `links` is attention (target tokens, source tokens). `log_probs` holds the log-probability of each target token,
    and `log_probs_alone` the same with an empty source.
    """
    if words := _uncovered_words(src, links):
        yield Note("uncovered", "Source words with little attention. They may be missing in the translation:", words)
    # Words that would be at least half as likely after the same beginning without the source.
    if words := _words_where(tgt, lambda span: sum(log_probs_alone[span]) >= sum(log_probs[span]) + np.log(_MIN_RATIO)):
        text = "Target words that hardly depend on the source. Without it they would be at least half as likely:"
        yield Note("prefix", text, tgt_words=words)
    if words := _words_where(tgt, lambda span: sum(log_probs[span]) < np.log(_MIN_PROBABILITY)):
        yield Note("improbable", f"Target words with a probability below {_MIN_PROBABILITY:.0%}:", tgt_words=words)
    here, there = len(src.words), len(tgt.words)
    if max(here, there) > _FEW_WORDS and max(here, there) >= _MAX_LENGTH_RATIO * min(here, there):
        text = f"The source has {here} words and the translation has {there}. Check for missing or invented text."
        yield Note("length", text)
    if words := _repeated_words(src, tgt):
        yield Note("repeated", "Repeated words in the translation:", tgt_words=words)
    known = {word.text: number for number, word in enumerate(src.words) if sum(map(str.isalpha, word.text)) > 1}
    if words := tuple(number for number, word in enumerate(tgt.words) if word.text in known):
        text = "Words that are the same on both sides: names, loan words or untranslated text:"
        yield Note("copied", text, tuple(sorted({known[tgt.words[number].text] for number in words})), words)
    if words := tuple(number for number, word in enumerate(src.words) if "<unk>" in src.tokens[word.start : word.stop]):
        text = "Source words without a token in the model's vocabulary, which the model reads as unknown:"
        yield Note("unknown", text, words)


def length_notes(src: Side, tgt: Side, config: Config, *, finished: bool) -> Iterator[Note]:
    """Notes on a text that is too long or in capitals, and on an output that was cut."""
    if len(src.tokens) > config.data.max_tokens:
        text = (
            f"The text has {len(src.tokens)} tokens, but the model was trained with at most {config.data.max_tokens}. "
        )
        yield Note("long", text + "`translate` would split it; here the model reads it whole.")
    if not finished:
        yield Note("cut", "The translation was cut at the length limit.")
    if not shows_heads(len(src.tokens), len(tgt.tokens)):
        text = f"More than {MOST_TOKENS_WITH_HEADS} tokens on a side: the page only has the mean of each layer's heads."
        yield Note("mean", text)
    if config.inference.retry_all_caps and is_all_caps(src.text):
        text = f"All capitals: `translate` also tries “{sentence_case(src.text)}” and returns the more probable result."
        yield Note("capitals", text)


def _words_where(side: Side, is_odd: Callable[[slice], bool]) -> tuple[int, ...]:
    """The indices of the words with letters or digits for whose tokens `is_odd` is true."""
    spans = [slice(word.start, word.stop) for word in side.words]
    words = zip(side.words, spans, strict=True)
    return tuple(number for number, (word, span) in enumerate(words) if _has_alphanumerics(word.text) and is_odd(span))


def _uncovered_words(src: Side, links: _Matrix) -> tuple[int, ...]:
    if not links.size or len(src.words) <= 2:
        return ()
    received = links.sum(0)
    fair = received.sum() / len(src.words)
    return _words_where(src, lambda span: received[span].sum() < _MIN_ATTENTION * fair)


def _repeated_words(src: Side, tgt: Side) -> tuple[int, ...]:
    """Repetitions of up to four words that are longer or more numerous than repetitions in the source."""
    allowed = sorted((run.times for run in _runs([word.text for word in src.words])), reverse=True)
    runs = sorted(_runs([word.text for word in tgt.words]), key=lambda run: -run.times)
    odd = [run for place, run in enumerate(runs) if run.times > (allowed[place] if place < len(allowed) else 1)]
    return tuple(sorted(number for run in odd for number in range(run.start, run.start + run.size * run.times)))


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


def _has_alphanumerics(text: str) -> bool:
    return any(char.isalnum() for char in text)

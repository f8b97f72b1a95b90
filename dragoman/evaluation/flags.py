"""Flags: signs of errors in a translation, found from the texts alone, without a reference or the model.

A flag means "check this", not "this is wrong". Every rule takes time linear in the texts.

The translator computes `flags_of` if a caller requests flags (`dragoman translate --flags`, the server's /v1).
`text_flags` needs no model, so the verdict of a training also applies it to references: a kind of flag that references
have too is not a fault of the model. Thresholds are the same for all languages, which only `_length` and `_WORD` adapt.

Sentences that a translation lost, found from the texts alone.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from dragoman.languages import main_language
from dragoman.records import Translation
from dragoman.text.tokenization.sentence_splitting import split_sentences

if TYPE_CHECKING:
    from dragoman.text.documents.protected_spans import ProtectedSpan

FLAGS = {
    "loop": "words or letters repeat several times in a row, but not in the source",
    "copied": "most of the source is left untranslated",
    "cut": "the output reached the limit on its length",
    "short": "the output is much shorter than the source, or empty",
    "long": "the output is much longer than the source",
    "sentence": "the output has fewer sentences than the source",
    "number": "a number, unit or currency is missing or replaced by another one",
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
# Not a tag but a placeholder that people translate: <path>, <project path>. Names of tags are short or have digits.
_WORD_IN_BRACKETS = re.compile(r"<[^\W\d_]{3,}[^<>=/]*>")
_QUOTED_CODE = re.compile("`[^`]*`")
_CODE = re.compile(r"^--?[A-Za-z]|\w[/\\=_.:#@]\w")
_ICU_HEAD = re.compile(r"\{\s*([\w.-]+)\s*,\s*(\w+)")
# Where an address may name a language: https://en.example.org/en-us/?lang=en
_ADDRESS_LANGUAGE = r"(?<=//){0}(?=\.)|(?<=[\w/]/){0}(?:[-_]\w\w)?(?=[/?#]|$)|(?<=[?&])(lang|hl|locale|language)={0}\b"
# Ratios of the lengths of output and source. The slack, in letters, excuses short texts.
_SHORT, _LONG, _SLACK = 0.5, 2.0, 12
# A geometric mean of the token probabilities, and the smallest of n probabilities times n. The lowest of many is low
# anyway, so that this product makes short and long outputs alike (docs/reference/flags.md has figures).
_UNSURE_LOG_PROB, _UNSURE_LOWEST, _UNSURE_TOKENS = math.log(0.4), math.log(1.25), 5
_SYLLABLE = re.compile("[\u3040-\u30ff\uac00-\ud7af]")
_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


def flags_of(
    translation: Translation, has_new_characters: Callable[[str], bool], languages: tuple[str, str] = ("", "")
) -> tuple[str, ...]:
    """The flags of a translation, in the order of `FLAGS`. A blank source has none.

    Parameters
    ----------
    translation
        The translation. "unsure" needs the log-probabilities of its best candidate, and is never set without them.
    has_new_characters
        Returns whether a source has characters without a token.
    languages
        The codes of source and target language, "" if unknown.
    """
    if not translation.src.strip():
        return ()
    checks = {
        "cut": translation.cut,
        "lost": translation.lost,
        "characters": has_new_characters(translation.src),
        "unsure": is_unsure(translation),
    }
    found = text_flags(translation.src, translation.text, languages)
    return tuple(flag for flag in FLAGS if flag in found or checks.get(flag))


def text_flags(src: str, tgt: str, languages: tuple[str, str] = ("", "")) -> tuple[str, ...]:
    """The flags that depend only on the texts of source and translation, and on their languages, "" if unknown.

    A loop counts only if the source has none: a song may repeat itself.
    """
    # Imported here, because `translate` without flags starts sooner without their tables.
    from dragoman.evaluation.quantities import quantities_differ

    src_words, tgt_words = (_WORD.findall(text.casefold()) for text in (src, tgt))
    (src_text, src_spans), (tgt_text, tgt_spans) = (_remove_spans(text) for text in (src, tgt))
    checks = {
        "loop": _loops(tgt_words, tgt) and not _loops(src_words, src),
        "copied": _is_copied(_translatable_words(src_text), _WORD.findall(tgt_text.casefold())),
        "short": _length(tgt) < _SHORT * (_length(src) - _SLACK) or not tgt.strip(),
        "long": _length(tgt) > _LONG * _length(src) + _SLACK,
        "sentence": loses_sentence(src, tgt, _length),
        "number": quantities_differ(src_text, tgt_text, languages),
        "url": _addresses_differ(src_spans, tgt_spans, languages),
        "tag": _tags(src_spans) != _tags(tgt_spans),
    }
    return tuple(flag for flag, is_so in checks.items() if is_so)


def _remove_spans(text: str) -> "tuple[str, list[ProtectedSpan]]":
    """The text with a space instead of its addresses, tags and placeholders, and these. Numbers stay in the text."""
    from dragoman.text.documents.protected_spans import find_protected_spans  # imports numpy, which --help does without

    spans = [span for span in find_protected_spans(text) if span.kind != "measure"]
    if not spans:
        return text, spans
    starts, stops = [span.start for span in spans], [span.stop for span in spans]
    return " ".join(text[start:stop] for start, stop in zip([0, *stops], [*starts, None], strict=True)), spans


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


def _translatable_words(text: str) -> list[str]:
    """The words that a translation should not copy, casefolded: no code, and no names, which have a capital."""
    words = _WORD.findall(" ".join(word for word in _QUOTED_CODE.sub(" ", text).split() if not _CODE.search(word)))
    return [
        word.casefold() for word in words if len(word) > 1 and word.isalpha() and (word.islower() or text.isupper())
    ]


def _is_copied(src: Sequence[str], tgt: Sequence[str]) -> bool:
    """Whether the translation has at least 75 % of the source's word bigrams. Single words may be the same."""
    if len(src) < _COPIED_WORDS:
        return False
    known = set(src)
    there, copied = Counter(pairwise(src)), Counter(pairwise(word for word in tgt if word in known))
    return (there & copied).total() >= _COPIED_SHARE * max(there.total(), copied.total())


def _length(text: str) -> int:
    """The length in letters of an alphabet: an ideograph counts as three letters, a syllable as two."""
    text = text.strip()
    return len(text) + (0 if text.isascii() else len(_SYLLABLE.findall(text)) + 2 * len(_IDEOGRAPH.findall(text)))


def _addresses_differ(
    src: "Sequence[ProtectedSpan]", tgt: "Sequence[ProtectedSpan]", languages: tuple[str, str]
) -> bool:
    """Whether web or mail addresses differ in more than the language that they name, as in /en/ and /de/."""
    there, found = (Counter(span.text for span in spans if span.kind in ("url", "email")) for spans in (src, tgt))
    missing, added = (there - found).elements(), (found - there).elements()
    return sorted(_without_language(missing, languages[0])) != sorted(_without_language(added, languages[1]))


def _without_language(addresses: Iterable[str], language: str) -> Iterator[str]:
    pattern = _ADDRESS_LANGUAGE.format(re.escape(main_language(language))) if language else "(?!)"
    return (re.sub(pattern, "*", address, flags=re.IGNORECASE) for address in addresses)


def _tags(spans: "Sequence[ProtectedSpan]") -> tuple[Counter[str], list[str]]:
    """Tags, placeholders and entities, and the printf placeholders whose order matters.

    A word in angle brackets, such as <path>, is a tag only if the text closes it too. The text inside an ICU message
    may be translated, so only its name and type count.
    """
    closed = {span.text[2:-1] for span in spans if span.text.startswith("</")}
    tags: list[str] = []
    for kind, text in ((span.kind, span.text) for span in spans):
        if kind == "icu":
            tags.append(" ".join(_ICU_HEAD.match(text).groups()))  # type: ignore[union-attr]  # always matches
        elif kind in ("entity", "placeholder", "printf") or (
            kind == "tag" and (not _WORD_IN_BRACKETS.fullmatch(text) or text[1:-1] in closed)
        ):
            tags.append(text)
    return Counter(tags), [span.text for span in spans if span.kind == "printf" and "$" not in span.text]


def is_unsure(translation: Translation) -> bool:
    """Whether the tokens of the best candidate have a low probability: all of them, or the least probable one.

    One wrong word in a fluent sentence hardly changes the mean. Without tokens, the answer is unknown.
    """
    log_probs = translation.candidates[0].token_log_probs if translation.candidates else ()
    if not log_probs:
        return False
    lowest = min(log_probs) + math.log(max(len(log_probs), _UNSURE_TOKENS))
    return sum(log_probs) / len(log_probs) < _UNSURE_LOG_PROB or lowest < _UNSURE_LOWEST


_ENDS = frozenset(".!?…।॥؟۔։።។。！？｡")
_SHARE = 0.5
"""The output must be shorter by this share of the lost sentences. People who join sentences keep their words."""


def loses_sentence(src: str, tgt: str, length: Callable[[str], int]) -> bool:
    """Whether the translation has fewer sentences than the source, and is too short to have joined them.

    Languages without marks at the end of a sentence cannot be judged, so an output without one never counts.
    """
    sentences = _sentences(src)
    if len(sentences) < 2 or _ENDS.isdisjoint(tgt):
        return False
    lost = len(sentences) - len(_sentences(tgt))
    return lost > 0 and length(tgt) <= length(src) - _SHARE * sum(sorted(map(length, sentences))[:lost])


def count_sentences(text: str) -> int:
    """The number of sentences in a text, 0 if it is blank."""
    return len(_sentences(text))


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in split_sentences(text) if sentence.strip()]

"""Which language and script a side is in, judged by a sample of its lines.

Languages are told by py3langid (Lui & Baldwin 2012), which is asked to choose among the languages it should be and a
dozen that are often mixed in; without the package only scripts are looked at.
"""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from dragoman.languages import main_language
from dragoman.records import SentencePair
from dragoman.text.doctor.findings import MOST_EXAMPLES, Finding

OFTEN_MIXED_IN = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "tr", "ar", "zh", "ja")
FEWEST_LETTERS = 30
"""Shorter lines do not tell their language."""

LANGUAGE, SWAPPED, SCRIPT = "other language", "swapped languages", "other script"
_FEWEST_LINES = 20
_MOST_MISTAKEN = 0.02


def can_tell_languages() -> bool:
    """Whether py3langid is installed."""
    return find_spec("py3langid") is not None


def languages_of(lines: Sequence[str], expected: Sequence[str]) -> list[str]:
    """The language of each line, "" for short ones and where nobody can tell."""
    if not can_tell_languages():
        return [""] * len(lines)
    identifier, _ = identifier_of([*expected, *OFTEN_MIXED_IN])
    enough = [sum(map(str.isalpha, line)) >= FEWEST_LETTERS for line in lines]
    return [identifier.classify(line[:1000])[0] if told else "" for line, told in zip(lines, enough, strict=True)]


def identifier_of(languages: Sequence[str]) -> tuple[Any, set[str]]:
    """py3langid's identifier, to choose among those of the languages that it knows; and these.

    The first one takes up to some seconds, and 100 MB; all share that.
    """
    loaded, labels = _loaded()
    identifier, known = copy(loaded), set(map(main_language, languages)) & labels
    identifier.set_languages(sorted(known))
    return identifier, known


def knows(language: str) -> bool:
    """Whether lines in this language can be told."""
    return can_tell_languages() and main_language(language) in _loaded()[1]


def log_odds(text: str, languages: Sequence[str]) -> list[float]:
    """How much likelier a text is in each of the languages that can be told than in any other, in nats."""
    scores = dict(_loaded()[0].rank(text))
    codes = [code for code in map(main_language, languages) if code in scores]
    return [scores[code] - max(score for other, score in scores.items() if other != code) for code in codes]


def script_of(text: str) -> str:
    """The script of most letters (latin, cyrillic, cjk ...), "" where there is none."""
    counts: Counter[str] = Counter()
    for char, count in Counter(text[:1000]).items():
        if char.isalpha():
            counts[_script(char)] += count
    return counts.most_common(1)[0][0] if counts else ""


@lru_cache(maxsize=1 << 14)
def _script(char: str) -> str:
    """The first word of a letter's name, which is its script; Chinese and Japanese letters are one."""
    name = unicodedata.name(char, "UNNAMED").replace("FULLWIDTH ", "").partition(" ")[0].lower()
    return "cjk" if name in ("cjk", "hiragana", "katakana", "katakana-hiragana", "halfwidth") else name


@lru_cache(maxsize=1)
def _loaded() -> tuple[Any, frozenset[str]]:
    """The identifier and the languages it knows."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    return identifier, frozenset(identifier.labels)


def language_findings(
    sample: Sequence[tuple[int, SentencePair]], declared: tuple[str, str]
) -> tuple[tuple[str, str], tuple[str, str], list[Finding]]:
    """Language and script of either side, "" where unknown, and what does not fit; the sample has numbers and pairs."""
    numbers = [number for number, _ in sample]
    sides = [pair.src for _, pair in sample], [pair.tgt for _, pair in sample]
    # What is said to be in a language that nobody here knows cannot be judged.
    judged = [not code or knows(code) for code in declared]
    told = [languages_of(lines, declared) if judged[side] else [""] * len(lines) for side, lines in enumerate(sides)]
    scripts = [[script_of(line) for line in lines] for lines in sides]
    main = [_most(languages) for languages in told]
    findings = []
    wanted = [main_language(code) for code in declared]
    if all(wanted) and wanted[0] != wanted[1] and main == wanted[::-1]:
        message = f"the source looks like {main[0]} and the target like {main[1]}"
        findings.append(Finding(SWAPPED, message, "Swap the files.", len(sample), 1.0, serious=True))
    for side, name in enumerate(("source", "target")):
        if main[side] and wanted[side] and main[side] != wanted[side] and not findings:
            message = f"the {name} looks like {main[side]}, not like {wanted[side]}"
            same = main[0] == main[1]
            findings.append(Finding(LANGUAGE, message, "Check the files.", len(sample), 1.0, serious=same))
        for kind, values, least in ((LANGUAGE, told[side], _MOST_MISTAKEN), (SCRIPT, scripts[side], 0.0)):
            usual = _most(values)
            odd = [number for number, value in zip(numbers, values, strict=True) if value not in ("", usual)]
            looked_at = sum(map(bool, values))
            if usual and len(odd) > least * looked_at:
                message = f"of {looked_at:,} {name} sides looked at are not in {usual}, as the others are"
                advice = "Look at the examples; remove what is not translated."
                lines = tuple(odd[:MOST_EXAMPLES])
                findings.append(Finding(kind, message, advice, len(odd), len(odd) / looked_at, lines))
    return (main[0], main[1]), (_most(scripts[0]), _most(scripts[1])), findings


def _most(values: Sequence[str]) -> str:
    """What most of the values that say something are, "" where they are few or divided."""
    counts = Counter(filter(None, values))
    value, count = counts.most_common(1)[0] if counts else ("", 0)
    return value if counts.total() >= _FEWEST_LINES and 2 * count > counts.total() else ""

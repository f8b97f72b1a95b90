"""Detect the language and script of a side from a sample of its lines.

The detector is py3langid (Lui & Baldwin 2012) with all its languages. A single line is too short for a reliable
result, so lines are joined to blocks; benchmarks/language_detection.py measures the accuracy.
"""

import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

from dragoman.errors import DataError
from dragoman.languages import language_name, main_language, name_with_code
from dragoman.records import SentencePair
from dragoman.text.doctor.findings import CorpusFinding, Tally, shorten

LANGUAGE, SWAPPED, SCRIPT = "other language", "swapped languages", "other script"
SKIP_SETTING, SKIP_FLAG = "`--data.check-languages false`", "`--no-language-check`"
LANGUAGE_SAMPLE_LINES = 1000

_FEWEST_LETTERS = 30
"""The fewest letters of a line whose language is detected on its own."""
_BLOCK_LETTERS, _FEWEST_BLOCKS = 150, 3
_MOST_CHARACTERS = 1000
_SURE_NATS = 10.0
_CLEAR_SHARE, _STATED_SHARE = 0.7, 0.1
_MOST_MISTAKEN = 0.02
_MIXED_SHARE, _SERIOUS_SHARE, _NEARLY_ALL = 0.05, 0.25, 0.9
_FEWEST_LINES = 20
_SAME = {"nb": "no", "fil": "tl", "sh": "sr", "in": "id", "tl-PH": "tl", "zho": "zh", "swh": "sw", "ckb": "ku"}
_NEAR = tuple(
    frozenset(group.split())
    for group in (
        "hr bs sr, cs sk, id ms, da no nn, bg mk, es gl an ext, pt gl, ca oc, it vec lij, fr wa gcf gcr ht, nl af fy, "
        "de lb, hi ne mr sa gom, zu xh, st nso, tr az crh, tt ba, lv ltg, is fo, ar ary arz, zh yue wuu, en pcm, "
        "he hbo, el grc, uz uzs, ku sdh, tl bcl"
    ).split(", ")
)
"""Languages so similar that the detector confuses them: a mismatch between them is a warning, not an error."""
_NO_LANGUAGE = "zxx"
_LOADING = threading.Lock()


@dataclass(frozen=True, slots=True)
class SideLanguage:
    """The detected language of a side: the language of most of its blocks, or "" if it is not clear.

    `share` is the share of the blocks in this language or a similar one. `stated` is the share of the blocks in the
    language that the side should be in.
    """

    language: str = ""
    share: float = 0.0
    stated: float = 0.0


def language_of_side(lines: Sequence[str], stated: str = "") -> SideLanguage:
    """Detect the language of a side from at most 1,000 of its lines. `stated` is the language it should be in."""
    wanted = detector_code(stated)
    found: Counter[str] = Counter()
    for block in _blocks(_sample_lines(lines)):
        scores = language_scores(block)
        best = max(scores, key=scores.__getitem__)
        is_sure = wanted not in scores or scores[best] - scores[wanted] > _SURE_NATS
        found[best if is_sure else wanted] += 1
    blocks = found.total()
    if blocks < _FEWEST_BLOCKS:
        return SideLanguage()
    language = found.most_common(1)[0][0]
    share = sum(count for other, count in found.items() if are_similar(other, language)) / blocks
    is_clear = 2 * share > 1 and language != _NO_LANGUAGE
    return SideLanguage(language if is_clear else "", share, found[wanted] / blocks)


def are_similar(one: str, other: str) -> bool:
    """Whether two languages are the same, or so similar that the detector may confuse them."""
    labels = {detector_code(one), detector_code(other)}
    return len(labels) == 1 or any(labels <= group for group in _NEAR)


def contradiction(side: SideLanguage, stated: str, other_stated: str = "") -> str:
    """The language of a side if it is clearly not the stated one, else "".

    If the detector does not know the stated language, only the language of the other side counts as a contradiction.
    """
    if not stated or not side.language or side.language == detector_code(stated):
        return ""
    if not can_detect(stated):
        is_other = side.language == detector_code(other_stated) and not are_similar(stated, other_stated)
        return side.language if is_other and side.share >= _CLEAR_SHARE else ""
    return side.language if side.share >= _CLEAR_SHARE and side.stated <= _STATED_SHARE else ""


def check_side(lines: Sequence[str], stated: str, name: str, skip: str, other_stated: str = "") -> str:
    """A warning if a side looks like a language similar to the stated one, else "".

    Raises DataError if the side is clearly in another language. `name` is the name of the side in messages, `skip` the
    setting that turns the check off.
    """
    found = contradiction(language_of_side(lines, stated), stated, other_stated)
    if not found:
        return ""
    message = _looks_like(name, found, stated)
    if are_similar(found, stated):
        return f"{message}; the two languages are similar, so check the text yourself"
    example = shorten(next(filter(str.strip, lines)))
    raise DataError(f'{message}: "{example}". Name the right file or language; if they are right, add {skip}.')


def check_same_language(lines: Sequence[str], references: Sequence[str], name: str, skip: str) -> None:
    """Raise DataError if translations are clearly in another language than their references.

    `name` is the name of the translations in the message, `skip` the setting that turns the check off.
    """
    wanted = language_of_side(references).language
    found = contradiction(language_of_side(lines, wanted), wanted)
    if found and not are_similar(found, wanted):
        raise DataError(
            f"{name} looks like {name_with_code(found)}, but the references look like {name_with_code(wanted)}. "
            f"Name the right files; if they are right, add {skip}."
        )


def log_odds(text: str, languages: Sequence[str]) -> list[float]:
    """Log-odds of each language against the best other one, in nats. Languages unknown to the detector are left out."""
    scores = language_scores(text)
    codes = [code for code in map(detector_code, languages) if code in scores]
    return [scores[code] - max(score for other, score in scores.items() if other != code) for code in codes]


def known_languages() -> frozenset[str]:
    """The codes of all languages that the detector knows. The first call loads it: 0.5 s, 80 MB."""
    return _detector()[1]


def can_detect(language: str) -> bool:
    """Whether the detector knows this language."""
    return detector_code(language) in known_languages()


def detector_code(language: str) -> str:
    """The detector's code for a language."""
    code = main_language(language)
    return _SAME.get(code, code)


def _language_of(line: str, usual: str) -> str:
    """The language of a line, or "" for a short line. It is the `usual` one unless another is clearly more likely."""
    if sum(map(str.isalpha, line[:_MOST_CHARACTERS])) < _FEWEST_LETTERS:
        return ""
    scores = language_scores(line)
    best = max(scores, key=scores.__getitem__)
    is_other = usual not in scores or (scores[best] - scores[usual] > _SURE_NATS and not are_similar(best, usual))
    return best if is_other else usual


def _sample_lines(lines: Sequence[str]) -> Sequence[str]:
    """A random sample of at most `LANGUAGE_SAMPLE_LINES` lines, the same one every time."""
    if len(lines) <= LANGUAGE_SAMPLE_LINES:
        return lines
    return [lines[place] for place in sorted(Random(len(lines)).sample(range(len(lines)), LANGUAGE_SAMPLE_LINES))]


def _blocks(lines: Sequence[str]) -> Iterator[str]:
    """Consecutive lines joined until a block has at least 150 letters."""
    block: list[str] = []
    letters = 0
    for line in lines:
        line = line[:_MOST_CHARACTERS]
        block.append(line)
        letters += sum(map(str.isalpha, line))
        if letters >= _BLOCK_LETTERS:
            yield " ".join(block)
            block, letters = [], 0


def language_scores(text: str) -> dict[str, float]:
    """The log-likelihood of a text in each language, in nats, by the detector's code."""
    return dict(_detector()[0].rank(text[:_MOST_CHARACTERS]))


def script_of(text: str) -> str:
    """The script of most letters (latin, cyrillic, cjk, ...), or "" without letters."""
    counts: Counter[str] = Counter()
    for char, count in Counter(text[:1000]).items():
        if char.isalpha():
            counts[_script(char)] += count
    return counts.most_common(1)[0][0] if counts else ""


@lru_cache(maxsize=1 << 14)
def _script(char: str) -> str:
    """The script of a letter: the first word of its Unicode name. Chinese and Japanese letters are all "cjk"."""
    name = unicodedata.name(char, "UNNAMED").replace("FULLWIDTH ", "").partition(" ")[0].lower()
    return "cjk" if name in ("cjk", "hiragana", "katakana", "katakana-hiragana", "halfwidth") else name


def _detector() -> tuple[Any, frozenset[str]]:
    """py3langid's identifier, and the codes of its languages. Threads that need it at the same time load it once."""
    with _LOADING:
        return _load_detector()


@lru_cache(maxsize=1)
def _load_detector() -> tuple[Any, frozenset[str]]:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    return identifier, frozenset(identifier.labels)


def language_findings(
    sample: Sequence[tuple[int, SentencePair]], declared: tuple[str, str]
) -> tuple[tuple[str, str], tuple[str, str], list[CorpusFinding]]:
    """The languages and the scripts of both sides ("" if unknown), and findings about lines that do not fit.

    `sample` has line numbers and pairs.
    """
    numbers = [number for number, _ in sample]
    sides = [pair.src for _, pair in sample], [pair.tgt for _, pair in sample]
    found = _languages_of_sides(sides, declared)
    # The detector cannot judge a side in a language that it does not know.
    main = [side.language if not code or can_detect(code) else "" for side, code in zip(found, declared, strict=True)]
    findings = _mixtures(sample, declared) or _contradictions(found, declared, len(sample))
    scripts = [[script_of(line) for line in lines] for lines in sides]
    for side, name in enumerate(("source", "target")):
        told = [_language_of(line, main[side]) for line in sides[side]] if main[side] and not findings else []
        for kind, values, least in ((LANGUAGE, told, _MOST_MISTAKEN), (SCRIPT, scripts[side], 0.0)):
            usual = main[side] if kind == LANGUAGE else _majority(values)
            odd = [number for number, value in zip(numbers, values, strict=False) if value not in ("", usual)]
            looked_at = sum(map(bool, values))
            if usual and len(odd) > least * looked_at:
                message = f"of {looked_at:,} sampled {name} sides are not in {usual}, unlike the others"
                advice = "Check the examples, and remove untranslated pairs."
                findings.append(Tally.of(odd).finding(kind, message, advice, looked_at))
    return (main[0], main[1]), (_majority(scripts[0]), _majority(scripts[1])), findings


def mismatches(sample: Sequence[tuple[int, SentencePair]], declared: tuple[str, str]) -> list[CorpusFinding]:
    """Findings for sides in another language than stated, in some of their lines or else in all.

    `sample` has line numbers and pairs.
    """
    sides = [pair.src for _, pair in sample], [pair.tgt for _, pair in sample]
    return _mixtures(sample, declared) or _contradictions(_languages_of_sides(sides, declared), declared, len(sample))


def _mixtures(sample: Sequence[tuple[int, SentencePair]], declared: tuple[str, str]) -> list[CorpusFinding]:
    """Findings for swapped pairs, and for sides with some lines in the other side's or a third language.

    Nothing is a mixture if it affects nearly all lines.
    """
    wanted = detector_code(declared[0]), detector_code(declared[1])
    if not all(map(can_detect, wanted)) or are_similar(*wanted):
        return []
    all_told = [(_language_of(pair.src, wanted[0]), _language_of(pair.tgt, wanted[1])) for _, pair in sample]
    pairs = [(number, told) for (number, _), told in zip(sample, all_told, strict=True) if all(told)]
    if len(pairs) < _FEWEST_LINES:
        return []
    exchanged = [number for number, told in pairs if told == wanted[::-1]]
    if _is_mixture(len(exchanged), len(pairs)):
        return [
            _mixture(SWAPPED, "sampled pairs have source and target swapped", "Swap them back.", exchanged, len(pairs))
        ]
    findings = []
    for side, name in enumerate(("source", "target")):
        others = Counter(told[side] for _, told in pairs if told[side] != wanted[side])
        other, count = others.most_common(1)[0] if others else ("", 0)
        if _is_mixture(count, len(pairs)):
            lines = [number for number, told in pairs if told[side] == other]
            untranslated = other == wanted[1 - side]
            message = f"sampled {name} sides are in {name_with_code(other)}, not in {language_name(declared[side])}"
            advice = "Remove the untranslated pairs." if untranslated else "Remove them, or train a model per language."
            findings.append(_mixture(LANGUAGE, message, advice, lines, len(pairs)))
    return findings


def _is_mixture(count: int, total: int) -> bool:
    return _MIXED_SHARE <= count / total < _NEARLY_ALL


def _mixture(kind: str, message: str, advice: str, lines: Sequence[int], total: int) -> CorpusFinding:
    return Tally.of(lines).finding(kind, message, advice, total, serious=len(lines) / total >= _SERIOUS_SHARE)


def _languages_of_sides(sides: tuple[Sequence[str], Sequence[str]], declared: tuple[str, str]) -> list[SideLanguage]:
    """The detected languages of both sides."""
    return [language_of_side(lines, code) for lines, code in zip(sides, declared, strict=True)]


def _contradictions(found: Sequence[SideLanguage], declared: tuple[str, str], count: int) -> list[CorpusFinding]:
    """Findings for sides that are clearly swapped, or clearly in another language than declared."""
    wrong = [contradiction(found[side], declared[side], declared[1 - side]) for side in (0, 1)]
    if all(wrong) and wrong == [detector_code(code) for code in declared[::-1]]:
        names = [language_name(code) for code in wrong]
        message = f"the source looks like {names[0]} and the target like {names[1]}: they are swapped"
        advice = "Swap the files, the columns (`--columns 2,1`) or the languages."
        return [Tally(count).finding(SWAPPED, message, advice, count, serious=not are_similar(*wrong))]
    findings = []
    for language, stated, name in zip(wrong, declared, ("source", "target"), strict=True):
        if language:
            message = _looks_like(f"the {name}", language, stated)
            near = are_similar(language, stated)
            advice = "The two are similar: check the text yourself." if near else "Name the right file or language."
            findings.append(Tally(count).finding(LANGUAGE, message, advice, count, serious=not near))
    return findings


def _looks_like(name: str, found: str, stated: str) -> str:
    return f"{name} looks like {name_with_code(found)}, not like {name_with_code(stated)}"


def _majority(values: Sequence[str]) -> str:
    """The value of most non-empty values, or "" if there are fewer than 20 or no majority."""
    counts = Counter(filter(None, values))
    value, count = counts.most_common(1)[0] if counts else ("", 0)
    return value if counts.total() >= _FEWEST_LINES and 2 * count > counts.total() else ""

"""Detect the language, script and encoding of a side from a sample of its lines, and the direction of each pair.

The detector is py3langid (Lui & Baldwin 2012) with all its languages. A single line is too short for a reliable
result, so lines are joined to blocks; benchmarks/results/language_detection.md has the accuracy.

The direction of a pair follows from both of its sides together, which also works for short sentences.
"""

import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from random import Random
from statistics import mean, stdev
from tempfile import gettempdir
from typing import Any

import numpy as np
from charset_normalizer import from_bytes
from numpy.typing import NDArray

from dragoman.errors import DataError
from dragoman.files import disk_errors
from dragoman.languages import main_language, name_with_code
from dragoman.records import SentencePair
from dragoman.text.doctor.findings import shorten
from dragoman.text.lines import detect_utf16, display_name, open_bytes, read_lines

SKIP_SETTING, SKIP_FLAG = "`--data.check-languages false`", "`--no-language-check`"
SURE_SHARE = 0.9
"""The share of a side that must be in one language, or similar ones, for us to state it."""
LANGUAGE_SAMPLE_LINES = 1000

_BLOCK_LETTERS, _FEWEST_BLOCKS = 150, 3
_MOST_CHARACTERS = 1000
SURE_NATS = 10.0
_CLEAR_SHARE, _STATED_SHARE = 0.7, 0.1
_MOST_NATS = 30.0
"""The most that one side of a pair can count against a language: names and markup say nothing about it."""
_FEWEST_PAIRS, _LEAST_CLEAR = 20, 0.2
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
        is_sure = wanted not in scores or scores[best] - scores[wanted] > SURE_NATS
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


def check_side(lines: Sequence[str], stated: str, name: str, other_stated: str = "") -> str:
    """A warning if a side looks like a language similar to the stated one, else "".

    Raises DataError if the side is clearly in another language. `name` is the name of the side in messages.
    """
    found = contradiction(language_of_side(lines, stated), stated, other_stated)
    if not found:
        return ""
    message = describe_contradiction(name, found, stated)
    if are_similar(found, stated):
        return f"{message}; the two languages are similar, so check the text yourself"
    example = shorten(next(filter(str.strip, lines)))
    raise DataError(f'{message}: "{example}". Name the right file or language; if they are right, add {SKIP_FLAG}.')


def check_same_language(
    lines: Sequence[str], references: Sequence[str], name: str, advice: str = "Name the right files"
) -> None:
    """Raise DataError if translations are clearly in another language than their references.

    `name` is the name of the translations in the message, and `advice` says how to correct them.
    """
    wanted = language_of_side(references).language
    found = contradiction(language_of_side(lines, wanted), wanted)
    if found and not are_similar(found, wanted):
        raise DataError(
            f"{name} looks like {name_with_code(found)}, but the references look like {name_with_code(wanted)}. "
            f"{advice}; if they are right, add {SKIP_FLAG}."
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


def describe_contradiction(name: str, found: str, stated: str) -> str:
    """A message about a side in another language than the stated one."""
    return f"{name} looks like {name_with_code(found)}, not like {name_with_code(stated)}"


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

    with disk_errors(Path(gettempdir()) / "py3langid"):  # the library unpacks its model into a temporary file
        identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    return identifier, frozenset(identifier.labels)


Directions = tuple[str, str, NDArray[np.int8]]
"""The language of the sources and of the targets of most pairs, and the direction of each pair, (pairs,).

The direction is 1 for a pair like most, -1 for one in the other direction, and 0 if it is not clear.
"""


def find_directions(pairs: Sequence[SentencePair], declared: tuple[str, str] | None = None) -> Directions | None:
    """The directions of pairs, or None if they are not clear, as between languages that are easily confused.

    `declared` are codes of the detector for source and target. Without them, the languages are those that explain the
    pairs best if each pair may run in either direction. Pairs that fit both directions or a third language are unclear.
    """
    labels = sorted(known_languages())
    src, tgt = (
        np.array([[scores[label] for label in labels] for scores in map(language_scores, side)], np.float32)
        for side in ([pair.src for pair in pairs], [pair.tgt for pair in pairs])
    )
    src, tgt = (np.maximum(scores - scores.max(axis=1, keepdims=True), -_MOST_NATS) for scores in (src, tgt))
    one, other = map(labels.index, declared) if declared else _best_languages(src, tgt)
    fits = np.minimum(np.maximum(src[:, one], src[:, other]), np.maximum(tgt[:, one], tgt[:, other])) > -SURE_NATS
    gains = src[:, one] + tgt[:, other] - src[:, other] - tgt[:, one]
    signs = (np.sign(gains) * (fits & (np.abs(gains) > SURE_NATS))).astype(np.int8)
    is_clear = np.count_nonzero(signs) >= max(_FEWEST_PAIRS, _LEAST_CLEAR * len(pairs))
    if not is_clear or are_similar(labels[one], labels[other]):
        return None
    if not declared and signs.sum() < 0:
        one, other, signs = other, one, -signs
    return labels[one], labels[other], signs


def _best_languages(src: NDArray[np.float32], tgt: NDArray[np.float32]) -> tuple[int, int]:
    """The two languages whose sum of log-likelihoods over the pairs is the highest, each pair in its best direction."""
    best = np.array([np.maximum(src[:, [one]] + tgt, tgt[:, [one]] + src).sum(axis=0) for one in range(src.shape[1])])
    np.fill_diagonal(best, -np.inf)
    one, other = np.unravel_index(best.argmax(), best.shape)
    return int(one), int(other)


_SAMPLE_LINES, _SAMPLE_BYTES = 300, 1 << 16
_FEWEST_LINES, _SURE_DEVIATIONS = 3, 3.0
_MOST_READINGS = 3
_UTF8_SHARE = 0.02
"""Above this share of UTF-8 among the non-ASCII lines, the file is damaged UTF-8: other text is hardly ever UTF-8."""
_UTF_16_32 = ("utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be")
_WESTERN = ("cp1252", "iso8859_15", "mac_roman", "cp850")
_CENTRAL = ("cp1250", "iso8859_2", "cp852", "mac_latin2")
_CYRILLIC = ("cp1251", "koi8_r", "koi8_u", "cp866", "iso8859_5", "mac_cyrillic")
_BALTIC = ("cp1257", "iso8859_13", "iso8859_4")
_SAME_LETTERS = str.maketrans("şţŞŢ", "șțȘȚ")
"""Romanian is written with both forms, and the language detector cannot tell which of them a file has."""
_USUAL = {
    **dict.fromkeys(("cs", "sk", "pl", "hu", "sl", "hr", "bs", "sq"), _CENTRAL),
    **dict.fromkeys(("ru", "uk", "be", "bg", "mk", "kk", "ky", "mn", "tg", "tt"), _CYRILLIC),
    **dict.fromkeys(("lt", "lv", "et"), _BALTIC),
    "ro": (*_CENTRAL, "iso8859_16"),
    "sr": (*_CYRILLIC, *_CENTRAL),
    "el": ("cp1253", "iso8859_7", "mac_greek"),
    "tr": ("cp1254", "iso8859_9", "cp857"),
    "he": ("cp1255", "iso8859_8"),
    "ar": ("cp1256", "iso8859_6"),
    "fa": ("cp1256",),
    "vi": ("cp1258",),
    "th": ("tis_620", "cp874"),
    "ja": ("cp932", "euc_jp", "iso2022_jp"),
    "zh": ("gb18030", "big5"),
    "ko": ("cp949",),
}
"""The usual encodings by language. Other languages use the Western ones."""


@dataclass(frozen=True, slots=True)
class EncodingGuess:
    """The possible encodings, each with a line that it decodes, best first. One if it is certain, none if nothing fits.

    `is_utf8`: the other non-ASCII lines are UTF-8, so the file is damaged or mixed.
    """

    readings: dict[str, str]
    is_utf8: bool = False


def guess_encoding(path: Path, languages: Sequence[str]) -> EncodingGuess:
    """The possible encodings of a file that is not UTF-8 and whose language is one of `languages`."""
    with open_bytes(path) as stream:
        start = stream.read(_SAMPLE_BYTES)
    if wide := detect_utf16(start) or _detect_wide(start):
        try:
            line = next(filter(str.strip, read_lines(path, encoding=wide)), "")
        except DataError:
            return EncodingGuess({})
        return EncodingGuess({wide.upper().replace("_", "-"): shorten(line)})
    lines, is_utf8 = _lines_not_utf8(path)
    if is_utf8 or not lines:
        return EncodingGuess({}, is_utf8)
    usual = {codec for code in languages for codec in _USUAL.get(main_language(code), _WESTERN)}
    groups = _Groups(lines, languages, usual)
    possible = ((encoding, line) for encoding, line in groups.readings() if _can_decode(path, encoding))
    return EncodingGuess(dict(islice(possible, _MOST_READINGS)))


def is_utf16(path: Path) -> bool:
    """Whether the first bytes of a file show UTF-16. Decoding cannot tell: with NULs, much of it is valid UTF-8."""
    with open_bytes(path) as stream:
        return bool(detect_utf16(stream.read(_SAMPLE_BYTES)))


def _detect_wide(start: bytes) -> str:
    """The UTF-16 or UTF-32 variant that charset-normalizer finds, or ""."""
    best = from_bytes(start).best()
    return best.encoding if best is not None and best.encoding in _UTF_16_32 else ""


def _lines_not_utf8(path: Path) -> tuple[list[bytes], bool]:
    """A sample of the lines that are not UTF-8, spread over the file, and whether other non-ASCII lines are UTF-8."""
    kept: list[bytes] = []
    others = wrong = 0
    every = 1
    with open_bytes(path) as stream:
        for line in stream:
            if line.isascii():
                continue
            try:
                line.decode()
                others += 1
            except UnicodeDecodeError:
                if wrong % every == 0:
                    kept.append(line[:1000].strip())
                wrong += 1
                if len(kept) > 2 * _SAMPLE_LINES:
                    kept, every = kept[::2], 2 * every
    return kept[:: max(1, len(kept) // _SAMPLE_LINES)], others > _UTF8_SHARE * (others + wrong)


class _Groups:
    """Encodings grouped by the text that they give for some lines, with the log-odds of that text."""

    def __init__(self, lines: Sequence[bytes], languages: Sequence[str], usual: set[str]) -> None:
        found = {codec for match in from_bytes(b"\n".join(lines)) for codec in match.could_be_from_charset}
        self._usual, self._judged = usual, any(languages)
        self._names: dict[tuple[str, ...], str] = {}
        # The usual encodings first, so that the best-known name stands for a group.
        for codec in sorted(found | usual, key=lambda codec: (codec not in usual, codec)):
            with suppress(UnicodeDecodeError, LookupError):
                self._names.setdefault(tuple(line.decode(codec) for line in lines), codec)
        self._odds = {texts: [max(log_odds(text, languages), default=0.0) for text in texts] for texts in self._names}

    def readings(self) -> Iterator[tuple[str, str]]:
        """The best encoding and those not clearly worse, each with a line on which it differs from the best."""
        if not self._names:
            return
        usual = [texts for texts, codec in self._names.items() if codec in self._usual]
        best = max(usual or self._names, key=self._mean)
        better = [texts for texts in self._names if self._surely_better(texts, best)]
        best = max(better, key=self._mean) if better else best
        rivals = [texts for texts in self._names if texts != best and not self._surely_better(best, texts)]
        if self._names[best] not in self._usual:  # too unusual to be certain
            rivals += [texts for texts in usual if texts not in rivals]
        elif self._judged:
            rivals = [texts for texts in rivals if texts in usual]
        rivals.sort(key=self._mean, reverse=True)
        for texts in (best, *rivals):
            other = best if texts != best else rivals[0] if rivals else best
            place = next((place for place, pair in enumerate(zip(texts, other, strict=True)) if pair[0] != pair[1]), 0)
            yield display_name(self._names[texts]), shorten(texts[place])

    def _mean(self, texts: tuple[str, ...]) -> float:
        return mean(self._odds[texts])

    def _surely_better(self, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Whether the lines on which both differ favor `one` by more than three standard errors."""
        texts = ([text.translate(_SAME_LETTERS) for text in texts] for texts in (one, other))
        pairs = zip(self._odds[one], self._odds[other], *texts, strict=True)
        gains = [first - second for first, second, text, other_text in pairs if text != other_text]
        if not self._judged or len(gains) < _FEWEST_LINES:
            return False
        spread = max(stdev(gains), 0.1) / len(gains) ** 0.5
        return bool(mean(gains) > _SURE_DEVIATIONS * spread)


def _can_decode(path: Path, encoding: str) -> bool:
    """Whether an encoding decodes the whole file."""
    try:
        for _ in read_lines(path, encoding=encoding):
            pass
    except DataError:
        return False
    return True

"""Guess the encoding of a file that is not UTF-8, and how certain the guess is.

charset-normalizer lists the encodings that the bytes allow. The language detector scores the text that each of them
gives. Both use a sample of the lines. An encoding is only reported if it decodes the whole file.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean, stdev

from charset_normalizer import from_bytes

from dragoman.errors import DataError
from dragoman.languages import main_language
from dragoman.text.charsets import detect_utf16, display_name
from dragoman.text.doctor.findings import shorten
from dragoman.text.doctor.languages import log_odds
from dragoman.text.lines import open_bytes, read_lines

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
    with suppress(DataError):
        deque(read_lines(path, encoding=encoding), maxlen=0)
        return True
    return False

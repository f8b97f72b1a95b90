"""Quantities of a text: numbers in digits and in words, signs, clock times, versions, units and currencies.

`quantities_differ` compares a source with its translation. Words are read in the languages of quantity_words.txt, which
describes them, and digits in every language. A number is certain or possible: "ein" may be a number or an article, so a
translation may omit it.
"""

import re
from collections import Counter
from functools import lru_cache
from pathlib import Path

from dragoman.languages import main_language

# Words by language, each with its kind and values. Words of units are those of the language "*".
_WORDS: dict[str, dict[str, tuple[str, tuple[float, ...]]]] = {"*": {}}
_UNITS: dict[str, list[str]] = {}
_SIZES: dict[str, tuple[str, float]] = {}


def _read_tables() -> None:
    text = Path(__file__).with_name("quantity_words.txt").read_text(encoding="utf-8")
    for language, kind, value, words in (line.split("\t") for line in text.splitlines() if line[0] != "#"):
        if kind == "unit":
            _UNITS[value] = words.split()
            _WORDS["*"] |= dict.fromkeys(_UNITS[value], (value, ()))
            continue
        number = float(value) if "." in value else int(value)
        table = _WORDS.setdefault(language, {})
        for word in words.split():
            if language == "*":
                _SIZES[word] = kind, number
            else:
                table[word] = kind, (*table.get(word, ("", ()))[1], number)


_read_tables()
_SYMBOLS = {"$", "€", "£", "¥", "%"}
"""Units that a translation must not omit."""
_ROUNDED = 0.2
"""The relative error of a number that was converted to another unit and rounded."""
_MOSTLY_WRITTEN_OUT = 12
"""Numbers up to this one are often written as words, in one language and not in the other."""
_FEW = ("dozen", "dutzend")
_LONGEST_WORD = 100
_TOKEN = re.compile(
    r"(?P<word>[^\W\d_]+|[$€£¥%]|°[cf]?)"
    r"|(?<![\d.,:])(?P<hour>\d{1,2})(?:(?:[:.](?P<minute>[0-5]\d))?(?::[0-5]\d)?[\s-]?(?:(?P<half>[ap])\.?\s?m\b\.?|uhr\b)"
    r"|:(?P<minute2>[0-5]\d)(?::[0-5]\d)?(?!\d))"
    r"|(?P<sign>(?:(?<=[\s(=:„“\"'])|^)[-−–])?"
    r"(?P<number>(?<!\d)\d{1,3}(?:[.,'’\u00a0\u202f ]\d{3})+(?!\d)(?:[.,]\d{1,2}(?!\d))?|\d+(?:[.,]\d+)*)"
    r"(?P<decade>'?s\b|er[ns]?\b)?"
    r"|[^\s-]"
)
_THOUSANDS = re.compile(r"(\d{1,3}(?:[.,'’\u00a0\u202f ]\d{3})+)(?:[.,](\d{1,2}))?")
_DAYPART = re.compile("nachmittag|abend|nacht|mittag")
_BELOW_ZERO = re.compile(r"\b(?:(?:below|under) (?:zero|freezing)|unter (?:null|dem gefrierpunkt)|grad minus)\b")
_GERMAN_ORDINAL = re.compile("(.+?)s?t(?:e[nrsm]?|ens)")
_IRREGULAR_STEMS = {"er": "ein", "drit": "drei", "ach": "acht", "sieb": "sieben"}


@lru_cache(maxsize=1 << 14)
def _read_word(word: str, language: str) -> tuple[str, tuple[float, ...]]:
    """The kind of a word ("certain", "ordinal", "possible", "scale" or ""), and its values."""
    if (found := _WORDS[language].get(word)) or language != "de":
        return found or ("", ())
    if (value := _german_number(word)) is not None:
        return "certain", (value,)
    stem = ordinal[1] if (ordinal := _GERMAN_ORDINAL.fullmatch(word)) else ""
    if (value := _german_number(_IRREGULAR_STEMS.get(stem, stem))) is not None:
        return "ordinal", (value,)
    if (value := _german_number(word.removesuffix("einhalb"))) is not None:
        return "ordinal", (value + 0.5, value)
    for stop in range(min(len(word) - 1, _LONGEST_WORD), 2, -1):  # zweimal, dreijährig, siebziger
        if (value := _german_number(_IRREGULAR_STEMS.get(word[:stop], word[:stop]))) is not None:
            kind = "ordinal" if word[stop:] in ("mal", "er", "ern") else "possible"
            return kind, (value, value % 100)
    return "", ()


def _german_number(word: str) -> float | None:
    """The value of a German cardinal below a million, casefolded: siebenhundertdreiundzwanzig."""
    if len(word) > _LONGEST_WORD:
        return None
    for name, scale in (("tausend", 1000), ("hundert", 100)):
        head, found, tail = word.partition(name)
        if found:
            high = _german_number(head) if head else 1
            low = _german_number(tail.removeprefix("und")) if tail else 0
            return None if high is None or low is None else scale * high + low
    kind, values = _WORDS["de"].get(word, ("", ()))
    return values[0] if kind in ("certain", "ordinal") else None


class Quantities:
    """The quantities of a text in one of the languages of quantity_words.txt. "*" is any other: only digits are read.

    Attributes
    ----------
    certain, possible, ordinals
        How often each number certainly occurs, the numbers that may occur, and those that are ordinals, without signs.
    negatives, is_below_zero
        The numbers with a minus sign, and whether the text has words such as "below zero".
    known_hours
        Hours that cannot be 12 hours later: with am or pm, or German without a word such as "abends".
    units, versions, parts
        Units and currencies of numbers, numbers with two or more points, and the parts of numbers with one: 3.12 may be
        a date.
    """

    # The number that the next token may continue, and the word before.
    _value: float | None = None
    _total: float = 0
    _is_word, _kind, _previous = False, "", ""

    def __init__(self, text: str, language: str = "*") -> None:
        self.text, self.language = text.casefold(), language
        self.certain: Counter[float] = Counter()
        self.possible, self.ordinals, self.negatives, self.known_hours = (set[float]() for _ in range(4))
        self.is_below_zero = bool(_BELOW_ZERO.search(self.text))
        self.units: set[str] = set()
        self.versions: list[str] = []
        self.parts: dict[float, list[int]] = {}
        if self.language == "*" and not any(map(str.isdecimal, self.text)):
            return
        for token in _TOKEN.finditer(self.text):
            if word := token["word"]:
                kind, values = _read_word(word, self.language) if self.language != "*" else ("", ())
                if kind or self._value is not None or word in _SYMBOLS:
                    self._add_word(word, kind, values)
            else:
                self._end()
                if token["number"]:
                    self._add_digits(token)
                elif token["hour"]:
                    self._add_time(int(token["hour"]), int(token["minute"] or token["minute2"] or 0), token["half"])
            self._previous = token["word"] or ""
        self._end()

    def _start(self, value: float, kind: str, is_word: bool) -> None:
        self._end()
        if self._previous == "halb":  # halb vier is half past three
            value = value - 1 or 12
        self._value, self._kind, self._is_word = value, kind, is_word
        if self._previous == "minus":
            self.negatives.add(value)

    def _end(self) -> None:
        """Record the number that was read."""
        if self._value is None:
            return
        value = self._total + self._value
        if self._kind == "certain" and not (self._is_word and value == 1):
            self.certain[value] += 1
        else:
            self.possible.add(value)
        if self._kind == "ordinal":
            self.ordinals.add(value)
        self._value, self._total = None, 0

    def _add_digits(self, token: re.Match[str]) -> None:
        digits = token["number"]
        if whole := _THOUSANDS.fullmatch(digits):
            digits = re.sub(r"\D", "", whole[1]) + (f".{whole[2]}" if whole[2] else "")
        # `int` is not linear in time, so only the last digits count.
        parts = re.findall(r"\d+", digits[-1000:])
        if len(parts) > 2:
            if "," not in digits and len(parts[-1]) < 4:  # not a date
                self.versions.append(digits)
            self.certain.update(map(int, parts))
            return
        value = int(parts[0]) if len(parts) == 1 else float(".".join(parts))
        if len(parts) == 2:
            self.parts[value] = [*map(int, parts)]
        if is_decade := token["decade"] and value % 10 == 0 and self.language != "*":  # the 1990s, and 90er
            value %= 100
        self._start(value, "possible" if is_decade and not value else "certain", False)
        if token["sign"]:
            self.negatives.add(value)

    def _add_time(self, hour: int, minute: int, half: str | None) -> None:
        hour = hour % 12 + 12 * (half == "p") if half else hour % 24
        if half or hour > 12 or (self.language == "de" and not _DAYPART.search(self.text)):
            self.known_hours.add(hour)
        self.certain.update([hour, minute] if minute else [hour])

    def _add_word(self, word: str, kind: str, values: tuple[float, ...]) -> None:
        before = self._value
        if kind == "scale" and before is not None:
            self._kind = "certain"
            if values[0] < 1000:
                self._value = before * values[0]
            else:
                self._total, self._value = self._total + round(before * values[0], 6), 0
        elif kind in ("certain", "ordinal") and before is not None and self._is_continued(before, values[0]):
            self._value, self._kind = before + values[0], "certain"
        elif kind in ("certain", "ordinal", "scale"):  # a dozen may be several
            self._start(values[0], {"scale": "possible" if word in _FEW else "certain"}.get(kind, kind), True)
            self.possible.update(values[1:])
        elif word not in ("and", "und") or not (self._is_word and self._total + (before or 0) >= 100):
            if word in _WORDS["*"] and (before is not None or word in _SYMBOLS):
                self.units.add(unit := _WORDS["*"][word][0])
                if unit == "°":  # Celsius or Fahrenheit may follow
                    return
            self._end()
            self.possible.update(values)
            if 1 in values and self._previous == "halb":  # halb eins is half past twelve
                self.possible.add(12)

    def _is_continued(self, before: float, value: float) -> bool:
        """Whether a number word is added to the number before it: twenty-one, two hundred and five."""
        if not self._is_word or before == 0:
            return self._is_word and self._total > 0
        return (before % 100 == 0 and value < 100) or (before % 100 >= 20 and before % 10 == 0 and 0 < value < 10)


def quantities_differ(src_text: str, tgt_text: str, languages: tuple[str, str]) -> bool:
    """Whether a number, sign, clock time, version, unit or currency is missing or replaced.

    Only digits are compared unless the words of both languages are known.
    """
    src_lang, tgt_lang = (main_language(language) if language else "" for language in languages)
    if {src_lang, tgt_lang} <= _WORDS.keys():
        src, tgt = Quantities(src_text, src_lang), Quantities(tgt_text, tgt_lang)
        lost, new = _other_units(src, tgt), _other_units(tgt, src)
    else:
        src, tgt, lost, new = Quantities(src_text), Quantities(tgt_text), set(), set()
    missing, added = _unmatched(src, tgt), _unmatched(tgt, src)
    if _is_converted(missing, added, lost, new):
        return False
    _excuse(missing, added, src, tgt)
    _excuse(added, missing, tgt, src)
    numbers = [*+missing, *+added]
    if src.language == "*" and not (+missing and +added):  # small numbers may be written out
        numbers = [number for number in numbers if number > _MOSTLY_WRITTEN_OUT]
    return bool(
        numbers
        or (lost and new)
        or (lost | new) & _SYMBOLS
        or (_other_ordinals(src, tgt) and _other_ordinals(tgt, src))
        or (src.language != "*" and (_loses_sign(src, tgt) or _loses_sign(tgt, src)))
        or (len(src.versions) == len(tgt.versions) and sorted(src.versions) != sorted(tgt.versions))
    )


def _unmatched(one: Quantities, other: Quantities) -> Counter[float]:
    """Numbers of one text that the other one does not have."""
    left = one.certain - other.certain
    for number in other.possible & left.keys():
        del left[number]
    return left


def _other_ordinals(one: Quantities, other: Quantities) -> set[float]:
    return one.ordinals - other.possible - other.certain.keys()


def _loses_sign(one: Quantities, other: Quantities) -> bool:
    lost = one.negatives - other.negatives or (one.is_below_zero and not other.negatives)
    return bool(lost) and not other.is_below_zero


def _other_units(one: Quantities, other: Quantities) -> set[str]:
    """Units of one text that the other text does not name, not even inside a word."""
    return {
        unit
        for unit in one.units - other.units
        if not any(word in other.text for word in _UNITS[unit] if len(word) > 2 or not word.isalpha())
    }


def _excuse(one_left: Counter[float], other_left: Counter[float], one: Quantities, other: Quantities) -> None:
    """Remove numbers that are written in another way: 8 and 20 o'clock, 3.12. and December 3."""
    for number in list(one_left):
        later = number + 12
        are_known = number in one.known_hours and (later > 12 or later in other.known_hours)
        if 0 <= number < 12 and other_left[later] and not are_known:
            both = min(one_left[number], other_left[later])
            one_left[number] -= both
            other_left[later] -= both
        elif (parts := one.parts.get(number)) and other.possible | other.certain.keys() >= set(parts):
            one_left[number] = 0
            other_left.subtract(parts)


def _is_converted(missing: Counter[float], added: Counter[float], lost: set[str], new: set[str]) -> bool:
    """Whether the only difference is a number that was converted to another unit and rounded."""
    if not all(len(each) == 1 for each in (missing, added, lost, new)):
        return False
    [before], [after], [old], [unit] = missing, added, lost, new
    sizes = _SIZES.get(old, ("", 0)), _SIZES.get(unit, ("", 0))
    is_same_dimension = sizes[0][0] == sizes[1][0] != "" and 0 < min(before, after) <= max(before, after) < 1e12
    return is_same_dimension and abs(before * sizes[0][1] / (after * sizes[1][1]) - 1) < _ROUNDED


def count_numbers(text: str) -> Counter[float]:
    """Count the numbers in digits. 1,000 and 1.000 and 1 000 are the same number."""
    return Quantities(text).certain

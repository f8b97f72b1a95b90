"""Real translations with one planted fault each, of 12 kinds. Needs the corpora in the folder DRAGOMAN_DATA.

The corpora are split into two halves by a hash of the source. Rules and thresholds of the flags were chosen on half 0,
and the figures of docs/reference/flags.md are those of half 1.
"""

import random
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from dragoman.text.corpus.tmx import ReadReport, read_tmx
from tests.soak.faulty_translations import Pair, read_lines

ENGLISH = "two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty".split()
GERMAN = "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig vierzig fünfzig".split()
UNITS = {
    "Kilometer": "Meilen", "Meilen": "Kilometer", "Meter": "Fuß", "Zentimeter": "Meter", "Kilo": "Gramm",
    "Stunden": "Tage", "Minuten": "Stunden", "Tage": "Wochen", "Tagen": "Wochen", "Wochen": "Monate",
    "Monate": "Wochen", "Jahre": "Monate", "Jahren": "Monaten", "Grad": "Prozent", "Prozent": "Grad",
}  # fmt: skip
UNIT = re.compile(
    rf"\b(?:\d+|{'|'.join(ENGLISH)}|hundred|thousand|million)[ -]"
    r"(?:kilomet|mile|met|centimet|kilo|hour|minute|day|week|month|year|degree|percent)",
    re.IGNORECASE,
)
MAGNITUDES = {
    "Million": "Milliarde", "Millionen": "Milliarden", "Milliarden": "Millionen", "Milliarde": "Million",
    "tausend": "Millionen", "Tausend": "Million", "hundert": "tausend", "Hundert": "Tausend",
}  # fmt: skip
MESSAGES = (
    "{count, plural, one {# file} other {# files}}",
    "{name}",
    "{price, number, currency}",
    "{who, select, female {her {n, plural, one {car} other {# cars}}} other {their cars}}",
    "{rank, selectordinal, one {#st} few {#rd} other {#th}}",
    "{0}",
    "{when, date, long}",
)


class Fault(NamedTuple):
    """A source, a good translation and a faulty one."""

    src: str
    good: str
    faulty: str


Planter = Callable[[Pair, random.Random], Fault | None]


def real_pairs(data: Path, half: int) -> dict[str, list[Pair]]:
    """The English-German pairs of one half of each corpus, in random order. Sides that are equal are left out."""
    sides = (read_lines(data / "multi30k" / f"train.{language}.gz") for language in ("en", "de"))
    rows = (line.split("\t") for line in read_lines(data / "tatoeba_en_de" / "deu.txt.gz"))
    units = read_tmx(data / "omegat_en_de" / "project_save.tmx.gz", "en", "de", ReadReport())
    corpora = {
        "Multi30k": list(zip(*sides, strict=True)),
        "Tatoeba": [(row[0], row[1]) for row in rows],
        "OmegaT": [(unit.src, unit.tgt) for unit in units],
    }
    found = {}
    for name, pairs in corpora.items():
        kept = [
            pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1] and zlib.crc32(pair[0].encode()) % 2 == half
        ]
        random.Random(2).shuffle(kept)
        found[name] = kept
    return found


def planted_faults(pairs: dict[str, list[Pair]], count: int) -> Iterator[tuple[str, list[Fault]]]:
    """`count` faulty translations by kind: the same number of each, and more of others if the corpora lack pairs."""
    for number, (kind, (corpus, planter)) in enumerate(KINDS.items()):
        wanted = round(count / (len(KINDS) - number))
        rng, faults = random.Random(number), []
        for pair in pairs[corpus]:
            if (fault := planter(pair, rng)) and fault.faulty != fault.good:
                faults.append(fault)
                if len(faults) == wanted:
                    break
        count -= len(faults)
        yield kind, faults


def has_number(pair: Pair) -> bool:
    """Whether a side has a digit or a number word."""
    return bool(re.search(rf"\d|\b(?:{'|'.join(ENGLISH + GERMAN)})\b", " ".join(pair), re.IGNORECASE))


def _replace(pair: Pair, old: str, new: str) -> Fault | None:
    """The pair, in which the word `old` of the translation becomes `new`."""
    faulty = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, pair[1], count=1)
    return Fault(*pair, re.sub("  +", " ", faulty)) if faulty != pair[1] else None


def _common_number(pair: Pair) -> str:
    numbers = re.findall(r"(?<![\w.,:])\d{1,4}(?![\w.,:]\w)", pair[0])
    return next((number for number in numbers if re.search(rf"(?<![\w.,:]){number}(?![\w.,:]\w)", pair[1])), "")


def _common_word(pair: Pair) -> str:
    """A German number word of the translation whose English word is in the source."""
    src = set(re.findall(r"\w+", pair[0].lower()))
    words = re.findall(r"\w+", pair[1])
    known = dict(zip(GERMAN, ENGLISH, strict=True))
    return next((word for word in words if known.get(word.lower()) in src), "")


def _digit(pair: Pair, rng: random.Random) -> Fault | None:
    if not (number := _common_number(pair)):
        return None
    place = rng.randrange(len(number))
    digit = rng.choice([digit for digit in "123456789" if digit != number[place]])
    return _replace(pair, number, number[:place] + digit + number[place + 1 :])


def _word(pair: Pair, rng: random.Random) -> Fault | None:
    if not (word := _common_word(pair)):
        return None
    new = rng.choice([other for other in GERMAN if other != word.lower()])
    return _replace(pair, word, new.capitalize() if word[0].isupper() else new)


def _dropped(pair: Pair, _: random.Random) -> Fault | None:
    number = _common_number(pair) or _common_word(pair)
    return _replace(pair, number, "") if number else None


def _sign(pair: Pair, rng: random.Random) -> Fault:
    number = rng.randrange(1, 60)
    good = rng.choice((f"-{number}", f"−{number}", f"minus {number}"))
    return Fault(
        f"{pair[0]} It was -{number} degrees.", f"{pair[1]} Es war {good} Grad.", f"{pair[1]} Es war {number} Grad."
    )


def _clock(pair: Pair, rng: random.Random) -> Fault | None:
    time = re.search(r"\b(1?\d):([0-5]\d)\b(?! ?[ap]\.?m)", pair[0])
    written = re.search(r"\bhalb (\w+)|\b(\d{1,2})(?=[:.]\d\d|\sUhr)", pair[1])
    if not time or not written:
        return None
    if written[1]:
        return _replace(
            pair, f"halb {written[1]}", f"halb {rng.choice([word for word in GERMAN[:11] if word != written[1]])}"
        )
    hour = int(time[1])
    if hour < 12 and written[2] == time[1] and rng.random() < 0.5:  # 3:30 pm is not 3:30
        src = pair[0].replace(time[0], f"{time[0]} pm", 1)
        after = pair[1][: written.start()], pair[1][written.end() :]
        return Fault(src, f"{after[0]}{hour + 12}{after[1]}", pair[1])
    other = rng.choice([other for other in range(1, 24) if (other - hour) % 12])
    return Fault(*pair, f"{pair[1][: written.start()]}{other}{pair[1][written.end() :]}")


def _currency(pair: Pair, rng: random.Random) -> Fault | None:
    if not re.search(
        rf"[$€£]\s?\d|\b(?:\d+|{'|'.join(ENGLISH)}|hundred|thousand|million) (?:dollar|euro|pound|yen)", pair[0], re.I
    ):
        return None
    found = re.search(r"(?<!\w)(?:Dollar|Euro|Yen|\$|€)(?!\w)", pair[1])
    if not found:
        return None
    same = {"$": "Dollar", "€": "Euro"}.get(found[0], found[0])
    return _replace(pair, found[0], rng.choice([other for other in ("Dollar", "Euro", "Yen", "") if other != same]))


def _named(words: dict[str, str], source: re.Pattern[str]) -> Planter:
    def plant(pair: Pair, _: random.Random) -> Fault | None:
        old = next((word for word in re.findall(r"\w+", pair[1]) if word in words), "")
        return _replace(pair, old, words[old]) if old and source.search(pair[0]) else None

    return plant


def _version(pair: Pair, rng: random.Random) -> Fault:
    parts = rng.sample(range(20), 3)
    version, other = (".".join(map(str, order)) for order in (parts, [parts[0], parts[2], parts[1]]))
    return Fault(f"{pair[0]} (version {version})", f"{pair[1]} (Version {version})", f"{pair[1]} (Version {other})")


def _printf(pair: Pair, rng: random.Random) -> Fault:
    one, other = rng.sample(("%s", "%d", "%5.2f", "%i", "%x"), 2)
    return Fault(f"{one}: {pair[0]} ({other})", f"{one}: {pair[1]} ({other})", f"{other}: {pair[1]} ({one})")


def _message(pair: Pair, rng: random.Random) -> Fault:
    message = rng.choice(MESSAGES)
    return Fault(f"{pair[0]} {message}", f"{pair[1]} {message}", pair[1])


def _markup(pair: Pair, rng: random.Random) -> Fault | None:
    if rng.random() < 0.5:
        name, other = rng.sample(("help", "start", "shop/42", "news?id=7", "en-de"), 2)
        address, new = f"https://example.org/{name}", f"https://example.org/{other}"
        return Fault(f"{pair[0]} See {address}.", f"{pair[1]} Siehe {address}.", f"{pair[1]} Siehe {new}.")
    tags = re.findall(r"</?[a-z]\d+/?>", pair[1])
    return Fault(*pair, pair[1].replace(rng.choice(tags), "", 1)) if tags else None


KINDS: dict[str, tuple[str, Planter]] = {
    "clock time changed": ("Tatoeba", _clock),
    "million, thousand or hundred changed": (
        "Tatoeba",
        _named(MAGNITUDES, re.compile("hundred|thousand|[mb]illion|00", re.IGNORECASE)),
    ),
    "currency changed or dropped": ("Tatoeba", _currency),
    "unit changed": ("Tatoeba", _named(UNITS, UNIT)),
    "digit changed": ("Tatoeba", _digit),
    "number word changed": ("Multi30k", _word),
    "number dropped": ("Tatoeba", _dropped),
    "sign dropped": ("Tatoeba", _sign),
    "version permuted": ("OmegaT", _version),
    "printf placeholders swapped": ("OmegaT", _printf),
    "ICU message or placeholder lost": ("OmegaT", _message),
    "tag lost or address changed": ("OmegaT", _markup),
}
"""The corpus that each kind of fault is planted in, and the function that plants it. Rare kinds come first."""

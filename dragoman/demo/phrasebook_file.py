"""The reader of `phrasebook.toml`: classes of words, groups of classes, and sentence patterns."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from dragoman.demo import inflection
from dragoman.demo.inflection import CASES, DEGREES, DETERMINERS, PRONOUNS, Adjective, Noun, Pronoun, Verb
from dragoman.demo.phrasebook import BracedPhrase, Entry, Pattern, Phrase, Phrasebook, Template, Token, split_words
from dragoman.errors import DataError

_FORMS = (*CASES, "obj", "poss", "inf", "past", "part", "zu", "sep")
_AGREEING_FORMS = ("fin", "last", "aux")  # the slot of their subject follows


def load_phrasebook(path: str | Path | None = None) -> Phrasebook:
    """Load the built-in grammar, or the grammar in a file with the same notation.

    Parameters
    ----------
    path : str or Path, optional
        The file. By default, the built-in grammar of English and German.

    Returns
    -------
    Phrasebook

    Raises
    ------
    DataError
        If the file is wrong. The message names the entry.

    Examples
    --------
    >>> [pair] = load_phrasebook().generate(seed=1, count=1)
    >>> pair.src, pair.tgt
    ('Which wine would you recommend with the steak?', 'Welchen Wein würden Sie zum Steak empfehlen?')
    """
    source = Path(path) if path else resources.files(__package__).joinpath("phrasebook.toml")
    try:
        return _Reader(tomllib.loads(source.read_text(encoding="utf-8"))).phrasebook()
    except (ValueError, OSError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise DataError(f"{path or source.name}: {error}") from error


class _Reader:
    """Converts the tables of the file into a Phrasebook. Raises ValueError, which names the wrong entry."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        missing = [kind for kind in (*_ENTRY_READERS, "values", "groups", "patterns") if kind not in data]
        if missing:
            raise ValueError(f"`{missing[0]}` is missing. See the built-in phrasebook.toml for an example.")
        self.data = data
        self.lexicon: dict[str, dict[str, Entry]] = {}
        self.verbs: dict[str, Verb] = {}  # by English and by German infinitive
        self.values = _values(data["values"])

    def phrasebook(self) -> Phrasebook:
        """Read the classes of words, then the groups, then the patterns."""
        for kind, read in _ENTRY_READERS.items():
            for name, entries in self.data[kind].items():
                self._read_class(kind, name, entries, read)
        for name, members in self.data["groups"].items():
            unknown = [member for member in members if member not in self.lexicon]
            if unknown or name in self.lexicon or name in self.values:
                reason = f"`{unknown[0]}` is not a class." if unknown else "the name is taken."
                raise ValueError(f"`groups.{name}`: {reason}")
            self.lexicon[name] = {en: entry for member in members for en, entry in self.lexicon[member].items()}
        grammar = {name: self._read_pattern(name, entry) for name, entry in self.data["patterns"].items()}
        return Phrasebook(grammar, self.lexicon)

    def _read_class(self, kind: str, name: str, entries: Mapping[str, str], read: Callable[[str, str], Entry]) -> None:
        if name in self.lexicon or name in self.values or name in CASES or "_" in name:
            raise ValueError(f"`{kind}.{name}`: the name `{name}` is taken or has a `_`. Choose another.")
        self.lexicon[name] = {}
        for en, de in entries.items():
            try:
                self.lexicon[name][en] = entry = read(en, de)
            except ValueError as error:
                raise ValueError(f'`{en}` in `{kind}.{name}`: cannot read "{de}": {error}.') from error
            if isinstance(entry, Verb):
                self.verbs[entry.en[0]] = self.verbs[entry.de[0]] = entry

    def _read_pattern(self, name: str, entry: Mapping[str, str]) -> Pattern:
        try:
            en, de = self._template(entry["en"]), self._template(entry["de"])
            for what, of in (("marker", _alignment_numbers), ("slot", _slots)):
                if lonely := of(en).keys() ^ of(de).keys():
                    raise ValueError(f"{what} `{min(lonely)}` must be on both sides")
            classes = {slot: class_of(slot) for slot in _slots(en)}
            words_of = {slot: list(self.lexicon[c].values()) for slot, c in classes.items() if c in self.lexicon}
            values_of = {slot: self.values[c] for slot, c in classes.items() if c in self.values}
            pattern = Pattern(name, en, de, words_of, values_of)
            # Render each word in each slot once, to find words without a form that the pattern needs.
            for position, entries in enumerate(words_of.values()):
                for word in entries:
                    sample = [options[0] for options in words_of.values()]
                    sample[position] = word
                    pattern.render(tuple(sample), pattern.value_combinations[0])
        except KeyError as error:
            raise ValueError(f"`patterns.{name}`: there is no {error}.") from error
        except ValueError as error:
            raise ValueError(f"`patterns.{name}`: {error}.") from error
        return pattern

    def _template(self, text: str) -> Template:
        parts: list[Token | BracedPhrase] = []
        for plain, braced in re.findall(r"([^{}]+)|\{([^{}]*)\}", text):
            parts += [self._braced(braced)] if braced else [_parse_token(word) for word in split_words(plain)]
        if not isinstance(parts[-1], Token) or parts[-1].text not in (*".?!",):
            raise ValueError("a sentence must end with . or ? or !")
        parts[-1] = Token(parts[-1].text, frozenset(("end",)))
        return tuple(parts)

    def _braced(self, text: str) -> BracedPhrase:
        """Parse the content of braces from its end: form, head, adjectives, determiner."""
        tokens = text.split()
        form = agrees = determiner = ""
        if len(tokens) > 2 and tokens[-2] in _AGREEING_FORMS:
            form, agrees = tokens[-2:]
            del tokens[-2:]
        elif len(tokens) > 1 and tokens[-1] in _FORMS:
            form = tokens.pop()
        head, *markers = tokens.pop().split("_")
        plural, head = head.endswith("+"), head.removesuffix("+")
        if head.startswith(tuple(DEGREES)):
            form, head = head[:5], head[5:]
        is_slot = class_of(head) in self.lexicon or class_of(head) in self.values
        if not is_slot and head not in self.verbs:
            raise ValueError(f"`{head}` in {{{text}}} must be a class of words or a verb")
        if tokens and (tokens[0] in DETERMINERS or tokens[0].endswith("'s")):
            determiner = tokens.pop(0)
        return BracedPhrase(
            head=head,
            keys=frozenset((head, *markers)) if is_slot else frozenset(markers),
            verb=None if is_slot else self.verbs[head],
            determiner=determiner,
            determiner_keys=frozenset((f"{head}.{PRONOUNS.get(determiner, 'determiner')}",)),
            adjectives=tuple((slot[5:], slot[:5]) if slot[:5] in DEGREES else (slot, "") for slot in tokens),
            plural=plural,
            form=form,
            agrees=agrees,
        )


def class_of(slot: str) -> str:
    """The class of words that may fill a slot: its name without the number at the end."""
    return slot.rstrip("0123456789")


def _alignment_numbers(template: Template) -> dict[str, None]:
    return {key: None for part in template for key in part.keys if key.isdigit()}


def _slots(template: Template) -> dict[str, None]:
    """The slots of a template, in order."""
    slots: list[str] = []
    for phrase in template:
        if isinstance(phrase, BracedPhrase):
            slots += [phrase.determiner[:-2]] if phrase.determiner.endswith("'s") else []
            slots += [slot for slot, _ in phrase.adjectives]
            slots += [] if phrase.verb else [phrase.head]
    return dict.fromkeys(slots)


def _parse_token(word: str) -> Token:
    text, *markers = word.split("_")
    return Token(text, frozenset(markers))


def _noun(en: str, de: str) -> Noun:
    match = re.fullmatch(r"(der|die|das) ([^,]+)(?:, des ([^,]+))?(?:, die ([^,]+))?", de)
    if not match or (match[1] != "die" and not match[3]):
        raise ValueError('a noun must be written like "der Tag, des Tages, die Tage"')
    singular, _, plural = en.partition(", ")
    gender = {"der": "m", "die": "f", "das": "n"}[match[1]]
    plural = plural or inflection.english_plural(singular)
    return Noun(singular, plural, gender, match[2], match[3] or match[2], match[4] or "")


def _fields(text: str, least: int, most: int) -> tuple[str, ...]:
    fields = tuple(field.strip() for field in text.split(","))
    if not least <= len(fields) <= most or not all(fields):
        raise ValueError(f'"{text}" must have {least} to {most} forms, separated by commas, but has {len(fields)}')
    return fields


def _verb(en: str, de: str) -> Verb:
    verb = Verb(_fields(en, 2, 6), _fields(de, 3, 5))
    if verb.de[2].split(" ")[0] not in ("hat", "ist"):
        raise ValueError("the third form must start with hat or ist")
    return verb


def _phrase(en: str, de: str) -> Phrase:
    return Phrase(tuple(map(_parse_token, split_words(en))), tuple(map(_parse_token, split_words(de))))


_ENTRY_READERS: dict[str, Callable[[str, str], Entry]] = {
    "nouns": _noun,
    "adjectives": lambda en, de: Adjective(_fields(en, 1, 3), _fields(de, 1, 3)),
    "verbs": _verb,
    "pronouns": lambda en, de: Pronoun(_fields(en, 3, 3), _fields(de, 5, 5)),
    "phrases": _phrase,
}


def _values(listed: Mapping[str, Mapping[str, str]]) -> dict[str, list[Phrase]]:
    """The values of each slot for numbers: the listed values, and times, prices, dates and numbers made here."""
    hours = [(hour, f"{hour % 12 or 12}", "am" if hour < 12 else "pm") for hour in range(6, 24)]
    times = [(f"{en}_1 {half}_2", f"{hour}_1 Uhr_2") for hour, en, half in hours]
    times += [(f"{en}:{m}_1 {half}_2", f"{hour}:{m}_1 Uhr_2") for hour, en, half in hours for m in (15, 30, 45)]
    prices = [(f"{euro}_1 euros_2", f"{euro}_1 Euro_2") for euro in (*range(2, 31), *range(35, 65, 5))]
    prices += [(f"{e}.{c}_1 euros_2", f"{e},{c}_1 Euro_2") for e in range(2, 31) for c in (20, 50, 90)]
    months = listed["month"].items()
    periods = [
        (f"from_1 {first}_2 to_3 {last}_4 {en}_5", f"vom_1 {first}._2 bis_3 zum_3 {last}._4 {de}_5")
        for en, de in months for first in range(1, 22) for last in range(first + 2, first + 8)
    ]  # fmt: skip
    pairs = {name: list(entries.items()) for name, entries in listed.items()} | {
        "time": times,
        "morning": [time for time in times if "am" in time[0]],
        "evening": [time for time in times if re.match("1[6-9]|2", time[1])],
        "price": prices,
        "lowprice": [price for price in prices if re.match("[2-9][._]", price[0])],
        "date": [(f"{day}_1 {en}_2", f"{day}._1 {de}_2") for en, de in months for day in range(1, 29)],
        "period": periods,
    }
    same = {"platform": range(1, 19), "minutes": range(10, 60, 5), "roomno": (*range(101, 111), *range(201, 211))}
    pairs |= {name: [(f"{n}_1", f"{n}_1") for n in numbers] for name, numbers in same.items()}
    return {name: [_phrase(en, de) for en, de in entries] for name, entries in pairs.items()}

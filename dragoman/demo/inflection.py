"""German and English inflection: endings of determiners and adjectives, and the forms of words.

Each class of words returns its English and German text for a form (such as a case or tense) and an agreement: "1" or
"3" for the person, "p" for the plural. The phrasebook uses these classes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

CASES = ("nom", "acc", "dat", "gen")
GENDERS = ("m", "f", "n", "p")  # p: plural, without gender


def _table(rows: str) -> dict[tuple[str, str], str]:
    """Parse a table with a row for each case and a column for each gender. "-" is the empty ending."""
    cells = [["" if cell == "-" else cell for cell in row.split()] for row in rows.split("/")]
    return {(case, gender): cells[r][c] for r, case in enumerate(CASES) for c, gender in enumerate(GENDERS)}


_DETERMINER_ENDINGS = {
    "article": _table("der die das die / den die das die / dem der dem den / des der des der"),
    "der": _table("er e es e / en e es e / em er em en / es er es er"),  # dieser, welcher
    "ein": _table("- e - e / en e - e / em er em en / es er es er"),  # ein, kein, mein
    "personal": _table("er sie es sie / ihn sie es sie / ihm ihr ihm ihnen / seiner ihrer seiner ihrer"),
    "relative": _table("der die das die / den die das die / dem der dem denen / dessen deren dessen deren"),
}
_ADJECTIVE_ENDINGS = {
    "weak": _table("e e e en / en e e en / en en en en / en en en en"),
    "mixed": _table("er e es en / en e es en / en en en en / en en en en"),
    "strong": _table("er e es e / en e es e / em er em en / en er en er"),
}
DETERMINERS = {  # name: (English singular, English plural, German stem, its endings)
    "the": ("the", "the", "", "article"),
    "this": ("this", "these", "dies", "der"),
    "which": ("which", "which", "welch", "der"),
    "a": ("a", "", "ein", "ein"),
    "no": ("no", "no", "kein", "ein"),
    "my": ("my", "my", "mein", "ein"),
    "our": ("our", "our", "unser", "ein"),
    "your": ("your", "your", "Ihr", "ein"),
    "it": ("it", "they", "", "personal"),
    "who": ("who", "who", "", "relative"),
    "that": ("that", "that", "", "relative"),
}
# Pronouns that replace a determiner and its noun, and their role.
PRONOUNS = {"it": "it", "who": "relative", "that": "relative"}
CONTRACTIONS = {
    ("in", "dem"): "im", ("in", "das"): "ins", ("an", "dem"): "am", ("an", "das"): "ans", ("zu", "dem"): "zum",
    ("zu", "der"): "zur", ("bei", "dem"): "beim", ("von", "dem"): "vom",
}  # fmt: skip
DEGREES = {"more-": 1, "most-": 2}


def decline_adjective(word: str, kind: str, case: str, gender: str) -> str:
    """A German adjective with its ending. `kind` is "weak", "mixed" or "strong"."""
    if word.endswith(("el", "uer")):  # dunkel -> dunkle, teuer -> teure
        word = word[:-2] + word[-1]
    return word + _ADJECTIVE_ENDINGS[kind][case, gender]


def decline_stem(stem: str, kind: str, case: str, gender: str) -> str:
    """A stem with an ending from one of the determiner tables. The plural of "ein" is ""."""
    if (stem, gender) == ("ein", "p"):
        return ""
    return stem + _DETERMINER_ENDINGS[kind][case, gender]


@dataclass(frozen=True)
class Noun:
    """A noun in dictionary form: "museum" and "das Museum, des Museums, die Museen"."""

    en: str
    en_plural: str
    gender: str
    nominative: str
    genitive: str
    plural: str  # "" if the noun has no plural

    def english(self, form: str, agreement: str) -> str:
        """`form` "poss" is the possessive."""
        return (self.en_plural if agreement == "p" else self.en) + ("'s" if form == "poss" else "")

    def german(self, form: str, agreement: str) -> str:
        """`form` is the case."""
        if form not in CASES:
            raise ValueError(f"`{self.en}` needs a case")
        if agreement == "p":
            if not self.plural:
                raise ValueError(f"`{self.en}` has no plural")
            return self.plural + "n" if form == "dat" and self.plural[-1] not in "ns" else self.plural
        # Masculine nouns with a genitive in -n have this ending in all cases but the nominative: den Studenten.
        weak = form != "nom" and not self.genitive.endswith("s")
        return self.genitive if form == "gen" or weak else self.nominative

    agreement = "3"

    @property
    def possessive(self) -> tuple[str, str]:
        """The English and the German stem of the possessive of this noun."""
        return ("her", "ihr") if self.gender == "f" else ("his", "sein")


@dataclass(frozen=True)
class Adjective:
    """An adjective with one degree or three: "big, bigger, biggest" and "groß, größer, größt"."""

    en: tuple[str, ...]
    de: tuple[str, ...]

    def english(self, form: str, agreement: str) -> str:
        """`form` is "", "more-" or "most-"."""
        return self.en[self._degree(form)]

    def german(self, form: str, agreement: str) -> str:
        """The stem, which is also the form after "is"."""
        return self.de[self._degree(form)]

    def _degree(self, form: str) -> int:
        degree = DEGREES.get(form, 0)
        if degree >= min(len(self.en), len(self.de)):
            raise ValueError(f"`{self.en[0]}` has no degrees")
        return degree


@dataclass(frozen=True)
class Verb:
    """A verb: "pick up, picked up" and "abholen, holt ab, hat abgeholt". phrasebook.toml lists optional forms."""

    en: tuple[str, ...]
    de: tuple[str, ...]

    def english(self, form: str, agreement: str) -> str:
        """`form` is inf, past, part or fin."""
        base, past, participle, third, first, plural = (*self.en, *[""] * (6 - len(self.en)))
        finite = {"1": first or base, "3": third or _third_person(base), "p": plural or base}
        return {"inf": base, "past": past, "part": participle or past, "fin": finite[agreement]}[form]

    def german(self, form: str, agreement: str) -> str:
        """`form` is inf, zu, part, aux, fin (without separable prefix), sep (the prefix) or last (prefix and fin)."""
        infinitive, third, perfect, first, plural = (*self.de, *[""] * (5 - len(self.de)))
        third, _, prefix = third.partition(" ")
        bare = infinitive.removeprefix(prefix)
        first = first or bare.removesuffix("n").removesuffix("e") + "e"
        finite = {"1": first, "3": third, "p": plural or bare}[agreement]
        helper, _, participle = perfect.partition(" ")
        helpers = {"hat": ("habe", "hat", "haben"), "ist": ("bin", "ist", "sind")}[helper]
        return {
            "inf": infinitive, "zu": f"{prefix}zu{bare}" if prefix else f"zu {bare}", "part": participle,
            "aux": helpers["13p".index(agreement)], "fin": finite, "sep": prefix, "last": prefix + finite,
        }[form]  # fmt: skip


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun: "I, me, my" and "ich, mich, mir, mein, 1". The last part is the agreement of its verb."""

    en: tuple[str, ...]
    de: tuple[str, ...]

    def english(self, form: str, agreement: str) -> str:
        """`form` "obj" is the object."""
        return self.en[form == "obj"]

    def german(self, form: str, agreement: str) -> str:
        """`form` is nom, acc or dat."""
        if form not in CASES[:3]:
            raise ValueError(f"`{self.en[0]}` needs a case")
        return self.de[CASES.index(form)]

    @property
    def agreement(self) -> str:
        """1, 3 or p."""
        return self.de[4]

    @property
    def possessive(self) -> tuple[str, str]:
        """The English and the German stem of the possessive."""
        return self.en[2], self.de[3]


def english_plural(noun: str) -> str:
    """The regular plural: "buses" for "bus", "cities" for "city"."""
    if re.search("(s|sh|ch|x)$", noun):
        return noun + "es"
    return noun[:-1] + "ies" if re.search("[^aeiou]y$", noun) else noun + "s"


def _third_person(base: str) -> str:
    verb, _, rest = base.partition(" ")
    return f"{verb}es {rest}".strip() if verb.endswith("o") else f"{english_plural(verb)} {rest}".strip()

"""The embedded corpus: a synchronous grammar of a travel phrasebook, English and German, with word alignment.

The words and sentence patterns live in `phrasebook.toml`, which a person can read and extend; its first lines explain
the notation. This module holds what a grammar book has in tables (endings of German determiners and adjectives,
contractions such as "in dem" -> "im") and turns patterns and words into sentence pairs.

Alignment comes out of the grammar, no aligner is involved: every word that is put down carries keys (the slot it
fills, the number it was marked with), and two words are aligned when they share a key.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from dragoman.errors import DataError

CASES = ("nom", "acc", "dat", "gen")
GENDERS = ("m", "f", "n", "p")  # p is the plural, which knows no gender


def _table(rows: str) -> dict[tuple[str, str], str]:
    """Reads a grammar-book table: one row a case, one column a gender; "-" is the empty ending."""
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
_DETERMINERS = {  # name: (English singular, English plural, German stem, its endings)
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
_PRONOUNS = {"it": "it", "who": "relative", "that": "relative"}  # determiners that replace their noun, and their role
_CONTRACTIONS = {
    ("in", "dem"): "im", ("in", "das"): "ins", ("an", "dem"): "am", ("an", "das"): "ans", ("zu", "dem"): "zum",
    ("zu", "der"): "zur", ("bei", "dem"): "beim", ("von", "dem"): "vom",
}  # fmt: skip
_DEGREES = {"more-": 1, "most-": 2}
_FORMS = (*CASES, "obj", "poss", "inf", "past", "part", "zu", "sep")
_AGREEING_FORMS = ("fin", "last", "aux")  # followed by the slot of the subject they agree with
_WORD = re.compile(r"\d+\.(?=\s)|\w+(?:[-'.,:]\w+)*|[^\w\s]")
_CONSONANT_SOUND = re.compile("uni|eu|one")  # a university, a European, a one-way street


def words(text: str) -> list[str]:
    """The words that alignments count: letters and digits held together by - ' . , : inside ("12.50", "U-Bahn",
    "driver's"), a German ordinal with its dot when more text follows ("3. Mai"), and single punctuation marks."""
    return _WORD.findall(text)


def decline_determiner(name: str, case: str, gender: str) -> str:
    """The German form of a determiner or pronoun: `decline_determiner("my", "acc", "m")` is "meinen"."""
    return _decline_stem(*_DETERMINERS[name][2:], case, gender)


def decline_adjective(word: str, kind: str, case: str, gender: str) -> str:
    """A German adjective with its ending; `kind` is "weak", "mixed" or "strong"."""
    if word.endswith(("el", "uer")):  # dunkel -> dunkle, teuer -> teure
        word = word[:-2] + word[-1]
    return word + _ADJECTIVE_ENDINGS[kind][case, gender]


def _decline_stem(stem: str, kind: str, case: str, gender: str) -> str:
    if (stem, gender) == ("ein", "p"):  # "a" has no plural
        return ""
    return stem + _DETERMINER_ENDINGS[kind][case, gender]


# Words. Each knows its English and German text for a form and an agreement: "1" and "3" (person), "p" (plural).


@dataclass(frozen=True)
class Noun:
    """A noun as a dictionary gives it: "museum" and "das Museum, des Museums, die Museen"."""

    en: str
    en_plural: str
    gender: str
    nominative: str
    genitive: str
    plural: str  # empty where there is none

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
        # Masculines without an s in the genitive take its ending everywhere: der Student, den Studenten.
        weak = form != "nom" and not self.genitive.endswith("s")
        return self.genitive if form == "gen" or weak else self.nominative

    agreement = "3"

    @property
    def possessive(self) -> tuple[str, str]:
        """English and German stem of the possessive that refers to this noun."""
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
        degree = _DEGREES.get(form, 0)
        if degree >= min(len(self.en), len(self.de)):
            raise ValueError(f"`{self.en[0]}` has no degrees")
        return degree


@dataclass(frozen=True)
class Verb:
    """A verb: "pick up, picked up" and "abholen, holt ab, hat abgeholt"; the data file says what may follow."""

    en: tuple[str, ...]
    de: tuple[str, ...]

    def english(self, form: str, agreement: str) -> str:
        """`form` is inf, past, part or fin."""
        base, past, participle, third, first, plural = (*self.en, *[""] * (6 - len(self.en)))
        finite = {"1": first or base, "3": third or _third_person(base), "p": plural or base}
        return {"inf": base, "past": past, "part": participle or past, "fin": finite[agreement]}[form]

    def german(self, form: str, agreement: str) -> str:
        """`form` is inf, zu, part, aux, fin (without separable prefix), sep (that prefix) or last (both, joined)."""
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
    """A personal pronoun: "I, me, my" and "ich, mich, mir, mein, 1" (the last is the agreement of its verb)."""

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
        """English and German stem of the possessive."""
        return self.en[2], self.de[3]


class Token(NamedTuple):
    """One word put down, with the keys that align it; an article may melt into the preposition before it."""

    text: str
    keys: frozenset[str]
    is_article: bool = False


@dataclass(frozen=True)
class Phrase:
    """Words that go together unchanged: names, adverbials, numbers. Words with equal keys are aligned."""

    en: tuple[Token, ...]
    de: tuple[Token, ...]


Entry = Noun | Adjective | Verb | Pronoun | Phrase


@dataclass(frozen=True)
class _Piece:
    """What stands between braces in a pattern."""

    head: str
    keys: frozenset[str]
    verb: Verb | None  # set where the head is a certain verb, not a slot
    determiner: str
    determiner_keys: frozenset[str]
    adjectives: tuple[tuple[str, str], ...]  # (slot, degree)
    plural: bool
    form: str
    agrees: str


_Template = tuple[Token | _Piece, ...]


# Patterns and pairs.


@dataclass(frozen=True)
class PhrasebookPair:
    """A sentence pair: English, German, and (source word, target word) indices into `words` of the two texts."""

    pattern: str
    src: str
    tgt: str
    alignment: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PhrasebookSplit:
    """Three disjoint lists of pairs; no combination of pattern and words in dev or test occurs in train."""

    train: list[PhrasebookPair]
    dev: list[PhrasebookPair]
    test: list[PhrasebookPair]


@dataclass(frozen=True)
class Pattern:
    """One sentence pattern: two templates and the entries that may fill each slot they share."""

    name: str
    en: _Template
    de: _Template
    slots: Mapping[str, Sequence[Entry]]  # words: every combination is another sentence
    values: Mapping[str, Sequence[Phrase]]  # numbers, times, prices, dates: each counts as one

    @cached_property
    def combinations(self) -> list[tuple[Entry, ...]]:
        """Every way to fill the word slots; no word fills two of them."""
        return [c for c in itertools.product(*self.slots.values()) if len({id(entry) for entry in c}) == len(c)]

    @cached_property
    def value_combinations(self) -> list[tuple[Phrase, ...]]:
        """Every way to fill the value slots."""
        return list(itertools.product(*self.values.values()))

    def render(self, combination: tuple[Entry, ...], values: tuple[Phrase, ...]) -> PhrasebookPair:
        """The sentence pair for one choice of words and values."""
        filler = _Filler(dict(zip((*self.slots, *self.values), (*combination, *values), strict=True)))
        src = [t for part in self.en for t in ((part,) if isinstance(part, Token) else filler.english(part))]
        tgt = [t for part in self.de for t in ((part,) if isinstance(part, Token) else filler.german(part))]
        tgt = _contract(tgt)
        links = tuple((i, j) for i, s in enumerate(src) for j, t in enumerate(tgt) if not s.keys.isdisjoint(t.keys))
        return PhrasebookPair(
            self.name, _sentence(_choose_an([t.text for t in src])), _sentence([t.text for t in tgt]), links
        )


@dataclass(frozen=True)
class Phrasebook:
    """The grammar, ready to generate. Everything it returns is a pure function of the arguments."""

    grammar: Mapping[str, Pattern]
    lexicon: Mapping[str, Mapping[str, Entry]]  # class of words: English: entry

    @property
    def patterns(self) -> tuple[str, ...]:
        """The names of the patterns, in the order of the data file."""
        return tuple(self.grammar)

    def count_distinct(self) -> int:
        """How many different pairs there are when every number, time, price and date counts as one value."""
        return sum(len(pattern.combinations) for pattern in self.grammar.values())

    def count_words(self) -> int:
        """How many dictionary entries there are, numbers, times, prices and dates left aside."""
        return len({entry for entries in self.lexicon.values() for entry in entries.values()})

    def generate(self, seed: int, count: int) -> list[PhrasebookPair]:
        """`count` distinct pairs in random order, spread evenly over the patterns (one that has fewer gives all)."""
        return self._draw(Random(seed), {name: p.combinations for name, p in self.grammar.items()}, count)

    def split(self, seed: int, train_pairs: int, test_pairs: int, dev_pairs: int = 200) -> PhrasebookSplit:
        """Training pairs, and held-out pairs evenly over the patterns.

        The combination of pattern and words of a held-out pair is not in training, whatever the numbers in it, while
        each of its words is there at least three times. Raises DataError when there are not enough such pairs.
        """
        rng = Random(seed)
        shares = list(zip(_shares(test_pairs, len(self.grammar)), _shares(dev_pairs, len(self.grammar)), strict=True))
        held: dict[str, list[tuple[Entry, ...]]] = {}
        kept: dict[str, list[tuple[Entry, ...]]] = {}
        for pattern, share in zip(self.grammar.values(), shares, strict=True):
            order = rng.sample(pattern.combinations, len(pattern.combinations))
            # Twice as many as needed, since a held-out sentence with a word that training lacks is passed over.
            cut = min(2 * sum(share), len(order) // 3)
            held[pattern.name], kept[pattern.name] = order[:cut], order[cut:]
        train = self._draw(rng, kept, train_pairs)
        seen = Counter(word for pair in train for text in (pair.src, pair.tgt) for word in words(text))
        test: list[PhrasebookPair] = []
        dev: list[PhrasebookPair] = []
        for pattern, (test_share, dev_share) in zip(self.grammar.values(), shares, strict=True):
            known = []
            for combination in held[pattern.name]:
                tried = rng.sample(pattern.value_combinations, min(10, len(pattern.value_combinations)))
                pairs = (pattern.render(combination, values) for values in tried)
                known += list(itertools.islice((pair for pair in pairs if _is_known(pair, seen)), 1))
            if len(known) < test_share + dev_share:
                raise DataError(
                    f"The phrasebook pattern `{pattern.name}` has {len(known)} held-out pairs with known words, but "
                    f"{test_share + dev_share} are asked for. Ask for fewer, or for more training pairs."
                )
            test += known[:test_share]
            dev += known[test_share : test_share + dev_share]
        rng.shuffle(test)
        rng.shuffle(dev)
        return PhrasebookSplit(train, dev, test)

    def _draw(self, rng: Random, pools: Mapping[str, list[tuple[Entry, ...]]], count: int) -> list[PhrasebookPair]:
        """Distinct pairs from the given combinations, as evenly over the patterns as these allow."""
        sizes = {name: len(pool) * len(self.grammar[name].value_combinations) for name, pool in pools.items()}
        if count > sum(sizes.values()):
            raise DataError(f"The phrasebook has {sum(sizes.values())} pairs, not {count}. Ask for fewer.")
        pairs: list[PhrasebookPair] = []
        for position, name in enumerate(sorted(sizes, key=lambda name: (sizes[name], name))):  # the smallest first
            share = min(sizes[name], _shares(count - len(pairs), len(sizes) - position)[0])
            values = self.grammar[name].value_combinations
            for index in rng.sample(range(sizes[name]), share):
                word_index, value_index = divmod(index, len(values))
                pairs.append(self.grammar[name].render(pools[name][word_index], values[value_index]))
        rng.shuffle(pairs)
        return pairs


def _is_known(pair: PhrasebookPair, seen: Mapping[str, int]) -> bool:
    return all(seen[word] >= 3 for word in words(f"{pair.src} {pair.tgt}"))


def _shares(total: int, parts: int) -> list[int]:
    return [total // parts + (i < total % parts) for i in range(parts)]


# Putting words down.


class _Filler:
    """Puts down the words of a piece, given the entry chosen for each slot."""

    def __init__(self, choice: Mapping[str, Entry]) -> None:
        self.choice = choice

    def english(self, piece: _Piece) -> Iterator[Token]:
        """The English words: determiner, adjectives, head."""
        entry = piece.verb or self.choice[piece.head]
        if piece.determiner.endswith("'s"):
            yield Token(self._person(piece.determiner[:-2]).possessive[0], piece.determiner_keys)
        elif piece.determiner:
            yield from _tokens(_DETERMINERS[piece.determiner][piece.plural], piece.determiner_keys)
        for slot, degree in piece.adjectives:
            yield from _tokens(self._adjective(slot).english(degree, ""), frozenset((slot,)))
        if isinstance(entry, Phrase):
            yield from _in_slot(entry.en, piece)
        elif piece.determiner not in _PRONOUNS:
            yield from _tokens(entry.english(piece.form, self._agreement(piece)), piece.keys)

    def german(self, piece: _Piece) -> Iterator[Token]:
        """The German words, declined."""
        entry = piece.verb or self.choice[piece.head]
        if isinstance(entry, Phrase):
            yield from _in_slot(entry.de, piece)
            return
        text = entry.german(piece.form, self._agreement(piece))
        if isinstance(entry, Noun):
            yield from self._declined(piece, "p" if piece.plural else entry.gender)
            if piece.determiner in _PRONOUNS:
                return
        if text.startswith("zu "):  # the mark is that of "to", the head that of the verb
            yield Token("zu", piece.keys - {piece.head})
            yield Token(text[3:], frozenset((piece.head,)))
        else:
            yield from _tokens(text, piece.keys)

    def _declined(self, piece: _Piece, gender: str) -> Iterator[Token]:
        """Determiner and adjectives; what the determiner does not show of case and gender, the adjectives do."""
        stem, kind = "", ""
        if piece.determiner.endswith("'s"):
            stem, kind = self._person(piece.determiner[:-2]).possessive[1], "ein"
        elif piece.determiner:
            stem, kind = _DETERMINERS[piece.determiner][2:]
        text = _decline_stem(stem, kind, piece.form, gender) if kind else ""
        if text:
            yield Token(text, piece.determiner_keys, is_article=kind == "article")
        ending = "strong" if not text else "mixed" if kind == "ein" else "weak"
        for slot, degree in piece.adjectives:
            word = self._adjective(slot).german(degree, "")
            yield Token(decline_adjective(word, ending, piece.form, gender), frozenset((slot,)))

    def _agreement(self, piece: _Piece) -> str:
        if piece.agrees:
            return self._person(piece.agrees).agreement
        return "p" if piece.plural else "3"

    def _person(self, slot: str) -> Noun | Pronoun:
        entry = self.choice[slot]
        if isinstance(entry, Noun | Pronoun):
            return entry
        raise ValueError(f"nothing agrees with `{slot}`, which is no noun or pronoun")

    def _adjective(self, slot: str) -> Adjective:
        entry = self.choice[slot]
        if isinstance(entry, Adjective):
            return entry
        raise ValueError(f"`{slot}` is no class of adjectives")


def _tokens(text: str, keys: frozenset[str]) -> Iterator[Token]:
    return (Token(word, keys) for word in text.split())


def _in_slot(tokens: tuple[Token, ...], piece: _Piece) -> Iterator[Token]:
    """The words of a phrase; its marks are its own affair, so they are told apart from those of the pattern."""
    for token in tokens:
        keys = frozenset(f"{piece.head}:{key}" for key in token.keys)
        yield Token(token.text, keys or piece.keys)


def _contract(tokens: list[Token]) -> list[Token]:
    """Melts articles into the preposition before them; the one word has both alignments."""
    out: list[Token] = []
    for token in tokens:
        melted = _CONTRACTIONS.get((out[-1].text.lower(), token.text)) if out and token.is_article else None
        if melted:
            out[-1] = Token(melted, out[-1].keys | token.keys)
        else:
            out.append(token)
    return out


def _choose_an(texts: list[str]) -> list[str]:
    pairs = zip(texts, [*texts[1:], ""], strict=True)
    return [
        "an" if text == "a" and after.startswith(tuple("aeiou")) and not _CONSONANT_SOUND.match(after) else text
        for text, after in pairs
    ]


def _sentence(texts: list[str]) -> str:
    """Joins words: no space before punctuation, a capital at the start."""
    text = re.sub(r" (?=[,.?!])", "", " ".join(texts))
    return text[0].upper() + text[1:]


# Reading the data file.


def load_phrasebook(path: Path | None = None) -> Phrasebook:
    """The embedded grammar, or one of your own in the same notation.

    Raises DataError that names the file and the entry when something in it is wrong.
    """
    source = path or resources.files(__package__).joinpath("phrasebook.toml")
    try:
        return _Reader(tomllib.loads(source.read_text(encoding="utf-8"))).phrasebook()
    except (ValueError, OSError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise DataError(f"{path or source.name}: {error}") from error


class _Reader:
    """Turns the tables of the data file into a Phrasebook; a ValueError says which entry is wrong, and how."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        missing = [kind for kind in (*_ENTRY_READERS, "values", "groups", "patterns") if kind not in data]
        if missing:
            raise ValueError(f"there is no `{missing[0]}`. The embedded phrasebook.toml shows all that is needed.")
        self.data = data
        self.lexicon: dict[str, dict[str, Entry]] = {}
        self.verbs: dict[str, Verb] = {}  # by English and by German infinitive
        self.values = _values(data["values"])

    def phrasebook(self) -> Phrasebook:
        """Reads classes of words, then groups of them, then the patterns made of both."""
        for kind, read in _ENTRY_READERS.items():
            for name, entries in self.data[kind].items():
                self._read_class(kind, name, entries, read)
        for name, members in self.data["groups"].items():
            unknown = [member for member in members if member not in self.lexicon]
            if unknown or name in self.lexicon or name in self.values:
                raise ValueError(f"`groups.{name}`: " + (f"there is no class `{unknown[0]}`." if unknown else "taken."))
            self.lexicon[name] = {en: entry for member in members for en, entry in self.lexicon[member].items()}
        grammar = {name: self._read_pattern(name, entry) for name, entry in self.data["patterns"].items()}
        return Phrasebook(grammar, self.lexicon)

    def _read_class(self, kind: str, name: str, entries: Mapping[str, str], read: Callable[[str, str], Entry]) -> None:
        if name in self.lexicon or name in self.values or name in CASES or "_" in name:
            raise ValueError(f"`{kind}.{name}`: the name `{name}` is taken or contains `_`. Choose another.")
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
            for what, of in (("mark", _marks), ("slot", _slots)):
                if lonely := of(en).keys() ^ of(de).keys():
                    raise ValueError(f"{what} `{min(lonely)}` is on one side only")
            classes = {slot: _class_of(slot) for slot in _slots(en)}
            words_of = {slot: list(self.lexicon[c].values()) for slot, c in classes.items() if c in self.lexicon}
            values_of = {slot: self.values[c] for slot, c in classes.items() if c in self.values}
            pattern = Pattern(name, en, de, words_of, values_of)
            # Rendering every word in every slot once finds what a pattern asks for and a word does not have.
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

    def _template(self, text: str) -> _Template:
        parts: list[Token | _Piece] = []
        for plain, braced in re.findall(r"([^{}]+)|\{([^{}]*)\}", text):
            parts += [self._piece(braced)] if braced else [_marked(word) for word in words(plain)]
        if not isinstance(parts[-1], Token) or parts[-1].text not in (*".?!",):
            raise ValueError("a sentence ends with . or ? or !")
        parts[-1] = Token(parts[-1].text, frozenset(("end",)))
        return tuple(parts)

    def _piece(self, text: str) -> _Piece:
        """Reads what stands between braces, from its end: form, head, and before the head determiner, adjectives."""
        tokens = text.split()
        form = agrees = determiner = ""
        if len(tokens) > 2 and tokens[-2] in _AGREEING_FORMS:
            form, agrees = tokens[-2:]
            del tokens[-2:]
        elif len(tokens) > 1 and tokens[-1] in _FORMS:
            form = tokens.pop()
        head, *marks = tokens.pop().split("_")
        plural, head = head.endswith("+"), head.removesuffix("+")
        if head.startswith(tuple(_DEGREES)):
            form, head = head[:5], head[5:]
        is_slot = _class_of(head) in self.lexicon or _class_of(head) in self.values
        if not is_slot and head not in self.verbs:
            raise ValueError(f"`{head}` in {{{text}}} is neither a class of words nor a verb")
        if tokens and (tokens[0] in _DETERMINERS or tokens[0].endswith("'s")):
            determiner = tokens.pop(0)
        return _Piece(
            head=head,
            keys=frozenset((head, *marks)) if is_slot else frozenset(marks),
            verb=None if is_slot else self.verbs[head],
            determiner=determiner,
            determiner_keys=frozenset((f"{head}.{_PRONOUNS.get(determiner, 'determiner')}",)),
            adjectives=tuple((slot[5:], slot[:5]) if slot[:5] in _DEGREES else (slot, "") for slot in tokens),
            plural=plural,
            form=form,
            agrees=agrees,
        )


def _class_of(slot: str) -> str:
    return slot.rstrip("0123456789")


def _marks(template: _Template) -> dict[str, None]:
    return {key: None for part in template for key in part.keys if key.isdigit()}


def _slots(template: _Template) -> dict[str, None]:
    """The slots a template names, in order."""
    slots: list[str] = []
    for piece in template:
        if isinstance(piece, _Piece):
            slots += [piece.determiner[:-2]] if piece.determiner.endswith("'s") else []
            slots += [slot for slot, _ in piece.adjectives]
            slots += [] if piece.verb else [piece.head]
    return dict.fromkeys(slots)


def _marked(word: str) -> Token:
    text, *marks = word.split("_")
    return Token(text, frozenset(marks))


def _noun(en: str, de: str) -> Noun:
    match = re.fullmatch(r"(der|die|das) ([^,]+)(?:, des ([^,]+))?(?:, die ([^,]+))?", de)
    if not match or (match[1] != "die" and not match[3]):
        raise ValueError('a noun is written like "der Tag, des Tages, die Tage"')
    singular, _, plural = en.partition(", ")
    gender = {"der": "m", "die": "f", "das": "n"}[match[1]]
    return Noun(singular, plural or _english_plural(singular), gender, match[2], match[3] or match[2], match[4] or "")


def _fields(text: str, least: int, most: int) -> tuple[str, ...]:
    fields = tuple(field.strip() for field in text.split(","))
    if not least <= len(fields) <= most or not all(fields):
        raise ValueError(f'{least} to {most} forms are needed, separated by commas, but "{text}" has {len(fields)}')
    return fields


def _verb(en: str, de: str) -> Verb:
    verb = Verb(_fields(en, 2, 6), _fields(de, 3, 5))
    if verb.de[2].split(" ")[0] not in ("hat", "ist"):
        raise ValueError("the third form begins with hat or ist")
    return verb


def _phrase(en: str, de: str) -> Phrase:
    return Phrase(tuple(map(_marked, words(en))), tuple(map(_marked, words(de))))


_ENTRY_READERS: dict[str, Callable[[str, str], Entry]] = {
    "nouns": _noun,
    "adjectives": lambda en, de: Adjective(_fields(en, 1, 3), _fields(de, 1, 3)),
    "verbs": _verb,
    "pronouns": lambda en, de: Pronoun(_fields(en, 3, 3), _fields(de, 5, 5)),
    "phrases": _phrase,
}


def _english_plural(noun: str) -> str:
    if re.search("(s|sh|ch|x)$", noun):
        return noun + "es"
    return noun[:-1] + "ies" if re.search("[^aeiou]y$", noun) else noun + "s"


def _third_person(base: str) -> str:
    verb, _, rest = base.partition(" ")
    return f"{verb}es {rest}".strip() if verb.endswith("o") else f"{_english_plural(verb)} {rest}".strip()


def _values(listed: Mapping[str, Mapping[str, str]]) -> dict[str, list[Phrase]]:
    """The slots that count as one value: those listed in the data file, and what is computed from digits."""
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

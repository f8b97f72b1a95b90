"""The built-in corpus: a synchronous grammar of a travel phrasebook, English and German, with word alignment.

`phrasebook.toml` has the words and the sentence patterns. Its first lines explain the notation. This module generates
sentence pairs from patterns and words.

The grammar also gives the alignment. Each generated word has keys: the slot that it fills, and the numbers of its
markers. Words with a common key are aligned.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import NamedTuple

from dragoman.demo import inflection
from dragoman.demo.inflection import PRONOUNS, Adjective, Noun, Pronoun, Verb
from dragoman.errors import DataError

_WORD = re.compile(r"\d+\.(?=\s)|\w+(?:[-'.,:]\w+)*|[^\w\s]")
# "a" before a vowel, but not before a consonant sound: a university, a European, a one-way street.
_NEEDS_AN = re.compile("(^A|(?<= )a)(?= (?!uni|eu|one)[aeiou])")


def split_words(text: str) -> list[str]:
    """The words that alignments count.

    A word is letters and digits, with - ' . , : inside ("12.50", "U-Bahn", "driver's"), a German ordinal with its dot
    before more text ("3. Mai"), or a single punctuation mark.
    """
    return _WORD.findall(text)


class Token(NamedTuple):
    """A generated word, with the keys that align it. An article may merge with the preposition before it."""

    text: str
    keys: frozenset[str]
    is_article: bool = False


@dataclass(frozen=True)
class Phrase:
    """Words without inflection: names, adverbials, numbers. Words with a common key are aligned."""

    en: tuple[Token, ...]
    de: tuple[Token, ...]


Entry = Noun | Adjective | Verb | Pronoun | Phrase


@dataclass(frozen=True)
class BracedPhrase:
    """The content of braces in a pattern."""

    head: str
    keys: frozenset[str]
    verb: Verb | None  # set if the head is a fixed verb, not a slot
    determiner: str
    determiner_keys: frozenset[str]
    adjectives: tuple[tuple[str, str], ...]  # (slot, degree)
    plural: bool
    form: str
    agrees: str


Template = tuple[Token | BracedPhrase, ...]


# Patterns and pairs.


@dataclass(frozen=True)
class PhrasebookPair:
    """A sentence pair of the phrasebook, English and German.

    Parameters
    ----------
    pattern : str
        The name of the pattern that wrote it.
    src, tgt : str
        The sentences.
    alignment : tuple of pairs of int
        Positions of words with one meaning. Punctuation counts as words.
    """

    pattern: str
    src: str
    tgt: str
    alignment: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PhrasebookSplit:
    """Three disjoint lists of pairs. No combination of pattern and words of dev or test occurs in train."""

    train: list[PhrasebookPair]
    dev: list[PhrasebookPair]
    test: list[PhrasebookPair]


@dataclass(frozen=True)
class Pattern:
    """A sentence pattern: two templates, and the entries that may fill their common slots."""

    name: str
    en: Template
    de: Template
    slots: Mapping[str, Sequence[Entry]]  # words: each combination is another sentence
    values: Mapping[str, Sequence[Phrase]]  # numbers, times, prices, dates

    @cached_property
    def combinations(self) -> list[tuple[Entry, ...]]:
        """All ways to fill the word slots. No word fills two slots."""
        return [c for c in itertools.product(*self.slots.values()) if len({id(entry) for entry in c}) == len(c)]

    @cached_property
    def value_combinations(self) -> list[tuple[Phrase, ...]]:
        """All ways to fill the value slots."""
        return list(itertools.product(*self.values.values()))

    def render(self, combination: tuple[Entry, ...], values: tuple[Phrase, ...]) -> PhrasebookPair:
        """The sentence pair for one choice of words and values."""
        filler = _Filler(dict(zip((*self.slots, *self.values), (*combination, *values), strict=True)))
        src = [t for part in self.en for t in ((part,) if isinstance(part, Token) else filler.english(part))]
        tgt = _contract(t for part in self.de for t in ((part,) if isinstance(part, Token) else filler.german(part)))
        texts = _NEEDS_AN.sub(r"\1n", _sentence(src)), _sentence(tgt)
        links = tuple((i, j) for i, s in enumerate(src) for j, t in enumerate(tgt) if not s.keys.isdisjoint(t.keys))
        return PhrasebookPair(self.name, *texts, links)


@dataclass(frozen=True)
class Phrasebook:
    """The grammar of the built-in phrasebook, which writes English and German sentence pairs.

    Its methods are pure functions of their arguments.

    Parameters
    ----------
    grammar : Mapping
        The sentence patterns by name.
    lexicon : Mapping
        The words of each class by their English form.
    """

    grammar: Mapping[str, Pattern]
    lexicon: Mapping[str, Mapping[str, Entry]]  # class of words: English: entry

    def generate(self, seed: int, count: int) -> list[PhrasebookPair]:
        """Write distinct pairs in random order, spread evenly over the patterns as far as their sizes allow.

        Parameters
        ----------
        seed : int
            The choice of sentences.
        count : int
            Number of pairs.

        Returns
        -------
        list of PhrasebookPair

        Raises
        ------
        DataError
            If the phrasebook has fewer pairs.
        """
        return self._draw(Random(seed), {name: p.combinations for name, p in self.grammar.items()}, count)

    def split(self, seed: int, train_pairs: int, test_pairs: int, dev_pairs: int = 200) -> PhrasebookSplit:
        """Write training pairs, and held-out pairs spread evenly over the patterns.

        The combination of pattern and words of a held-out pair never occurs in training, whatever its numbers. Each of
        its words occurs there at least three times.

        Parameters
        ----------
        seed : int
            The choice of sentences.
        train_pairs, test_pairs, dev_pairs : int
            Number of pairs in each part.

        Returns
        -------
        PhrasebookSplit
            Lists of pairs: `train`, `dev` and `test`.

        Raises
        ------
        DataError
            If there are too few such pairs.
        """
        rng = Random(seed)
        shares = list(zip(_shares(test_pairs, len(self.grammar)), _shares(dev_pairs, len(self.grammar)), strict=True))
        held: dict[str, list[tuple[Entry, ...]]] = {}
        kept: dict[str, list[tuple[Entry, ...]]] = {}
        for pattern, share in zip(self.grammar.values(), shares, strict=True):
            order = rng.sample(pattern.combinations, len(pattern.combinations))
            # Twice the needed number, because sentences with words that are not in training are skipped.
            cut = min(2 * sum(share), len(order) // 3)
            held[pattern.name], kept[pattern.name] = order[:cut], order[cut:]
        train = self._draw(rng, kept, train_pairs)
        seen = Counter(word for pair in train for text in (pair.src, pair.tgt) for word in split_words(text))
        split = PhrasebookSplit(train, [], [])
        for pattern, (test_share, dev_share) in zip(self.grammar.values(), shares, strict=True):
            known = []
            for combination in held[pattern.name]:
                tried = rng.sample(pattern.value_combinations, min(10, len(pattern.value_combinations)))
                pairs = (pattern.render(combination, values) for values in tried)
                known += list(itertools.islice((pair for pair in pairs if _is_known(pair, seen)), 1))
            if len(known) < test_share + dev_share:
                raise DataError(
                    f"The phrasebook pattern `{pattern.name}` has {len(known)} held-out pairs with known words, but "
                    f"{test_share + dev_share} are requested. Request fewer, or more training pairs."
                )
            split.test.extend(known[:test_share])
            split.dev.extend(known[test_share : test_share + dev_share])
        rng.shuffle(split.test)
        rng.shuffle(split.dev)
        return split

    def _draw(self, rng: Random, pools: Mapping[str, list[tuple[Entry, ...]]], count: int) -> list[PhrasebookPair]:
        """Distinct pairs of the given combinations, spread evenly over the patterns as far as their sizes allow."""
        sizes = {name: len(pool) * len(self.grammar[name].value_combinations) for name, pool in pools.items()}
        total = sum(sizes.values())
        if count > total:
            raise DataError(f"The phrasebook has {total} pairs, but {count} are requested. Request fewer.")
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
    return all(seen[word] >= 3 for word in split_words(f"{pair.src} {pair.tgt}"))


def _shares(total: int, parts: int) -> list[int]:
    return [total // parts + (i < total % parts) for i in range(parts)]


# Generate words.


class _Filler:
    """Generates the words of a braced phrase from the entry chosen for each slot."""

    def __init__(self, choice: Mapping[str, Entry]) -> None:
        self.choice = choice

    def english(self, phrase: BracedPhrase) -> Iterator[Token]:
        """The English words: determiner, adjectives, head."""
        entry = phrase.verb or self.choice[phrase.head]
        if phrase.determiner.endswith("'s"):
            yield Token(self._person(phrase.determiner[:-2]).possessive[0], phrase.determiner_keys)
        elif phrase.determiner:
            yield from _tokens(inflection.DETERMINERS[phrase.determiner][phrase.plural], phrase.determiner_keys)
        for slot, degree in phrase.adjectives:
            yield from _tokens(self._adjective(slot).english(degree, ""), frozenset((slot,)))
        if isinstance(entry, Phrase):
            yield from _in_slot(entry.en, phrase)
        elif phrase.determiner not in PRONOUNS:
            yield from _tokens(entry.english(phrase.form, self._agreement(phrase)), phrase.keys)

    def german(self, phrase: BracedPhrase) -> Iterator[Token]:
        """The German words, declined."""
        entry = phrase.verb or self.choice[phrase.head]
        if isinstance(entry, Phrase):
            yield from _in_slot(entry.de, phrase)
            return
        text = entry.german(phrase.form, self._agreement(phrase))
        if isinstance(entry, Noun):
            yield from self._declined(phrase, "p" if phrase.plural else entry.gender)
            if phrase.determiner in PRONOUNS:
                return
        if text.startswith("zu "):  # the marker aligns "zu" with "to", the head aligns the verb
            yield Token("zu", phrase.keys - {phrase.head})
            yield Token(text[3:], frozenset((phrase.head,)))
        else:
            yield from _tokens(text, phrase.keys)

    def _declined(self, phrase: BracedPhrase, gender: str) -> Iterator[Token]:
        """The determiner and the adjectives, whose endings depend on the ending of the determiner."""
        stem, kind = "", ""
        if phrase.determiner.endswith("'s"):
            stem, kind = self._person(phrase.determiner[:-2]).possessive[1], "ein"
        elif phrase.determiner:
            stem, kind = inflection.DETERMINERS[phrase.determiner][2:]
        text = inflection.decline_stem(stem, kind, phrase.form, gender) if kind else ""
        if text:
            yield Token(text, phrase.determiner_keys, is_article=kind == "article")
        ending = "strong" if not text else "mixed" if kind == "ein" else "weak"
        for slot, degree in phrase.adjectives:
            word = self._adjective(slot).german(degree, "")
            yield Token(inflection.decline_adjective(word, ending, phrase.form, gender), frozenset((slot,)))

    def _agreement(self, phrase: BracedPhrase) -> str:
        if phrase.agrees:
            return self._person(phrase.agrees).agreement
        return "p" if phrase.plural else "3"

    def _person(self, slot: str) -> Noun | Pronoun:
        entry = self.choice[slot]
        if isinstance(entry, Noun | Pronoun):
            return entry
        raise ValueError(f"`{slot}` must be a noun or pronoun, because other words agree with it")

    def _adjective(self, slot: str) -> Adjective:
        entry = self.choice[slot]
        if isinstance(entry, Adjective):
            return entry
        raise ValueError(f"`{slot}` must be a class of adjectives")


def _tokens(text: str, keys: frozenset[str]) -> Iterator[Token]:
    return (Token(word, keys) for word in text.split())


def _in_slot(tokens: tuple[Token, ...], phrase: BracedPhrase) -> Iterator[Token]:
    """The words of a phrase. A prefix distinguishes its markers from the markers of the pattern."""
    for token in tokens:
        keys = frozenset(f"{phrase.head}:{key}" for key in token.keys)
        yield Token(token.text, keys or phrase.keys)


def _contract(tokens: Iterable[Token]) -> list[Token]:
    """Merge articles with the preposition before them. The merged word has the keys of both."""
    out: list[Token] = []
    for token in tokens:
        melted = inflection.CONTRACTIONS.get((out[-1].text.lower(), token.text)) if out and token.is_article else None
        if melted:
            out[-1] = Token(melted, out[-1].keys | token.keys)
        else:
            out.append(token)
    return out


def _sentence(tokens: list[Token]) -> str:
    """Join words, without spaces before punctuation and with a capital at the start."""
    text = re.sub(r" (?=[,.?!])", "", " ".join(token.text for token in tokens))
    return text[0].upper() + text[1:]

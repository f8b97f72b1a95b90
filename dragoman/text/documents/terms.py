"""User terminology: required translations of source terms, read from a file of two columns."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import DataError
from dragoman.text.corpus.layout import is_header
from dragoman.text.lines import read_lines

_WORD = re.compile(r"\w+|[^\w\s]")


class Term(NamedTuple):
    """An occurrence of a term, characters `start` to `stop` of a source, and its required translation."""

    start: int
    stop: int
    target: str


@dataclass(frozen=True)
class Terms:
    """Source terms and their translations.

    A term matches whole words with any white space between them. If its first word is in lower case, it also matches
    with a capital first letter, as at the start of a sentence. All other letters must match exactly. If terms overlap,
    the first one wins, and of those that start at the same word the longest.

    Parameters
    ----------
    pairs : tuple of pairs of str
        Each term and its translation.

    Examples
    --------
    >>> terms = Terms((("bike", "Drahtesel"),))
    >>> translator.translate(["A red bike."], terms=terms)
    ['Ein roter Drahtesel.']
    """

    pairs: tuple[tuple[str, str], ...]

    @classmethod
    def load(cls, path: str | Path, encoding: str = "") -> "Terms":
        """Read ``source<TAB>target`` lines. Blank lines and lines that start with ``#`` are skipped.

        Parameters
        ----------
        path : str or Path
            The file.
        encoding : str
            Its encoding, if that is not UTF-8.

        Returns
        -------
        Terms

        Raises
        ------
        DataError
            For any other line, a header, and a term with two translations. The message has the number of the line.
        """
        pairs: dict[str, tuple[str, int]] = {}
        header: list[str] = []
        for number, line in enumerate(read_lines(Path(path), encoding=encoding), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            columns = [column.strip() for column in line.split("\t")]
            if len(columns) != 2 or not all(columns):
                raise DataError(
                    f"{path}, line {number} must be `source<TAB>target`, but is {line!r}. Correct or remove the line."
                )
            source, target = columns
            header = header if pairs else columns * is_header(columns)
            known, before = pairs.setdefault(source, (target, number))
            if known != target:
                raise DataError(
                    f"{path}, line {number} translates `{source}` as {target!r}, but line {before} as {known!r}. "
                    "Keep one of them."
                )
        if header and len(pairs) > 1:
            raise DataError(
                f"{path} seems to start with a header: {', '.join(header)}. Start this line with `#`, or move it down "
                "if it is a term."
            )
        return cls(tuple((source, target) for source, (target, _) in pairs.items()))

    def find(self, text: str) -> list[Term]:
        """Find the occurrences of terms in a text.

        Parameters
        ----------
        text : str
            The text.

        Returns
        -------
        list of Term
            Start, stop and translation of each, from left to right, without overlap.
        """
        spans = [match.span() for match in _WORD.finditer(text)]
        words = [text[start:stop] for start, stop in spans]
        found: list[Term] = []
        place = 0
        while place < len(words):
            count, target = self._longest(words, place)
            if count:
                found.append(Term(spans[place][0], spans[place + count - 1][1], target))
            place += count or 1
        return found

    def _longest(self, words: Sequence[str], place: int) -> tuple[int, str]:
        """The longest term that starts at a word: its number of words (0 without a term), and its translation.

        Of two equally long terms, the one with the capitals of the text wins.
        """
        found = 0, ""
        word = words[place]
        for first in dict.fromkeys((word, word[:1].lower() + word[1:])):
            for term, target in self._by_first_word.get(first, ()):
                may_be = first == word or first.islower()
                if may_be and [first, *words[place + 1 : place + len(term)]] == term:
                    if len(term) > found[0]:
                        found = len(term), target
                    break
        return found

    @cached_property
    def _by_first_word(self) -> dict[str, list[tuple[list[str], str]]]:
        table = defaultdict[str, list[tuple[list[str], str]]](list)
        terms = [(_WORD.findall(source), target) for source, target in self.pairs]
        for words, target in sorted(terms, key=lambda term: -len(term[0])):
            table[words[0]].append((words, target))
        return table


def occurrences(target: str, text: str) -> list[tuple[int, int]]:
    """The spans (start, stop) of a term's translation in a text, as whole words. Its first letter may be a capital."""
    first, rest = re.escape(target[0]), re.escape(target[1:])
    if target[0].islower():
        first = f"[{re.escape(target[0].upper())}{first}]" if len(target[0].upper()) == 1 else first
    before = r"(?<!\w)" if target[0].isalnum() else ""
    after = r"(?!\w)" if target[-1].isalnum() else ""
    return [match.span() for match in re.finditer(before + first + rest + after, text)]


def missing_terms(terms: Iterable[Term], translation: str) -> list[str]:
    """The required translations that occur in `translation` less often than their terms in the source."""
    wanted = Counter(term.target for term in terms)
    return [target for target, count in wanted.items() if len(occurrences(target, translation)) < count]

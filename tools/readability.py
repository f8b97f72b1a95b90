"""Prints how hard pages are to read: words, the longest and mean sentence, and the Flesch-Kincaid grade.

    python tools/readability.py README.md docs/how-to/*.md

The sentences are the same as in `tools/prose.py`: no code, tables, headings or URLs. The grade is the number of years
at school that a reader needs. Syllables are counted by rule, as libraries that look them up fetch a dictionary over
the network. On our pages the rule counts 1 % fewer syllables than the CMU Pronouncing Dictionary.

Kincaid et al. 1975, "Derivation of New Readability Formulas for Navy Enlisted Personnel".
"""

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it also runs as a script

from tools.prose import count_words, sentences_of


@dataclass(frozen=True)
class Readability:
    """Measures of one text."""

    words: int
    sentences: int
    longest_sentence_words: int
    syllables: int

    @property
    def mean_sentence_words(self) -> float:
        """Words per sentence."""
        return self.words / max(self.sentences, 1)

    @property
    def grade(self) -> float:
        """Flesch-Kincaid grade."""
        return 0.39 * self.mean_sentence_words + 11.8 * self.syllables / max(self.words, 1) - 15.59


def count_syllables(word: str) -> int:
    """Estimate the syllables of an English word from its groups of vowels; at least 1."""
    word = re.sub(r"[^a-z]", "", word.lower())
    word = re.sub(
        r"(?<=[^aeiouy])(e|(?<=[^td])ed|(?<=[^scxzgh])es)$|(?<=[^aeiouy])e(?=(ly|ment|less|ful)s?$)", "", word
    )
    groups = len(re.findall(r"[aeiouy]+", word)) + len(re.findall(r"[^aeiouyl]l$|i[ao](?![ln])|eo|ism$", word))
    return max(groups, 1)


def measure(text: str) -> Readability:
    """Measure the prose of a Markdown page."""
    sentences = [sentence for _, sentence in sentences_of(text) if count_words(sentence)]
    counts = [count_words(sentence) for sentence in sentences]
    words = [word for sentence in sentences for word in re.findall(r"[\w'’]+", sentence)]
    return Readability(sum(counts), len(counts), max(counts, default=0), sum(map(count_syllables, words)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table with a row per page."""
    parser = argparse.ArgumentParser(description="Measure how hard pages are to read.")
    parser.add_argument("pages", nargs="+", type=Path, metavar="FILE")
    print(f"{'words':>6} {'longest':>8} {'mean':>6} {'grade':>6}  page")
    for page in parser.parse_args(arguments).pages:
        found = measure(page.read_text(encoding="utf-8"))
        numbers = (
            f"{found.words:6} {found.longest_sentence_words:8} {found.mean_sentence_words:6.1f} {found.grade:6.1f}"
        )
        print(f"{numbers}  {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A corpus: parallel text in files, read one pair at a time. Every format may be gzipped.

- aligned files: line n of one file translates line n of the other;
- tables (TSV, CSV): see `dragoman.text.corpus.tables`; empty lines are skipped;
- JSON lines: see `dragoman.text.corpus.json_lines`; blank lines are skipped;
- TMX: see `dragoman.text.corpus.tmx`.

`dragoman.text.corpus.opening` builds a `Corpus` from file names and settings.

Measure the size of a corpus: pairs, words, alphabet. The default recipe chooses settings by it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice, tee, zip_longest
from pathlib import Path
from typing import Literal

from dragoman.config.recipes import CorpusSize
from dragoman.errors import DataError
from dragoman.records import SentencePair
from dragoman.text.corpus.json_lines import JsonFields
from dragoman.text.corpus.tables import Table
from dragoman.text.corpus.tmx import ReadReport, read_tmx
from dragoman.text.doctor.slides import compare_sides
from dragoman.text.lines import read_lines
from dragoman.text.tokenization.words import UNSPACED

Format = Literal["aligned", "tsv", "csv", "jsonl", "tmx"]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The files of a corpus and how to read them.

    `paths` is one file, or the source and target of aligned files. An unknown language is "". `encoding` applies to
    files that are not UTF-8. `fields` locates the texts in a table row or JSON record. The first complete read stores
    the number of pairs, because reading again takes time.
    """

    paths: tuple[Path, ...]
    format: Format
    src_lang: str
    tgt_lang: str
    encoding: str = ""
    fields: Table | JsonFields | None = None
    _known_count: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    def pairs(self, report: ReadReport | None = None) -> Iterator[SentencePair]:
        """The pairs in order, in constant memory. Updates `report` while reading.

        Raises DataError if a file cannot be read, the sides differ in length, or there is no pair.
        """
        report = report if report is not None else ReadReport()
        if self.fields is not None:
            found = self.fields.pairs(self.paths[0], self.encoding, report)
        elif self.format == "tmx":
            found = read_tmx(self.paths[0], self.src_lang, self.tgt_lang, report)
        else:
            found = self._aligned(report)
        number = 0
        for pair in found:
            number += 1
            yield pair
        if not number:
            raise DataError(f"{self} has no sentence pair. Check that it is the right file.")
        self._known_count[:] = [number]

    def count(self) -> int:
        """The number of pairs. The first call reads them all, which also checks alignment and encoding."""
        return self._known_count[0] if self._known_count else sum(1 for _ in self.pairs())

    def sides(self) -> tuple[Iterator[str], Iterator[str]]:
        """Iterators over the sources and the targets. The sides of aligned files may differ in length.

        In the other formats the texts that only one iterator has reached stay in memory: advance both together.
        """
        if self.format == "aligned":
            return self._lines(0), self._lines(1)
        src, tgt = tee(self.pairs())
        return (pair.src for pair in src), (pair.tgt for pair in tgt)

    def side_names(self) -> tuple[str, str]:
        """Names of the sides for messages: the files if they are aligned, else "the source" and "the target"."""
        return (str(self.paths[0]), str(self.paths[1])) if self.format == "aligned" else ("the source", "the target")

    def swap_advice(self) -> str:
        """What to do if source and target are the wrong way round."""
        src, tgt = self.src_lang, self.tgt_lang
        if self.format == "aligned":
            return "Swap the two files, or the languages."
        if isinstance(self.fields, Table) and not self.fields.header:
            first, second = self.fields.columns
            return f"Swap the columns: `--columns {second + 1},{first + 1} --src-lang {src} --tgt-lang {tgt}`."
        if isinstance(self.fields, JsonFields):
            one, other = self.fields.src, self.fields.tgt
            return f"Swap the keys: `--columns {other},{one} --src-lang {src} --tgt-lang {tgt}`."
        where = "header" if self.fields else "`xml:lang` attributes"
        return f"Exchange {src} and {tgt} in the {where} of the file, or export it again with the right languages."

    def __str__(self) -> str:
        return " and ".join(map(str, self.paths))

    def _lines(self, side: int) -> Iterator[str]:
        return read_lines(self.paths[side], encoding=self.encoding)

    def _aligned(self, report: ReadReport) -> Iterator[SentencePair]:
        for src, tgt in zip_longest(self._lines(0), self._lines(1)):
            if src is None or tgt is None:
                raise self._misaligned()
            report.units += 1
            yield SentencePair(src, tgt)

    def _misaligned(self) -> DataError:
        src, tgt = self.paths
        src_lines, tgt_lines = (sum(1 for _ in self._lines(side)) for side in (0, 1))
        if not (src_lines and tgt_lines):
            return DataError(f"{tgt if src_lines else src} is empty. Check that it is the right file.")
        slides = compare_sides(self.sides, src_lines, tgt_lines).slides
        return DataError(
            f"{src} has {src_lines} lines, but {tgt} has {tgt_lines}. The sides seem to lose their alignment near line "
            f"{slides[0].line}. Compare the files there (`dragoman check` shows the pairs), add the missing line or "
            "remove the extra one, and try again."
        )


@dataclass(frozen=True, slots=True)
class Corpora:
    """The corpora that [data] or [[corpora]] name. A part without files is None.

    `train` has one corpus, or those of [[corpora]]. `replay` is text that the model to fine-tune was trained on before.
    `replay_test` is a test set of that text.
    """

    train: tuple[Corpus, ...]
    dev: Corpus | None
    test: Corpus | None
    replay: Corpus | None = None
    replay_test: Corpus | None = None


COVERAGE = 0.9995
"""The share of the text that the alphabet covers, as in SentencePiece. Rarer characters can be spelled in bytes."""

_CHARACTERS_A_WORD = 2
_SAMPLED_AFTER, _SAMPLE_EVERY = 1 << 21, 8
_UNSPACED = re.compile(f"[{UNSPACED}]")


def num_words(text: str) -> int:
    """The number of words between white space. In scripts without spaces, two characters count as one word."""
    if text.isascii():
        return len(text.split())
    spaced, characters = _UNSPACED.subn(" ", text)
    return len(spaced.split()) + -(-characters // _CHARACTERS_A_WORD)


class SizeCounter:
    """Counts pairs, target words and characters, chunk by chunk, in constant memory."""

    def __init__(self) -> None:
        self._pairs = self._words = self._chunks = self._characters = 0
        self._alphabet: Counter[str] = Counter()

    def add(self, chunk: Sequence[SentencePair]) -> None:
        """Count more pairs. After 2 million characters, only every eighth chunk counts for the alphabet."""
        self._pairs += len(chunk)
        self._words += sum(num_words(pair.tgt) for pair in chunk)
        if self._characters < _SAMPLED_AFTER or not self._chunks % _SAMPLE_EVERY:
            text = "".join([side for pair in chunk for side in (pair.src, pair.tgt)])
            self._alphabet.update(text)
            self._characters += len(text)
        self._chunks += 1

    def size(self) -> CorpusSize:
        """The size of everything added so far."""
        counts = sorted(self._alphabet.values(), reverse=True)
        covered = accumulate(counts, initial=0)
        needed = sum(before < COVERAGE * self._characters for before in islice(covered, len(counts)))
        return CorpusSize(self._pairs, self._words, needed)

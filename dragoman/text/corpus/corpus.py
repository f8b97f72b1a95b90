"""Parallel text in files, one pair at a time: two aligned files, a table (TSV, CSV), JSON lines or TMX, plain or gzip.

- aligned: line n of one file translates line n of the other;
- tables: see `dragoman.text.corpus.tables`; lines without any character are skipped;
- JSON lines: see `dragoman.text.corpus.json_lines`; blank lines are skipped;
- TMX: see `dragoman.text.corpus.tmx`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import tee
from pathlib import Path
from typing import Literal

from dragoman.errors import DataError
from dragoman.records import SentencePair
from dragoman.text.corpus.json_lines import JsonFields
from dragoman.text.corpus.tables import Table
from dragoman.text.corpus.tmx import ReadReport, read_tmx, tmx_languages
from dragoman.text.doctor.slides import compare_sides
from dragoman.text.lines import read_lines

Format = Literal["aligned", "tsv", "csv", "jsonl", "tmx"]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Where some parallel text is: one path, or the two of aligned files. Unknown languages are empty.

    `encoding` is that of files that are not UTF-8; `fields` is where a table or a record of JSON has the texts. The
    number of pairs is remembered once they have been read to the end, because reading them again takes time.
    """

    paths: tuple[Path, ...]
    format: Format
    src_lang: str
    tgt_lang: str
    encoding: str = ""
    fields: Table | JsonFields | None = None
    _known_count: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    def pairs(self, report: ReadReport | None = None) -> Iterator[SentencePair]:
        """The pairs in order, in constant memory; `report` counts along. Raises DataError, also where there is none."""
        report = report if report is not None else ReadReport()
        readers = {"aligned": self._aligned, "tmx": self._tmx}
        number = 0
        for pair in readers.get(self.format, self._by_fields)(report):
            number += 1
            yield pair
        if not number:
            raise DataError(f"{self} holds no sentence pair. Check that it is the right file.")
        self._known_count[:] = [number]

    def count(self) -> int:
        """The number of pairs. Reads all of them, and so checks alignment and encoding, if that was not done yet."""
        return self._known_count[0] if self._known_count else sum(1 for _ in self.pairs())

    def sides(self) -> tuple[Iterator[str], Iterator[str]]:
        """The texts of both sides, in one pass. Sides of aligned files may differ in length.

        In other formats, texts that only one of the two iterators has passed are held in memory.
        """
        if self.format == "aligned":
            return self._lines(0), self._lines(1)
        src, tgt = tee(self.pairs())
        return (pair.src for pair in src), (pair.tgt for pair in tgt)

    def side_names(self) -> tuple[str, str]:
        """What to call the sides: their files, or what they are."""
        return (str(self.paths[0]), str(self.paths[1])) if self.format == "aligned" else ("the source", "the target")

    def __str__(self) -> str:
        return " and ".join(map(str, self.paths))

    def _lines(self, side: int) -> Iterator[str]:
        return read_lines(self.paths[side], encoding=self.encoding)

    def _aligned(self, report: ReadReport) -> Iterator[SentencePair]:
        src, tgt = self._lines(0), self._lines(1)
        for src_line in src:
            tgt_line = next(tgt, None)
            if tgt_line is None:
                raise self._misaligned(report.units + 1 + sum(1 for _ in src), report.units)
            report.units += 1
            yield SentencePair(src_line, tgt_line)
        missing = sum(1 for _ in tgt)
        if missing:
            raise self._misaligned(report.units, report.units + missing)

    def _by_fields(self, report: ReadReport) -> Iterator[SentencePair]:
        assert self.fields is not None
        for pair in self.fields.pairs(self.paths[0], self.encoding):
            report.units += 1
            yield pair

    def _tmx(self, report: ReadReport) -> Iterator[SentencePair]:
        yield from read_tmx(self.paths[0], self.src_lang, self.tgt_lang, report)
        if report.skipped == report.units:
            held = ", ".join(tmx_languages(self.paths[0]))
            raise DataError(
                f"{self.paths[0]} has no unit in both {self.src_lang} and {self.tgt_lang}; it holds {held}. "
                "Name two of them by `--src-lang` and `--tgt-lang` (`data.src_lang`, `data.tgt_lang`)."
            )

    def _misaligned(self, src_lines: int, tgt_lines: int) -> DataError:
        src, tgt = self.paths
        if not (src_lines and tgt_lines):
            return DataError(f"{tgt if src_lines else src} is empty. Check that it is the right file.")
        slides = compare_sides(self.sides, src_lines, tgt_lines).slides
        return DataError(
            f"{src} has {src_lines} lines, but {tgt} has {tgt_lines}; the sides seem to slide near line "
            f"{slides[0].line}. Compare the files there (`dragoman check` shows the pairs), add or remove the odd "
            "line, and try again."
        )


@dataclass(frozen=True, slots=True)
class Corpora:
    """The parts of [data]: training text, and all others where files were given for them.

    `replay` is what a model to be fine-tuned was trained on before, `replay_test` a test of that.
    """

    train: Corpus
    dev: Corpus | None
    test: Corpus | None
    replay: Corpus | None = None
    replay_test: Corpus | None = None

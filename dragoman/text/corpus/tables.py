"""Tables with one sentence pair per row, tab-separated or CSV: find the two text columns and read the pairs.

If the first two columns do not look like text, or the first row looks like a header, opening fails with an error until
the user sets `--columns` or `--header`. Training on a wrong column would otherwise go unnoticed.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Literal

import numpy as np

from dragoman.errors import ConfigError, DataError
from dragoman.languages import language_name
from dragoman.records import SentencePair
from dragoman.text.corpus.layout import Layout, is_header, language_in, sides_in
from dragoman.text.corpus.tmx import ReadReport
from dragoman.text.doctor.findings import shorten
from dragoman.text.doctor.languages import language_of_side
from dragoman.text.lines import ReportInvalid, ignore_invalid, join_lines, quote_start, read_lines

ColumnKind = Literal["text", "comments", "numbers", "ids", "links", "labels", "nothing"]
Row = tuple[int, list[str]]
"""The number (from 1) of the first line of a row, and the cells of the row."""
Cells = Sequence[Sequence[str]]

TAB = "\t"
_DELIMITERS = (",", ";", TAB, "|")
_LOOKED_AT_ROWS = 1000
_DELIMITER_ROWS = 100
_QUOTED_SHARE = 0.5
_SEPARATOR = re.compile(r"(?i)\s*sep=(.)\s*")
"""The first line of some CSV files, which tells Excel the delimiter."""
_SHARE = 0.9
_MOST_LABELS, _FEWEST_ROWS_OF_LABELS = 10, 50
_KINDS: tuple[tuple[ColumnKind, re.Pattern[str]], ...] = (
    ("numbers", re.compile(r"[-+]?\d[\d.,:/-]*%?")),
    ("links", re.compile(r"(https?|ftp)://\S+")),
    ("ids", re.compile(r"(?=\S*\d)\S{1,64}|\w+([.:/_]\w+)+")),
)
_FULL, _SPARSE, _FEW_DISTINCT = 0.9, 0.5, 0.2
_EXAMPLE_CHARACTERS = 24


@dataclass(frozen=True, slots=True)
class Table:
    """How to read the pairs of a table.

    `columns` are the indices of source and target, from 0. `header` has the cells of the header, or nothing. In a table
    without quoting (`quoted` is false, tab-separated text) a quotation mark is text.
    """

    delimiter: str = TAB
    quoted: bool = False
    columns: tuple[int, int] = (0, 1)
    header: tuple[str, ...] = ()

    def pairs(self, path: Path, encoding: str, report: ReadReport) -> Iterator[SentencePair]:
        """The pairs in order. Raises DataError if a row has too few cells."""
        src, tgt = self.columns
        fewest = max(src, tgt) + 1
        for number, row in islice(self.rows(path, encoding, fewest + 1), bool(self.header), None):
            if len(row) < fewest:
                raise _too_few_cells_error(path, number, row, fewest, self.delimiter)
            report.units += 1
            yield SentencePair(row[src], row[tgt])

    def rows(
        self, path: Path, encoding: str, cells: int = 0, report_invalid: ReportInvalid | None = None
    ) -> Iterator[Row]:
        """The non-empty rows. Without quoting, a row is split into at most `cells` cells; the last one has the rest."""
        lines = read_lines(path, encoding=encoding, report_invalid=report_invalid)
        if self.quoted:
            return _quoted_rows(lines, self.delimiter, path)
        return ((number, line.split(self.delimiter, cells - 1)) for number, line in enumerate(lines, 1) if line)


def open_table(path: Path, layout: Layout, quoted: bool) -> Table:
    """Find out how to read the table in a file, from the user's layout and the first 1,000 rows.

    Raises
    ------
    ConfigError
        If a named column does not exist, a column to read does not hold text, or the first row looks like a header and
        the user has not set whether it is one.
    DataError
        If the file cannot be read or its first row has one cell.
    """
    table = Table(_delimiter(path, layout.encoding), True) if quoted else Table()
    # Bad bytes raise later, in `Table.pairs`, with the number of the line.
    rows = list(islice(table.rows(path, layout.encoding, 0, ignore_invalid), _LOOKED_AT_ROWS))
    if not rows:
        return table
    first, width = [cell.strip() for cell in rows[0][1]], len(rows[0][1])
    if width < 2:
        raise _too_few_cells_error(path, *rows[0], 2, table.delimiter)
    by_name = any(not name.isdecimal() for name in layout.columns)
    columns = _column_indices(path, layout, first) if layout.columns else (0, 1)
    body = [row for _, row in rows[1:]]
    kinds = [_kind_of([row[place] for row in body if place < len(row)]) for place in range(width)]
    if width == 2:  # there is no other column to choose, and the corpus doctor explains odd text better
        kinds = [kind if kind in ("numbers", "ids", "links") else "text" for kind in kinds]
    elif not layout.columns:
        kinds = _mark_comments(first, body, kinds)
    if not quoted and _share_in_quotes(body, kinds) > _QUOTED_SHARE:
        raise ConfigError(
            f"{path} has cells in quotation marks, but tab-separated text has no quoting. Rename the file to end in "
            ".csv: it may keep its tabs."
        )
    has_header = layout.header == "yes" or by_name
    if not layout.columns and body and "text" in kinds and any(kinds[place] != "text" for place in columns):
        header = first if has_header or _is_header(first, kinds, range(width)) else []
        raise _not_text_error(path, kinds, columns, body, header)
    if layout.header == "auto" and not by_name and body and _is_header(first, kinds, columns):
        raise ConfigError(
            f"{path} seems to start with a header: {', '.join(first[:8])}. Skip this row with `--header`, or keep it "
            "as a pair with `--no-header`."
        )
    return Table(table.delimiter, quoted, columns, tuple(first) if has_header else ())


def languages_of_header(table: Table) -> tuple[str, str]:
    """The languages of both columns according to the header, "" for a column whose name has none."""
    src, tgt = (language_in(table.header[place]) if table.header else "" for place in table.columns)
    return src, tgt


def _share_in_quotes(body: Cells, kinds: Sequence[ColumnKind]) -> float:
    """The share of the cells in text columns that start and end with a quotation mark."""
    places = [place for place, kind in enumerate(kinds) if kind == "text"]
    cells = [row[place].strip() for row in body for place in places if place < len(row)]
    return sum(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in cells) / max(len(cells), 1)


def _column_indices(path: Path, layout: Layout, first: Sequence[str]) -> tuple[int, int]:
    places = []
    lower = [cell.lower() for cell in first]
    for name in layout.columns:
        if name.isdecimal() and 1 <= int(name) <= len(first):
            places.append(int(name) - 1)
        elif name.lower() in lower and layout.header != "no":
            places.append(lower.index(name.lower()))
        else:
            have = f"{len(first)} columns" if name.isdecimal() else f"the columns {', '.join(first[:12])}"
            raise ConfigError(f"`--columns` names {name}, but {path} has {have}. Name two of these.")
    return places[0], places[1]


def _kind_of(values: Sequence[str]) -> ColumnKind:
    """The kind of at least 90 % of the cells of a column."""
    filled = [value.strip() for value in values if value.strip()]
    if len(filled) <= (1 - _SHARE) * len(values):
        return "nothing"
    for kind, pattern in _KINDS:
        if sum(map(bool, map(pattern.fullmatch, filled))) >= _SHARE * len(filled):
            return kind
    if len(filled) >= _FEWEST_ROWS_OF_LABELS and len(set(filled)) <= _MOST_LABELS:
        return "labels"
    return "text"


def _mark_comments(first: Sequence[str], body: Cells, kinds: Sequence[ColumnKind]) -> list[ColumnKind]:
    """The kinds, with "comments" for text that cannot be a side if two other columns can.

    It is named otherwise in a header that names two sides, or it has many empty or equal cells, or it is in the same
    language as the column before, unlike a later column, whose lengths fit better.
    """
    texts = [place for place, kind in enumerate(kinds) if kind == "text"]
    named = sides_in(first)
    cells = {place: [row[place] for row in body if place < len(row) and row[place].strip()] for place in texts}
    full = [place for place in texts if len(cells[place]) > _FULL * len(body)]
    varied = [place for place in full if len(set(cells[place])) > 2 * _FEW_DISTINCT * len(cells[place])]
    odd = {place for place in texts if named and place not in named}
    if len(varied) > 1:
        odd |= {place for place in texts if len(cells[place]) < _SPARSE * len(body)}
        odd |= {place for place in texts if len(set(cells[place])) < _FEW_DISTINCT * len(cells[place])}
    sides = [place for place in texts if place not in odd]
    if len(sides) > 2:
        found = [language_of_side(cells[place]).language for place in sides[:3]]
        nearer, later = (_correlate_lengths(body, sides[0], place) for place in sides[1:3])
        if found[0] == found[1] != found[2] and all(found) and later > nearer:
            odd.add(sides[1])
    return ["comments" if place in odd else kind for place, kind in enumerate(kinds)]


def _correlate_lengths(body: Cells, one: int, other: int) -> float:
    """The correlation of the lengths of two columns, NaN if a column has one length only."""
    lengths = [(len(row[one]), len(row[other])) for row in body if max(one, other) < len(row)]
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.asarray(np.corrcoef(lengths, rowvar=False))[0, 1])


def _is_header(first: Sequence[str], kinds: Sequence[ColumnKind], columns: Iterable[int]) -> bool:
    """Whether the first row is a header: a cell without digits above numbers, or names of columns above the text."""
    numbers = [cell for cell, kind in zip(first, kinds, strict=True) if kind in ("numbers", "ids")]
    if numbers and "text" in kinds:
        return any(cell and not any(map(str.isdigit, cell)) for cell in numbers)
    named = [first[place] for place in columns if kinds[place] == "text"]
    return is_header(named)


def _not_text_error(
    path: Path, kinds: Sequence[ColumnKind], columns: tuple[int, int], body: Cells, header: Sequence[str]
) -> ConfigError:
    place = next(place for place in columns if kinds[place] != "text")
    parts = [f"{number + 1} {_describe_column(kind, number, body, header)}" for number, kind in enumerate(kinds)]
    texts = [str(number) for number, kind in enumerate(kinds, start=1) if kind == "text"]
    choice = ",".join(texts) if len(texts) == 2 else "SOURCE,TARGET"
    skip = " --header" if header else ""
    return ConfigError(
        f"{path}: column {place + 1} holds {kinds[place]}, not text. Its columns: {'; '.join(parts)}. "
        f"Name the two with text, source first: `--columns {choice}{skip}`."
    )


def _describe_column(kind: ColumnKind, place: int, body: Cells, header: Sequence[str]) -> str:
    cells = [row[place].strip() for row in body if place < len(row) and row[place].strip()]
    example = f" ({shorten(cells[0], _EXAMPLE_CHARACTERS)})" if cells else ""
    name = f"{header[place]}: " if header else ""
    language = language_of_side(cells).language if kind == "text" else ""
    return f"{name}{language_name(language) or kind}{example}"


def _delimiter(path: Path, encoding: str) -> str:
    """The delimiter that splits the first rows into the most cells, with the same number in every row."""
    first = next(read_lines(path, encoding=encoding, report_invalid=ignore_invalid), "")
    if stated := _SEPARATOR.fullmatch(first):
        return stated[1]

    def width(delimiter: str) -> int:
        rows = Table(delimiter, True).rows(path, encoding, 0, ignore_invalid)
        try:
            widths = {len(row) for _, row in islice(rows, _DELIMITER_ROWS)}
        except DataError:
            return 1
        return widths.pop() if len(widths) == 1 else 1

    return max(_DELIMITERS, key=width)


def _quoted_rows(lines: Iterator[str], delimiter: str, path: Path) -> Iterator[Row]:
    first = next(lines, None)
    skipped = first is not None and bool(_SEPARATOR.fullmatch(first))
    lines = lines if first is None or skipped else chain([first], lines)
    reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter, strict=True)
    number = 1 + skipped
    try:
        for row in reader:
            if row:
                yield number, [join_lines(cell) for cell in row]
            number = reader.line_num + 1 + skipped
    except csv.Error as error:
        raise DataError(
            f"{path}, line {number} is not CSV: {error}. Close its quotation marks and double those inside a cell."
        ) from None


def _too_few_cells_error(path: Path, number: int, row: Sequence[str], fewest: int, delimiter: str) -> DataError:
    if len(row) < 2:
        name = "tab" if delimiter == TAB else repr(delimiter)
        what = f"has no {name} between source and target"
    else:
        what = f"has {len(row)} columns, but column {fewest} is needed"
    return DataError(f"{path}, line {number} {what}: {quote_start(delimiter.join(row))}. Correct or remove the line.")

"""Translations as files hold them: columns that `dragoman translate` appends, and other writing than the references.

Both lower the scores, and neither is a fault of the translations. `workflows/evaluation.py` leaves the columns out, and
notes a difference in writing. Scores are never computed on changed text, because they could not be compared then.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from dragoman.errors import DataError
from dragoman.evaluation.flags import FLAGS

_COLUMNS = {
    "--flags": re.compile(rf"\t(?:(?:{'|'.join(FLAGS)})(?:,(?!$)|$))*$"),
    "--alignment": re.compile(r" \|\|\|(?: \d+-\d+)* ?$"),
}
"""What these flags of `translate` append to every line, the outer column first."""
_SUBWORDS = re.compile(r"@@(?: |$)|\u2581")
_FEW, _MANY = 0.01, 0.5
_WRITINGS: tuple[tuple[str, float, str, Callable[[str], object]], ...] = (
    (
        "letters with separate accents (not Unicode NFC)",
        _FEW,
        "Convert this file to NFC, for example with `uconv -x nfc`, and score again",
        lambda line: not unicodedata.is_normalized("NFC", line),
    ),
    ("HTML entities such as `&amp;`", _FEW, "Decode them, and score again", lambda line: html.unescape(line) != line),
    ("tags such as `<b>`", _FEW, "Remove them, and score again", re.compile("<[^<> ][^<>]*>").search),
    ("subword markers such as `@@`", _FEW, "Join the subwords to words, and score again", _SUBWORDS.search),
    ("tabs", _FEW, "Keep only the column with the sentences, and score again", re.compile("\t").search),
    ("capitals", _MANY, "Score text with the capitals of its language", lambda line: line != line.lower()),
)
"""Ways of writing in which files differ, the share of lines that matters, advice, and a test of a line."""
_ALIKE = 0.1
"""A file is not written in a way if it has at most this share of the other file's lines that are."""


def without_columns(lines: Sequence[str], name: str, note: Callable[[str], None]) -> Sequence[str]:
    """The translations in the file `name`, without the columns of `translate` that every line has. Notes each column.

    Raises DataError if the file has JSON lines.
    """
    if lines and all(line.startswith('{"src": ') for line in lines):
        raise DataError(f"{name} has JSON lines, not translations. Rename it to end in .jsonl.")
    for flag, column in _COLUMNS.items():
        if lines and all(map(column.search, lines)):
            lines = [column.sub("", line) for line in lines]
            note(f"{name} has the column of `translate {flag}`, which is not scored")
    return lines


def writing_differences(outputs: Sequence[str], references: Sequence[str], names: tuple[str, str]) -> Iterator[str]:
    """A warning for each way in which only one file is written, so that equal words count as different.

    `names` has the names of the outputs and of the references.
    """
    for what, share, advice, has in _WRITINGS:
        lines = dict(zip(names, (outputs, references), strict=True))
        counts = {name: sum(map(bool, map(has, texts))) for name, texts in lines.items()}
        other, name = sorted(names, key=counts.__getitem__)
        if counts[name] > share * len(outputs) and counts[other] <= _ALIKE * counts[name]:
            yield (
                f"{counts[name]:,} of {len(outputs):,} lines of {name} have {what}, but {counts[other]:,} of {other}: "
                f"equal words count as different. {advice}."
            )

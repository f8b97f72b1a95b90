"""The layout of corpus files: the user's settings for encoding, columns and header.

Headers of tables: names of columns, as people and translation tools write them.

Known are languages (``en-US``, ``English (United States)``, memoQ's ``English_United_States``) and the words of Trados,
memoQ, Smartcat and Weblate for source, target and other columns in English, and their German and French forms.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dragoman.errors import ConfigError
from dragoman.languages import LANGUAGE_NAMES, is_code, language_code, main_language
from dragoman.text.lines import check_encoding

Header = Literal["auto", "yes", "no"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The encoding of files that are not UTF-8, the two text columns, and whether tables have a header.

    `columns` are numbers from 1, names in the header of a table, or keys of JSON objects. If it is empty, the columns
    follow from the file.
    """

    encoding: str = ""
    columns: tuple[str, ...] = ()
    header: Header = "auto"


PLAIN = Layout()
"""The layout if the user sets nothing."""


def layout_of(encoding: str, columns: str, header: Header, label: str = "`--{}`") -> Layout:
    """The layout that settings or flags describe. `label` formats a name for errors. Raises ConfigError."""
    names = tuple(name.strip() for name in columns.split(",")) if columns else ()
    if columns and (len(names) != 2 or not all(names) or names[0] == names[1]):
        raise ConfigError(
            f"{label.format('columns')} must name two columns, source and target, for example 2,3, but is {columns}."
        )
    return Layout(check_encoding(encoding, label.format("encoding")), names, header)


_SOURCE = re.compile(r"source|src|(quell|ausgangs)(e|text|satz|segment|sprache|term)|original(text)?|origen")
_TARGET = re.compile(
    r"target|tgt|trg|translat(ion|ions|ed)|ziel(text|satz|segment|sprache|term)?|übersetz(ung|ungen|t)|cible|traduction"
)
_COMMENT = re.compile(r"comments?|notes?|kommentare?|notiz(en)?|bemerkung(en)?|commentaires?|context|kontext|status")
_OTHER = frozenset(
    "id ids index number nummer key text texts texte sentence sentences satz segment segments phrase phrases word "
    "words wort wörter string strings term terms reference input output language languages lang sprache langue".split()
)
_MOST_WORDS, _MOST_LETTERS_OF_CODES = 4, 3
_BRACKETS = re.compile(r"\s*[(\[].*[)\]]$")

_ROLES = {"source": _SOURCE, "target": _TARGET, "comment": _COMMENT}


def meaning(cell: str) -> frozenset[str] | None:
    """What the name of a column says: languages, "source", "target", "comment". None for a cell that is no name."""
    if language := _language_of(cell):
        return frozenset({language})
    words = _words(cell)
    found = [_meaning_of_word(word) for word in words]
    return None if None in found or not 1 <= len(words) <= _MOST_WORDS else frozenset(filter(None, found))


def is_header(cells: Sequence[str]) -> bool:
    """Whether cells of different columns are a header: all are names, and two do not mean the same.

    The last condition tells a header from the first pair of a dictionary, such as ``source`` and ``Quelle``.
    """
    found = [meaning(cell) for cell in cells]
    return bool(found) and None not in found and (len(found) == 1 or len(set(found)) > 1)


def sides_in(cells: Sequence[str]) -> list[int]:
    """The places of the columns that a header names as a side: a language, source or target. Empty if it is none."""
    found = {place: said for place, cell in enumerate(cells) if (said := meaning(cell)) and "comment" not in said}
    return list(found) if len(set(found.values())) > 1 else []


def language_in(cell: str) -> str:
    """The language in the name of a column: "en" for "English sentences", "" if there is none."""
    words = (word for word in _words(cell) if _role_of(word) is None)
    return _language_of(cell) or next((language_code(word) for word in words if _is_language(word)), "")


def _language_of(cell: str) -> str:
    """The code of the language that a whole cell names, with its region, or ""."""
    cell = cell.strip()
    if _role_of(cell) is not None:  # src, tgt and id are codes of languages too
        return ""
    forms = (cell, _BRACKETS.sub("", cell), cell.strip("[]()"), cell.partition("_")[0] if cell.count("_") else "")
    return next((language_code(form) for form in forms if _is_language(form)), "")


def _meaning_of_word(word: str) -> str | None:
    """One word of a name: its role, its language, or None if it is neither."""
    role = _role_of(word)
    return language_code(word) if role is None and _is_language(word) else role


def _role_of(word: str) -> str | None:
    """The role that a word names, "" for one that is no side, None for any other word."""
    word = word.lower()
    return "" if word in _OTHER else next((role for role, known in _ROLES.items() if known.fullmatch(word)), None)


def _is_language(text: str) -> bool:
    """Whether a text is the name or code of a language. Codes must be well known or private, and Hi is no code."""
    if not is_code(text):
        return len(text) > _MOST_LETTERS_OF_CODES and bool(language_code(text))
    main = re.split("[-_]", text)[0]
    return (main in "xX" or main_language(text) in LANGUAGE_NAMES) and main in (main.lower(), main.upper())


def _words(cell: str) -> list[str]:
    words = (word for word in re.split(r"[\s_.:/()\[\]]+", cell) if word)
    return [part for word in words for part in ([word] if _is_language(word) else word.split("-")) if part]

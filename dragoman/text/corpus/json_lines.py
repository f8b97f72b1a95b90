"""Pairs in JSON: one record per line, or all records in one array.

A record is an array of two texts, or an object that has its texts under "translation", under language codes or under
roles: ``["...", "..."]``, ``{"translation": {"en": "...", "de": "..."}}``, ``{"en": "...", "de": "..."}``,
``{"source": "...", "target": "..."}``. Other keys are ignored.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError, DataError
from dragoman.languages import language_code
from dragoman.records import SentencePair
from dragoman.text.corpus.layout import Layout
from dragoman.text.corpus.tmx import ReadReport, find_language
from dragoman.text.lines import ReportInvalid, ignore_invalid, join_lines, quote_start, read_lines, replace_surrogates

_CONTAINER = "translation"
_ROLES = (
    ("source", "target"),
    ("src", "tgt"),
    ("source_text", "target_text"),
    ("src_text", "tgt_text"),
    ("source_sentence", "target_sentence"),
    ("input", "output"),
    ("text", "translation"),
    ("src", "translation"),
)
_OTHER_KEYS = "Name other keys with `--columns`, or with `--src-lang` and `--tgt-lang`."
_LOOKED_AT_RECORDS = 1000
_ROLE_NAMES = frozenset(name for roles in _ROLES for name in roles)
_MOST_CHARACTERS = 1 << 22
"""The limit for one record of an array that spans several lines."""


@dataclass(frozen=True, slots=True)
class JsonFields:
    """Where a record has its two texts.

    `nested`: under the key "translation". `src` and `tgt` are keys of the object, or positions in the array, from "1".
    """

    nested: bool = True
    src: str = ""
    tgt: str = ""

    def pairs(self, path: Path, encoding: str, report: ReadReport) -> Iterator[SentencePair]:
        """The pairs in order. A record that lacks a text is counted as skipped.

        Raises DataError for a record of another form, and if all records are skipped.
        """
        for number, record in _records(path, encoding):
            report.units += 1
            texts = _texts(record, self.nested, path, number)
            if isinstance(record, dict) and (texts.get(self.src) is None or texts.get(self.tgt) is None):
                report.skipped += 1
            else:
                yield SentencePair(_text(texts, self.src, path, number), _text(texts, self.tgt, path, number))
        if report.skipped == report.units:
            raise DataError(f'{path} has no record with both "{self.src}" and "{self.tgt}". {_OTHER_KEYS}')


def first_texts(path: Path, layout: Layout) -> tuple[bool, dict[str, Any]]:
    """Whether the first record is nested under "translation", and its fields by key, texts and others.

    The first record is the first one with two texts, if there is one. Raises DataError if there is no record, or if it
    has fewer than two texts.
    """
    records, again = tee(islice(_records(path, layout.encoding, ignore_invalid), _LOOKED_AT_RECORDS))
    number, record = next((each for each in records if _count_texts(each[1]) > 1), None) or next(again, (0, None))
    if not number:
        raise DataError(f"{path} has no sentence pair. Check that it is the right file.")
    nested = isinstance(record, dict) and isinstance(record.get(_CONTAINER), dict)
    if not nested and not isinstance(record, list) and _count_texts(record) < 2:
        _texts(record, True, path, number)  # raises the error that shows the expected form
    return nested, dict(_texts(record, nested, path, number))


def only_text(path: Path, encoding: str) -> str:
    """The key of the text if the first record has one text and no record has two, else ""."""
    records = [record for _, record in islice(_records(path, encoding, ignore_invalid), _LOOKED_AT_RECORDS)]
    if not records or not isinstance(records[0], dict) or max(map(_count_texts, records)) != 1:
        return ""
    return next((key for key, value in records[0].items() if isinstance(value, str)), "")


def _count_texts(record: object) -> int:
    content = record.get(_CONTAINER) if isinstance(record, dict) else record
    found = content if isinstance(content, dict) else record
    values = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return sum(isinstance(value, str) for value in values)


def language_of_key(key: str) -> str:
    """The code of the language that a key names, or "". "src" and "tgt" are codes of small languages, but not here."""
    return "" if key in _ROLE_NAMES else language_code(key)


def languages_of_fields(nested: bool, texts: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys that name languages, in order. In nested records every key does."""
    if nested:
        return tuple(texts)
    found = [key for key, value in texts.items() if isinstance(value, str) and language_of_key(key)]
    return tuple(key for key in found if key != "id" or len(found) == 2)  # otherwise "id" is not Indonesian


def choose_fields(
    path: Path, first: tuple[bool, Mapping[str, Any]], columns: Sequence[str], src_lang: str, tgt_lang: str
) -> JsonFields:
    """The keys of both sides: named by the user, or else of the two languages, or else of two roles.

    `first` is what `first_texts` found in the file. Raises ConfigError if a named key does not exist, or if it is not
    clear which keys to read.
    """
    nested, texts = first
    if columns:
        if missing := [name for name in columns if name not in texts]:
            raise ConfigError(
                f"`--columns` names {missing[0]}, but the first record of {path} has {', '.join(texts)}. "
                "Name two of these."
            )
        return JsonFields(nested, *columns)
    languages = languages_of_fields(nested, texts)
    chosen = [_key_of(lang, languages) for lang in (src_lang, tgt_lang) if lang]
    if len(chosen) == 2 and (nested or all(chosen)):
        return JsonFields(nested, chosen[0] or src_lang, chosen[1] or tgt_lang)
    if not nested:
        for roles in (*_ROLES, ("1", "2")):
            if all(isinstance(texts.get(role), str) for role in roles):
                return JsonFields(False, *roles)
    raise ConfigError(
        f"the records of {path} have the fields {', '.join(texts)}. It is not clear which two are source and target. "
        "Name them: `--columns SOURCE,TARGET`."
    )


def _key_of(language: str, keys: Sequence[str]) -> str:
    """The key of a language: the same text, or another form of its code or name. "" if there is none."""
    return find_language(keys, language) or next((key for key in keys if language_code(key) == language), "")


def _texts(record: object, nested: bool, path: Path, number: int) -> dict[str, Any]:
    found = record.get(_CONTAINER) if nested and isinstance(record, dict) else record
    if isinstance(found, list) and not nested:
        found = {str(place): value for place, value in enumerate(found, start=1)}
    if isinstance(found, dict):
        return found
    wanted = 'no "translation" object' if nested else "no texts"
    raise DataError(
        f"{path}, line {number} has {wanted}: {quote_start(json.dumps(record, ensure_ascii=False))}. "
        'Write {"translation": {"en": "...", "de": "..."}}.'
    )


def _text(texts: Mapping[str, Any], key: str, path: Path, number: int) -> str:
    text = texts.get(key)
    if not isinstance(text, str):
        held = ", ".join(name for name, value in texts.items() if isinstance(value, str))
        raise DataError(
            f'{path}, line {number} has no text for "{key}". It has {held or "none"}. Correct the line, or name other '
            "keys with `--columns` or with `--src-lang` and `--tgt-lang`."
        )
    return join_lines(replace_surrogates(text))


def _records(path: Path, encoding: str, report_invalid: ReportInvalid | None = None) -> Iterator[tuple[int, object]]:
    """The line number and the content of each record."""
    numbered = enumerate(read_lines(path, encoding=encoding, report_invalid=report_invalid), start=1)
    lines = ((number, line) for number, line in numbered if line.strip())
    first = next(lines, (0, ""))
    if first[1].lstrip().startswith("[") and not _is_pair(first[1]):
        yield from _array(chain([first], numbered), path)
        return
    for number, line in chain([first] if first[0] else [], lines):
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _no_json_error(path, number, error) from None


def _no_json_error(path: Path, number: int, error: Exception) -> DataError:
    return DataError(f"{path}, line {number} is not JSON: {error}. Write one object per line.")


def _is_pair(line: str) -> bool:
    """Whether a line is an array of texts, and not the start of an array of all records."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, list) and bool(content) and all(isinstance(text, str) for text in content)


def _array(lines: Iterator[tuple[int, str]], path: Path) -> Iterator[tuple[int, object]]:
    """The line number and content of each element of an array that spans all lines, one at a time."""
    decoder = json.JSONDecoder()
    number, text = next(lines)
    place = text.index("[") + 1
    while True:
        while place < len(text) and (text[place].isspace() or text[place] == ","):
            place += 1
        if text[place : place + 1] == "]":
            return
        try:
            record, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            following = next(lines, None)  # the element continues on the next line
            text, place = text[place:], 0
            if following is None or len(text) > _MOST_CHARACTERS or isinstance(error, RecursionError):
                raise _no_json_error(path, number, error) from None
            number, text = following[0], text + "\n" + following[1]
            continue
        yield number, record

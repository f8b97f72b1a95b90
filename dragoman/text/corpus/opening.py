"""Open corpora from file names and settings.

The extension gives the format. The languages come from the settings, else from the content or the file name.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.config import Config
from dragoman.config.checking import check_corpora
from dragoman.config.settings import CORPORA
from dragoman.errors import ConfigError, DataError
from dragoman.languages import LANGUAGE_NAMES, is_code, main_language
from dragoman.text.corpus.corpus import Corpora, Corpus, Format
from dragoman.text.corpus.json_lines import choose_fields, first_texts, language_of_key, languages_of_fields
from dragoman.text.corpus.layout import PLAIN, Layout, layout_of
from dragoman.text.corpus.tables import languages_of_header, open_table
from dragoman.text.corpus.tmx import find_language, matches_language, tmx_languages
from dragoman.text.lines import ignore_invalid, open_bytes, read_lines, refuse_utf16

_FORMATS: dict[str, Format] = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".tmx": "tmx",
}
_SEPARATORS = {"tsv": "\t", "csv": "\t,;|"}
_LOOKED_AT_BYTES, _LOOKED_AT_LINES = 1 << 16, 100
_OTHER_KINDS = {
    **dict.fromkeys((".srt", ".vtt"), "subtitles with time stamps"),
    **dict.fromkeys((".po", ".pot", ".mo"), "messages of a program"),
    **dict.fromkeys((".xliff", ".xlf", ".sdlxliff"), "XLIFF"),
    **dict.fromkeys((".html", ".htm", ".xml"), "markup"),
    **dict.fromkeys((".doc", ".docx", ".odt", ".rtf", ".pdf"), "a document"),
    **dict.fromkeys((".xls", ".xlsx", ".ods"), "a spreadsheet"),
    **dict.fromkeys((".zip", ".7z", ".tar", ".bz2", ".xz", ".zst"), "an archive"),
}
_NOT_LANGUAGES = ("txt", "tsv", "src", "tgt", "raw", "tok", "bpe", "out", "ref", "hyp", "sys", "new", "old")
"""Endings of file names that are also codes of small languages."""
_LANGUAGE_PAIR = re.compile(r"(?:^|[._-])([a-z]{2,3}|x-[a-z0-9]{1,8})([-_])([a-z]{2,3}|x-[a-z0-9]{1,8})$")


def open_corpora(config: Config) -> Corpora:
    """Open the files of [data] and [[corpora]]. Languages found in the training files apply to the other files too.

    Raises ConfigError if `data.train` is not set or two settings contradict each other, and as `open_corpus`.
    """
    settings = config.data
    layout = layout_of(settings.encoding, settings.columns, settings.header, "`data.{}`")
    check_corpora(settings)

    def opened(name: str, src_lang: str, tgt_lang: str) -> Corpus | None:
        one, src, tgt = (str(getattr(settings, f"{name}{side}")) for side in ("", "_src", "_tgt"))
        if one:
            return open_corpus(one, src_lang=src_lang, tgt_lang=tgt_lang, layout=layout)
        return open_aligned(src, tgt, src_lang=src_lang, tgt_lang=tgt_lang, encoding=layout.encoding) if src else None

    if config.corpora:
        several = _open_several(config)
        languages = several[0].src_lang, several[0].tgt_lang
        return Corpora(several, *(opened(name, *languages) for name in CORPORA[1:]))
    train = opened("train", settings.src_lang, settings.tgt_lang)
    if train is None:
        raise ConfigError(
            "`data.train` is not set. Set it to a .tsv, .csv, .jsonl or .tmx file (`--data FILE`), "
            "or set `data.train_src` and `data.train_tgt` to two aligned files (`--src FILE --tgt FILE`)."
        )
    return Corpora((train,), *(opened(name, train.src_lang, train.tgt_lang) for name in CORPORA[1:]))


def _open_several(config: Config) -> tuple[Corpus, ...]:
    """Open the files of [[corpora]]. Languages that one corpus shows apply to the others."""
    found: list[Corpus] = []
    languages = config.data.src_lang, config.data.tgt_lang
    for number, each in enumerate(config.corpora):
        header: Any = each.header or config.data.header
        label = f"`corpora[{number}].{{}}`"
        layout = layout_of(each.encoding or config.data.encoding, each.columns or config.data.columns, header, label)
        named: dict[str, Any] = {"src_lang": languages[0], "tgt_lang": languages[1]}
        if each.data:
            found.append(open_corpus(each.data, **named, layout=layout))
        else:
            found.append(open_aligned(each.src, each.tgt, **named, encoding=layout.encoding))
        languages = found[-1].src_lang, found[-1].tgt_lang
    return tuple(replace(corpus, src_lang=languages[0], tgt_lang=languages[1]) for corpus in found)


def open_corpus(path: Path | str, *, src_lang: str = "", tgt_lang: str = "", layout: Layout = PLAIN) -> Corpus:
    """Open one file that has both sides. The extension gives the format.

    Parameters
    ----------
    path
        A .tsv, .txt, .csv, .jsonl, .json or .tmx file, possibly followed by .gz.
    src_lang, tgt_lang
        Languages of the sides. An empty one is read from the file or its name.
    layout
        Encoding, columns and header, as far as the user sets them.

    Raises
    ------
    ConfigError
        If the extension is unknown, or if the languages or columns are not clear.
    DataError
        If the file cannot be read.
    """
    path = Path(path)
    suffix = _without_gz(path).suffix.lower()
    if suffix not in _FORMATS:
        if path.is_dir():
            raise DataError(f"{path} is a directory, not a file. Name a file inside it.")
        _check_kind(path)
        raise ConfigError(
            f"{path} {f'ends in {suffix}' if suffix else 'has no extension'}, but a file with both sides ends in .tsv, "
            ".txt, .csv, .jsonl, .json or .tmx (and .gz). Rename it, or name two aligned files."
        )
    format_ = _FORMATS[suffix]
    if format_ == "tmx":
        if not (src_lang and tgt_lang):
            src_lang, tgt_lang = _complete_languages(src_lang, tgt_lang, tmx_languages(path), path)
        return Corpus((path,), format_, src_lang, tgt_lang)
    with open_bytes(path, layout.encoding) as stream:
        refuse_utf16(stream.read(_LOOKED_AT_BYTES), str(path))
    if format_ == "jsonl":
        return _open_json(path, src_lang, tgt_lang, layout)
    in_name = () if layout.columns else _languages_in_name(path)
    _check_columns(path, in_name, src_lang, tgt_lang)
    table = open_table(path, layout, quoted=format_ == "csv")
    named = in_name or languages_of_header(table)
    if all(named):
        _check_columns(path, named, src_lang, tgt_lang, layout.columns)
    return Corpus((path,), format_, src_lang or named[0], tgt_lang or named[1], layout.encoding, table)


def _open_json(path: Path, src_lang: str, tgt_lang: str, layout: Layout) -> Corpus:
    nested, texts = first_texts(path, layout)
    # Numbers are for tables and arrays.
    are_for_tables = "1" not in texts and all(map(str.isdecimal, layout.columns))
    columns = () if are_for_tables else layout.columns
    languages = languages_of_fields(nested, texts)
    by_language = not columns and (nested or len(languages) > 1)
    if by_language and not (src_lang and tgt_lang):
        src_lang, tgt_lang = _complete_languages(src_lang, tgt_lang, languages, path)
    fields = choose_fields(path, (nested, texts), columns, src_lang, tgt_lang)
    named: tuple[str, ...] = (language_of_key(fields.src), language_of_key(fields.tgt))
    if not any(named):
        named = _languages_in_name(path) or named
    return Corpus((path,), "jsonl", src_lang or named[0], tgt_lang or named[1], layout.encoding, fields)


def has_both_sides(path: Path) -> bool:
    """Whether the extension of a file is one of a corpus with both sides."""
    return _without_gz(path).suffix.lower() in _FORMATS


def format_of(path: Path) -> Format | None:
    """The format that the extension of a file with both sides gives; None for .txt, which may be lines, and others."""
    suffix = _without_gz(path).suffix.lower()
    return None if suffix == ".txt" else _FORMATS.get(suffix)


def read_side(path: Path, side: int, layout: Layout = PLAIN) -> tuple[list[str], str]:
    """The texts of one side of a test and their language, or "" if it is unknown.

    `side` is 0 (source) or 1 (target). Every line of a file without pairs is a text. Raises as `open_corpus`.
    """
    if format_of(path):
        corpus = open_corpus(path, layout=layout)
        return list(corpus.sides()[side]), (corpus.src_lang, corpus.tgt_lang)[side]
    return list(read_lines(path, encoding=layout.encoding)), _extension_language(path)


def texts_of_side(path: Path, side: int, src_lang: str, tgt_lang: str, layout: Layout = PLAIN) -> Iterator[str]:
    """The texts of one side (0 source, 1 target) in a file: every line, or one side of a file with both sides.

    The side is the one in `src_lang` or `tgt_lang`. If the languages are unknown, it is the file's first or second
    side. Raises as `open_corpus`.
    """
    if not has_both_sides(path):
        return read_lines(path, encoding=layout.encoding)
    named = _languages_in(path, layout)
    codes = {main_language(code): code for code in named}
    wanted, other = (codes.get(main_language(lang)) for lang in (src_lang, tgt_lang)[:: -1 if side else 1])
    others = [code for code in named if code != wanted]
    is_table = _FORMATS[_without_gz(path).suffix.lower()] in _SEPARATORS
    if wanted is None or not others or is_table:
        return open_corpus(path, layout=layout).sides()[named.index(wanted) if wanted and others else side]
    languages = {"src_lang": wanted, "tgt_lang": other if other in others else others[0]}
    return open_corpus(path, **languages, layout=layout).sides()[0]


def open_aligned(
    src: Path | str, tgt: Path | str, *, src_lang: str = "", tgt_lang: str = "", encoding: str = ""
) -> Corpus:
    """Open two files that are parallel line by line.

    An empty language is read from extensions such as train.en and train.de.gz. Raises ConfigError if both paths are the
    same file, or if their extensions show that the sides are swapped.
    """
    src, tgt = Path(src), Path(tgt)
    if src == tgt:
        raise ConfigError(f"{src} is set for both sides. Name one file per language.")
    for path in (src, tgt):
        _check_kind(path)
        _check_one_side(path, encoding)
    check_direction(src, tgt, src_lang, tgt_lang)
    src_lang, tgt_lang = src_lang or _extension_language(src), tgt_lang or _extension_language(tgt)
    return Corpus((src, tgt), "aligned", src_lang, tgt_lang, encoding)


def _check_kind(path: Path) -> None:
    """Raise ConfigError for a file whose extension is that of documents, archives, ..., not of lines or pairs."""
    if kind := _OTHER_KINDS.get(_without_gz(path).suffix.lower()):
        raise ConfigError(
            f"{path} holds {kind}, not sentences line by line. Export its text as TMX, as a table (.tsv, .csv), or as "
            "two files with one sentence per line."
        )


def _check_one_side(path: Path, encoding: str) -> None:
    """Raise ConfigError for a file with pairs, which cannot be one side. A .tsv or .csv file may have one column."""
    format_ = format_of(path) or ""
    lines = list(
        islice(read_lines(path, encoding=encoding, report_invalid=ignore_invalid), _LOOKED_AT_LINES * bool(format_))
    )
    has_columns = any(all(mark in line for line in lines) for mark in _SEPARATORS.get(format_, ""))
    if format_ and (has_columns or format_ not in _SEPARATORS):
        raise ConfigError(
            f"{path} has both sides, but is given as one of two aligned files. Give it alone, as `--data {path}`."
        )


def check_direction(src: Path, tgt: Path, src_lang: str, tgt_lang: str) -> None:
    """Raise ConfigError if the extensions of two aligned files show that the sides are swapped."""
    found = main_language(_extension_language(src)), main_language(_extension_language(tgt))
    given = main_language(src_lang), main_language(tgt_lang)
    if all(found) and found == given[::-1] != given:
        raise ConfigError(
            f"{src} should be in {src_lang} and {tgt} in {tgt_lang}, but their names say the opposite. "
            "Swap them, or rename the files."
        )


def _check_columns(
    path: Path, named: tuple[str, ...], src_lang: str, tgt_lang: str, columns: Sequence[str] = ()
) -> None:
    """Raise ConfigError if a requested language belongs to the other column by the file's name or header."""
    if not named:
        return
    first, second = map(main_language, named)
    if first != second and (main_language(src_lang) == second or main_language(tgt_lang) == first):
        raise ConfigError(
            f"{path} should have {src_lang or 'the source'} and {tgt_lang or 'the target'} in its columns, but its "
            f"name or header says {named[0]} and {named[1]}. Swap the columns with "
            f"`--columns {','.join(reversed(columns or ('1', '2')))}`, or correct the name or header."
        )


def _without_gz(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _extension_language(path: Path) -> str:
    path = _without_gz(path)
    suffix = (path.with_suffix("") if path.suffix.lower() == ".txt" else path).suffix[1:]
    return suffix if is_code(suffix) and suffix.lower() not in _NOT_LANGUAGES else ""


def _languages_in(path: Path, layout: Layout) -> tuple[str, ...]:
    """The languages of a file, from its content or its name; () if they are unknown."""
    format_ = _FORMATS[_without_gz(path).suffix.lower()]
    if format_ == "jsonl":
        return languages_of_fields(*first_texts(path, layout)) or _languages_in_name(path)
    if format_ == "tmx":
        return tmx_languages(path)
    corpus = open_corpus(path, layout=layout)
    return (corpus.src_lang, corpus.tgt_lang) if corpus.src_lang and corpus.tgt_lang else ()


def _languages_in_name(path: Path) -> tuple[str, ...]:
    named = _LANGUAGE_PAIR.search(_without_gz(path).stem)
    if not named:
        return ()
    src, joint, tgt = named.groups()
    # An underscore joins ordinary words too (new_set): then both codes must be well known.
    codes = {main_language(src), main_language(tgt)}
    sure = is_code(src) and is_code(tgt) if joint == "-" else codes <= LANGUAGE_NAMES.keys()
    return (src, tgt) if sure else ()


def _complete_languages(src: str, tgt: str, found: tuple[str, ...], path: Path) -> tuple[str, str]:
    """Both languages. A missing one is filled from the languages of the file, in their order."""
    taken = [find_language(found, stated) for stated in (src, tgt) if stated]
    free = [code for code in found if code not in taken and not any(matches_language(code, at) for at in (src, tgt))]
    if len(free) != (not src) + (not tgt):
        raise ConfigError(
            f"{path} has {', '.join(found) or 'no language'}, and it is not clear which two to use. Name them with "
            "`--src-lang` and `--tgt-lang` (`data.src_lang`, `data.tgt_lang`)."
        )
    return src or free.pop(0), tgt or free.pop(0)

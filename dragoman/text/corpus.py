"""Parallel text in files: two aligned files, TSV, JSON lines or TMX, plain or gzip, one pair at a time.

- aligned: line n of one file translates line n of the other;
- TSV: ``source<TAB>target``, further columns are ignored, lines without any character are skipped;
- JSON lines: ``{"translation": {"en": "...", "de": "..."}}``, other keys are ignored, blank lines are skipped;
- TMX: see `dragoman.text.tmx`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman.config import DataSettings
from dragoman.errors import ConfigError, DataError
from dragoman.languages import NAMES, main_language
from dragoman.records import SentencePair
from dragoman.text.doctor.slides import Lines, find_slides
from dragoman.text.lines import one_line, read_lines
from dragoman.text.surrogates import well_formed
from dragoman.text.tmx import ReadReport, matches, read_tmx, tmx_languages

Format = Literal["aligned", "tsv", "jsonl", "tmx"]
_FORMATS: dict[str, Format] = {".tsv": "tsv", ".txt": "tsv", ".jsonl": "jsonl", ".json": "jsonl", ".tmx": "tmx"}
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
_LANGUAGE_PAIR = re.compile(r"(?:^|[._-])([a-z]{2,3})([-_])([a-z]{2,3})$")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Where some parallel text is: one path, or the two of aligned files. Languages may be empty when nobody knows."""

    paths: tuple[Path, ...]
    format: Format
    src_lang: str
    tgt_lang: str

    def pairs(self, report: ReadReport | None = None) -> Iterator[SentencePair]:
        """The pairs in order, in constant memory; `report` counts along. Raises DataError, also where there is none."""
        report = report if report is not None else ReadReport()
        readers = {"aligned": self._aligned, "tsv": self._tsv, "jsonl": self._jsonl, "tmx": self._tmx}
        empty = True
        for pair in readers[self.format](report):
            empty = False
            yield pair
        if empty:
            raise DataError(f"{self} holds no sentence pair. Check that it is the right file.")

    def count(self) -> int:
        """How many pairs there are; reads everything once and so checks alignment and encoding too."""
        return sum(1 for _ in self.pairs())

    def sides(self) -> tuple[Lines, Lines]:
        """The texts of either side by itself; of aligned files also where one is longer."""
        if self.format == "aligned":
            return lambda: read_lines(self.paths[0]), lambda: read_lines(self.paths[1])
        return lambda: (pair.src for pair in self.pairs()), lambda: (pair.tgt for pair in self.pairs())

    def side_names(self) -> tuple[str, str]:
        """What to call the sides: their files, or what they are."""
        return (str(self.paths[0]), str(self.paths[1])) if self.format == "aligned" else ("the source", "the target")

    def __str__(self) -> str:
        return " and ".join(map(str, self.paths))

    def _aligned(self, report: ReadReport) -> Iterator[SentencePair]:
        src, tgt = (read_lines(path) for path in self.paths)
        for src_line in src:
            tgt_line = next(tgt, None)
            if tgt_line is None:
                raise _misaligned(self.paths, report.units + 1 + sum(1 for _ in src), report.units)
            report.units += 1
            yield SentencePair(src_line, tgt_line)
        missing = sum(1 for _ in tgt)
        if missing:
            raise _misaligned(self.paths, report.units, report.units + missing)

    def _tsv(self, report: ReadReport) -> Iterator[SentencePair]:
        for number, line in enumerate(read_lines(self.paths[0]), start=1):
            if not line:
                continue
            columns = line.split("\t", 2)
            if len(columns) < 2:
                raise DataError(
                    f"{self.paths[0]}, line {number} has no tab between source and target: {_shortened(line)}. "
                    "Mend or remove the line."
                )
            report.units += 1
            yield SentencePair(columns[0], columns[1])

    def _jsonl(self, report: ReadReport) -> Iterator[SentencePair]:
        for number, translation in _json_translations(self.paths[0]):
            report.units += 1
            sides = [_json_side(translation, lang, self.paths[0], number) for lang in (self.src_lang, self.tgt_lang)]
            yield SentencePair(*sides)

    def _tmx(self, report: ReadReport) -> Iterator[SentencePair]:
        yield from read_tmx(self.paths[0], self.src_lang, self.tgt_lang, report)
        if report.skipped == report.units:
            held = ", ".join(tmx_languages(self.paths[0]))
            raise DataError(
                f"{self.paths[0]} has no unit in both {self.src_lang} and {self.tgt_lang}; it holds {held}. "
                "Name two of them by `--src-lang` and `--tgt-lang` (`data.src_lang`, `data.tgt_lang`)."
            )


@dataclass(frozen=True, slots=True)
class Corpora:
    """The parts of [data]: training text, and all others where files were given for them.

    `old` is what a model to be fine-tuned was trained on before, `old_test` a test of that.
    """

    train: Corpus
    dev: Corpus | None
    test: Corpus | None
    old: Corpus | None = None
    old_test: Corpus | None = None


def open_corpora(settings: DataSettings) -> Corpora:
    """The files that [data] names; languages found in the training files hold for the others. Raises ConfigError."""
    train = _part("train", settings.train, settings.train_src, settings.train_tgt, settings.src_lang, settings.tgt_lang)
    if train is None:
        raise ConfigError(
            "`data.train` is not set. Give a .tsv, .jsonl or .tmx file (--data FILE), "
            "or two aligned files as `data.train_src` and `data.train_tgt` (--src FILE --tgt FILE)."
        )
    languages = train.src_lang, train.tgt_lang

    def other(part: str) -> Corpus | None:
        one, src, tgt = (str(getattr(settings, f"{part}{side}")) for side in ("", "_src", "_tgt"))
        return _part(part, one, src, tgt, *languages)

    return Corpora(train, other("dev"), other("test"), other("old"), other("old_test"))


def open_corpus(path: Path | str, *, src_lang: str = "", tgt_lang: str = "") -> Corpus:
    """One file with both sides, its format by its extension; languages from the file where not given.

    Raises ConfigError for an unknown extension or where languages stay open, DataError where the file is unreadable.
    """
    path = Path(path)
    suffix = _without_gz(path).suffix.lower()
    if suffix not in _FORMATS:
        if path.is_dir():
            raise DataError(f"{path} is a directory, but a file is wanted. Name a file inside it.")
        raise ConfigError(
            f"{path} ends in {suffix or 'no extension'}, but one file with both sides ends in .tsv, .txt, .jsonl, "
            ".json or .tmx (and .gz). Rename it, or give two aligned files."
        )
    format_ = _FORMATS[suffix]
    if format_ == "tsv":
        _check_columns(path, _languages_in(path, format_), src_lang, tgt_lang)
    if not (src_lang and tgt_lang):
        src_lang, tgt_lang = _complete(src_lang, tgt_lang, _languages_in(path, format_), path, format_)
    return Corpus((path,), format_, src_lang, tgt_lang)


def has_both_sides(path: Path) -> bool:
    """Whether a file's name says that it holds both sides of a corpus."""
    return _without_gz(path).suffix.lower() in _FORMATS


def texts_of_side(path: Path, side: int, src_lang: str, tgt_lang: str) -> Iterator[str]:
    """The texts that a file has of side 0 or 1: every line, or of a file with both sides those in the side's language.

    Where nobody tells the languages, it is the file's first or second side. Raises as `open_corpus`.
    """
    if not has_both_sides(path):
        return read_lines(path)
    format_ = _FORMATS[_without_gz(path).suffix.lower()]
    named = _languages_in(path, format_)
    codes = {main_language(code): code for code in named}
    wanted, other = (codes.get(main_language(lang)) for lang in (src_lang, tgt_lang)[:: -1 if side else 1])
    others = [code for code in named if code != wanted]
    if wanted is None or not others:
        return iter(open_corpus(path).sides()[side]())
    if format_ == "tsv":
        return iter(Corpus((path,), format_, named[0], named[1]).sides()[named.index(wanted)]())
    return iter(Corpus((path,), format_, wanted, other if other in others else others[0]).sides()[0]())


def open_aligned(src: Path | str, tgt: Path | str, *, src_lang: str = "", tgt_lang: str = "") -> Corpus:
    """Two files, line for line; languages from extensions such as train.en and train.de.gz where not given.

    Raises ConfigError where both are the same file, or by their extensions the other way round.
    """
    src, tgt = Path(src), Path(tgt)
    if src == tgt:
        raise ConfigError(f"{src} is given for both sides. Name the file of each language.")
    check_direction(src, tgt, src_lang, tgt_lang)
    return Corpus((src, tgt), "aligned", src_lang or _extension_language(src), tgt_lang or _extension_language(tgt))


def check_direction(src: Path, tgt: Path, src_lang: str, tgt_lang: str) -> None:
    """Raises ConfigError where extensions say that the sides of two aligned files are exchanged."""
    found = main_language(_extension_language(src)), main_language(_extension_language(tgt))
    given = main_language(src_lang), main_language(tgt_lang)
    if all(found) and found == given[::-1] != given:
        raise ConfigError(
            f"{src} is given as the text in {src_lang} and {tgt} as that in {tgt_lang}, but their names say that it is "
            "the other way round. Exchange them, or rename the files."
        )


def _check_columns(path: Path, named: tuple[str, ...], src_lang: str, tgt_lang: str) -> None:
    """Raises ConfigError where a language is given to one column that the file's name gives to the other."""
    if not named:
        return
    first, second = map(main_language, named)
    if first != second and (main_language(src_lang) == second or main_language(tgt_lang) == first):
        raise ConfigError(
            f"{path} says by its name that its columns are {named[0]} and {named[1]}, but they are to be "
            f"{src_lang or 'the source'} and {tgt_lang or 'the target'}. Exchange the columns, or rename the file."
        )


def _part(name: str, one: str, src: str, tgt: str, src_lang: str, tgt_lang: str) -> Corpus | None:
    if one and (src or tgt):
        raise ConfigError(
            f"`data.{name}` and `data.{name}_src` or `data.{name}_tgt` are both set. Set one file with both sides, "
            "or two aligned files."
        )
    if bool(src) != bool(tgt):
        have, lack = ("src", "tgt") if src else ("tgt", "src")
        raise ConfigError(f"`data.{name}_{have}` is set, but `data.{name}_{lack}` is not. Set both.")
    if one:
        return open_corpus(one, src_lang=src_lang, tgt_lang=tgt_lang)
    return open_aligned(src, tgt, src_lang=src_lang, tgt_lang=tgt_lang) if src else None


def _without_gz(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _extension_language(path: Path) -> str:
    path = _without_gz(path)
    suffix = (path.with_suffix("") if path.suffix.lower() == ".txt" else path).suffix[1:]
    return suffix if _LANGUAGE.fullmatch(suffix) and suffix.lower() not in ("txt", "tsv", "src", "tgt", "raw") else ""


def _languages_in(path: Path, format_: Format) -> tuple[str, ...]:
    if format_ == "jsonl":
        for _, translation in _json_translations(path):
            return tuple(translation)
        raise DataError(f"{path} holds no sentence pair. Check that it is the right file.")
    if format_ == "tmx":
        return tmx_languages(path)
    named = _LANGUAGE_PAIR.search(_without_gz(path).stem)
    if not named:
        return ()
    src, joint, tgt = named.groups()
    # news_en_de names two languages, new_set only if both were some.
    return (src, tgt) if joint == "-" or {main_language(src), main_language(tgt)} <= NAMES.keys() else ()


def _complete(src: str, tgt: str, found: tuple[str, ...], path: Path, format_: Format) -> tuple[str, str]:
    """The languages with what was not given filled from those found in the file, in their order."""
    if format_ == "tsv":
        return (src or found[0], tgt or found[1]) if found else (src, tgt)
    free = [language for language in found if not matches(language, src) and not matches(language, tgt)]
    if len(free) != (not src) + (not tgt):
        raise ConfigError(
            f"{path} holds {', '.join(found) or 'no language'}, of which two are wanted. Name them by `--src-lang` and "
            "`--tgt-lang` (`data.src_lang`, `data.tgt_lang`)."
        )
    return src or free.pop(0), tgt or free.pop(0)


def _json_translations(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Line number and the "translation" object of each line."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number} is not JSON: {error}. Write one object a line.") from None
        translation = record.get("translation") if isinstance(record, dict) else None
        if not isinstance(translation, dict):
            raise DataError(
                f'{path}, line {number} has no "translation" object: {_shortened(line)}. '
                'Write {"translation": {"en": "...", "de": "..."}}.'
            )
        yield number, translation


def _json_side(translation: dict[str, object], language: str, path: Path, number: int) -> str:
    text = translation.get(language)
    if not isinstance(text, str):
        held = ", ".join(key for key, value in translation.items() if isinstance(value, str))
        raise DataError(
            f'{path}, line {number} has no text for the language "{language}"; it has {held or "none"}. '
            "Mend the line, or name others by `--src-lang` and `--tgt-lang` (`data.src_lang`, `data.tgt_lang`)."
        )
    return one_line(well_formed(text))


def _shortened(line: str) -> str:
    return repr(line if len(line) <= 60 else line[:57] + "...")


def _misaligned(paths: tuple[Path, ...], src_lines: int, tgt_lines: int) -> DataError:
    src, tgt = paths
    if not (src_lines and tgt_lines):
        return DataError(f"{tgt if src_lines else src} is empty. Check that it is the right file.")
    slides = find_slides(lambda: read_lines(src), lambda: read_lines(tgt), src_lines, tgt_lines)
    return DataError(
        f"{src} has {src_lines} lines, but {tgt} has {tgt_lines}; the sides seem to slide near line {slides[0].line}. "
        "Compare the files there (`dragoman check` shows the pairs), add or remove the odd line, and try again."
    )

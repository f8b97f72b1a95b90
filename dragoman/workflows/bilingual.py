"""Review a translation: counts of flags, and a bilingual file with both sides.

A bilingual file is a page for people, or holds sentence pairs for a translation memory or for training. It is written
while texts are translated, so that long files need no memory.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.errors import ConfigError
from dragoman.evaluation.flags import FLAGS
from dragoman.files import check_target, partial_path, stream_to_file
from dragoman.languages import language_code, name_with_code
from dragoman.records import Translation
from dragoman.text.documents.markup import escape_text
from dragoman.text.documents.office.xml import ILLEGAL
from dragoman.version import __version__

_BREAKS = re.compile(r"[\t-\r\x1c-\x1e\x85\u2028\u2029]+")


@dataclass(slots=True)
class Review:
    """Counts the flags of translations, and passes them on.

    Parameters
    ----------
    needs_flags
        Whether flags must be computed, to be counted or written.
    note
        Called with each translation, such as to print what it lost.
    write
        Writes a translation to the bilingual file.
    flags, totals
        The counts of each flag, and of the segments: all, "flagged", "lost" and "kept" ones. "texts" counts blank
        lines, too. `dataclasses.replace` makes a review that shares the counts.
    """

    needs_flags: bool = False
    # `bool` has no effect.
    note: Callable[[Translation], object] = bool
    write: Callable[[Translation], object] = bool
    flags: Counter[str] = field(default_factory=Counter)
    totals: Counter[str] = field(default_factory=Counter)

    def add(self, translation: Translation) -> None:
        """Count a translation. Its text has neither markers nor escapes."""
        self.note(translation)
        self.totals["texts"] += 1
        self.totals["segments"] += bool(translation.src.strip())
        self.totals["flagged"] += bool(translation.flags)
        self.totals["lost"] += bool(translation.lost)
        self.flags.update(translation.flags)
        self.write(translation)

    @property
    def found(self) -> str:
        """The flags with their counts, in the order of `FLAGS`, such as "number 3, unsure 4"."""
        return ", ".join(f"{flag} {self.flags[flag]:,}" for flag in FLAGS if self.flags[flag])

    def summary(self) -> str:
        """One sentence about all translations."""
        segments, flagged, lost, kept = (self.totals[name] for name in ("segments", "flagged", "lost", "kept"))
        parts = [f"{flagged:,} flagged ({self.found})" if flagged else "none flagged"]
        parts += [f"{kept:,} left as {'it is' if kept == 1 else 'they are'}"] * bool(kept)
        parts.append(f"{f'{lost:,}' if lost else 'none'} lost a placeholder or term")
        return f"{segments:,} segment{'s' * (segments != 1)}: {', '.join(parts)}."


def sentence_pairs(translation: Translation) -> Iterator[tuple[str, str]]:
    """The sentences of a text with their translations, each on one line. None is empty."""
    for pair in translation.parts or [(translation.src, translation.text)]:
        src, tgt = (ILLEGAL.sub("", _BREAKS.sub(" ", text)).strip() for text in pair)
        if src and tgt:
            yield src, tgt


class _Format(NamedTuple):
    """The parts of a bilingual file: its start, its rows and its end."""

    start: str = ""
    row: Callable[[Translation], str] = lambda translation: ""
    end: Callable[[], str] = lambda: ""


def _tsv(name: str, languages: tuple[str, str], review: Review) -> _Format:
    return _Format(row=lambda translation: "".join(f"{src}\t{tgt}\n" for src, tgt in sentence_pairs(translation)))


def _tmx(name: str, languages: tuple[str, str], review: Review) -> _Format:
    """TMX 1.4. The flags of a segment are a property of all its sentences."""
    src_lang, tgt_lang = languages  # letters, digits and hyphens

    def row(translation: Translation) -> str:
        flags = f'<prop type="x-flags">{",".join(translation.flags)}</prop>' if translation.flags else ""
        units = (
            f'<tu>{flags}<tuv xml:lang="{src_lang}"><seg>{escape_text(src)}</seg></tuv>'
            f'<tuv xml:lang="{tgt_lang}"><seg>{escape_text(tgt)}</seg></tuv></tu>\n'
            for src, tgt in sentence_pairs(translation)
        )
        return "".join(units)

    start = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        f'<header creationtool="dragoman" creationtoolversion="{__version__}" segtype="sentence" o-tmf="dragoman" '
        f'adminlang="en" srclang="{src_lang}" datatype="plaintext"/>\n<body>\n'
    )
    return _Format(start, row, lambda: "</body>\n</tmx>\n")


def _html(name: str, languages: tuple[str, str], review: Review) -> _Format:
    """A page. Its template engine escapes the texts."""
    from jinja2 import Environment, StrictUndefined

    from dragoman.visualization.inspection.inspection import source_hash

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"count": "{:,}".format, "hash": source_hash, "language": name_with_code}
    environment.globals |= {"name": Path(name).name, "languages": languages, "review": review, "meanings": FLAGS}
    report = (files("dragoman.visualization.report") / "report.css").read_text(encoding="utf-8")
    template = (files("dragoman.workflows") / "bilingual.html").read_text(encoding="utf-8")
    page: Any = environment.from_string(template, {"report": report}).module
    return _Format(page.start(), lambda one: page.row(one) if one.src.strip() else "", page.end)


_FORMATS = {".html": _html, ".tsv": _tsv, ".tmx": _tmx}


def _format_of(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def check_bilingual(path: Path, output: Path | None) -> None:
    """Raise ConfigError if no bilingual file can be written at `path`, beside the translation at `output`."""
    if _format_of(path) not in _FORMATS:
        advice = "a page to read (.html), or with sentence pairs (.tsv, .tmx). Change its ending"
        raise ConfigError(f"`--bilingual` is {path}, but must be {advice}.")
    check_target(path, "--bilingual", "review.html")
    written = [{os.path.realpath(one), str(partial_path(one))} for one in (path, output) if one is not None]
    if len(set().union(*written)) < 2 * len(written):
        raise ConfigError(f"`--output` is {output}, which `--bilingual` {path} would replace. Choose another name.")


@contextmanager
def open_review(
    path: Path | None, name: str, languages: tuple[str, str], needs_flags: bool = False, hint: str = ""
) -> Iterator[Review]:
    """A review of the translation of the file `name`, which is also written to a bilingual file at `path`, if given.

    The ending of `path` chooses the format. After an error, nothing is written, and an old file stays. Raises
    ConfigError, whose message ends in `hint`, if a translation memory is wanted, but the languages are not known.
    """
    review = Review(needs_flags or path is not None)
    if path is None:
        yield review
        return
    languages = language_code(languages[0]), language_code(languages[1])
    if _format_of(path) == ".tmx" and (not all(languages) or languages[0] == languages[1]):
        problem = f"needs two languages, but they are {languages[0] or '?'} and {languages[1] or '?'}"
        raise ConfigError(f"`--bilingual` is {path}, which {problem}. Use .tsv or .html{hint}.")
    form = _FORMATS[_format_of(path)](name, languages, review)
    try:
        with stream_to_file(path) as stream:

            def write(text: str) -> None:
                stream.write(text.encode("utf-8", "replace"))

            review.write = lambda translation: write(form.row(translation))
            write(form.start)
            yield review
            write(form.end())
    except BaseException:
        partial_path(path).unlink(missing_ok=True)
        raise

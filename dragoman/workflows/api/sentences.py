"""Data in memory: arguments that may be a path, or the sentences themselves, become paths for the workflows.

The sentences are streamed to files in a temporary folder. Its path never reaches the user: errors, notes and findings
name the argument instead, such as `src`.
"""

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from dragoman.config.settings import CORPORA
from dragoman.display import one_line
from dragoman.errors import ConfigError, DataError, DragomanError
from dragoman.files import TemporaryFolder, disk_errors
from dragoman.text.corpus.splitting import chunks
from dragoman.text.lines import join_lines, replace_surrogates
from dragoman.workflows.api.keywords import name_keywords
from dragoman.workflows.api.loading import PathName
from dragoman.workflows.api.notebook import default_progress

SentenceData: TypeAlias = PathName | Iterable[str]
"""The path of a file, or sentences: a list, a generator, or a column of pandas or `datasets`."""

PairData: TypeAlias = PathName | Iterable[Mapping[str, Any] | Sequence[str]]
"""The path of a file with both sides, or pairs of texts: dicts by language, or two texts each."""

_WITH_BOTH_SIDES = ("data", *CORPORA[1:])
_CHUNK_LINES = 10_000


class SentenceFiles(AbstractContextManager["SentenceFiles"]):
    """Temporary files of the sentences that a caller has in memory. They are removed at the end of the block.

    Errors that leave the block, and the notes of `progress`, name arguments instead of these files.

    Parameters
    ----------
    kept
        The folder in which a run keeps the files, if there is a run. `path` then returns paths in it, and `sources` has
        the temporary file of each.
    """

    def __init__(self, kept: Path | None = None) -> None:
        self._temporary, self._kept = TemporaryFolder("dragoman-sentences-"), kept
        self._folder: Path | None = None
        self.sources: dict[str, Path] = {}
        self.progress = default_progress()
        self.progress.named = self.named

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._temporary.close()
        if isinstance(error, DragomanError):
            error.args = (self.named(str(error)),)

    def named(self, text: str) -> str:
        """The text, with the names of arguments instead of the paths of their files, and keywords instead of flags."""
        for folder in filter(None, (self._folder, self._folder and self._kept)):
            text = re.sub(rf"{re.escape(str(folder))}/(\w+)(\.jsonl)?", r"`\1`", text)
        return name_keywords(re.sub(r"`corpora_(\d+)_(\w+)`", r"`corpora[\1].\2`", text))

    def path(self, name: str, value: object, others: str = "") -> Path:
        """The path that an argument is, or the path of a new file with the sentences or pairs that it has.

        Parameters
        ----------
        name
            The argument: `src`, `tgt`, `dev_src`, ... for sentences; `data`, `dev`, `test`, ... for pairs.
        value
            What the caller passed.
        others
            Further things that the argument may be, for the error.

        Raises
        ------
        ConfigError
            If the value is neither a path nor an ordered iterable, or if it is a list of paths.
        DataError
            If an item is not a string or not a pair.
        """
        if isinstance(value, str | os.PathLike):
            return Path(value)
        is_side = name not in _WITH_BOTH_SIDES and not name.endswith("_data")
        unordered = isinstance(value, bytes | bytearray | Mapping | set | frozenset)
        if unordered or not isinstance(value, Iterable) or getattr(value, "ndim", 1) != 1:  # a table has columns
            wanted = "strings in order (a list, a column)" if is_side else "pairs in order (a list of dicts or tuples)"
            found = f"of type {type(value).__name__}. Give each column or part as an argument of its own"
            problem = f"`{name}` must be a path{others} or {wanted}, but is"
            raise ConfigError(f"{problem} {found if isinstance(value, Collection) else one_line(value)}.")
        self._folder = self._temporary.open()
        file = self._folder / (name if is_side else f"{name}.jsonl")
        lines = (_lines if is_side else _records)(name, value)
        for chunk in chain([[]], chunks(lines, _CHUNK_LINES)):  # errors of the iterable are the caller's
            with disk_errors(self._folder), file.open("a", encoding="utf-8", newline="\n") as stream:
                stream.writelines(chunk)
        if self._kept is None:
            return file
        self.sources[str(self._kept / file.name)] = file
        return self._kept / file.name

    def paths(self, name: str, value: object) -> tuple[str, ...]:
        """The paths that an argument lists: of pairs or a single text, of two sides, or of several texts."""
        values = value if isinstance(value, list | tuple) else [value]
        if len(values) > 2 and all(isinstance(each, str) and not os.path.exists(each) for each in values):
            first = f"but is a list of {len(values)} texts, and {one_line(values[0])} is no file"
            raise ConfigError(f"`{name}` must have files or lists of sentences, {first}. Write `{name}=[SENTENCES]`.")
        endings = ["_src", "_tgt", *map(str, range(3, len(values) + 1))] if len(values) > 1 else [""]
        names = [f"{name}{ending}".removeprefix("data_") for ending in endings]
        return tuple(str(self.path(*each)) for each in zip(names, values, strict=False))


def _lines(name: str, items: Iterable[object]) -> Iterator[str]:
    """Each sentence as a line. Line breaks inside become spaces, as in tables and JSON."""
    number, names_files = 0, True
    for number, text in enumerate(items, 1):
        if not isinstance(text, str):
            problem = f"`{name}`, sentence {number} must be a string, but is {one_line(text)}."
            raise DataError(f"{problem} Convert it, or leave out the pair on both sides.")
        names_files = names_files and os.path.isfile(text)
        yield join_lines(replace_surrogates(text.rstrip("\r\n"))) + "\n"
    if not number:
        raise DataError(f"`{name}` has no sentence. Pass a list: a generator yields its sentences only once.")
    if names_files:
        raise ConfigError(f"`{name}` must be one path or sentences, but is a list of files, such as {one_line(text)}.")


def _records(name: str, items: Iterable[object]) -> Iterator[str]:
    """Each pair as a record of JSON lines."""
    for number, pair in enumerate(items, 1):
        if not isinstance(pair, dict | list | tuple):
            problem = f"`{name}`, pair {number} must be a dict or two texts, but is {one_line(pair)}."
            raise DataError(f"{problem} If it is a sentence, give each side as an argument of its own.")
        yield json.dumps(pair, default=lambda value: None, skipkeys=True) + "\n"  # a date, for example, is no text

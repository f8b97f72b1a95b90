"""The interface of a toolkit for the adapters."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from recording import read_lines, write_lines

from side_by_side.corpus import Corpus
from side_by_side.shapes import Size

NEVER = 1_000_000
"""A number of steps that no measurement reaches."""


@dataclass(frozen=True, slots=True)
class Search:
    """One translation of a file of pieces, in which every output has exactly `forced` tokens.

    If `forced` is 0, outputs end by themselves, after at most `limit` tokens. `model` is a checkpoint.
    """

    src: Path
    output: Path
    beam: int
    batch: int
    forced: int
    limit: int = 0
    model: Path | None = None

    @property
    def longest(self) -> int:
        """The most tokens of an output."""
        return self.forced or self.limit


@dataclass(frozen=True, slots=True)
class Toolkit(ABC):
    """A toolkit in its own environment. `work` has its configuration, logs and models, for one size.

    `overrides` replaces values of its configuration, by key.
    """

    corpus: Corpus
    programs: Path
    work: Path
    size: Size
    overrides: Mapping[str, str] = field(default_factory=dict)

    package: ClassVar[str]
    checkpoint_files: ClassVar[str] = ""
    """A pattern of the files of checkpoints in `work`; their names have the step."""
    speed_line: ClassVar[re.Pattern[str]]
    """Finds `speed` in the lines that training logs; a unit is `tokens_per_unit` tokens."""

    @abstractmethod
    def train_command(self, log_every_steps: int, updates: int) -> list[str]:
        """Write the configuration, and return the command that takes `updates` steps and then saves a model."""

    @abstractmethod
    def translate_command(self, search: Search) -> list[str]:
        """Return the command that translates with the model of `train_command`."""

    def tokens_per_unit(self) -> float:
        """Return the target tokens, with end of sentence, in one unit of the logged speed."""
        return 1.0

    def generation_seconds(self, log: str) -> float | None:
        """Return the seconds that the toolkit logs for its search, or None."""
        return None

    def written(self, search: Search) -> Path:
        """Return the file of the outputs."""
        return search.output

    def checkpoints(self) -> dict[int, Path]:
        """Return the file of each checkpoint by step, in the order of the steps."""
        found = {
            int(match[1]): path
            for path in self.work.glob(self.checkpoint_files)
            if (match := re.search(r"(?:step_|/)(\d+)", str(path.relative_to(self.work)))) and not path.is_symlink()
        }
        return dict(sorted(found.items()))

    def overridden(self, config: str) -> str:
        """Return a configuration with the values of `overrides`. Raises KeyError for a key that it does not have."""
        for key, value in self.overrides.items():
            config, count = re.subn(
                rf"(?<![\w-]){key}: (\[[^\]\n]*\]|[^,}}\n]+)", f"{key}: {value}".replace("\\", r"\\"), config
            )
            if not count:
                raise KeyError(key)
        return config

    def first_lines(self, name: str, sentences: int) -> Path:
        """Write both sides of the first validation sentences as pieces, and return the source file."""
        for lang, path in zip(self.corpus.langs, self.pieces("val"), strict=True):
            write_lines(self.work / f"{name}.{lang}", read_lines(path)[:sentences])
        return self.work / f"{name}.{self.corpus.src_lang}"

    def vocabulary(self, name: str, first: Sequence[str] = ()) -> Path:
        """Write a vocabulary: `first`, in the order of the toolkit, and then all pieces that are no control pieces."""
        return write_lines(self.work / name, [*first, *self.corpus.pieces()])

    def pieces(self, part: str) -> tuple[Path, Path]:
        """Return the files of both sides of a part as pieces."""
        src, tgt = (self.corpus.folder / f"{part}.pieces.{lang}" for lang in self.corpus.langs)
        return src, tgt

    def write(self, name: str, text: str) -> str:
        """Write a file in the working folder, and return its path."""
        path = self.work / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def program(self, name: str) -> str:
        """Return the path of a program in the toolkit's environment."""
        return str(self.programs / name)

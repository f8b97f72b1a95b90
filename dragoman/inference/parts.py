"""The output of a long job, part by part: what is there already when the job is started again is not done again.

OUTPUT.parts/job.json      what the parts are parts of
OUTPUT.parts/part_0000012  the lines of piece 12, whole: written at once
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError
from dragoman.files import remove_leftovers, write_file

_JOB = "job.json"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class OutputParts:
    """The parts of the file `output`, in a folder beside it."""

    output: Path

    @property
    def folder(self) -> Path:
        """Where the parts are until all are there."""
        return self.output.with_name(f"{self.output.name}.parts")

    def begin(self, job: Mapping[str, Any]) -> int:
        """Makes the folder for a job (JSON values), or finds that of the same job; returns how many parts it has.

        Raises ConfigError where the folder belongs to another job.
        """
        self.folder.mkdir(exist_ok=True)
        remove_leftovers(self.folder)
        described = json.dumps(job, indent=1, sort_keys=True)
        path = self.folder / _JOB
        if not path.exists() and not any(self.folder.iterdir()):
            write_file(path, described)
        elif not path.exists() or path.read_text(encoding="utf-8") != described:
            raise ConfigError(
                f"{self.folder} holds parts of another job: input, model or settings were others. Give the command "
                "that began it, or remove that folder."
            )
        return sum(1 for _ in self.folder.glob("part_*"))

    def has(self, number: int) -> bool:
        """Whether part `number`, counted from 0, is there."""
        return self._part(number).exists()

    def write(self, number: int, content: bytes) -> None:
        """Writes a part, whole or not at all."""
        write_file(self._part(number), content)

    def join(self, count: int) -> None:
        """Makes the output of its `count` parts, which then are removed."""
        write_file(self.output, self._content(count))
        shutil.rmtree(self.folder, ignore_errors=True)

    def _part(self, number: int) -> Path:
        return self.folder / f"part_{number:07d}"

    def _content(self, count: int) -> Iterator[bytes]:
        for number in range(count):
            with self._part(number).open("rb") as part:
                while chunk := part.read(_CHUNK_BYTES):
                    yield chunk

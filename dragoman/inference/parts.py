"""The output of a long job in parts, so that a job that is started again skips the parts it has.

OUTPUT.parts/job.json      description of the job: input, model and settings
OUTPUT.parts/part_0000012  the complete lines of part 12, written atomically
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError
from dragoman.files import remove_leftovers, stream_to_file, write_file

_JOB = "job.json"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class OutputParts:
    """The parts of the file `output`, in the folder OUTPUT.parts beside it."""

    output: Path

    @property
    def folder(self) -> Path:
        """The folder of the parts, which `join` removes."""
        return self.output.with_name(f"{self.output.name}.parts")

    def begin(self, job: Mapping[str, Any]) -> int:
        """Create the folder for a job, or continue with its folder. Returns the number of parts that exist.

        `job` describes the job in JSON values. Raises ConfigError if the folder belongs to another job.
        """
        self.folder.mkdir(exist_ok=True)
        remove_leftovers(self.folder)
        described = json.dumps(job, indent=1, sort_keys=True)
        path = self.folder / _JOB
        if not path.exists() and not any(self.folder.iterdir()):
            write_file(path, described)
        elif not path.exists() or path.read_text(encoding="utf-8") != described:
            raise ConfigError(
                f"{self.folder} has parts of another job, with another input, model or settings. Run the command that "
                "started it, or remove that folder."
            )
        return sum(1 for _ in self.folder.glob("part_*"))

    def has(self, number: int) -> bool:
        """Whether part `number`, counted from 0, exists."""
        return self._part(number).exists()

    def write(self, number: int, content: bytes) -> None:
        """Write a part, whole or not at all."""
        write_file(self._part(number), content)

    def join(self, count: int) -> None:
        """Write the output from its `count` parts, then remove the folder."""
        with stream_to_file(self.output) as stream:
            stream.writelines(self._content(count))
        shutil.rmtree(self.folder, ignore_errors=True)

    def _part(self, number: int) -> Path:
        return self.folder / f"part_{number:07d}"

    def _content(self, count: int) -> Iterator[bytes]:
        for number in range(count):
            with self._part(number).open("rb") as part:
                while chunk := part.read(_CHUNK_BYTES):
                    yield chunk

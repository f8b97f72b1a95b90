"""The folder of a run: checkpoints, which hold a whole model and the state to continue, and pointers to two of them.

RUN/config.toml  tokenizer.json  log.jsonl  best  last  averaged/  finished.json
RUN/checkpoints/step_0012000/  a model folder, optimizer.safetensors, state.json
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import ModelError
from dragoman.files import remove_folder, remove_leftovers, verify_folder, write_file
from dragoman.training.run.state import TrainState

_STEP_FOLDER = re.compile(r"step_([0-9]{7,12})")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of a run: where its checkpoints, pointers and averaged model are."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    def step_folder(self, step: int) -> Path:
        """The folder of the checkpoint after optimizer step `step`."""
        return self.checkpoints / f"step_{step:07d}"

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, in ascending order."""
        if not self.checkpoints.is_dir():
            return []
        found = (_STEP_FOLDER.fullmatch(path.name) for path in self.checkpoints.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def _point(self, name: str, step: int) -> None:
        """Let the pointer `name` (best or last) name the checkpoint of a step."""
        write_file(self.path / name, f"checkpoints/{self.step_folder(step).name}\n")

    def point_to(self, state: TrainState) -> None:
        """Let both pointers name checkpoints of `state`. Newer checkpoints, which it does not list, may be damaged."""
        self._point("last", state.step)
        if state.best is not None:
            self._point("best", state.best.step)
        else:
            (self.path / "best").unlink(missing_ok=True)

    @property
    def averaged(self) -> Path:
        """The folder of the averaged model of a finished run."""
        return self.path / "averaged"

    def model_bytes(self) -> int:
        """The disk space of the checkpoints and the averaged model, in bytes."""
        folders = [self.averaged, *map(self.step_folder, self.steps())]
        return sum(path.stat().st_size for folder in folders if folder.is_dir() for path in folder.iterdir())

    def tidy(self) -> None:
        """Remove files that a killed process left incomplete."""
        for folder in (self.path, self.checkpoints):
            remove_leftovers(folder)

    def whole_steps(self, steps: Collection[int]) -> tuple[list[int], list[str]]:
        """The steps whose checkpoint is intact, and one line about each damaged one."""
        whole, notes = [], []
        for step in steps:
            try:
                verify_folder(self.step_folder(step))
                whole.append(step)
            except ModelError as error:
                notes.append(f"Checkpoint {self.step_folder(step).name} is not averaged: {error}")
        return whole, notes

    def remove_all_but(self, steps: Collection[int]) -> None:
        """Delete the checkpoints of all other steps."""
        for step in self.steps():
            if step not in steps:
                remove_folder(self.step_folder(step))

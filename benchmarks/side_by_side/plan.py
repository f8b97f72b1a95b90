"""The plan: cells (a part, a size, a beam, a contender), a command for each, and their order in a round."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from side_by_side.contenders import FORCED_LENGTH, MARIAN_ENGINES, OURS, TRAINING, Contender, chosen
from side_by_side.shapes import FORCED_TOKENS, SIZES

PARTS = ("training", "translation", "latency", "forced")
BEAMS = (5, 1)
BATCHES = (32, 64, 128, 256)
"""Batch sizes, tried in this order until one is clearly slower than the best before it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement. `batch` and `batch_type` are those that a calibration tries, or the best that it found."""

    part: str
    size: str
    contender: Contender
    beam: int = 0
    batch: int = 0
    batch_type: str = ""
    is_calibration: bool = False

    @property
    def key(self) -> tuple[str | int, ...]:
        """The unique key of a cell, which does not depend on a calibrated batch."""
        tried = (self.batch, self.batch_type) if self.is_calibration else ()
        return ("calibration" if self.is_calibration else self.part, self.size, self.beam, self.contender.name, *tried)

    @property
    def label(self) -> str:
        """The name for people."""
        words = [*map(str, self.key[:2]), f"beam {self.beam}" if self.beam else "", self.contender.name]
        words.append(f"batch {self.batch} {self.batch_type}" if self.batch else "")
        return " ".join(word for word in words if word)


@dataclass(frozen=True, slots=True)
class Plan:
    """The requested measurements. `folder` has corpus, models and working files; `environments` has the toolkits."""

    folder: Path
    environments: Path
    parts: tuple[str, ...]
    sizes: tuple[str, ...]
    peers: frozenset[str]
    threads: int
    seconds: float | None
    our_options: tuple[str, ...]
    sentences: int = 1000

    def cells(self) -> list[Cell]:
        """Return the cells of one round, without batches."""
        cells: list[Cell] = []
        for part in self.parts:
            for size in self.sizes:
                cells += self._cells_of(part, size)
        return cells

    def _cells_of(self, part: str, size: str) -> list[Cell]:
        if part == "training":
            return [Cell(part, size, each) for each in chosen(TRAINING, self.peers)]
        contenders = chosen(FORCED_LENGTH if part == "forced" else MARIAN_ENGINES, self.peers)
        beams = BEAMS[:1] if part == "latency" else BEAMS
        return [Cell(part, size, each, beam) for beam in beams for each in contenders]

    def calibration(self) -> list[Cell]:
        """Return cells for the batch sizes to try once, for every engine that the parts need."""
        if not {"translation", "forced"} & set(self.parts):
            return []
        return [
            Cell("translation", size, each, beam, batch, batch_type, is_calibration=True)
            for size in self.sizes
            for beam in BEAMS
            for each in chosen(MARIAN_ENGINES, self.peers)
            for batch_type in (("examples", "tokens") if each.peer == "ctranslate2" else ("",))
            for batch in BATCHES
        ]

    def command(self, cell: Cell) -> list[str]:
        """Return the command of the adapter, which prints one RESULT line."""
        size = SIZES[cell.size]
        words = self._adapter(cell.contender, cell.size)
        if cell.part == "training":
            return [*words, "--seconds", str(self.seconds or size.training_seconds)]
        words += ["--seconds", str(self.seconds or size.training_seconds / 2), "--beam", str(cell.beam)]
        words += ["--batch", str(cell.batch)] if cell.batch else []
        words += ["--batch-type", cell.batch_type] if cell.batch_type else []
        words += ["--latency"] if cell.part == "latency" else []
        words += ["--forced", str(FORCED_TOKENS)] if cell.part == "forced" else []
        sentences = self.sentences // 2 if cell.is_calibration else self._sentences(cell)
        return [*words, "--sentences", str(sentences)]

    def preparation(self, cell: Cell) -> list[str] | None:
        """Return the command that makes the data and untrained model of a toolkit's cell, without measuring."""
        if not cell.contender.is_toolkit:
            return None
        toolkit = Contender(cell.contender.name, cell.contender.peer, "translate_toolkit", cell.contender.options)
        return [*self._adapter(toolkit, cell.size), "--prepare"]

    def models(self) -> Path:
        """Return the folder that `marian_model.py` makes."""
        return self.folder / "models"

    def _sentences(self, cell: Cell) -> int:
        return SIZES[cell.size].toolkit_sentences if cell.contender.is_toolkit else self.sentences

    def _adapter(self, contender: Contender, size: str) -> list[str]:
        words = [sys.executable, "-m", f"side_by_side.{contender.adapter}", *contender.options]
        words += ["--data", str(self.folder / "corpus"), "--size", size, "--threads", str(self.threads)]
        if contender.is_toolkit:
            return [*words, "--environments", str(self.environments), "--work", str(self.folder / "toolkits")]
        if contender.adapter.startswith("translate_"):
            words += ["--models", str(self.models())]
        if contender.adapter == "translate_dragoman" and contender.name == OURS:
            words += [word for option in self.our_options for word in ("--option", option)]
        return words


def rotated(cells: Sequence[Cell], number: int) -> list[Cell]:
    """Rotate the contenders of each group from round to round, so that none always follows the same one."""
    groups: dict[tuple[str, str, int], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.part, cell.size, cell.beam), []).append(cell)
    return [cell for group in groups.values() for cell in group[number % len(group) :] + group[: number % len(group)]]

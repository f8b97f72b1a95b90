"""Keeps every measurement as a JSON line, written as soon as it ends, so that an interrupted run continues."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Key = tuple[str | int, ...]


@dataclass(slots=True)
class Journal:
    """The records of one run: `key` (of a cell), `round`, `accepted` and the adapter's measurements."""

    path: Path
    records: list[Record] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path) -> "Journal":
        """Read the records of earlier calls, without an incomplete last line."""
        journal = cls(path)
        if path.exists():
            for line in path.read_text(encoding="utf-8").split("\n"):
                try:
                    journal.records.append(json.loads(line))
                except ValueError:
                    continue
        return journal

    def append(self, record: Record) -> None:
        """Add a record to the journal and to its file."""
        self.records.append(record)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")

    def accepted(self, key: Key, round_number: int | None = None) -> list[Record]:
        """Return the accepted records of a cell, in one round or in all."""
        return [
            record
            for record in self.records
            if record["accepted"] and tuple(record["key"]) == key and round_number in (None, record["round"])
        ]

    def keys(self, parts: Sequence[str]) -> list[Key]:
        """Return the keys of cells of these parts with accepted records, in the order of their first one."""
        found = (tuple(record["key"]) for record in self.records if record["accepted"])
        return [key for key in dict.fromkeys(found) if key[0] in parts]

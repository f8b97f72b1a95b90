"""The record of a finished run: with which settings its model was averaged and scored.

If the same command is repeated, an equal record means that nothing is left to do.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dragoman.config import Config
from dragoman.config.fields import current_key
from dragoman.data.store import PairStore
from dragoman.files import write_file
from dragoman.training.run.frozen_settings import TESTS_AND_MEANS

_FILE = "finished.json"


def finish_of(config: Config, step: int, scored: Sequence[PairStore | None]) -> dict[str, Any]:
    """Everything after `step` that determines the final model, its search and its test data, as JSON values."""
    tables = asdict(config)
    settings = {key: tables[key.partition(".")[0]][key.partition(".")[2]] for key in sorted(TESTS_AND_MEANS)}
    keys = [store.key if store is not None else None for store in scored]
    return {"step": step, "scored": keys, "settings": settings, "inference": tables["inference"]}


def read_finished(folder: Path) -> dict[str, Any] | None:
    """The record that `write_finished` wrote last, or None if there is none or it cannot be read."""
    try:
        found: dict[str, Any] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        settings = {current_key(key): value for key, value in found["settings"].items()}
        inference = {
            current_key(f"inference.{name}").partition(".")[2]: value for name, value in found["inference"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return {**found, "settings": settings, "inference": inference}


def write_finished(folder: Path, finish: dict[str, Any]) -> None:
    """Record that all of `finish` is done. This is the last action of training."""
    write_file(folder / _FILE, json.dumps(finish, indent=1) + "\n")

"""The record that a run is finished: its model is averaged and scored with these settings."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dragoman.config import Config
from dragoman.config.history import current_key
from dragoman.data.store import PairStore
from dragoman.files import write_file
from dragoman.training.run.frozen_settings import TESTS_AND_MEANS

_FILE = "finished.json"


def finish_of(config: Config, step: int, scored: Sequence[PairStore | None]) -> dict[str, Any]:
    """All that decides, after `step`, which model a run ends with, how it searches and what it is scored on."""
    tables = asdict(config)
    settings = {key: tables[key.partition(".")[0]][key.partition(".")[2]] for key in sorted(TESTS_AND_MEANS)}
    keys = [store.key if store is not None else None for store in scored]
    return {"step": step, "scored": keys, "settings": settings, "inference": tables["inference"]}


def read_finished(folder: Path) -> dict[str, Any] | None:
    """What `write_finished` wrote into a run's folder last; None where nothing is, or nothing that can be read."""
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
    """Notes that all of `finish` is done: the last thing that a training does."""
    write_file(folder / _FILE, json.dumps(finish, indent=1) + "\n")

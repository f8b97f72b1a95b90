"""Reads the facts of a run from its folder: log, card, settings and sentence lengths. Does not load the model."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dragoman.bundle import Card, resolve_model_folder
from dragoman.bundle.card import read_card
from dragoman.bundle.folder import read_settings
from dragoman.config import Config, dump_config
from dragoman.data.store import Counts, PairStore
from dragoman.errors import DataError
from dragoman.files import MANIFEST
from dragoman.text.corpus.cleaning import CleaningReport
from dragoman.training.run.frozen_settings import frozen_config

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class TrainingLog:
    """The curves of log.jsonl: points (step, value) by the name that `RunLog` uses. All values are finite.

    `findings` are the watchdog's messages as (step, text), in order.
    """

    train: Mapping[str, Points] = field(default_factory=dict)
    validation: Mapping[str, Points] = field(default_factory=dict)
    findings: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of a run for its report, except its sentences. Missing facts are empty.

    `lengths` are the numbers of tokens of the training pairs, for the source and the target.
    """

    path: Path
    config: Config
    config_toml: str
    card: Card
    log: TrainingLog
    cleaning: tuple[tuple[str, int, float], ...]
    lengths: tuple[Counts, ...]


def read_run(run: Path) -> RunFacts:
    """Read the facts of a run. Raises ModelError if it has no model yet, and DataError if it is not a complete run."""
    if (run / MANIFEST).exists():
        raise DataError(f"{run} is a model folder, not a run. Name a run: a folder with checkpoints/ and log.jsonl.")
    config = frozen_config(run)
    if config is None:
        raise DataError(f"{run} is not a run: it has no config.toml. Name a folder written by `dragoman train`.")
    folder = resolve_model_folder(run)
    card = read_card(folder)
    train = open_stored_part(run, "train")
    rows = CleaningReport.of_notes(train.notes).rows() if train is not None and train.notes else []
    lengths = () if train is None else (train.src_counts, train.tgt_counts)
    # The report may be shared, so it leaves out paths of this machine.
    shared = read_settings(folder)
    settings = dump_config(replace(config, data=shared.data, corpora=shared.corpora))
    return RunFacts(run, config, settings, card, read_log(run / "log.jsonl"), tuple(rows), lengths)


def open_stored_part(run: Path, part: str) -> PairStore | None:
    """Open a run's store of "train", "dev" or "test" pairs, or return None if it is missing or empty.

    Raises DataError if it is damaged.
    """
    if not (run / "data" / part).exists():
        return None
    store = PairStore(run / "data" / part)
    return store if len(store) else None


def read_log(path: Path) -> TrainingLog:
    """Read the curves of a log. Truncated lines, and values that are not finite numbers, are left out."""
    curves: dict[str, dict[str, dict[float, float]]] = {"train": {}, "validation": {}}
    findings = []
    for event in read_events(path):
        kind, numbers = event.get("event"), {name: float(value) for name, value in event.items() if _is_number(value)}
        step = numbers.pop("step", None)
        if isinstance(kind, str) and kind in curves and step is not None:
            for name, value in numbers.items():
                curves[kind].setdefault(name, {})[step] = value
        if kind == "watchdog" and step is not None:
            findings.append((int(step), str(event.get("text", ""))))
    by_kind = [{name: tuple(sorted(points.items())) for name, points in curves[kind].items()} for kind in curves]
    train, validation = by_kind
    return TrainingLog(train, validation, tuple(findings))


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """The entries of a log in order. A truncated line gives an empty entry, and a missing file none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = {}
        yield event if isinstance(event, dict) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

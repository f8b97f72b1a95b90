"""The configuration a run was begun with: written once, and compared whenever the run is continued."""

import tomllib
from dataclasses import asdict
from pathlib import Path

from dragoman.config import CORPUS_KEYS, Config, config_from_dict, dump_config
from dragoman.data.identity import IDENTITY
from dragoman.errors import CheckpointError, ConfigError
from dragoman.files import TEMPORARY_PREFIX, write_file
from dragoman.train.lock import LOCK

_CONFIG = "config.toml"
# What a run that has not begun may have left behind.
_OF_A_RUN = {LOCK, _CONFIG, "data", "checkpoints", "log.jsonl", "tensorboard"}

TESTS_AND_MEANS = frozenset(
    {
        "data.test",
        "data.test_src",
        "data.test_tgt",
        "data.old_test",
        "data.old_test_src",
        "data.old_test_tgt",
        "train.average_last",
        "train.average_best",
    }
)
"""What decides only which model a finished run ends with, and what it is scored on."""

# What may differ when a run goes on: limits, bookkeeping, where and how much at once, and how its model is used later.
_FREE = TESTS_AND_MEANS | {
    "data.check_languages",
    "train.max_steps",
    "train.max_epochs",
    "train.max_minutes",
    "train.patience",
    "train.log_every_steps",
    "train.checkpoint_every_steps",
    "train.keep_checkpoints",
    "train.micro_batch_tokens",
    "train.device",
    "train.workers",
    "train.sharding",
}


def frozen_config(folder: Path) -> Config | None:
    """The configuration in a run's folder; None where no run began. Raises CheckpointError where it is damaged,
    or `folder` is a file.

    A run has begun when it has a checkpoint, or what is left of one that is finished. Before that it may have failed
    because of its settings, and the same folder must do for better ones.
    """
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise CheckpointError(f"{path} is a file, but a run is a folder. Name a folder.")
    begun = (folder / "averaged").exists() or any((folder / "checkpoints").glob("step_*"))
    return _written_config(folder) if begun else None


def check_frozen(folder: Path, config: Config) -> frozenset[str]:
    """The keys of the settings that are not those the run began with; none for a new run, which they begin.

    Raises CheckpointError, naming the first setting that may not differ, and for a folder that holds something else.
    """
    before = frozen_config(folder)
    if before is None:
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        others = {name for name in names - _OF_A_RUN if not name.startswith(TEMPORARY_PREFIX)}
        if others:
            raise CheckpointError(
                f"{folder} holds {min(others)}, and no run of dragoman. Choose another --out, or an empty folder."
            )
        _written_config(folder)
        return frozenset()
    changed = _differences(before, config)
    known = (folder / "data" / IDENTITY).exists()  # which has the digests of the files: names may change then
    for key, old, new in changed:
        if key in CORPUS_KEYS and old and new and known:
            continue
        # A rate that falls to 0 at the limit is another schedule with another limit.
        ends = key == "train.max_steps" and before.train.schedule in ("linear", "cosine")
        if (key not in _FREE or ends) and not key.startswith("inference."):
            raise CheckpointError(
                f"{folder} was begun with `{key}` = {old!r}, which is {new!r} now. Use the same settings to "
                "continue it, or choose another --out."
            )
    return frozenset(key for key, _, _ in changed)


def freeze_config(folder: Path, config: Config) -> None:
    """Writes the configuration of a run that `check_frozen` has nothing against."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / _CONFIG, dump_config(config))


def _written_config(folder: Path) -> Config | None:
    path = folder / _CONFIG
    try:
        return config_from_dict(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ConfigError) as error:
        raise CheckpointError(f"{path} cannot be read: {error} Restore it, or choose another --out.") from None


def _differences(one: Config, other: Config) -> list[tuple[str, object, object]]:
    pairs = []
    for table, values in asdict(one).items():
        for name, value in values.items():
            new = asdict(other)[table][name]
            if new != value:
                pairs.append((f"{table}.{name}", value, new))
    return pairs

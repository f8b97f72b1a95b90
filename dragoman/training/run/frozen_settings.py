"""The configuration that a run started with: written once, and compared whenever the run continues.

RUN/config.toml has absolute paths of the corpora, so that a run can continue from any folder. Model folders may be
shared with other people, so they keep the paths as the user typed them. The files in RUN/corpus move with the run, and
model folders name them without the run.

The record of a finished run: with which settings its model was averaged and scored.

If the same command is repeated, an equal record means that nothing is left to do.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dragoman.config import CORPUS_KEYS, Config, config_from_dict, dump_config
from dragoman.config.loading import flag_of, read_toml
from dragoman.config.names import current_key
from dragoman.data.store import IDENTITY, PairStore, files_of_pairs, read_identity
from dragoman.errors import CheckpointError, ConfigError, DataError, ModelError
from dragoman.files import TEMPORARY_PREFIX, sha256_of, verify_file, write_file
from dragoman.training.run.run_folder import CORPUS, LOCK, RunFolder

_CONFIG = "config.toml"
# The files that a run without a checkpoint may leave behind.
_OF_A_RUN = {LOCK, _CONFIG, CORPUS, "data", "checkpoints", "log.jsonl", "tensorboard"}

TESTS_AND_MEANS = frozenset(
    {
        "data.test",
        "data.test_src",
        "data.test_tgt",
        "data.replay_test",
        "data.replay_test_src",
        "data.replay_test_tgt",
        "train.average_last",
        "train.average_best",
    }
)
"""Settings that determine only the final model of a finished run, and its test data."""

# Settings that may change when a run continues: limits, bookkeeping, device, memory, and how its model is used later.
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
    "train.threads",
    "train.sharding",
}

# Settings that a run fits again, if you did not set them, when a limit is raised (`dragoman.training.limits`). Until
# the next checkpoint, the run's configuration is ahead of the newest one.
_LIMITS = ("max_steps", "max_epochs", "max_minutes")
_REFITTED = {"train.warmup_steps", "validate.every_epochs", "validate.every_steps"}

_BOTH_SIDES = "--src FILE --tgt FILE"
_SHORT_FLAGS = {"data.train": "--data FILE", "data.train_src": _BOTH_SIDES, "data.train_tgt": _BOTH_SIDES}


def frozen_config(folder: Path) -> Config | None:
    """The configuration in a run's folder, or None if no run has started there.

    A run has started if it has a checkpoint or an averaged model. Before that, it may have failed because of its
    settings, so the same folder accepts other settings. Raises CheckpointError if the configuration is damaged or
    `folder` is a file.
    """
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise CheckpointError(f"{path} is a file, but a run is a folder. Name a folder.")
    run = RunFolder(folder)
    has_started = run.averaged.exists() or run.steps()
    config = _written_config(folder) if has_started else None
    return config and _change_paths(config, lambda path: _own_file(folder, path))


def _own_file(folder: Path, path: str) -> str:
    """The path of a corpus, or of the run's own file if it recorded that file before it was moved."""
    own = folder / CORPUS / Path(path).name
    return os.path.abspath(own) if Path(path).parent.name == CORPUS and own.exists() else path


def check_frozen(folder: Path, config: Config) -> None:
    """Raise CheckpointError for the first setting that may not change, and for a folder that is not a run."""
    before = frozen_config(folder)
    if before is None:
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        others = {name for name in names - _OF_A_RUN if not name.startswith(TEMPORARY_PREFIX)}
        if others:
            raise CheckpointError(
                f"{folder} holds {min(others)}, and no run of dragoman. Choose another `--out`, or an empty folder."
            )
        _written_config(folder)
        return
    _check_unedited(folder, before)
    known = (folder / "data" / IDENTITY).exists()  # it has the digests of the files, so their names may change
    for key, old, new in _differences(absolute_paths(before), absolute_paths(config)):
        if _is_file(key) and old and new and known:
            continue
        if len(before.corpora) != len(config.corpora):
            raise CheckpointError(
                f"{folder} is a run on {len(before.corpora) or 1} corpora, but now there are "
                f"{len(config.corpora) or 1}. List the same corpora to continue it, or choose another `--out`."
            )
        if not _is_free(key, before):
            raise CheckpointError(
                f"{folder} is a run with `{key}` = {old!r}, but now it is {new!r}. Use the same settings to continue "
                "it, or choose another `--out`."
            )


def freeze_config(folder: Path, config: Config, sources: Mapping[str, Path] = {}) -> None:
    """Write the configuration of a run after `check_frozen` has accepted it.

    `sources` has temporary files of corpora by the paths in the run's folder that the configuration has. They are
    copied first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path, source in sources.items():
        Path(path).parent.mkdir(exist_ok=True)
        with source.open("rb") as stream:
            write_file(Path(path), stream)
    write_file(folder / _CONFIG, dump_config(absolute_paths(config)))


def absolute_paths(config: Config) -> Config:
    """The settings with absolute paths of the corpora and environment variables replaced."""
    return _change_paths(config, lambda path: os.path.abspath(os.path.expandvars(path)))


def _change_paths(config: Config, change: Callable[[str], str]) -> Config:
    return config.with_corpus_paths({key: change(path) for key, path in config.corpus_paths.items()})


def shared_paths(folder: Path, config: Config) -> Config:
    """The settings for a model folder, without the folder of the run.

    Recorded paths are replaced by those of the newest checkpoint, as typed.
    """
    recorded = frozen_config(folder)
    newest = next((config for _, config in _of_checkpoints(folder)), None)
    if recorded and newest:
        known, typed = recorded.corpus_paths, newest.corpus_paths
        same = {key for key, path in config.corpus_paths.items() if path == known.get(key) and key in typed}
        config = config.with_corpus_paths({key: typed[key] for key in same})
    return _change_paths(config, lambda path: path.removeprefix(f"{folder}/"))


def check_recorded(folder: Path, config: Config, given: Collection[str] = ()) -> None:
    """Raise DataError for a missing corpus that the run in `folder` recorded, unless its setting is in `given`."""
    for key, recorded in config.corpus_paths.items():
        path = os.path.expandvars(recorded)
        if key.partition("[")[0] not in given and not os.path.exists(path):
            advice = f"name the file that it is now: `{_SHORT_FLAGS.get(key, f'{flag_of(key)} FILE')}`."
            if key not in CORPUS_KEYS:
                advice = "list all corpora again, with the same settings and in the same order."
            raise DataError(
                f"{path}, which {folder / _CONFIG} records as `{key}`, does not exist. Restore it, or {advice}"
            )


def check_resumable(folder: Path) -> None:
    """Raise an error if the run in `folder` cannot continue as it is.

    DataError if a recorded corpus is missing or has changed, CheckpointError if its configuration was edited."""
    config = frozen_config(folder)
    if config is None:
        raise CheckpointError(f"{folder} has no {_CONFIG}. Restore it.")
    _check_unedited(folder, config)
    check_recorded(folder, config)
    record = folder / "data" / IDENTITY
    if not record.exists():
        return
    paths = files_of_pairs(config)
    digests = read_identity(record)["files"].values()
    for path, digest in zip(paths, digests, strict=True) if len(paths) == len(digests) else ():
        if sha256_of(Path(path)) != digest:
            raise DataError(f"{path} has changed since {folder} started. Restore the file.")


def _check_unedited(folder: Path, config: Config) -> None:
    """Raise CheckpointError if `config` differs from that of the newest checkpoint in a setting that may not change."""
    for checkpoint, saved in _of_checkpoints(folder):
        refits = any(getattr(saved.train, name) != getattr(config.train, name) for name in _LIMITS)
        fitted = _REFITTED | ({"train.learning_rate"} if saved.train.schedule == "noam" else set())
        for key, old, new in _differences(saved, config):
            if not _is_file(key) and not _is_free(key, saved) and not (refits and key in fitted):
                raise CheckpointError(
                    f"{folder / _CONFIG} was edited: `{key}` is {new!r} there, but the run was trained with {old!r} "
                    f"({checkpoint / _CONFIG}). Set it back to {old!r}, or train with {new!r} in another `--out`."
                )
        return


def _of_checkpoints(folder: Path) -> Iterator[tuple[Path, Config]]:
    """The intact checkpoints of a run, newest first, with their configurations."""
    run = RunFolder(folder)
    for checkpoint in map(run.step_folder, reversed(run.steps())):
        try:
            verify_file(checkpoint, _CONFIG)
        except ModelError:
            continue
        if config := _written_config(checkpoint):
            yield checkpoint, config


def _is_free(key: str, before: Config) -> bool:
    # A schedule that falls to 0 at the limit changes with the limit.
    ends = key == "train.max_steps" and before.train.schedule in ("linear", "cosine")
    return (key in _FREE and not ends) or key.startswith("inference.")


def _written_config(folder: Path) -> Config | None:
    path = folder / _CONFIG
    try:
        return config_from_dict(read_toml(path), str(path), keep_training=True)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ConfigError) as error:
        raise CheckpointError(f"{path} cannot be read: {error} Restore it, or choose another `--out`.") from None


def _differences(one: Config, other: Config) -> list[tuple[str, object, object]]:
    """The keys of all settings that differ, with both values."""
    before, after = _by_key(one), _by_key(other)
    return [(key, before.get(key), after.get(key)) for key in before | after if before.get(key) != after.get(key)]


def _by_key(config: Config) -> dict[str, object]:
    corpora = [(place, name, value) for place, one in enumerate(config.corpora) for name, value in asdict(one).items()]
    return config.by_key | {f"corpora[{place}].{name.rstrip('_')}": value for place, name, value in corpora}


def _is_file(key: str) -> bool:
    """Whether a key is that of a corpus file."""
    return key in CORPUS_KEYS or (key.startswith("corpora[") and key.endswith((".data", ".src", ".tgt")))


_FILE = "finished.json"


def finish_of(config: Config, step: int, scored: Sequence[PairStore | None]) -> dict[str, Any]:
    """Everything after `step` that determines the final model, its search and its test data, as JSON values."""
    values = config.by_key
    settings = {key: values[key] for key in sorted(TESTS_AND_MEANS)}
    keys = [store.key if store is not None else None for store in scored]
    return {"step": step, "scored": keys, "settings": settings, "inference": asdict(config.inference)}


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

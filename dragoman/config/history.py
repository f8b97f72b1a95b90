"""Settings of earlier versions: the removed ones, and the value with which an old file may still have them."""

from collections.abc import Mapping
from dataclasses import dataclass

from dragoman.config.fields import shown
from dragoman.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RemovedSetting:
    """A setting that no longer exists. Files that have it at its `neutral` value, the old default, are still read."""

    feature: str
    neutral: float


REMOVED: Mapping[str, RemovedSetting] = {"train.r_drop": RemovedSetting("R-Drop", 0.0)}


def check_removed(key: str, value: object, place: str) -> None:
    """Raise ConfigError if a removed setting has another value than its neutral one."""
    removed = REMOVED[key]
    if isinstance(value, bool) or value != removed.neutral:
        raise ConfigError(f"{place} is {shown(value)}, but {removed.feature} was removed. Remove the line.")


def describe_removed_flag(flag: str, key: str) -> str:
    """The error text for the flag of a removed setting."""
    return f"`{flag}` is no setting any more: {REMOVED[key].feature} was removed. Leave the flag out."

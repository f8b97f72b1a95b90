"""Names that are not settings: renamed and removed settings, and the words of other libraries.

Files and flags may have the old name of a renamed setting. A removed setting must have its neutral value, except in the
folder of a trained model, where any value is ignored.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.config.fields import quote_value
from dragoman.errors import ConfigError

RENAMED: Mapping[str, str] = {
    "train.workers": "train.threads",
    "data.old": "data.replay",
    "data.old_src": "data.replay_src",
    "data.old_tgt": "data.replay_tgt",
    "data.old_share": "data.replay_share",
    "data.old_test": "data.replay_test",
    "data.old_test_src": "data.replay_test_src",
    "data.old_test_tgt": "data.replay_test_tgt",
    "inference.capitals": "inference.retry_all_caps",
    "inference.alpha": "inference.length_penalty_alpha",
}
"""Old keys, and the current keys that replace them."""

_MOST_NAMES_IN_A_NOTE = 3


@dataclass(frozen=True, slots=True)
class RemovedSetting:
    """A setting that no longer exists. Its `neutral` value, the old default, switched `feature` off."""

    feature: str
    neutral: float | str
    instead: str = ""


_TAUGHT = "learning from the predictions of teachers"
_TRANSLATE = " Train on what the teacher writes instead: `dragoman translate TEACHER < train.en > train.de`."
REMOVED: Mapping[str, RemovedSetting] = {
    "train.r_drop": RemovedSetting("R-Drop", 0.0),
    "train.teachers": RemovedSetting(_TAUGHT, "", _TRANSLATE),
    "train.teacher_weight": RemovedSetting(_TAUGHT, 0.5, _TRANSLATE),
}
_SHORT_NAMES = {"teacher": "train.teachers"}


def current_key(key: str) -> str:
    """The current key of a setting."""
    return RENAMED.get(key, key)


def name_hint(name: str, known: Collection[str], write: Callable[[str], str] = str) -> str:
    """The hint with the setting that earlier versions or other libraries call `name`, or "".

    Other libraries are in other_names.txt. `known` are the possible keys, and `write` returns how to write a key.
    """
    name = name.replace("-", "_")
    for old, new in RENAMED.items():
        if name == old.partition(".")[2] and new in known:
            return f" Did you mean `{write(new)}`?"
    for row in Path(__file__).with_name("other_names.txt").read_text(encoding="utf-8").splitlines():
        key, words, remark = f"{row}\t\t".split("\t")[:3]
        if name in words.split() and key in known:
            return f" Dragoman calls it `{write(key)}`. {remark}".rstrip()
    return ""


def describe_renamed(old_keys: Sequence[str], origin: str) -> str:
    """A note that `origin` has old names of settings."""
    names = [f"`{key}` is now `{RENAMED[key]}`" for key in old_keys[:_MOST_NAMES_IN_A_NOTE]]
    if more := len(old_keys) - len(names):
        names.append(f"and {more} more")
    plural = "s" if len(old_keys) > 1 else ""
    return f"{', '.join(names)}; {origin} still has the old name{plural}."


def check_removed(key: str, value: object, place: str, advice: str) -> None:
    """Raise ConfigError if the value of a removed setting is not its neutral value."""
    removed = REMOVED[key]
    if isinstance(value, bool) or value != removed.neutral:
        raise ConfigError(
            f"{place} is {quote_value(value)}, but {removed.feature} was removed. {advice}{removed.instead}"
        )


def describe_removed(name: str, kind: str) -> str | None:
    """The end of the error text for a removed "flag" or "keyword". None if `name` was never a setting.

    `name` is a key, its last part, or a short flag.
    """
    name = _SHORT_NAMES.get(name, name).replace("train_", "train.", 1)
    for key, removed in REMOVED.items():
        if name in (key, key.partition(".")[2]):
            return f"was removed together with {removed.feature}. Leave the {kind} out.{removed.instead}"
    return None

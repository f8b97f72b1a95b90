"""The description of a single setting, the check of its values, and renamed and removed settings.

Renamed and removed settings of earlier versions.

Files and flags may have the old name of a renamed setting. A removed setting must have its neutral value, except in the
folder of a trained model, where any value is ignored.
"""

import difflib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from dragoman.config.settings import Config, ModelSettings
from dragoman.errors import ConfigError

SettingValue = bool | int | float | str

_LARGEST_INT = 2**63 - 1
_IN_WORDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string in quotes",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """The description of a setting. `kind` is bool, int, float or str. Empty `choices` allow any value of the kind."""

    table: str
    name: str
    kind: type
    choices: tuple[str, ...]
    default: SettingValue
    help: str = ""
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None

    @property
    def key(self) -> str:
        """The table and the name, such as ``train.max_steps``."""
        return f"{self.table}.{self.name}"

    def check(self, value: object, place: str) -> SettingValue:
        """The value, converted to the type of the setting. Raises ConfigError, which starts with `place`."""
        if self.kind is float and type(value) is int:
            value = float(value) if abs(value) < 2**1000 else math.inf
        if type(value) is not self.kind:
            written = repr(value) if isinstance(value, float) else quote_value(value)  # 3.0, not 3
            raise ConfigError(f"{place} must be {self._expected()}, but is {written}.")
        if isinstance(value, str):
            self._check_text(value, place)
        elif isinstance(value, int | float):
            self._check_range(value, place)
        assert isinstance(value, bool | int | float | str)
        return value

    def parse(self, text: str, place: str) -> SettingValue:
        """The value of the text after a flag. Raises ConfigError, which starts with `place`."""
        parsers: dict[type, Any] = {bool: {"true": True, "false": False}.__getitem__, int: int, float: float, str: str}
        try:
            if self.kind in (int, float) and ("_" in text or not text.isascii()):  # which Python accepts
                raise ValueError
            value = parsers[self.kind](text)
        except (ValueError, KeyError):
            raise ConfigError(f"{place} must be {self._expected()}, but is {quote_value(text)}.") from None
        return self.check(value, place)

    def _expected(self) -> str:
        return f"one of {', '.join(self.choices)}" if self.choices else _IN_WORDS[self.kind]

    def _check_text(self, value: str, place: str) -> None:
        if self.choices and value not in self.choices:
            hint = did_you_mean(value, self.choices)
            raise ConfigError(f"{place} must be {self._expected()}, but is {quote_value(value)}.{hint}")
        if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
            raise ConfigError(
                f"{place} must be plain text, but is {quote_value(value)}. Write it in valid UTF-8, without NUL."
            )

    def _check_range(self, value: float, place: str) -> None:
        largest = _LARGEST_INT if self.kind is int else math.inf
        limits = [
            (math.isfinite(value), "a finite number"),
            (self.minimum is None or value >= self.minimum, f"at least {quote_value(self.minimum)}"),
            (self.above is None or value > self.above, f"greater than {quote_value(self.above)}"),
            (self.maximum is None or value <= self.maximum, f"at most {quote_value(self.maximum)}"),
            (abs(value) <= largest, f"at most {_LARGEST_INT}"),
        ]
        for holds, expected in limits:
            if not holds:
                raise ConfigError(f"{place} must be {expected}, but is {quote_value(value)}.")


def quote_value(value: object) -> str:
    """A value in TOML syntax, on one line of at most 80 characters."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, bool | str):
        text = json.dumps(value)
    else:
        text = str(value) if not isinstance(value, int) or abs(value) < 10**50 else "a number of more than 50 digits"
    return text if len(text) <= 80 else text[:77] + "..."


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The hint `` Did you mean `x`?`` with the most similar name, or ""."""
    nearest = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f" Did you mean `{nearest[0]}`?" if nearest else ""


def settings_of(table: str) -> list[Setting]:
    """The settings of a table, in the order of their definition."""
    return [setting for setting in SETTINGS.values() if setting.table == table]


def model_settings(values: Mapping[str, object]) -> ModelSettings:
    """The settings of a model with these values of [model]. Raises ConfigError for an unknown name or a wrong value."""
    checked: dict[str, Any] = {}
    for name, value in values.items():
        setting = SETTINGS.get(f"model.{name}")
        if setting is None:
            hint = did_you_mean(name, [each.name for each in settings_of("model")])
            raise ConfigError(f"`{name}` is not a setting of [model].{hint}")
        checked[name] = setting.check(value, f"`{name}`")
    return ModelSettings(**checked)


def describe(config_class: type) -> dict[str, Setting]:
    """The settings by key, for a class whose fields are tables."""
    described = {}
    for table, table_class in get_type_hints(config_class).items():
        assert is_dataclass(table_class)
        hints = get_type_hints(table_class)
        for field in fields(table_class):
            hint = hints[field.name]
            choices = get_args(hint) if get_origin(hint) is Literal else ()
            kind: type = str if choices else hint
            default: Any = field.default
            described[f"{table}.{field.name}"] = Setting(table, field.name, kind, choices, default, **field.metadata)
    return described


SETTINGS: dict[str, Setting] = describe(Config)
TABLES: tuple[str, ...] = tuple(dict.fromkeys(setting.table for setting in SETTINGS.values()))


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

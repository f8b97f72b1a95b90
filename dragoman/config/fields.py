"""The description of a single setting, and the check of its values."""

import difflib
import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

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
        if type(value) is not self.kind:
            value = _plain(value)
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
        return (
            "one of " + ", ".join(choice or '""' for choice in self.choices) if self.choices else _IN_WORDS[self.kind]
        )

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
        limits = (
            (isinstance(value, int) or math.isfinite(value), "a finite number", None),
            (self.minimum is None or value >= self.minimum, "at least", self.minimum),
            (self.above is None or value > self.above, "greater than", self.above),
            (self.maximum is None or value <= self.maximum, "at most", self.maximum),
            (abs(value) <= largest, "at most", _LARGEST_INT),
        )
        for holds, expected, limit in limits:
            if not holds:
                expected = f"{expected} {quote_value(limit)}" if limit is not None else expected
                raise ConfigError(f"{place} must be {expected}, but is {quote_value(value)}.")


def _plain(value: object) -> object:
    """The value of Python for a path, or for a scalar of numpy or torch."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


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


def describe_table(table: str, table_class: type) -> tuple[Setting, ...]:
    """The settings of a table, in the order of their definition."""
    described = []
    hints = get_type_hints(table_class)
    for field in fields(table_class):
        hint = hints[field.name]
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        kind: type = str if choices else hint
        default: Any = field.default
        described.append(Setting(table, field.name, kind, choices, default, **field.metadata))
    return tuple(described)

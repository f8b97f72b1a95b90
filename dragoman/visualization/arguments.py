"""Checks of the arguments of figures. Errors are those of settings.

This module does not import matplotlib, so that commands can check the path of a figure without it.
"""

import operator
import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from importlib.util import find_spec
from numbers import Real
from pathlib import Path
from typing import Any

from dragoman.config.fields import Setting, did_you_mean, quote_value
from dragoman.errors import ConfigError, MissingExtraError
from dragoman.files import check_target

_FORMATS = ("png", "svg", "pdf")


def check_count(name: str, value: object, minimum: int = 1, maximum: int | None = None) -> int:
    """The value as a whole number in a range. Numbers of numpy and torch are whole numbers, too."""
    with suppress(TypeError):
        value = value if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    return _check(Setting("", name, int, (), minimum, minimum=minimum, maximum=maximum), value)  # type: ignore[return-value]


def check_even(name: str, value: object) -> int:
    """The value as an even number of dimensions: sinusoidal encodings are pairs of a sine and a cosine."""
    number = check_count(name, value, 2)
    if number % 2:
        raise ConfigError(f"`{name}` must be even, but is {number}. Choose {number + 1}, for example.")
    return number


def check_share(name: str, value: object) -> float:
    """The value as a number from 0 to 1."""
    return _check(Setting("", name, float, (), 0.0, minimum=0.0, maximum=1.0), value)  # type: ignore[return-value]


def check_choice(name: str, value: object, choices: Collection[str]) -> str:
    """The value, one of some texts."""
    if not isinstance(value, str):
        raise wrong_type(name, f"one of {', '.join(choices)}", value)
    return _check(Setting("", name, str, tuple(choices), ""), value)  # type: ignore[return-value]


def check_text(name: str, value: object) -> str:
    """The value as a text."""
    if not isinstance(value, str):
        raise wrong_type(name, "a text", value)
    return value


def path_of(name: str, value: object, expected: str = "the name of a file") -> Path:
    """The value as a path."""
    if not isinstance(value, str | os.PathLike):
        raise wrong_type(name, expected, value)
    return Path(value)


def check_tokens(name: str, value: object) -> tuple[str, ...]:
    """The value as a sequence of at least one text, but not as one text, whose letters nobody means."""
    tokens = check_sequence(name, value, "a list of texts")
    if not tokens or not all(isinstance(token, str) for token in tokens):
        raise wrong_type(name, "a list of at least one text", value)
    return tokens


def check_sequence(name: str, value: object, expected: str) -> tuple[Any, ...]:
    """The elements of the value. `expected` names what it should be, for the error."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise wrong_type(name, expected, value)
    return tuple(value)


def check_curve(name: str, value: object) -> list[tuple[float, float]]:
    """The points of a curve."""
    expected = "a list of points (step, value)"
    points = [check_sequence(name, point, expected) for point in check_sequence(name, value, expected)]
    for point in points:
        if len(point) != 2 or not all(isinstance(number, Real) for number in point):
            raise ConfigError(f"`{name}` must be {expected}, but one point is {value_text(str(point))}.")
    return points


def wrong_type(name: str, expected: str, value: object, advice: str = "") -> ConfigError:
    """The error about a value of another type."""
    return ConfigError(f"`{name}` must be {expected}, but is {value_text(value)}. {advice}".rstrip())


def value_text(value: object) -> str:
    """A simple value as in TOML, and any other value by its type, on one line."""
    if isinstance(value, bool | int | float | str | None):
        return quote_value(value)
    words = type(value).__name__ + (
        f" of {type(value[0]).__name__}s" if isinstance(value, list | tuple) and value else ""
    )
    return f"{'an' if words[0].lower() in 'aeiou' else 'a'} {words}"


def _check(setting: Setting, value: object) -> object:
    if not isinstance(value, bool | int | float | str | None):
        raise wrong_type(setting.name, "a whole number" if setting.kind is int else "a number", value)
    return setting.check(value, f"`{setting.name}`")


def check_figure_path(path: Path, name: str = "path") -> None:
    """Raise if `save_figure` could not write to `path`, before time goes into the figure.

    `name` is the flag or parameter that holds the path. Raises ConfigError about the path, and MissingExtraError
    without matplotlib.
    """
    check_target(path, name, "figure.png")
    ending = path.suffix[1:].lower()
    if ending not in _FORMATS:
        hint = did_you_mean(ending, _FORMATS) or f" Use a name that ends in .{', .'.join(_FORMATS)}."
        raise ConfigError(f"`{path}` does not have the extension of a figure.{hint}")
    if not has_matplotlib():
        raise MissingExtraError(f"`{name}`", "matplotlib")


def has_matplotlib() -> bool:
    """Whether matplotlib is installed, without importing it."""
    return find_spec("matplotlib") is not None

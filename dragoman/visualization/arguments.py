"""Checks of the arguments of figures, and the models in them. Errors are those of settings."""

import operator
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from dragoman.config.fields import Setting, did_you_mean, quote_value
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.bundle import Model
    from dragoman.inference.translator import Translator
    from dragoman.model.transformer import Transformer


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
    if value not in choices or not isinstance(value, str):
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise ConfigError(f"`{name}` must be one of {', '.join(choices)}, but is {value_text(value)}.{hint}")
    return value


def check_text(name: str, value: object) -> str:
    """The value as a text."""
    if not isinstance(value, str):
        raise wrong_type(name, "a text", value)
    return value


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


def wrong_type(name: str, expected: str, value: object, advice: str = "") -> ConfigError:
    """The error about a value of another type."""
    return ConfigError(f"`{name}` must be {expected}, but is {value_text(value)}. {advice}".rstrip())


def value_text(value: object) -> str:
    """A simple value as in TOML, and any other value by its type, on one line."""
    return quote_value(value) if isinstance(value, bool | int | float | str | None) else f"a {type(value).__name__}"


def _check(setting: Setting, value: object) -> object:
    if not isinstance(value, bool | int | float | str | None):
        raise wrong_type(setting.name, "a whole number" if setting.kind is int else "a number", value)
    return setting.check(value, f"`{setting.name}`")


OneTranslator: TypeAlias = "Translator | Model"
"""A translator, or one model of an ensemble."""


def transformer_of(model: object) -> "Transformer":
    """The Transformer that is given, or that translates."""
    from dragoman.bundle import Model
    from dragoman.inference.translator import Translator
    from dragoman.model.transformer import Transformer

    if isinstance(model, Transformer):
        return model
    if not isinstance(model, Translator | Model):
        expected = "a Transformer, a translator or ModelSettings"
        raise wrong_type("model", expected, model, "Load a translator with `dragoman.load`.")
    return model_of(model, "model").transformer


def model_of(translator: object, name: str = "translator") -> "Model":
    """The model of a translator, with its tokenizers, and with the translator's settings of the search.

    An ensemble has several models, of which the caller chooses one.
    """
    from dragoman.bundle import Model
    from dragoman.inference.translator import Translator

    if isinstance(translator, Model):
        return translator
    if not isinstance(translator, Translator):
        raise wrong_type(name, "a translator", translator, "Load one with `dragoman.load`.")
    models = translator.models
    if len(models) > 1:
        raise ConfigError(f"`{name}` is an ensemble of {len(models)} models. Give one, such as `{name}.models[0]`.")
    if not models:
        raise ConfigError(f"`{name}` has a search, but no model to look into. Load one with `dragoman.load`.")
    return replace(models[0], config=replace(models[0].config, inference=translator.settings))

"""Which model a figure shows: a `Transformer`, or the model of a translator. Raises ConfigError for anything else."""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from dragoman.errors import ConfigError
from dragoman.visualization.arguments import wrong_type

if TYPE_CHECKING:
    from dragoman.bundle import Model
    from dragoman.inference.translator import Translator
    from dragoman.model.transformer import Transformer

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

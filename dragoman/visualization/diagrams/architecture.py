"""The model that a figure shows, and its sizes: shapes of tensors and numbers of parameters."""

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from dragoman.bundle import Model
from dragoman.config import ModelSettings
from dragoman.config.checking import check_shape, check_vocabularies
from dragoman.config.fields import model_settings
from dragoman.display import shape_text
from dragoman.errors import ConfigError
from dragoman.inference.translator import Translator
from dragoman.model.shapes import parameter_shapes
from dragoman.visualization.arguments import check_count, wrong_type

if TYPE_CHECKING:
    from dragoman.model.transformer import Transformer

AnyArchitecture: TypeAlias = "Transformer | Translator | Model | ModelSettings"

PAPERS_VOCABULARY = 37_000
"""Entries of the vocabulary that both languages share in the paper (section 5.1)."""


@dataclass(frozen=True)
class Architecture:
    """Settings of a model and the sizes of its vocabularies."""

    settings: ModelSettings
    src_vocab_size: int
    tgt_vocab_size: int

    @cached_property
    def counts(self) -> dict[str, int]:
        """The number of parameters of every tensor, by its name in the model. A tied tensor has its first name."""
        shapes = parameter_shapes(self.settings, self.src_vocab_size, self.tgt_vocab_size)
        return {name: math.prod(shape) for name, shape in shapes.items()}

    @property
    def total(self) -> int:
        """The number of parameters of the model."""
        return sum(self.counts.values())

    @property
    def head_width(self) -> int:
        """The width K of a head."""
        return self.settings.d_model // self.settings.num_heads

    def count(self, part: str) -> int:
        """The number of parameters of a part, such as "encoder.layers.0.self_attn"."""
        return sum(count for name, count in self.counts.items() if name == part or name.startswith(f"{part}."))

    def shared_text(self) -> str:
        """Which matrices are one tensor."""
        return {
            "all": "One shared tensor: source embedding = target embedding = linear",
            "decoder": "One shared tensor: target embedding = linear",
            "none": "No shared tensors",
        }[self.settings.tie]

    def shape(self, *sizes: str | int) -> str:
        """A shape of letters and numbers. "D", "H", "K", "F" and "V" become the model's numbers."""
        settings = self.settings
        numbers = {
            "D": settings.d_model,
            "H": settings.num_heads,
            "K": self.head_width,
            "F": settings.d_ff,
            "V": self.tgt_vocab_size,
        }
        return shape_text(numbers.get(size, size) for size in sizes)  # type: ignore[arg-type]


def architecture_of(
    model: object, src_vocab_size: int | None = None, tgt_vocab_size: int | None = None
) -> Architecture:
    """The architecture of a model. The sizes of vocabularies belong to `ModelSettings`, which do not have them.

    Raises ConfigError if `model` is something else, or if it cannot have these sizes.
    """
    if isinstance(model, ModelSettings):
        check_shape(model_settings(asdict(model)))
        src = check_count("src_vocab_size", PAPERS_VOCABULARY if src_vocab_size is None else src_vocab_size)
        tgt = check_count("tgt_vocab_size", src if tgt_vocab_size is None else tgt_vocab_size)
        check_vocabularies(model, src, tgt)
        return Architecture(model, src, tgt)
    found = transformer_of(model)
    for name, size in (("src_vocab_size", src_vocab_size), ("tgt_vocab_size", tgt_vocab_size)):
        if size is not None:
            raise ConfigError(f"`{name}` is a size of the model already, but {size} is given. Leave it out.")
    return Architecture(found.settings, found.src_vocab_size, found.tgt_vocab_size)


def transformer_of(model: object) -> "Transformer":
    """The Transformer that is given, or that translates."""
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

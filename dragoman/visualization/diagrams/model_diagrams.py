"""Diagrams of the whole model, of its stacks, and of one layer with its sublayers."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from matplotlib.figure import Figure

from dragoman.bundle import Model, resolve_model_folder
from dragoman.config import ModelSettings
from dragoman.config.checking import check_shape, check_vocabularies
from dragoman.display import shape_text
from dragoman.errors import ConfigError
from dragoman.inference.translator import Translator
from dragoman.model.shapes import parameter_shapes
from dragoman.visualization.arguments import check_choice, check_count, wrong_type
from dragoman.visualization.diagrams.drawing import INK, MEMORY, Block, Drawing, Point, Tower, new_drawing

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
        check_shape(model)
        src = check_count("src_vocab_size", PAPERS_VOCABULARY if src_vocab_size is None else src_vocab_size)
        tgt = check_count("tgt_vocab_size", src if tgt_vocab_size is None else tgt_vocab_size)
        check_vocabularies(model, src, tgt)
        return Architecture(model, src, tgt)
    found = transformer_of(model)
    for name, size in (("src_vocab_size", src_vocab_size), ("tgt_vocab_size", tgt_vocab_size)):
        if size is not None:
            raise ConfigError(f"`{name}` is a size of the model already, but {size} is given. Leave it out.")
    return Architecture(found.settings, found.src_vocab_size, found.tgt_vocab_size)


def transformer_of(
    model: object, name: str = "model", expected: str = "a Transformer, a translator or ModelSettings"
) -> "Transformer":
    """The Transformer that is given, or that translates. `name` and `expected` are for the error about another type."""
    from dragoman.model.transformer import Transformer

    if isinstance(model, Transformer):
        return model
    return model_of(model, name, expected).transformer


def model_of(translator: object, name: str = "translator", expected: str = "a translator") -> "Model":
    """The model of a translator, of a run or in a folder, with its tokenizers and the settings of the search.

    An ensemble has several models, of which the caller chooses one. `expected` is for the error about another type.
    """
    if isinstance(translator, os.PathLike) and hasattr(translator, "translator"):
        translator = translator.translator()  # a run keeps its translator, so that it is loaded once
    if isinstance(translator, str | os.PathLike):
        translator = Model.load(resolve_model_folder(Path(translator)))
    if isinstance(translator, Model):
        return translator
    if not isinstance(translator, Translator):
        raise wrong_type(name, expected, translator, "Load a translator with `dragoman.load`.")
    models = translator.models
    if len(models) > 1:
        raise ConfigError(f"`{name}` is an ensemble of {len(models)} models. Give one, such as `{name}.models[0]`.")
    if not models:
        raise ConfigError(f"`{name}` has a search, but no model to look into. Load one with `dragoman.load`.")
    return replace(models[0], config=replace(models[0].config, inference=translator.settings))


_WIDTH, _ENCODER_X, _DECODER_X = 8.2, 2.4, 5.8
_MEMORY_X = (_ENCODER_X + _DECODER_X) / 2
_MOST_LAYERS = 8


def plot_transformer(
    model: AnyArchitecture, src_vocab_size: int | None = None, tgt_vocab_size: int | None = None
) -> Figure:
    """Plot the architecture of a model as figure 1 of the paper, with its shapes and numbers of parameters.

    Layer norm is drawn before or after the sublayers, as the model has it. A number in a block of a layer is the number
    of parameters in one layer.

    Parameters
    ----------
    model : Transformer, Translator, Model or ModelSettings
        The model, or its settings.
    src_vocab_size, tgt_vocab_size : int, optional
        Sizes of the vocabularies, only for `ModelSettings`. The default is the paper's 37,000 for both.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If `model` is something else or an ensemble, or if a size is wrong.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", figure 1.

    Examples
    --------
    >>> plot_transformer(Transformer.build(8000, 8000, preset="tiny"))
    """
    one = architecture_of(model, src_vocab_size, tgt_vocab_size)
    with new_drawing(_WIDTH) as drawing:
        encoder = LayerTower(_embedded(drawing, one, "src"), one, "encoder")
        encoder.add_layer()
        encoder.close()
        decoder = LayerTower(_embedded(drawing, one, "tgt"), one, "decoder")
        decoder.add_layer(_memory(encoder.tower, one, encoder.tower.top + 0.22))
        decoder.close()
        add_output(decoder.tower, one)
        order = "before each sublayer" if one.settings.norm_first else "after each sublayer, as in the paper"
        notes = (
            f"Layer norm {order} (norm_first = {one.settings.norm_first})",
            one.shared_text(),
            f"Dropout {one.settings.dropout:g} after the embeddings and after each sublayer (not drawn)",
            "B sentences, S source tokens, T target tokens",
            "Numbers after a colon: parameters; inside a stack, of one layer",
        )
        above_encoder = encoder.tower.top + 0.42  # the title is in the free corner there
        drawing.title(f"Transformer with {one.total:,} parameters", "\n".join(notes), above_encoder)
        return drawing.finish()


def _embedded(drawing: Drawing, one: Architecture, side: str) -> Tower:
    """The embedding of one side and its positional encoding, at the foot of a tower."""
    is_source = side == "src"
    x, length, outwards = (_ENCODER_X, "S", -1) if is_source else (_DECODER_X, "T", 1)
    drawing.label((x, 0.12), f"{'source' if is_source else 'target'} tokens  B x {length}", "center", 8.5, INK)
    tower = Tower(drawing, x, 0.22)
    size = one.src_vocab_size if is_source else one.tgt_vocab_size
    own = one.counts.get(f"{side}_embedding.weight")
    note = f"{size} x {one.settings.d_model}: " + ("shared" if own is None else f"{own:,}")
    tower.block(f"{'Source' if is_source else 'Target'} embedding", "embedding", note)
    y, beside = tower.plus().y, x + outwards
    drawing.wave(beside, y)
    drawing.arrow((beside - outwards * 0.15, y), (x + outwards * 0.1, y))
    learned = one.counts.get(f"{side}_embedding.positions")
    kind = f"{one.settings.positions}\npositions" + ("" if learned is None else f": {learned:,}")
    drawing.label((beside + outwards * 0.2, y), kind, "right" if is_source else "left")
    tower.rise(0.26, one.shape("B", length, "D"))
    return tower


def _memory(tower: Tower, one: Architecture, level: float) -> list[Point]:
    """Name the memory, and return its points on the way from the encoder's top to the decoder, at a height."""
    x = (tower.x + _MEMORY_X) / 2
    tower.drawing.label((x, level + 0.1), f"memory  {one.shape('B', 'S', 'D')}", "center", color=MEMORY)
    return [(tower.x, tower.top), (tower.x, level), (_MEMORY_X, level)]


def plot_stacks(model: AnyArchitecture, src_vocab_size: int | None = None, tgt_vocab_size: int | None = None) -> Figure:
    """Plot encoder and decoder as stacks of layers, with the memory that goes from the encoder to every decoder layer.

    Parameters
    ----------
    model : Transformer, Translator, Model or ModelSettings
        The model, or its settings. Of a stack with more than 8 layers, the first three and the last are drawn.
    src_vocab_size, tgt_vocab_size : int, optional
        Sizes of the vocabularies, only for `ModelSettings`. The default is the paper's 37,000 for both.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If `model` is something else or an ensemble, or if a size is wrong.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.1.

    Examples
    --------
    >>> plot_stacks(ModelSettings(preset="base"))
    """
    one = architecture_of(model, src_vocab_size, tgt_vocab_size)
    settings = one.settings
    with new_drawing(_WIDTH) as drawing:
        encoder, decoder = (_embedded(drawing, one, side) for side in ("src", "tgt"))
        _stack(encoder, one, "encoder", settings.num_encoder_layers)
        layers = _stack(decoder, one, "decoder", settings.num_decoder_layers)
        level = max(encoder.top + 0.22, layers[-1].y)
        drawing.arrow(*_memory(encoder, one, level), color=MEMORY, head=False)
        for layer in layers:
            drawing.arrow((_MEMORY_X, level), (_MEMORY_X, layer.y), (layer.left, layer.y), color=MEMORY)
        add_output(decoder, one)
        counts = [f"{one.count(f'{stack}.layers.0'):,} in each {stack} layer" for stack in ("encoder", "decoder")]
        notes = "\n".join((*counts, one.shared_text()))
        drawing.title(f"Transformer with {one.total:,} parameters", notes, level + 0.2)
        return drawing.finish()


def _stack(tower: Tower, one: Architecture, stack: str, num_layers: int) -> list[Block]:
    """Add the layers of a stack, each as a row of its sublayers, and return their places."""
    drawing, layers = tower.drawing, []
    outwards, align = (-1, "right") if stack == "encoder" else (1, "left")
    sublayers = [("self-attention", "attention"), ("feed-forward", "feed_forward")]
    if stack == "decoder":
        sublayers.insert(1, ("cross-attention", "attention"))
    width = (tower.width - 0.08) / len(sublayers)
    for number in range(1, num_layers + 1):
        if num_layers > _MOST_LAYERS and 3 < number < num_layers:
            continue
        if num_layers > _MOST_LAYERS and number == num_layers:
            tower.finish("...", 0.2)
            tower.top += 0.4
        layer = drawing.block((tower.x, tower.top + 0.2), "", "layer", size=(tower.width, 0.5))
        tower.join(layer)
        for place, (text, kind) in enumerate(sublayers):
            foot = layer.left + 0.04 + (place + 0.5) * width, layer.bottom + 0.05
            size = width - 0.04, layer.height - 0.1
            drawing.block(foot, "", kind, text.replace("-", "-\n", 1), size)
        drawing.label((tower.x + outwards * (tower.width / 2 + 0.1), layer.y), f"layer {number}", align)
        layers.append(layer)
    if one.settings.norm_first:
        tower.block(f"Layer norm: {one.count(f'{stack}.norm'):,}", "norm")
    return layers


BESIDE = 0.15
"""Inches between a residual connection and the blocks that it passes."""
ARROW = "\N{RIGHTWARDS ARROW}"
_ATTENTIONS = {
    ("encoder", "self"): "Multi-head\nself-attention",
    ("decoder", "self"): "Masked multi-head\nself-attention",
    ("decoder", "cross"): "Multi-head\ncross-attention",
}


class LayerTower:
    """A tower that a layer of one stack is added to. `detailed` shows dropout, every linear layer, and all shapes."""

    def __init__(self, tower: Tower, one: Architecture, stack: str, *, detailed: bool = False) -> None:
        self.tower, self.one, self.stack, self.detailed = tower, one, stack, detailed
        self.num_layers: int = getattr(one.settings, f"num_{stack}_layers")
        self.side, self.length = (-1, "S") if stack == "encoder" else (1, "T")

    def add_layer(self, memory: Sequence[Point] = ()) -> None:
        """Add all sublayers in a frame. `memory` is the way of the encoder's output to cross-attention."""
        tower, half = self.tower, self.tower.width / 2
        bottom = tower.top
        tower.rise(0.12)
        self._sublayer("self_attn", lambda: self._attention("self"))
        if self.stack == "decoder":
            self._sublayer("cross_attn", lambda: self._attention("cross", memory))
        self._sublayer("feed_forward", self._feed_forward)
        left, right = (half + (2 * BESIDE if side == self.side else BESIDE) for side in (-1, 1))
        tower.drawing.frame(tower.x - left, tower.x + right, bottom, tower.top + 0.12)
        edge = self.side * (half + 2 * BESIDE + 0.1)
        if not self.detailed:
            align = "right" if edge < 0 else "left"
            place = tower.x + edge, (bottom + tower.top) / 2
            tower.drawing.label(place, f"{self.num_layers} x", align, 13.0, INK)

    def close(self) -> None:
        """Add the layer norm above the last layer, if the model has one."""
        self.tower.rise(0.12)
        if self.one.settings.norm_first:
            self.tower.block(f"Layer norm: {self.one.count(f'{self.stack}.norm'):,}", "norm", gap=0.2)

    def shape(self, *sizes: str) -> str:
        """The shape of the states, or of sizes after batch and length."""
        return self.one.shape("B", self.length, *(sizes or ("D",)))

    def _sublayer(self, name: str, draw: Callable[[], None]) -> None:
        """Draw a sublayer between norm and residual connection, in the model's order."""
        tower, norm = self.tower, f"{self.one.count(f'{self.stack}.layers.0.{name}_residual.norm'):,}"
        start, norm_first = tower.top + 0.1, self.one.settings.norm_first
        if norm_first:
            tower.block(f"Layer norm: {norm}", "norm", gap=0.26)
        else:
            tower.rise(0.1)
        draw()
        if self.detailed:
            tower.block(f"Dropout {self.one.settings.dropout:g}", "data", shape=self.shape())
        end = tower.plus() if norm_first or self.detailed else tower.block(f"Add & norm: {norm}", "norm", gap=0.2)
        if self.detailed and not norm_first:
            tower.block(f"Layer norm: {norm}", "norm")
        tower.pass_by(start, end, self.side)

    def _attention(self, kind: str, memory: Sequence[Point] = ()) -> None:
        settings = self.one.settings
        count = self.one.count(f"{self.stack}.layers.0.{kind}_attn")
        note = f"{settings.num_heads} heads of {self.one.head_width}: {count:,}"
        if self.detailed and settings.attention_dropout:
            note += f"\ndropout of weights {settings.attention_dropout:g}"
        self.tower.attention(_ATTENTIONS[self.stack, kind], note, memory)

    def _feed_forward(self) -> None:
        settings, tower = self.one.settings, self.tower
        name = f"{self.stack}.layers.0.feed_forward"
        activation = {"relu": "ReLU", "gelu": "GELU", "swish": "Swish"}[settings.activation]
        if not self.detailed:
            sizes = f" {ARROW} ".join(map(str, (settings.d_model, settings.d_ff, settings.d_model)))
            tower.block(f"Feed-forward, {activation}", "feed_forward", f"{sizes}: {self.one.count(name):,}")
            return
        tower.block(f"Linear: {self.one.count(f'{name}.inner'):,}", "feed_forward")
        dropout = f", dropout {settings.activation_dropout:g}" if settings.activation_dropout else ""
        tower.block(activation + dropout, "feed_forward", shape=self.shape("F"))
        tower.block(f"Linear: {self.one.count(f'{name}.outer'):,}", "feed_forward", shape=self.shape("F"))


def add_output(tower: Tower, one: Architecture, *, is_last: bool = True) -> Block:
    """Add the projection to the vocabulary and the softmax, which is returned. `is_last` names what comes out."""
    settings, own = one.settings, one.counts.get("projection.weight")
    bias = one.counts.get("projection.bias", 0)
    weights = "shared" if own is None else f"{own + bias:,}"
    count = f"{weights} + {bias:,}" if own is None and bias else weights
    sizes = f"{settings.d_model} {ARROW} {one.tgt_vocab_size}"
    tower.block("Linear", "linear", f"{sizes}: {count}", shape=one.shape("B", "T", "D"))
    softmax = tower.block("Softmax", "softmax", shape=f"logits  {one.shape('B', 'T', 'V')}")
    if is_last:
        tower.finish(f"probabilities of the next token  {one.shape('B', 'T', 'V')}")
    return softmax


def plot_layer(model: AnyArchitecture, stack: Literal["encoder", "decoder"] = "encoder") -> Figure:
    """Plot one layer: its sublayers, residual connections, dropout and layer norm, in the order that the model has.

    Parameters
    ----------
    model : Transformer, Translator, Model or ModelSettings
        The model, or its settings.
    stack : {"encoder", "decoder"}
        The stack of the layer. A decoder layer also attends to the memory, the output of the encoder.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If `model` is something else or an ensemble, or if there is no such stack.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.1.

    Examples
    --------
    >>> plot_layer(ModelSettings(preset="base", norm_first=False), "decoder")
    """
    one = architecture_of(model)
    check_choice("stack", stack, ("encoder", "decoder"))
    with new_drawing(5.6) as drawing:
        tower = Tower(drawing, 2.9, 0.22, 2.2)
        layer = LayerTower(tower, one, stack, detailed=True)
        drawing.label((tower.x, 0.12), f"from the layer below  {layer.shape()}", "center", 8.5, INK)
        tower.rise(0.2)
        if stack == "decoder":
            drawing.label((0.65, 0.18), f"memory\n{one.shape('B', 'S', 'D')}", "center", 8.5, MEMORY)
        layer.add_layer([(0.65, 0.36)] if stack == "decoder" else ())
        tower.rise(0.12)
        tower.finish(f"to the layer above  {layer.shape()}", 0.16)
        count = one.count(f"{stack}.layers.0")
        order = "before" if one.settings.norm_first else "after"
        notes = f"Layer norm {order} the sublayers (norm_first = {one.settings.norm_first})"
        drawing.title(f"One of {layer.num_layers} {stack} layers: {count:,} parameters", notes)
        return drawing.finish()

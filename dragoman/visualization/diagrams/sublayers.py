"""Draws a layer on a tower: sublayers with their residual connections, and layer norm before or after them."""

from collections.abc import Callable, Sequence

from dragoman.visualization.diagrams.architecture import Architecture
from dragoman.visualization.diagrams.drawing import Block, Point, Tower

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
            tower.drawing.times(tower.x + edge, (bottom + tower.top) / 2, self.num_layers, align)

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
        start = tower.top + 0.1
        if self.one.settings.norm_first:
            tower.block(f"Layer norm: {norm}", "norm", gap=0.26)
            draw()
            self._dropout()
            end = tower.plus()
        elif self.detailed:
            tower.rise(0.1)
            draw()
            self._dropout()
            end = tower.plus()
            tower.block(f"Layer norm: {norm}", "norm")
        else:
            tower.rise(0.1)
            draw()
            end = tower.block(f"Add & norm: {norm}", "norm", gap=0.2)
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

    def _dropout(self) -> None:
        if self.detailed:
            self.tower.block(f"Dropout {self.one.settings.dropout:g}", "data", shape=self.shape())


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

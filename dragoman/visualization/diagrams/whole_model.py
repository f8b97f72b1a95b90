"""Diagrams of the whole Transformer (Vaswani et al. 2017, figure 1), and of its two stacks."""

from typing import TYPE_CHECKING

from dragoman.visualization.diagrams.architecture import AnyArchitecture, Architecture, architecture_of
from dragoman.visualization.diagrams.drawing import INK, MEMORY, Block, Drawing, Point, Tower
from dragoman.visualization.diagrams.sublayers import LayerTower, add_output
from dragoman.visualization.figures.figure import drawing_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _ENCODER_X, _DECODER_X = 8.2, 2.4, 5.8
_MEMORY_X = (_ENCODER_X + _DECODER_X) / 2
_MOST_LAYERS = 8


def plot_transformer(
    model: AnyArchitecture, src_vocab_size: int | None = None, tgt_vocab_size: int | None = None
) -> "Figure":
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
    with drawing_style():
        drawing = Drawing(_WIDTH)
        encoder = LayerTower(_embedded(drawing, one, "src"), one, "encoder")
        encoder.add_layer()
        encoder.close()
        decoder = LayerTower(_embedded(drawing, one, "tgt"), one, "decoder")
        decoder.add_layer(_memory(encoder.tower, one, encoder.tower.top + 0.22))
        decoder.close()
        add_output(decoder.tower, one)
        _describe(drawing, one, encoder.tower.top + 0.42)
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
    added = tower.plus()
    wave = drawing.wave(x + outwards * 1.0, added.y)
    drawing.arrow((wave.x - outwards * 0.15, wave.y), (x + outwards * 0.1, wave.y))
    learned = one.counts.get(f"{side}_embedding.positions")
    kind = f"{one.settings.positions}\npositions" + ("" if learned is None else f": {learned:,}")
    drawing.label((wave.x + outwards * 0.2, wave.y), kind, "right" if is_source else "left")
    tower.rise(0.26, one.shape("B", length, "D"))
    return tower


def _memory(tower: Tower, one: Architecture, level: float) -> list[Point]:
    """Name the memory, and return its points on the way from the encoder's top to the decoder, at a height."""
    x = (tower.x + _MEMORY_X) / 2
    tower.drawing.label((x, level + 0.1), f"memory  {one.shape('B', 'S', 'D')}", "center", color=MEMORY)
    return [(tower.x, tower.top), (tower.x, level), (_MEMORY_X, level)]


def _describe(drawing: Drawing, one: Architecture, left_top: float) -> None:
    """Title and legend, in the free corner above the encoder."""
    settings = one.settings
    order = "before each sublayer" if settings.norm_first else "after each sublayer, as in the paper"
    notes = (
        f"Layer norm {order} (norm_first = {settings.norm_first})",
        one.shared_text(),
        f"Dropout {settings.dropout:g} after the embeddings and after each sublayer (not drawn)",
        "B sentences, S source tokens, T target tokens",
        "Numbers after a colon: parameters; inside a stack, of one layer",
    )
    drawing.title(f"Transformer with {one.total:,} parameters", "\n".join(notes), left_top)


def plot_stacks(
    model: AnyArchitecture, src_vocab_size: int | None = None, tgt_vocab_size: int | None = None
) -> "Figure":
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
    with drawing_style():
        drawing = Drawing(_WIDTH)
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

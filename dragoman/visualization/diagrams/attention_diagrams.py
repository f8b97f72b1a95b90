"""Diagrams of scaled dot-product attention and of several heads (Vaswani et al. 2017, figure 2)."""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dragoman.visualization.arguments import check_choice
from dragoman.visualization.diagrams.drawing import INK, MEMORY, SOFT, Drawing, Tower, new_drawing
from dragoman.visualization.diagrams.model_diagrams import AnyArchitecture, Architecture, architecture_of
from dragoman.visualization.inspection.inspection import KIND_NAMES, AttentionKind

# Letters of the lengths: queries, then keys and values.
_LENGTHS = {"cross": ("T", "S"), "encoder_self": ("S", "S"), "decoder_self": ("T", "T")}
_WORDS = {"Q": "queries", "K": "keys", "V": "values"}
_CELLS = 6


def plot_attention(model: AnyArchitecture, kind: AttentionKind = "cross") -> Figure:
    """Plot scaled dot-product attention step by step, with the shape of every tensor and the mask.

    Parameters
    ----------
    model : Transformer, Translator, Model or ModelSettings
        The model, or its settings.
    kind : {"cross", "encoder_self", "decoder_self"}
        The attention to show. The kinds have different lengths and masks.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If `model` is something else or an ensemble, or if there is no such kind.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", equation 1 and figure 2, left.

    Examples
    --------
    >>> plot_attention(ModelSettings(preset="base"), "decoder_self")
    """
    one = architecture_of(model)
    check_choice("kind", kind, KIND_NAMES)
    queries, keys = _LENGTHS[kind]
    scores = one.shape("B", "H", queries, keys)
    with new_drawing(7.0) as drawing:
        x, apart, values_x = 3.0, 0.75, 4.9
        inputs = {"Q": (x - apart, queries), "K": (x + apart, keys), "V": (values_x, keys)}
        for letter, (place, length) in inputs.items():
            drawing.label((place, 0.3), letter, "center", 11.0, INK)
            drawing.label((place, 0.12), one.shape("B", "H", length, "K"), "center")
        tower = Tower(drawing, x, 0.44, 2.3)
        product = drawing.block((x, 0.7), "Matrix product", "attention", "Q K\u1d40", (2.3, 0.0))
        for place in (x - apart, x + apart):
            drawing.arrow((place, tower.top), (place, product.bottom))
        tower.top = product.top
        tower.block("Scale", "data", f"divide by \u221a{one.head_width}", scores)
        mask = tower.block("Mask", "data", "masked scores become \u2212\u221e", scores)
        _draw_mask(drawing, mask.left, mask.y, kind)
        tower.block("Softmax", "softmax", "each row sums to 1", scores)
        if one.settings.attention_dropout:
            tower.block(f"Dropout {one.settings.attention_dropout:g}", "data", shape=scores)
        last = tower.block("Matrix product", "attention", "weights times V", scores)
        drawing.arrow((values_x, 0.44), (values_x, last.y), (last.right, last.y))
        tower.finish(f"weighted sums of the values  {one.shape('B', 'H', queries, 'K')}")
        formula = f"Attention(Q, K, V) = softmax(Q K\u1d40 / \u221a{one.head_width}) V"
        drawing.title(formula, f"{KIND_NAMES[kind].capitalize()}: {_legend(one, kind)}")
        return drawing.finish()


def _legend(one: Architecture, kind: AttentionKind) -> str:
    queries, keys = _LENGTHS[kind]
    sides = {"S": "S source tokens", "T": "T target tokens"}
    lengths = " and ".join(sides[letter] for letter in sorted({queries, keys}))
    return f"B sentences, {one.settings.num_heads} heads of width {one.head_width}, {lengths}"


def _draw_mask(drawing: Drawing, right: float, y: float, kind: AttentionKind) -> None:
    """Draw a small mask to the left of a block, with an arrow to it: causal, or with two columns of padding."""
    size, left = 0.11, 0.75
    bottom = y - _CELLS * size / 2
    for row in range(_CELLS):
        for column in range(_CELLS):
            allowed = column <= row if kind == "decoder_self" else column < _CELLS - 2
            corner = (left + column * size, bottom + (_CELLS - 1 - row) * size)
            color = MEMORY if allowed else "#e6e6e6"
            drawing.axes.add_patch(Rectangle(corner, size, size, facecolor=color, edgecolor="white", linewidth=0.8))
    drawing.arrow((left + _CELLS * size + 0.06, y), (right, y))
    shape = "T x T" if kind == "decoder_self" else "B x 1 x 1 x S"
    drawing.label((left + _CELLS * size / 2, bottom - 0.1), shape, "center")
    meaning = "True (blue):\n" + ("not later" if kind == "decoder_self" else "not padding")
    drawing.label((left + _CELLS * size / 2, bottom + _CELLS * size + 0.17), meaning, "center")


def plot_multi_head_attention(model: AnyArchitecture, kind: AttentionKind = "cross") -> Figure:
    """Plot multi-head attention: projections, the split into heads, attention in every head, and the output projection.

    Parameters
    ----------
    model : Transformer, Translator, Model or ModelSettings
        The model, or its settings.
    kind : {"cross", "encoder_self", "decoder_self"}
        The attention to show. In cross-attention, keys and values come from the encoder.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If `model` is something else or an ensemble, or if there is no such kind.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.2.2 and figure 2, right.

    Examples
    --------
    >>> plot_multi_head_attention(ModelSettings(preset="base"))
    """
    one = architecture_of(model)
    check_choice("kind", kind, KIND_NAMES)
    queries, keys = _LENGTHS[kind]
    heads = one.settings.num_heads
    stack, name = ("decoder", "cross_attn") if kind == "cross" else (kind.removesuffix("_self"), "self_attn")
    part = f"{stack}.layers.0.{name}"
    projection = (one.count(f"{part}.in_weight") + one.count(f"{part}.in_bias")) // 3
    with new_drawing(7.4) as drawing:
        towers = {letter: Tower(drawing, x, 0.4, 1.9) for letter, x in (("Q", 1.35), ("K", 3.7), ("V", 6.05))}
        if kind == "cross":
            _feed(drawing, [towers["Q"]], f"decoder states  {one.shape('B', queries, 'D')}", INK)
            _feed(drawing, [towers["K"], towers["V"]], f"memory  {one.shape('B', keys, 'D')}", MEMORY)
        else:
            _feed(drawing, list(towers.values()), f"{stack} states  {one.shape('B', queries, 'D')}", INK)
        for letter, tower in towers.items():
            length = queries if letter == "Q" else keys
            tower.block(f"Linear $W^{letter}$", "linear", f"{_WORDS[letter]}: {projection:,}")
            tower.block("Split", "data", f"into {heads} heads", one.shape("B", length, "D"))
            drawing.label((tower.x + 0.09, tower.top + 0.15), one.shape("B", "H", length, "K"))
        top = towers["Q"].top + 0.32
        cards = min(heads, 4)
        note = f"{heads} heads at once"
        attention = drawing.block((3.7, top), "Scaled dot-product attention", "attention", note, (6.6, 0.62), cards)
        for tower in towers.values():
            drawing.arrow((tower.x, tower.top), (tower.x, attention.bottom))
        middle = Tower(drawing, 3.7, attention.top + 0.07 * (cards - 1), 2.4)
        sizes = f"{heads} x {one.head_width} = {one.settings.d_model}"
        middle.block("Concatenate", "data", sizes, one.shape("B", "H", queries, "K"))
        middle.block("Linear $W^O$", "linear", f"output: {one.count(f'{part}.out'):,}", one.shape("B", queries, "D"))
        middle.finish(one.shape("B", queries, "D"))
        title = f"Multi-head attention with {one.count(part):,} parameters"
        drawing.title(title, f"{KIND_NAMES[kind].capitalize()}: {_legend(one, kind)}")
        return drawing.finish()


def _feed(drawing: Drawing, towers: list[Tower], text: str, color: str) -> None:
    """Lead the tensor that the text names to some towers."""
    middle = (towers[0].x + towers[-1].x) / 2
    drawing.label((middle, 0.12), text, "center", 8.5, color)
    for tower in towers:
        drawing.arrow((middle, 0.24), (middle, tower.top), (tower.x, tower.top), color=SOFT, head=False)

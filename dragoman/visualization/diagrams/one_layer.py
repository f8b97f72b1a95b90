"""Diagram of one layer of a stack (Vaswani et al. 2017, sections 3.1 and 5.4)."""

from typing import TYPE_CHECKING, Literal

from dragoman.visualization.arguments import check_choice
from dragoman.visualization.diagrams.architecture import AnyArchitecture, architecture_of
from dragoman.visualization.diagrams.drawing import INK, MEMORY, Drawing, Tower
from dragoman.visualization.diagrams.sublayers import LayerTower
from dragoman.visualization.figures.figure import drawing_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_layer(model: AnyArchitecture, stack: Literal["encoder", "decoder"] = "encoder") -> "Figure":
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
    with drawing_style():
        drawing = Drawing(5.6)
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

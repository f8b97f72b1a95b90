"""Names and shapes of a Transformer's parameters, computed from its settings without building the model.

`load_bundle` compares model.safetensors with them, so that a translation without torch needs no Transformer, and a
hostile file is refused before arrays are made. The names are the same as those of `model/transformer.py`; change both
together. A linear layer has the weight (outputs, inputs), as `torch.nn.Linear` does.
"""

from collections.abc import Iterator

from dragoman.config import ModelSettings

# Shapes by name. The order is that of `Transformer.named_parameters`.
Shapes = dict[str, tuple[int, ...]]


def parameter_shapes(settings: ModelSettings, src_vocab_size: int, tgt_vocab_size: int) -> Shapes:
    """The shape of every distinct parameter, in the order of the model. A tied parameter has its first name.

    Parameters
    ----------
    settings
        The settings of the model. `settings.tie` selects the tensors that are one: with "all" the two embeddings and
        the projection, with "decoder" the target embedding and the projection.
    src_vocab_size, tgt_vocab_size
        Entries of the vocabularies, control tokens included.

    Raises
    ------
    ValueError
        If one tensor must embed two vocabularies of different sizes.
    """
    if settings.tie == "all" and src_vocab_size != tgt_vocab_size:
        raise ValueError(f"one tensor cannot embed vocabularies of {src_vocab_size} and {tgt_vocab_size} entries")
    return dict(_parameters(settings, src_vocab_size, tgt_vocab_size))


def tied_names(settings: ModelSettings) -> dict[str, tuple[str, ...]]:
    """The further names of each tied parameter, by its first name."""
    names: dict[str, dict[str, tuple[str, ...]]] = {
        "all": {"src_embedding.weight": ("tgt_embedding.weight", "projection.weight")},
        "decoder": {"tgt_embedding.weight": ("projection.weight",)},
        "none": {},
    }
    return names[settings.tie]


def _parameters(
    settings: ModelSettings, src_vocab_size: int, tgt_vocab_size: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, learned = settings.d_model, settings.positions == "learned"
    for side, vocab_size in (("src", src_vocab_size), ("tgt", tgt_vocab_size)):
        if side == "src" or settings.tie != "all":
            yield f"{side}_embedding.weight", (vocab_size, width)
        if learned:
            yield f"{side}_embedding.positions", (settings.max_positions, width)
    stacks = {
        "encoder": (settings.num_encoder_layers, ["self"]),
        "decoder": (settings.num_decoder_layers, ["self", "cross"]),
    }
    for stack, (num_layers, attentions) in stacks.items():
        for layer in range(num_layers):
            yield from _layer(settings, f"{stack}.layers.{layer}", attentions)
        if settings.norm_first:
            yield from _norm(f"{stack}.norm", width)
    if settings.tie == "none":
        yield "projection.weight", (tgt_vocab_size, width)
    if settings.projection_bias:
        yield "projection.bias", (tgt_vocab_size,)


def _layer(settings: ModelSettings, name: str, attentions: list[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, inner = settings.d_model, settings.d_ff
    for attention in attentions:  # query, key and value are one matrix of 3 * width rows, in this order
        for part, rows in (("in_", 3 * width), ("out.", width)):
            yield f"{name}.{attention}_attn.{part}weight", (rows, width)
            if settings.attention_bias:
                yield f"{name}.{attention}_attn.{part}bias", (rows,)
        yield from _norm(f"{name}.{attention}_attn_residual.norm", width)
    for part, (rows, columns) in {"inner": (inner, width), "outer": (width, inner)}.items():
        yield f"{name}.feed_forward.{part}.weight", (rows, columns)
        yield f"{name}.feed_forward.{part}.bias", (rows,)
    yield from _norm(f"{name}.feed_forward_residual.norm", width)


def _norm(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)

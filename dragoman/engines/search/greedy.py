"""Greedy search: the most probable token after each token, on the definition of the model, for reading and for lessons.

Translators search with an engine, which is faster.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from dragoman.devices.checks import check_sizes, describe_value
from dragoman.errors import DataError
from dragoman.model.attention import Cache
from dragoman.model.trace import TracedBatch, check_batch
from dragoman.model.transformer import Transformer
from dragoman.records import BOS_ID, EOS_ID


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """Compute without dropout and gradients inside the block. A model in training continues afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def greedy(model: Transformer, batch: TracedBatch, max_tokens: int = 100) -> list[list[int]]:
    """Translate a batch: write the most probable token after each token, until each sentence has its end.

    Keys and values are cached. The result is that of decoding by hand without a cache and without dropout.

    Parameters
    ----------
    model : Transformer
        The model. A model in training mode is in training mode afterwards.
    batch : Batch
        The sources, such as ``Batch.from_ids(ids)``. Targets are ignored.
    max_tokens : int
        Maximum number of tokens of a translation. It also ends at the last of the model's learned positions.

    Returns
    -------
    list of list of int
        The ids of each translation, without bos, and up to eos but without it.

    Raises
    ------
    ConfigError
        If `max_tokens` is not a whole number above 0.
    DataError
        If `model` is not a Transformer, if `batch` is not a batch, or if its ids do not fit the model.

    Examples
    --------
    >>> greedy(model, Batch.from_ids(tokenizers.src.encode_batch(["How are you?"])))
    [[52, 7, 19]]
    """
    if not isinstance(model, Transformer):
        words = "a Transformer, such as `translator.model.transformer`"  # type: ignore[unreachable]
        raise DataError(f"`model` must be {words}, but is {describe_value(model)}.")
    check_batch(batch)
    check_sizes(max_tokens=max_tokens)
    most = min(max_tokens, model.max_positions or max_tokens)
    ids = torch.full((len(batch.src_ids), 1), BOS_ID, device=model.device)
    cache: Cache = {}
    with without_dropout(model):
        memory = model.encode(batch.src_ids, batch.src_lengths)
        while ids.size(1) <= most and not ids.eq(EOS_ID).any(1).all():
            states = model.decode(ids[:, -1:], memory, batch.src_lengths, cache=cache)
            ids = torch.cat([ids, model.projection(states).argmax(-1)], dim=1)
    return [row[: [*row, EOS_ID].index(EOS_ID)] for row in ids[:, 1:].tolist()]

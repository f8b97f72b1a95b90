"""Checks of tensors and sizes that a user passes to models and batches.

Each error is one line: the name of the argument, what it must be, and what it is. No check waits for a GPU, so values
are only checked on the CPU.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dragoman.errors import ConfigError, DataError


def describe_value(value: object) -> str:
    """What a value is: "a float32 tensor (2, 3)", "a list"."""
    words = type(value).__name__
    if isinstance(value, Tensor):
        words = f"{str(value.dtype).removeprefix('torch.')} tensor {tuple(value.shape)}"
    return f"an {words}" if words[0].lower() in "aeiou" else f"a {words}"


def check_sizes(minimum: int = 1, **sizes: object) -> None:
    """Raise ConfigError unless all sizes are whole numbers of at least `minimum`."""
    for name, size in sizes.items():
        if not isinstance(size, int | np.integer) or isinstance(size, bool):
            shown = repr(size) if isinstance(size, bool | float | str) else describe_value(size)
            raise ConfigError(f"`{name}` must be a whole number, but is {shown}.")
        if size < minimum:
            raise ConfigError(f"`{name}` must be at least {minimum}, but is {size}.")


def check_heads(d_model: int, num_heads: int) -> None:
    """Raise ConfigError unless both are whole numbers above 0, and `num_heads` divides `d_model`."""
    check_sizes(d_model=d_model, num_heads=num_heads)
    if d_model % num_heads:
        raise ConfigError(
            f"`d_model` must be a multiple of `num_heads` ({num_heads}), but is {d_model}. Change one of them."
        )


def check_ids(name: str, ids: object, embedding: Tensor | None = None) -> None:
    """Raise DataError unless ids are an int64 tensor (B, T). With `embedding` (V, D), they must be below V."""
    if not isinstance(ids, Tensor) or ids.dim() != 2 or ids.dtype != torch.int64:
        hint = "" if isinstance(ids, Tensor) else " `dragoman.Batch.from_ids` pads lists of ids."
        raise DataError(
            f"`{name}` must be an int64 tensor (B, T), one row for each sentence, but is {describe_value(ids)}.{hint}"
        )
    if embedding is not None:
        _check_device(name, ids, embedding.device)
    if embedding is None or not ids.is_cpu or not ids.numel():
        return
    smallest, largest = (int(one) for one in ids.aminmax())
    if smallest < 0:
        raise DataError(f"`{name}` must not have negative ids, but has {smallest}.")
    if largest >= len(embedding):
        raise DataError(
            f"`{name}` must have ids below {len(embedding)}, the size of the vocabulary, but the largest is {largest}."
        )


def check_lengths(name: str, lengths: object, padded: Tensor | None = None) -> None:
    """Raise DataError unless lengths are an int64 tensor (B,). With `padded` (B, S, ...), they must fit it: 1 to S."""
    right = isinstance(lengths, Tensor) and lengths.dim() == 1 and lengths.dtype == torch.int64
    if not isinstance(lengths, Tensor) or not right or (padded is not None and lengths.shape != padded.shape[:1]):
        shape = "(B,)" if padded is None else f"({len(padded)},)"
        raise DataError(
            f"`{name}` must be an int64 tensor {shape}, one number for each sentence, but is {describe_value(lengths)}."
        )
    if padded is None:
        return
    _check_device(name, lengths, padded.device)
    if lengths.is_cpu and lengths.numel():
        numbers, size = lengths.tolist(), padded.size(1)  # up to some hundred, Python is faster than torch
        smallest, largest = min(numbers), max(numbers)
        if smallest < 1 or largest > size:
            wrong = smallest if smallest < 1 else largest
            raise DataError(f"`{name}` must be from 1 to {size}, the padded length, but has {wrong}.")


def check_memory(memory: object, tgt_ids: Tensor, d_model: int) -> None:
    """Raise DataError unless the memory is (B, S, D), with one row for each row of the targets."""
    if (
        not isinstance(memory, Tensor)
        or memory.dim() != 3
        or (memory.size(0), memory.size(2)) != (len(tgt_ids), d_model)
    ):
        raise DataError(
            f"`memory` must be the output of `encode`, a tensor ({len(tgt_ids)}, S, {d_model}) for these `tgt_ids`, "
            f"but is {describe_value(memory)}."
        )


def check_width(name: str, hidden: object, d_model: int) -> None:
    """Raise DataError unless hidden states are (..., D)."""
    if not isinstance(hidden, Tensor) or not hidden.dim() or hidden.size(-1) != d_model:
        raise DataError(f"`{name}` must be a tensor (B, T, {d_model}), but is {describe_value(hidden)}.")


def check_attention_inputs(query: object, key: object, value: object, d_model: int) -> None:
    """Raise DataError unless the shapes are (B, T, D), (B, S, D) and (B, S, D)."""
    shapes = []
    for name, each in (("query", query), ("key", key), ("value", value)):
        if not isinstance(each, Tensor) or each.dim() != 3 or each.size(2) != d_model:
            raise DataError(f"`{name}` must be a tensor (B, T, {d_model}), but is {describe_value(each)}.")
        shapes.append(tuple(each.shape))
    if shapes[1] != shapes[2] or shapes[0][0] != shapes[1][0]:
        raise DataError(
            "`query`, `key` and `value` must be (B, T, D), (B, S, D) and (B, S, D), "
            f"but are {shapes[0]}, {shapes[1]} and {shapes[2]}."
        )


def check_mask(mask: object, scores: Sequence[int]) -> None:
    """Raise DataError unless a mask is Boolean and broadcasts to the shape (B, H, T, S) of the scores.

    A mask (B, T, S) or (H, T, S) is refused. If B equals H, nobody can tell which of the two it is.
    """
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        # Nobody can tell a mask of ones from an additive mask of zeros, and the wrong conversion inverts the mask.
        advice = " Write `mask.bool()` if 1 means so, or `mask == 0` if it has 0 there and minus infinity elsewhere."
        convert = advice if isinstance(mask, Tensor) else ""
        raise DataError(
            "`mask` must be a bool tensor, True where a query may attend to a key, "
            f"but is {describe_value(mask)}.{convert}"
        )
    if mask.dim() == 3 and len(scores) == 4 and mask.size(0) > 1 and mask.size(0) in scores[:2]:
        raise DataError(
            f"`mask` must have 2 or 4 dimensions, but is {describe_value(mask)}. Use `mask[:, None]` if it has one "
            "mask for each sentence, or `mask[None]` if it has one for each head."
        )
    sizes = zip(reversed(mask.shape), reversed(scores), strict=False)
    if mask.dim() > len(scores) or any(own not in (1, size) for own, size in sizes):
        padding = tuple(mask.shape) == (scores[0], scores[-1])
        advice = " Use `mask[:, None, None]` if it has the keys of each sentence." if padding else ""
        raise DataError(
            f"`mask` must broadcast to (B, H, T, S), which is {tuple(scores)} here, but is {describe_value(mask)}."
            f"{advice}"
        )


def _check_device(name: str, tensor: Tensor, device: torch.device) -> None:
    if tensor.device != device:
        raise DataError(
            f"`{name}` must be on {device}, the device of the model, but is on {tensor.device}. "
            f'Move it with `{name}.to("{device}")`.'
        )

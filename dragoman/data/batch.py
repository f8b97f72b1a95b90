"""The `Batch` record: padded ids and their lengths, as `dragoman.data` hands them to models and training."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from operator import index
from typing import SupportsIndex

import numpy as np
import torch
from torch import Tensor

from dragoman.data.store import Ids
from dragoman.devices.checks import check_ids, check_lengths
from dragoman.display import shape_text
from dragoman.errors import DataError
from dragoman.records import BOS_ID, EOS_ID, PAD_ID


@dataclass(frozen=True, slots=True, repr=False)
class Batch:
    """Sentence pairs as padded ids: B sentences, S source positions, T target positions. Ids and lengths are int64.

    Parameters
    ----------
    src_ids
        Source ids (B, S): the text, eos and padding.
    src_lengths
        Number of source ids with eos (B,).
    tgt_ids
        Target ids (B, T + 1): bos, the text, eos and padding.
    tgt_lengths
        Number of target ids with eos but without bos (B,). These are the lengths of `decoder_input` and of `labels`.

    Raises
    ------
    DataError
        If a tensor has the wrong type or shape, or if a length does not fit its ids.
    """

    src_ids: Tensor
    src_lengths: Tensor
    tgt_ids: Tensor
    tgt_lengths: Tensor

    def __post_init__(self) -> None:
        check_ids("src_ids", self.src_ids)
        check_ids("tgt_ids", self.tgt_ids)
        if len(self.src_ids) != len(self.tgt_ids):
            raise DataError(
                f"`src_ids` has {len(self.src_ids)} rows, but `tgt_ids` has {len(self.tgt_ids)}. "
                "Give as many targets as sources."
            )
        check_lengths("src_lengths", self.src_lengths, self.src_ids)
        check_lengths("tgt_lengths", self.tgt_lengths, self.decoder_input)

    def __repr__(self) -> str:
        shapes = (f"{field.name} {shape_text(getattr(self, field.name).shape)}" for field in fields(self))
        return f"<Batch: {', '.join(shapes)}>"

    @classmethod
    def from_ids(
        cls, src: Sequence[Iterable[SupportsIndex]], tgt: Sequence[Iterable[SupportsIndex]] | None = None
    ) -> "Batch":
        """Pad token ids without control ids: adds eos to the sources, and bos and eos to the targets.

        Parameters
        ----------
        src
            The ids of each source, such as ``tokenizer.encode_batch(texts)``.
        tgt
            The ids of each target. None: targets without tokens, whose `decoder_input` is bos, to decode from.

        Returns
        -------
        Batch

        Raises
        ------
        DataError
            If the numbers of sources and targets differ, or if an id is not a whole number.

        Examples
        --------
        >>> Batch.from_ids([[4, 5], [6]], [[7], [8, 9]])
        <Batch: src_ids 2 x 3, src_lengths 2, tgt_ids 2 x 4, tgt_lengths 2>
        """
        try:
            targets = [()] * len(src) if tgt is None else tgt
            src_ids, src_lengths = pad_ids(list(map(_whole_numbers, src)), PAD_ID, last=(EOS_ID,))
            tgt_ids, tgt_lengths = pad_ids(list(map(_whole_numbers, targets)), PAD_ID, (BOS_ID,), (EOS_ID,))
        except TypeError:
            raise DataError("`src` and `tgt` must be lists of lists of ids. Encode texts with a tokenizer.") from None
        return cls(src_ids, src_lengths, tgt_ids, tgt_lengths - 1)

    @property
    def decoder_input(self) -> Tensor:
        """The input of the decoder: bos and the target without eos, (B, T)."""
        return self.tgt_ids[:, :-1]

    @property
    def labels(self) -> Tensor:
        """The correct output of the decoder at each position: the target and eos, (B, T)."""
        return self.tgt_ids[:, 1:]

    @property
    def num_tgt_tokens(self) -> int:
        """The number of labels: target tokens and eos, without padding."""
        return int(self.tgt_lengths.sum())

    def map_tensors(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """Apply a function to every tensor.

        Parameters
        ----------
        change
            A function from a tensor to a tensor, such as one that takes some rows.

        Returns
        -------
        Batch
        """
        return Batch(*map(change, (self.src_ids, self.src_lengths, self.tgt_ids, self.tgt_lengths)))

    def part(self, start: int, stop: int) -> "Batch":
        """Take some rows, without the padding that only other rows need.

        Parameters
        ----------
        start, stop
            The rows from `start` to `stop` - 1.

        Returns
        -------
        Batch
        """
        rows = self.map_tensors(lambda tensor: tensor[start:stop])
        src, tgt = (max(lengths.tolist(), default=0) for lengths in (rows.src_lengths, rows.tgt_lengths))
        return Batch(rows.src_ids[:, :src], rows.src_lengths, rows.tgt_ids[:, : tgt + 1], rows.tgt_lengths)

    def to(self, device: torch.device | str) -> "Batch":
        """Copy the batch to a device. The copy of a pinned batch to a GPU is asynchronous.

        Parameters
        ----------
        device
            The device of the new tensors, such as "cuda".

        Returns
        -------
        Batch
        """
        non_blocking = torch.device(device).type == "cuda"
        return self.map_tensors(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        """Copy the batch to pinned memory, for asynchronous copies to a GPU.

        Returns
        -------
        Batch
        """
        return self.map_tensors(lambda tensor: tensor.pin_memory())


def _whole_numbers(row: Iterable[SupportsIndex]) -> Sequence[int] | Ids:
    """The ids of a row. Raises TypeError if one is not a whole number."""
    return row if isinstance(row, np.ndarray) and row.dtype.kind in "iu" else [*map(index, row)]


def pad_ids(
    rows: Sequence[Sequence[int] | Ids], pad_id: int, first: Sequence[int] = (), last: Sequence[int] = ()
) -> tuple[Tensor, Tensor]:
    """Rows of `first`, ids and `last` as one padded (B, longest) int64 tensor, and their lengths (B,)."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    start, width = len(first), int(lengths.max(initial=0))
    padded = np.full((len(rows), start + width + len(last)), pad_id, np.int64)
    padded[:, :start] = first
    if len(rows):  # "unsafe", because an empty list is an array of floats
        filled = np.concatenate(rows, dtype=np.int64, casting="unsafe")
        padded[:, start : start + width][np.arange(width) < lengths[:, None]] = filled
    for offset, one in enumerate(last, start):
        padded[np.arange(len(rows)), lengths + offset] = one
    return torch.from_numpy(padded), torch.from_numpy(lengths + start + len(last))

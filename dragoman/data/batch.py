"""The `Batch` record: padded ids and their lengths, as `dragoman.data` hands them to models and training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
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
    soft_ids, soft_probs
        With teachers, their predictions for each label (B, T, K): tokens and probabilities in float32, which sum to 1,
        or to 0 at padding.
    """

    src_ids: Tensor
    src_lengths: Tensor
    tgt_ids: Tensor
    tgt_lengths: Tensor
    soft_ids: Tensor | None = None
    soft_probs: Tensor | None = None

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
        soft = (None if each is None else change(each) for each in (self.soft_ids, self.soft_probs))
        return Batch(*map(change, (self.src_ids, self.src_lengths, self.tgt_ids, self.tgt_lengths)), *soft)

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
        src, tgt = int(rows.src_lengths.max()), int(rows.tgt_lengths.max())
        soft = (None if each is None else each[:, :tgt] for each in (rows.soft_ids, rows.soft_probs))
        return Batch(rows.src_ids[:, :src], rows.src_lengths, rows.tgt_ids[:, : tgt + 1], rows.tgt_lengths, *soft)

    def to(self, device: torch.device) -> "Batch":
        """Copy the batch to a device. The copy of a pinned batch to a GPU is asynchronous.

        Parameters
        ----------
        device
            The device of the new tensors.

        Returns
        -------
        Batch
        """
        non_blocking = device.type == "cuda"
        return self.map_tensors(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        """Copy the batch to pinned memory, for asynchronous copies to a GPU.

        Returns
        -------
        Batch
        """
        return self.map_tensors(lambda tensor: tensor.pin_memory())


def pad_ids(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Rows of ids as one padded (B, longest) int64 tensor and their lengths (B,)."""
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    padded = torch.full((len(rows), int(lengths.max()) if len(rows) else 0), pad_id, dtype=torch.int64)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = torch.as_tensor(row, dtype=torch.int64)
    return padded, lengths

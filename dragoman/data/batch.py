"""The one record with tensors that every room below the command line knows: padded ids and their lengths."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Sentence pairs as padded ids.

    `src_ids` (B, S) end with eos and are padded with `pad_id`; `src_lengths` (B,) count the eos. `tgt_ids` (B, T + 1)
    hold bos, the target, eos, padding; `tgt_lengths` (B,) count target ids and eos but not bos, so that they are
    the lengths of both `decoder_input` and `labels`. Lengths are int64.
    """

    src_ids: Tensor
    src_lengths: Tensor
    tgt_ids: Tensor
    tgt_lengths: Tensor

    @property
    def decoder_input(self) -> Tensor:
        """What the decoder reads: bos and the target without its eos, (B, T)."""
        return self.tgt_ids[:, :-1]

    @property
    def labels(self) -> Tensor:
        """What the decoder should say at each position: the target shifted by one, then eos, (B, T)."""
        return self.tgt_ids[:, 1:]

    @property
    def num_tgt_tokens(self) -> int:
        """Labels that count: target tokens and eos, padding excluded."""
        return int(self.tgt_lengths.sum())

    def part(self, start: int, stop: int) -> "Batch":
        """Some of its rows, without padding that only the others needed."""
        src_lengths, tgt_lengths = self.src_lengths[start:stop], self.tgt_lengths[start:stop]
        src, tgt = int(src_lengths.max()), int(tgt_lengths.max()) + 1
        return Batch(self.src_ids[start:stop, :src], src_lengths, self.tgt_ids[start:stop, :tgt], tgt_lengths)

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device; where it is pinned, what computes on the device waits for it, and nobody else."""
        non_blocking = device.type == "cuda"
        return Batch(*(getattr(self, name).to(device, non_blocking=non_blocking) for name in self.__slots__))

    def pinned(self) -> "Batch":
        """The same batch in memory that a GPU copies from by itself."""
        return Batch(*(getattr(self, name).pin_memory() for name in self.__slots__))


def pad_rows(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Rows of ids as one padded (B, longest) int64 tensor and their lengths (B,)."""
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    padded = torch.full((len(rows), int(lengths.max()) if len(rows) else 0), pad_id, dtype=torch.int64)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = torch.as_tensor(row, dtype=torch.int64)
    return padded, lengths

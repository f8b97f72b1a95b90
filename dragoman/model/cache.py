"""What the decoder remembers between steps, so that each step computes one position only.

Self-attention keys and values grow by one position a step, one row a hypothesis. Cross-attention keys and values are
computed once a sentence and shared by all its hypotheses.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

_FIRST_CAPACITY = 32


@dataclass(slots=True)
class LayerCache:
    """Keys and values of one decoder layer.

    `cross_keys`, `cross_values` are (B, H, S, K). `keys`, `values` are (N, H, capacity, K), of which the first
    `DecoderCache.length` positions count; they are None before the first step.
    """

    cross_keys: Tensor
    cross_values: Tensor
    keys: Tensor | None = None
    values: Tensor | None = None

    def append(
        self, key: Float[Tensor, "N H 1 K"], value: Float[Tensor, "N H 1 K"], length: int
    ) -> tuple[Tensor, Tensor]:
        """Writes one position after `length` earlier ones; returns all `length + 1` keys and values."""
        if self.keys is None or self.values is None:
            self.keys, self.values = _empty(key, _FIRST_CAPACITY), _empty(value, _FIRST_CAPACITY)
        elif length == self.keys.size(2):
            self.keys, self.values = _double_capacity(self.keys), _double_capacity(self.values)
        self.keys[:, :, length] = key[:, :, 0]
        self.values[:, :, length] = value[:, :, 0]
        return self.keys[:, :, : length + 1], self.values[:, :, : length + 1]


@dataclass(slots=True)
class DecoderCache:
    """The decoder's memory of B sentences with N hypotheses, the same number for each sentence.

    `length` positions have been decoded. `memory_mask` (B, 1, 1, S) says which source positions are real.
    """

    layers: list[LayerCache]
    memory_mask: Bool[Tensor, "B 1 1 S"]
    length: int = field(default=0)

    @property
    def num_sentences(self) -> int:
        """B."""
        return self.memory_mask.size(0)

    def reorder(self, rows: Int64[Tensor, "N"], sentences: Int64[Tensor, "B"]) -> None:
        """Keeps the named hypotheses and sentences, in the named order; both may repeat or leave out.

        Afterwards row n belongs to sentence n // (len(rows) / len(sentences)).
        """
        keep_rows = not _is_identity(rows, self._num_rows())
        keep_sentences = not _is_identity(sentences, self.num_sentences)
        for layer in self.layers:
            if keep_rows and layer.keys is not None and layer.values is not None:
                layer.keys = _gather(layer.keys, rows, self.length)
                layer.values = _gather(layer.values, rows, self.length)
            if keep_sentences:
                layer.cross_keys = layer.cross_keys.index_select(0, sentences)
                layer.cross_values = layer.cross_values.index_select(0, sentences)
        if keep_sentences:
            self.memory_mask = self.memory_mask.index_select(0, sentences)

    def _num_rows(self) -> int:
        keys = self.layers[0].keys
        return self.num_sentences if keys is None else keys.size(0)


def _is_identity(index: Int64[Tensor, "n"], size: int) -> bool:
    return index.numel() == size and bool((index == torch.arange(size, device=index.device)).all())


def _empty(like: Float[Tensor, "N H T K"], capacity: int) -> Tensor:
    rows, heads, _, width = like.shape
    return like.new_empty(rows, heads, capacity, width)


def _double_capacity(full: Float[Tensor, "N H T K"]) -> Tensor:
    return torch.cat((full, torch.empty_like(full)), dim=2)


def _gather(full: Float[Tensor, "N H T K"], rows: Int64[Tensor, "M"], length: int) -> Tensor:
    """The named rows, of which only the first `length` positions are copied."""
    gathered = full.new_empty(rows.numel(), *full.shape[1:])
    gathered[:, :, :length] = full[:, :, :length].index_select(0, rows)
    return gathered

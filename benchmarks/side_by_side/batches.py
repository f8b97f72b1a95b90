"""Padded tensors for the peers that are written in plain PyTorch, and their optimiser."""

from collections.abc import Callable, Iterator
from itertools import cycle

import torch
from torch import Tensor

from side_by_side.corpus import BOS_ID, EOS_ID, PAD_ID, Corpus, peer_batches
from side_by_side.shapes import ADAM_BETAS, LEARNING_RATE

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""``loss(src, decoder_input, labels)``, summed over the labels."""


def training_steps(corpus: Corpus, model: torch.nn.Module, loss_of: Loss) -> Iterator[Callable[[], int]]:
    """Endless steps; each builds its batch, trains on it and returns its target tokens, end of sentence included."""
    src, tgt = corpus.ids("train")
    optimizer = torch.optim.AdamW(  # the fused one, the fastest that PyTorch has on a CPU
        model.parameters(), lr=LEARNING_RATE, betas=ADAM_BETAS, weight_decay=0.0, fused=True
    )

    def take(indices: list[int]) -> int:
        labels = padded([[*tgt[index], EOS_ID] for index in indices])
        count = int((labels != PAD_ID).sum())
        decoder_input = padded([[BOS_ID, *tgt[index]] for index in indices])
        loss = loss_of(padded([[*src[index], EOS_ID] for index in indices]), decoder_input, labels) / count
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        return count

    for indices in cycle(peer_batches(src, tgt)):
        yield lambda indices=indices: take(indices)


def padded(rows: list[list[int]], fill: int = PAD_ID) -> Tensor:
    """(rows, longest) int64."""
    result = torch.full((len(rows), max(map(len, rows))), fill)
    for place, row in enumerate(rows):
        result[place, : len(row)] = torch.tensor(row)
    return result

"""Word-level knowledge distillation: the predictions of teachers for every label (Kim & Rush 2016, section 3.1).

The teachers predict once, before training. Several teachers are an ensemble, whose probabilities are averaged. So one
model learns from several, or a small one from a large one, and translating costs no more than before.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.data.batch import Batch
from dragoman.data.batching import micro_batches
from dragoman.data.soft_targets import TOP_TOKENS, SoftTargets, write_soft_targets
from dragoman.data.store import PairStore
from dragoman.data.stream import load_batch
from dragoman.model.transformer import Transformer
from dragoman.text.tokenization.control_ids import PAD_ID

_PAIRS_AT_ONCE = 10_000
_TOKENS_AT_ONCE = 4096
_ROWS_AT_ONCE = 512


def ask_teachers(
    teachers: Sequence[Transformer],
    names: Sequence[str],
    store: PairStore,
    folder: Path,
    progress: Callable[[int], None] = lambda pairs: None,
) -> SoftTargets:
    """Compute the soft targets of a store, write them to `folder` with the `names` of the teachers, and open them.

    All `teachers` have the store's vocabularies, and positions for its longest side. Raises ResourceError if the disk
    is full.
    """
    vocab_size = teachers[0].tgt_vocab_size
    kept = min(TOP_TOKENS, vocab_size)
    for teacher in teachers:
        teacher.eval()
    with write_soft_targets(folder, store, names, vocab_size, kept) as writer:
        for start in range(0, len(store), _PAIRS_AT_ONCE):
            progress(start)
            indices = np.arange(start, min(len(store), start + _PAIRS_AT_ONCE))
            writer.append(*_of_pairs(teachers, store, indices, kept))
    return SoftTargets(folder, store)


def _of_pairs(
    teachers: Sequence[Transformer], store: PairStore, indices: npt.NDArray[np.int64], kept: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Tokens and probabilities, both (labels, kept), of consecutive pairs of the store."""
    first, stop = store.label_rows(int(indices[0])).start, store.label_rows(int(indices[-1])).stop
    ids, probs = np.empty((stop - first, kept), np.int64), np.empty((stop - first, kept), np.float32)
    for piece in micro_batches(store.src_lengths[indices], store.tgt_lengths[indices], _TOKENS_AT_ONCE):
        chosen = indices[piece].tolist()
        where = np.concatenate([np.arange(rows.start, rows.stop) - first for rows in map(store.label_rows, chosen)])
        said = most_probable(teachers, load_batch(store, indices[piece]), kept)
        ids[where], probs[where] = (part.cpu().numpy() for part in said)
    return ids, probs


@torch.inference_mode()
def most_probable(
    teachers: Sequence[Transformer], batch: Batch, kept: int
) -> tuple[Int64[Tensor, "M K"], Float[Tensor, "M K"]]:
    """The tokens with the largest mean probability for each label of the batch, row by row, without padding.

    The second result has their probabilities, scaled to a sum of 1. Padding is never among the tokens.
    """
    batch = batch.to(teachers[0].device)
    counted = batch.labels != PAD_ID
    states = []
    for teacher in teachers:
        memory = teacher.encode(batch.src_ids, batch.src_lengths)
        states.append(teacher.decode(batch.decoder_input, memory, batch.src_lengths)[counted])
    said = []
    for slices in zip(*(torch.split(each, _ROWS_AT_ONCE) for each in states), strict=True):
        probs = slices[0].new_zeros(len(slices[0]), teachers[0].tgt_vocab_size)  # times the number of teachers
        for teacher, rows in zip(teachers, slices, strict=True):
            probs += torch.softmax(teacher.projection(rows), 1)
        probs[:, PAD_ID] = 0.0
        said.append(probs.topk(kept, dim=1))
    best, ids = (torch.cat(parts) for parts in zip(*said, strict=True))
    return ids, best / best.sum(1, keepdim=True)

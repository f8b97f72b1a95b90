"""Sentence pairs as ids, cut into steps and padded batches."""

from typing import TYPE_CHECKING

from dragoman.lazy import import_lazily

if TYPE_CHECKING:
    from dragoman.data.batch import Batch
    from dragoman.data.batching import EpochBatches, epoch_batches, micro_batches
    from dragoman.data.store import CopyTask, InMemoryPairs, copy_task

__all__ = ["Batch", "epoch_batches", "micro_batches", "EpochBatches", "InMemoryPairs", "copy_task", "CopyTask"]

_MODULES = {
    "batch": ("Batch",),
    "batching": ("epoch_batches", "micro_batches", "EpochBatches"),
    "store": ("InMemoryPairs", "copy_task", "CopyTask"),
}

import_lazily(__name__, __all__, _MODULES)

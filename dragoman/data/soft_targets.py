"""Soft targets: the teachers' predictions for every label of a store, computed once and memory-mapped from files.

Word-level distillation (Hinton et al. 2015; Kim & Rush 2016, section 3.1) needs the teachers' predictions for each
target token in every epoch, and they never change. Only the `TOP_TOKENS` most probable tokens are kept. All others
together have a few percent of an ensemble's probability (Tan et al. 2019 keep 8 too).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from dragoman.data.store import PairStore, id_dtype, memory_map
from dragoman.errors import DataError, ModelError
from dragoman.files import verify_folder, write_folder

TOP_TOKENS = 8
"""Tokens kept per label."""

_FORMAT = "dragoman soft targets 1"
_PROB = np.dtype("<f2")
_IDS, _PROBS = "ids", "probs"


@dataclass(frozen=True, slots=True)
class SoftRow:
    """Soft targets of one pair: `ids` (T + 1, K) and `probs` (T + 1, K), eos included.

    The probabilities of a label sum to 1 up to rounding.
    """

    ids: npt.NDArray[np.integer[Any]]
    probs: npt.NDArray[np.floating[Any]]


class SoftTargets:
    """The soft targets of a store, memory-mapped. `teachers` identifies the teacher models."""

    def __init__(self, folder: Path, store: PairStore) -> None:
        """Open the soft targets in `folder`. Raises DataError if they are missing, damaged, or of another store."""
        try:
            manifest = verify_folder(folder)
        except (ModelError, OSError) as error:
            raise DataError(f"{folder} is incomplete ({error})") from None
        if manifest.get("format") != _FORMAT or manifest.get("store") != store.key:
            raise DataError(f"{folder} was made from other pairs.")
        self.teachers: tuple[str, ...] = tuple(manifest["teachers"])
        self._store = store
        dtype = np.dtype(manifest["id_dtype"])
        self._ids = memory_map(folder / _IDS, dtype).reshape(-1, manifest["kept"])
        self._probs = memory_map(folder / _PROBS, _PROB).reshape(-1, manifest["kept"])

    def row(self, index: int) -> SoftRow:
        """The soft targets of one pair, as views of the files."""
        rows = self._store.label_rows(index)
        return SoftRow(self._ids[rows], self._probs[rows])


class SoftTargetsWriter:
    """Writes the soft targets of all labels in the order of the store. Made by `write_soft_targets`."""

    def __init__(self, ids: BinaryIO, probs: BinaryIO, dtype: np.dtype[Any]) -> None:
        self._ids, self._probs, self._dtype = ids, probs, dtype

    def append(self, ids: npt.NDArray[np.integer[Any]], probs: npt.NDArray[np.floating[Any]]) -> None:
        """Add the soft targets of some labels, both (labels, `TOP_TOKENS`)."""
        self._ids.write(np.ascontiguousarray(ids, self._dtype).data)
        self._probs.write(np.ascontiguousarray(probs, _PROB).data)


@contextmanager
def write_soft_targets(
    folder: Path, store: PairStore, teachers: Sequence[str], vocab_size: int, kept: int = TOP_TOKENS
) -> Iterator[SoftTargetsWriter]:
    """A writer for the soft targets in `folder`, which appear or are replaced when the block ends without an error.

    Raises ResourceError if the disk is full.
    """
    dtype = id_dtype(vocab_size)
    facts = {"format": _FORMAT, "store": store.key, "teachers": list(teachers), "kept": kept, "id_dtype": dtype.str}
    with (
        write_folder(folder, facts) as partial,
        (partial / _IDS).open("wb") as ids,
        (partial / _PROBS).open("wb") as probs,
    ):
        yield SoftTargetsWriter(ids, probs, dtype)

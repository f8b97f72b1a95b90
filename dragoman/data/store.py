"""A store: the token ids of a corpus in memory-mapped files, encoded once and reused by later runs.

A store is a folder. For each side it has a flat array of ids with offsets and lengths, and optionally the text as UTF-8
in the same form (BPE dropout needs it in every epoch). Its manifest has the counts, the hash of every file, and a key
that identifies the inputs. A store is written under another name and renamed when complete, so an existing store is
complete. Reading uses only the page cache, whatever the number of pairs.

The identity of a run's data: digests of the files it was prepared from, stored beside the prepared data.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from dragoman.config import Config
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.files import verify_folder, write_folder
from dragoman.records import NUM_CONTROL_IDS
from dragoman.text.tokenization.encoding import RaggedIds

Ids: TypeAlias = npt.NDArray[np.integer[Any]]


Counts: TypeAlias = npt.NDArray[np.int32]


class Pairs(Protocol):
    """A data set of encoded pairs with random access, without bos and eos: `PairStore` or `InMemoryPairs`."""

    def __len__(self) -> int: ...

    @property
    def src_counts(self) -> Counts:
        """The number of source ids of each pair without eos, (pairs,)."""
        ...

    @property
    def tgt_counts(self) -> Counts:
        """The number of target ids of each pair without eos, (pairs,)."""
        ...

    def src_ids(self, index: int) -> Ids:
        """Source ids of one pair."""
        ...

    def tgt_ids(self, index: int) -> Ids:
        """Target ids of one pair."""
        ...


class InMemoryPairs:
    """Pairs of ids in memory, for the copy task, tests and small data.

    `src_counts` and `tgt_counts` (pairs,) are the numbers of ids of each pair.

    Parameters
    ----------
    src, tgt : sequence of sequences of int
        The ids of each source and of its target, without bos and eos.

    Raises
    ------
    DataError
        If there are not as many targets as sources.
    """

    def __init__(self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> None:
        if len(src) != len(tgt):
            raise DataError(f"`tgt` must have one row per source ({len(src)}), but has {len(tgt)}.")
        self._src = [np.asarray(ids, dtype=np.int32) for ids in src]
        self._tgt = [np.asarray(ids, dtype=np.int32) for ids in tgt]
        self.src_counts: Counts = np.array([len(ids) for ids in src], dtype=np.int32)
        self.tgt_counts: Counts = np.array([len(ids) for ids in tgt], dtype=np.int32)

    def __len__(self) -> int:
        return len(self._src)

    def __repr__(self) -> str:
        return f"<InMemoryPairs: {len(self):,} pairs>"

    def src_ids(self, index: int) -> Ids:
        """Source ids of one pair.

        Parameters
        ----------
        index : int
            Number of the pair, counted from 0.

        Returns
        -------
        numpy.ndarray
            The ids, int32.
        """
        return self._src[index]

    def tgt_ids(self, index: int) -> Ids:
        """Target ids of one pair.

        Parameters
        ----------
        index : int
            Number of the pair, counted from 0.

        Returns
        -------
        numpy.ndarray
            The ids, int32.
        """
        return self._tgt[index]


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Two disjoint sets of sequences with equal source and target.

    Parameters
    ----------
    train, held_out : InMemoryPairs
        The pairs to train on, and the pairs to test with.
    vocab_size : int
        The size of both vocabularies. All ids are below it.
    """

    train: InMemoryPairs
    held_out: InMemoryPairs
    vocab_size: int


def copy_task(num_train: int, num_held_out: int, seed: int, num_symbols: int = 11, length: int = 10) -> CopyTask:
    """Distinct random sequences that a model learns to copy. The same arguments give the same sequences.

    Parameters
    ----------
    num_train, num_held_out : int
        Number of sequences to train on, and to test with.
    seed : int
        Seed of the random numbers.
    num_symbols : int
        Number of different symbols. Their ids follow those of the control tokens.
    length : int
        Number of symbols in each sequence.

    Returns
    -------
    CopyTask

    Raises
    ------
    ConfigError
        If there are not that many different sequences.

    Examples
    --------
    >>> task = copy_task(num_train=1000, num_held_out=100, seed=1)
    >>> len(task.train), task.vocab_size
    (1000, 15)
    """
    total = num_train + num_held_out
    if num_symbols**length < total:
        raise ConfigError(
            f"`num_train` + `num_held_out` is {total}, but there are only {num_symbols**length} sequences of {length} "
            f"symbols over {num_symbols}. Request fewer, or longer ones."
        )
    random = np.random.default_rng(seed)
    distinct: dict[tuple[int, ...], None] = {}
    while len(distinct) < total:
        drawn = random.integers(NUM_CONTROL_IDS, NUM_CONTROL_IDS + num_symbols, (total - len(distinct), length))
        distinct.update(dict.fromkeys(map(tuple, drawn.tolist())))
    sequences = list(distinct)
    train, held_out = sequences[:num_train], sequences[num_train:]
    return CopyTask(InMemoryPairs(train, train), InMemoryPairs(held_out, held_out), NUM_CONTROL_IDS + num_symbols)


_Texts = Sequence[str]

_FORMAT = "dragoman pairs 1"
_REMAKE = "Delete the folder, and the next run makes it again."
_OFFSET = np.dtype("<i8")
_LENGTH = np.dtype("<i4")
_BYTE = np.dtype("u1")


def id_dtype(vocab_size: int) -> np.dtype[Any]:
    """The type of stored ids: 2 bytes for vocabularies below 65,536 entries, else 4."""
    return np.dtype("<u2") if vocab_size < 1 << 16 else np.dtype("<u4")


class _Column:
    """Rows of varying length in three files: flat values, offsets (rows + 1,) starting with 0, lengths (rows,)."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self._values: BinaryIO = (folder / f"{name}.{dtype.str[1:]}").open("wb")
        self._offsets: BinaryIO = (folder / f"{name}.offsets").open("wb")
        self._lengths: BinaryIO = (folder / f"{name}.lengths").open("wb")
        self._end = 0
        self._offsets.write(np.zeros(1, _OFFSET).tobytes())

    def append(self, flat: npt.NDArray[Any], lengths: npt.NDArray[np.int64]) -> None:
        ends = self._end + np.cumsum(lengths, dtype=_OFFSET)
        self._values.write(np.ascontiguousarray(flat, dtype=self.dtype).data)
        self._offsets.write(ends.data)
        self._lengths.write(lengths.astype(_LENGTH).data)
        self._end = int(ends[-1])

    def close(self) -> None:
        for file in (self._values, self._offsets, self._lengths):
            file.close()


class StoreWriter:
    """Writes the pairs of a store in chunks. Made by `write_store`.

    `notes` can have any JSON content, such as the counts of cleaning. `PairStore.notes` returns it.
    """

    def __init__(self, folder: Path, src_vocab_size: int, tgt_vocab_size: int, keep_text: bool) -> None:
        self.num_pairs = 0
        self.notes: dict[str, Any] = {}
        self._vocab_sizes = (src_vocab_size, tgt_vocab_size)
        sizes = zip(("src", "tgt"), self._vocab_sizes, strict=True)
        self._ids = [_Column(folder, side, id_dtype(size)) for side, size in sizes]
        self._texts = [_Column(folder, name, _BYTE) for name in ("src_text", "tgt_text") if keep_text]

    def append(self, src: RaggedIds, tgt: RaggedIds, src_texts: _Texts = (), tgt_texts: _Texts = ()) -> None:
        """Add pairs: ids without bos and eos, and the texts if the store keeps them.

        Raises ValueError if the numbers of rows differ or an id is outside the vocabulary.
        """
        texts = (src_texts, tgt_texts) if self._texts else ()
        if any(len(column) != len(src) for column in (tgt, *texts)):
            raise ValueError("all columns of a store must get the same number of rows")
        if not len(src):
            return
        for column, rows, vocab_size in zip(self._ids, (src, tgt), self._vocab_sizes, strict=True):
            ids = rows.ids
            if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
                raise ValueError(f"ids must be between 0 and {vocab_size - 1}, but span {ids.min()} to {ids.max()}")
            column.append(ids, rows.lengths)
        for column, strings in zip(self._texts, texts, strict=True):
            encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
            lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
            column.append(np.frombuffer(b"".join(encoded), _BYTE), lengths)
        self.num_pairs += len(src)

    def close(self) -> None:
        """Flush and close the files."""
        for column in (*self._ids, *self._texts):
            column.close()


@contextmanager
def write_store(
    folder: Path, key: str, src_vocab_size: int, tgt_vocab_size: int, keep_text: bool = False
) -> Iterator[StoreWriter]:
    """A writer for the store in `folder`, which appears or is replaced when the block ends without an exception.

    `key` identifies the inputs of the store; `PairStore` checks it. One process writes, others wait. Raises
    ResourceError if the disk is full.
    """
    facts: dict[str, Any] = {"format": _FORMAT, "key": key, "keeps_text": keep_text}
    with write_folder(folder, facts) as partial:
        with closing(StoreWriter(partial, src_vocab_size, tgt_vocab_size, keep_text)) as writer:
            yield writer
        dtypes = [id_dtype(size).str for size in (src_vocab_size, tgt_vocab_size)]
        facts.update(num_pairs=writer.num_pairs, id_dtypes=dtypes, notes=writer.notes)


class PairStore:
    """A finished store, memory-mapped. Implements `Pairs`, and returns the texts if the store keeps them.

    `src_counts` and `tgt_counts` (pairs,) count ids without eos.
    """

    def __init__(self, folder: Path, key: str | None = None) -> None:
        """Open the store in `folder`. Raises DataError if it is missing, damaged, or has another key than `key`."""
        manifest = _read_manifest(folder)
        if key is not None and manifest["key"] != key:
            raise DataError(f"{folder} was made from another corpus, tokenizer or settings. {_REMAKE}")
        self.folder = folder
        self.key: str = manifest["key"]
        self.notes: Mapping[str, Any] = manifest["notes"]
        self.keeps_text: bool = manifest["keeps_text"]
        self._num_pairs: int = manifest["num_pairs"]
        src_dtype, tgt_dtype = (np.dtype(name) for name in manifest["id_dtypes"])
        self._src, self._src_offsets = self._map("src", src_dtype)
        self._tgt, self._tgt_offsets = self._map("tgt", tgt_dtype)
        self.src_counts: Counts = _memory_map(folder / "src.lengths", _LENGTH)
        self.tgt_counts: Counts = _memory_map(folder / "tgt.lengths", _LENGTH)
        if self.keeps_text:
            self._src_text, self._src_text_offsets = self._map("src_text", _BYTE)
            self._tgt_text, self._tgt_text_offsets = self._map("tgt_text", _BYTE)

    def _map(self, name: str, dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        values = _memory_map(self.folder / f"{name}.{dtype.str[1:]}", dtype)
        return values, _memory_map(self.folder / f"{name}.offsets", _OFFSET)

    def __len__(self) -> int:
        return self._num_pairs

    def src_ids(self, index: int) -> Ids:
        """Source ids of one pair, a view of the file."""
        return _row(self._src, self._src_offsets, index)

    def tgt_ids(self, index: int) -> Ids:
        """Target ids of one pair, a view of the file."""
        return _row(self._tgt, self._tgt_offsets, index)

    def src_text(self, index: int) -> str:
        """Source text of one pair. Raises AttributeError if the store keeps no text."""
        return _row(self._src_text, self._src_text_offsets, index).tobytes().decode("utf-8", "surrogatepass")

    def texts(self, limit: int | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Sources and references of the first `limit` pairs, or of all. Only for a store that keeps text."""
        indices = range(len(self) if limit is None else min(limit, len(self)))
        return tuple(map(self.src_text, indices)), tuple(map(self.tgt_text, indices))

    def tgt_text(self, index: int) -> str:
        """Target text of one pair. Raises AttributeError if the store keeps no text."""
        return _row(self._tgt_text, self._tgt_text_offsets, index).tobytes().decode("utf-8", "surrogatepass")


def open_if_current(folder: Path, key: str) -> PairStore | None:
    """The store in `folder` if it is complete and has this key, else None: then it must be made."""
    try:
        return PairStore(folder, key)
    except DataError:
        return None


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a store, after checking its files. Raises DataError if they are missing or damaged."""
    try:
        manifest = verify_folder(folder)
    except (ModelError, OSError) as error:
        raise DataError(f"{folder} is not a complete store ({error}) If it exists, delete it.") from None
    if manifest.get("format") != _FORMAT:
        raise DataError(f"{folder} is a store of another version. {_REMAKE}")
    return manifest


def _memory_map(path: Path, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A file as a read-only array. A plain view: slicing `np.memmap` itself is ten times slower."""
    if path.stat().st_size == 0:
        return np.empty(0, dtype)
    return np.asarray(np.memmap(path, dtype, mode="r"))


def _row(values: npt.NDArray[Any], offsets: npt.NDArray[np.int64], index: int) -> npt.NDArray[Any]:
    if not 0 <= index < len(offsets) - 1:
        raise IndexError(f"pair {index} of {len(offsets) - 1}")
    return values[offsets[index] : offsets[index + 1]]


IDENTITY = "corpus.json"


def files_of_pairs(config: Config) -> list[str]:
    """The files that determine the training pairs, as the settings name them, in the order of `IDENTITY`."""
    paths = config.corpus_paths
    train, replay, dev = (
        [f"data.{part}{side}" for side in ("", "_src", "_tgt")] for part in ("train", "replay", "dev")
    )
    corpora = [key for key in paths if key.startswith("corpora")]
    return [paths[key] for key in (*train, *corpora, *replay, *dev) if key in paths]


def read_identity(path: Path) -> dict[str, Any]:
    """Read the identity that data preparation wrote. Raises DataError if the file is damaged."""
    with suppress(ValueError, KeyError, TypeError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found["key"], str) and {"test", "files"} <= set(found) and isinstance(found["files"], dict):
            return dict(found)
    raise DataError(
        f"{path} is damaged: it does not list the files that this run started with. If these files have not changed, "
        "delete it and repeat the command."
    )

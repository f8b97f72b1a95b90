"""Encode many pairs in several processes, each with its own cache of words. The order of the pairs is kept.

This process encodes the first chunks, so that a small corpus starts no other process. It also encodes the chunks of
processes that cannot start or are killed. The ids are the same in all cases.
"""

import json
import os
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, cycle, islice
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from dragoman.records import SentencePair
from dragoman.signals import WorkerProcess
from dragoman.text.tokenization.encoding import BatchEncoderPair, EncodedChunk, RaggedIds
from dragoman.text.tokenization.tokenizer import TokenizerPair

MAX_PROCESSES = 4
"""More processes do not help: then the process that reads, cleans and writes is the bottleneck."""

_CHUNKS_ALONE = 25
_PROGRAM = f"from {__name__} import serve; serve()"


class ProcessEncoderPair:
    """`BatchEncoderPair` in several processes.

    Parameters
    ----------
    tokenizers
        The tokenizers of both sides.
    processes
        Number of processes. Default: one per processor, at most `MAX_PROCESSES`.
    alone
        Number of chunks that this process encodes before it starts others.
    """

    def __init__(self, tokenizers: TokenizerPair, processes: int | None = None, alone: int = _CHUNKS_ALONE) -> None:
        self._tokenizers = tokenizers
        self._here = BatchEncoderPair.of(tokenizers)
        self._alone = alone
        self._count = min(MAX_PROCESSES, _count_processors()) if processes is None else processes

    def encode_chunks(self, chunks: Iterable[list[SentencePair]]) -> Iterator[EncodedChunk]:
        """Each chunk with the ids of both sides, in order."""
        chunks = iter(chunks)
        yield from self._here.encode_chunks(islice(chunks, self._alone) if self._count > 1 else chunks)
        first = list(islice(chunks, 1))
        if not first:
            return
        folder = _save(self._tokenizers)
        workers = [_Worker(folder) for _ in range(self._count)]
        try:
            yield from self._spread(chain(first, chunks), workers)
        finally:
            for worker in workers:
                worker.end()
            shutil.rmtree(folder, ignore_errors=True)

    def _spread(self, chunks: Iterable[list[SentencePair]], workers: "Sequence[_Worker]") -> Iterator[EncodedChunk]:
        busy = deque[tuple[_Worker, list[SentencePair]]]()
        for chunk, worker in zip(chunks, cycle(workers)):
            done = self._answered(*busy.popleft()) if len(busy) == len(workers) else None
            worker.ask(chunk)
            busy.append((worker, chunk))
            if done:
                yield done
        yield from (self._answered(worker, chunk) for worker, chunk in busy)

    def _answered(self, worker: "_Worker", chunk: list[SentencePair]) -> EncodedChunk:
        return EncodedChunk(chunk, *(worker.answer(len(chunk)) or self._here.encode(chunk)))


class _Worker(WorkerProcess):
    """A process that encodes one chunk at a time, so that the pipes of both sides never block each other."""

    def __init__(self, folder: str) -> None:
        """Start the process. `folder` has the tokenizers."""
        super().__init__(_PROGRAM, folder, TOKENIZERS_PARALLELISM="false")

    def ask(self, chunk: Sequence[SentencePair]) -> None:
        """Send the texts of a chunk: a line with the number of bytes, then JSON."""
        if self.process is None:
            return
        try:
            stream = cast(BinaryIO, self.process.stdin)
            texts = json.dumps([[pair.src for pair in chunk], [pair.tgt for pair in chunk]]).encode()
            stream.write(b"%d\n%b" % (len(texts), texts))
            stream.flush()
        except OSError:
            self.end()

    def answer(self, num_pairs: int) -> tuple[RaggedIds, RaggedIds] | None:
        """The ids of both sides, or None if the process is gone."""
        if self.process is None:
            return None
        stream = cast(BinaryIO, self.process.stdout)
        try:
            return _receive(stream, num_pairs), _receive(stream, num_pairs)
        except (OSError, ValueError):
            self.end()
            return None


def _save(tokenizers: TokenizerPair) -> str:
    """Save the tokenizers in a new temporary folder. If the disk is full, no process finds them and all end."""
    folder = ""
    with suppress(OSError):
        folder = tempfile.mkdtemp(prefix="dragoman-")
        tokenizers.save(Path(folder))
    return folder


def serve() -> None:
    """The main loop of a worker process: encode chunks with the tokenizers in the given folder until the input ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    encoders = BatchEncoderPair.of(TokenizerPair.load(Path(sys.argv[1])))
    for num_bytes in requests:
        src, tgt = json.loads(requests.read(int(num_bytes)))
        for rows in (encoders.src.encode(src), encoders.tgt.encode(tgt)):
            answers.write(rows.lengths.tobytes())
            answers.write(rows.ids.tobytes())
        answers.flush()


def _receive(stream: BinaryIO, num_rows: int) -> RaggedIds:
    """Read the lengths, then the ids. Raises ValueError if the stream ends too early."""
    lengths = np.frombuffer(stream.read(8 * num_rows), np.int64, num_rows)
    num_ids = int(lengths.sum())
    return RaggedIds(np.frombuffer(stream.read(4 * num_ids), np.int32, num_ids), lengths)


def _count_processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""Many pairs to ids on several processors: other processes encode, each with its own memory of words; order stays.

The first pairs are encoded here, so that a small corpus starts no process, and so is what a process fails to do (it
could not be started, it was killed): the ids are the same.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from dragoman.records import SentencePair
from dragoman.text.tokenization.encoding import BatchEncoderPair, EncodedChunk, RaggedIds
from dragoman.text.tokenization.tokenizer import TokenizerPair

MAX_PROCESSES = 4
"""With more of them, what is left for the one process that reads, cleans and writes takes longer."""

_CHUNKS_ALONE = 25
_PROGRAM = f"from {__name__} import serve; serve()"
_COUNT = struct.Struct("<Q")


class ProcessEncoderPair:
    """The same as `BatchEncoderPair`, with `processes` (default: one a processor) once `alone` chunks are encoded."""

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
        idle, busy = deque(workers), deque[tuple[_Worker, list[SentencePair]]]()
        for chunk in chunks:
            done = None if idle else self._answered(*busy.popleft(), idle)
            worker = idle.popleft()
            worker.ask(chunk)
            busy.append((worker, chunk))
            if done:
                yield done
        while busy:
            yield self._answered(*busy.popleft(), idle)

    def _answered(self, worker: "_Worker", chunk: list[SentencePair], idle: "deque[_Worker]") -> EncodedChunk:
        rows = worker.answer() or self._here.encode(chunk)
        idle.append(worker)
        return EncodedChunk(chunk, *rows)


class _Worker:
    """A process that encodes one chunk at a time, so that neither side waits for the other to read."""

    def __init__(self, folder: str) -> None:
        """`folder` has the tokenisers."""
        self._process: subprocess.Popen[bytes] | None = None
        home = str(Path(__file__).parents[3])
        path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))
        with suppress(OSError):  # it could not be started
            self._process = subprocess.Popen(
                # -P: whatever lies in the working directory is not imported
                [sys.executable, "-P", "-c", _PROGRAM, folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for us; a process without us finds its input closed, and ends
                env={**os.environ, "PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"},
            )

    def ask(self, chunk: Sequence[SentencePair]) -> None:
        """Hands over the texts."""
        if self._process is None:
            return
        try:
            texts = [[pair.src for pair in chunk], [pair.tgt for pair in chunk]]
            _send(cast(BinaryIO, self._process.stdin), json.dumps(texts).encode())
        except OSError:
            self.end()

    def answer(self) -> tuple[RaggedIds, RaggedIds] | None:
        """The ids of both sides; None where the process is no more."""
        if self._process is None:
            return None
        stream = cast(BinaryIO, self._process.stdout)
        try:
            src, tgt = (
                RaggedIds(np.frombuffer(_receive(stream), np.int32), np.frombuffer(_receive(stream), np.int64))
                for _ in "st"
            )
        except (OSError, EOFError):
            self.end()
            return None
        return src, tgt

    def end(self) -> None:
        """The process is no more."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            with suppress(OSError), process:  # what is still to be written is not needed
                pass


def _save(tokenizers: TokenizerPair) -> str:
    """A folder with them; without, where the disk is full, and then no process finds them."""
    folder = ""
    with suppress(OSError):
        folder = tempfile.mkdtemp(prefix="dragoman-")
        tokenizers.save(Path(folder))
    return folder


def serve() -> None:
    """What the other process does, with the tokenisers of the folder it is given, until its input ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    encoders = BatchEncoderPair.of(TokenizerPair.load(Path(sys.argv[1])))
    with suppress(EOFError):
        while True:
            src, tgt = json.loads(_receive(requests))
            for rows in (encoders.src.encode(src), encoders.tgt.encode(tgt)):
                _send(answers, rows.ids.tobytes())
                _send(answers, rows.lengths.tobytes())


def _send(stream: BinaryIO, content: bytes) -> None:
    """Says first how many bytes come."""
    stream.write(_COUNT.pack(len(content)))
    stream.write(content)
    stream.flush()


def _receive(stream: BinaryIO) -> bytes:
    """What `_send` wrote. Raises EOFError where the stream ends before all is there."""
    (count,) = _COUNT.unpack(_read_exactly(stream, _COUNT.size))
    return _read_exactly(stream, count)


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    content = stream.read(count)
    if len(content) < count:
        raise EOFError
    return content


def _count_processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

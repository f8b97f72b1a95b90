"""Many pairs to ids on several processors: other processes encode, each with its own memory of words; order stays.

The first pairs are encoded here, so that a small corpus starts no process, and so is what a process fails to do (it
could not be started, it was killed): the ids are the same.
"""

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, cast

import dragoman
from dragoman.records import SentencePair
from dragoman.text.encoding import BatchEncoderPair, EncodedChunk, Rows
from dragoman.text.tokenizer import TokenizerPair

MAX_PROCESSES = 4
"""With more of them, what is left for the one process that reads, cleans and writes takes longer."""

_CHUNKS_ALONE = 25
_PROGRAM = f"from {__name__} import serve; serve()"


class ProcessEncoderPair:
    """The same as `BatchEncoderPair`, with `processes` (default: one a processor) once `alone` chunks are encoded."""

    def __init__(self, tokenizers: TokenizerPair, processes: int | None = None, alone: int = _CHUNKS_ALONE) -> None:
        self._tokenizers = tokenizers
        self._here = BatchEncoderPair.of(tokenizers)
        self._alone = alone
        self._count = min(MAX_PROCESSES, _processors()) if processes is None else processes

    def encoded(self, chunks: Iterable[list[SentencePair]]) -> Iterator[EncodedChunk]:
        """Each chunk with the ids of both sides, in order."""
        chunks = iter(chunks)
        yield from self._here.encoded(islice(chunks, self._alone) if self._count > 1 else chunks)
        first = list(islice(chunks, 1))
        if not first:
            return
        workers = [_Worker(self._tokenizers) for _ in range(self._count)]
        try:
            idle, busy = deque(workers), deque[tuple[_Worker, list[SentencePair]]]()
            for chunk in chain(first, chunks):
                done = None if idle else self._answered(*busy.popleft(), idle)
                worker = idle.popleft()
                worker.ask(chunk)
                busy.append((worker, chunk))
                if done:
                    yield done
            while busy:
                yield self._answered(*busy.popleft(), idle)
        finally:
            for worker in workers:
                worker.end()

    def _answered(self, worker: "_Worker", chunk: list[SentencePair], idle: "deque[_Worker]") -> EncodedChunk:
        rows = worker.answer() or self._here.encode(chunk)
        idle.append(worker)
        return EncodedChunk(chunk, *rows)


class _Worker:
    """A process that is asked for one chunk at a time, so that neither side waits for the other to read."""

    def __init__(self, tokenizers: TokenizerPair) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        home = str(Path(dragoman.__file__).parents[1])
        path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM],  # -P: whatever lies in the working directory is not imported
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for us; a process without us finds its input closed, and ends
                env={**os.environ, "PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"},
            )
            self._send(tokenizers)
        except OSError:
            self.end()

    def ask(self, chunk: Sequence[SentencePair]) -> None:
        """Hands over the texts."""
        try:
            self._send(([pair.src for pair in chunk], [pair.tgt for pair in chunk]))
        except OSError:
            self.end()

    def answer(self) -> tuple[Rows, Rows] | None:
        """The ids of both sides; None where the process is no more."""
        if self._process is None:
            return None
        try:
            return cast(tuple[Rows, Rows], pickle.load(cast(IO[bytes], self._process.stdout)))
        except (OSError, EOFError, pickle.UnpicklingError):
            self.end()
            return None

    def end(self) -> None:
        """The process is no more."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            with suppress(OSError), process:  # what is still to be written is for nobody
                pass

    def _send(self, message: Any) -> None:
        if self._process is not None:
            stream = cast(IO[bytes], self._process.stdin)
            pickle.dump(message, stream, protocol=pickle.HIGHEST_PROTOCOL)
            stream.flush()


def serve() -> None:
    """What the other process does: tokenisers come first, then texts, until its input ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    encoders = BatchEncoderPair.of(pickle.load(requests))
    while True:
        try:
            src, tgt = pickle.load(requests)
        except EOFError:
            return
        pickle.dump((encoders.src.encode(src), encoders.tgt.encode(tgt)), answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


def _processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

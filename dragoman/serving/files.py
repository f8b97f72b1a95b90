"""Translates files in the background, in batches shared with all other requests, and keeps them for download.

Up to 4 files are translated at a time and the others wait. A client gets at most half of the places of either kind. If
it has half of all files, the oldest translated one makes room for another.

The handlers of ``/translate_file``, ``/v1/files`` and ``/v2/document`` start a file. They wait for it, or return its
id, with which a client asks for its status and its download. A file passes through these states:

- It waits: its bytes are in memory, in `FileJob.content`.
- It is translated: `FileJob.task` is set. Up to 256 of its segments at a time are in the queue of the batcher.
- It is done, with the result in a file in the temporary folder, until it is downloaded, or it has an error. Both are
  dropped after half an hour. Earlier, a new file may take the place of one that failed.

Everything runs in the event loop, except reading and writing. Each client has one thread at a time for these, so that
its files cannot delay those of others. The limits keep the memory for the files of a client near 200 MB.
"""

import asyncio
import contextlib
import errno
import secrets
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from dragoman.errors import DataError
from dragoman.files import TemporaryFolder
from dragoman.serving.limits import LOG, Refused, internal_error
from dragoman.serving.models import BatchKey
from dragoman.serving.reading import count_chars, read_upload
from dragoman.serving.service import AUTO, Service
from dragoman.serving.threads import start_in_thread
from dragoman.text.documents.kinds import OFFICE
from dragoman.text.documents.markers import MarkedText

_Result = TypeVar("_Result")
# A client may have two files in translation if both are at most this large.
_SMALL_FILE_BYTES = 250_000
# `_not_found` and the help of `max_files` name this time as half an hour.
_KEPT_SECONDS = 1800.0
# Files translated at a time. Together they have up to 1,024 segments in the queue, 16 batches of the default size.
_MAX_AT_ONCE = 4
# Segments of a file in the queue at a time: enough to fill several batches of the default 64. Their translations take
# up to 30 bytes of memory for each character.
_SEGMENTS_A_TURN, _CHARS_A_TURN = 256, 200_000
# Memory for waiting files, as a multiple of the largest file size.
_MOST_WAITING = 8
# Time that a stopping server leaves for downloading a file just translated.
_FETCH_SECONDS = 5.0


@dataclass(eq=False, slots=True)
class FileJob:
    """A file that waits, is being translated, or is finished.

    Attributes
    ----------
    name, media_type
        Name and type of the translated file.
    client
        The key or address that limits count by (`Keys.client`).
    kind
        One of `DOCUMENTS`, or "text" for plain text.
    source, target
        Served language codes. `source` may be `AUTO`.
    content
        The bytes while the file waits, then None. Text is in UTF-8: a string may take four times as much memory.
    num_bytes, num_chars
        The size of the file, and the number of characters to translate, as soon as it was read.
    tag
        As in `TranslationRequest`.
    id
        A random UUID, which is all that a client needs for the download.
    key
        A random text, which clients of DeepL's API must send with the id.
    context
        That of the request, whose key the characters count for.
    turn
        Held by the file of this client that uses a thread.
    ended
        Set when the file is done, has an error, or is cancelled.
    path
        The translated file on the disk, as soon as it is written to.
    done, total
        Segments translated so far, and in all: paragraphs, sentences of plain text, or cues. With a pivot language,
        each model does half of the work.
    notes
        Sentences for the user about the file, such as about text that is left as it is.
    refused
        The error to report.
    num_downloads
        Downloads in progress, for which the translated file stays on the disk.
    expiry
        The timer that drops it.
    started_at, ended_at
        When the translation started and ended, in seconds of `time.monotonic`.
    """

    name: str
    media_type: str
    client: bytes
    kind: str
    source: str
    target: str
    content: bytes
    num_bytes: int
    tag: str = ""
    num_chars: int = 0
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    key: str = field(default_factory=lambda: secrets.token_hex(32))
    context: Context = field(default_factory=copy_context)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    path: Path | None = None
    done: int = 0
    total: int = 0
    notes: Sequence[str] = ()
    refused: Refused | None = None
    task: asyncio.Task[None] | None = None
    num_downloads: int = 0
    expiry: asyncio.TimerHandle | None = None
    started_at: float = 0.0
    ended_at: float = 0.0

    @property
    def download_name(self) -> str:
        """LibreTranslate's name for the file, after an id that cannot be guessed."""
        return f"{self.id}.{self.name}"

    @property
    def num_places(self) -> int:
        """The places of its client that the file takes in translation: all of them if it is large, or may expand."""
        return 1 if self.num_bytes <= _SMALL_FILE_BYTES and self.kind not in OFFICE else _half(_MAX_AT_ONCE)

    @property
    def waits(self) -> bool:
        """Whether the file still waits for its turn."""
        return self.is_unfinished and self.task is None

    @property
    def is_unfinished(self) -> bool:
        """Whether the file waits or is being translated."""
        return not self.ended.is_set()

    @property
    def status(self) -> str:
        """``translating``, also while the file waits, ``done`` or ``error``."""
        if self.is_unfinished:
            return "translating"
        return "error" if self.refused else "done"

    @property
    def is_pending(self) -> bool:
        """Whether the file is unfinished, or translated but not downloaded yet."""
        return self.status != "error"


class FileTranslations:
    """The files of one server, in a temporary folder that is removed when the server closes or the process ends.

    The folder is created for the first translated file, so that a full disk affects nothing but files.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self._folder = TemporaryFolder("dragoman-files-locked-")
        self._jobs: dict[str, FileJob] = {}
        self._executor = ThreadPoolExecutor(_MAX_AT_ONCE, "files")
        self._turns = WeakValueDictionary[bytes, asyncio.Lock]()
        service.num_unfinished_files = self.num_unfinished

    def start(self, job: FileJob) -> None:
        """Start to translate a file, or queue it. Its language pair is only checked here if its source is given.

        Raises Refused: 400 for a language pair that is not served, 429 for too many files of this client, 503 of all
        clients.
        """
        if job.source == AUTO:
            self.service.models.check_tag(job.tag, ())
        else:
            self.service.models.require_path(job.source, job.target, job.tag)
        self._check_limits(job.client, job.num_bytes)
        job.turn = self._turns.setdefault(job.client, job.turn)
        self._jobs[job.id] = job
        self._start_next()

    def _check_limits(self, client: bytes, size: int) -> None:
        """Raise Refused if there is no place for another file, with the time until there may be one.

        Drops a file if needed: the client's oldest translated file if it has half of all, or else the oldest failed
        one.
        """
        jobs, settings = list(self._jobs.values()), self.service.settings
        most, most_bytes = settings.max_files, _MOST_WAITING * settings.max_file_bytes
        own = [job for job in jobs if job.client == client and job.is_pending]
        too_much = size + _waiting_bytes(own) > max(size, _half(most_bytes))
        if too_much or (len(own) >= _half(most) and not self._drop_oldest(own)):
            words = f"{len(own)} of your files are unfinished or not downloaded. Download or cancel some."
            raise Refused(429, words, self.seconds_left([job for job in own if job.is_unfinished]))
        if len(self._jobs) >= most and not (
            self._drop_oldest([job for job in jobs if not job.is_pending]) or self._drop_oldest(own)
        ):
            raise Refused(503, "The server has too many files. Try again later.", self.seconds_left(jobs))
        if size + _waiting_bytes(jobs) > max(size, most_bytes):
            waiting = [job for job in jobs if job.is_unfinished]
            raise Refused(503, "Too many files are waiting. Try again later.", self.seconds_left(waiting))

    def _drop_oldest(self, jobs: Sequence[FileJob]) -> bool:
        """Drop the file that ended first. Returns whether there is one."""
        ended = [job for job in jobs if not job.is_unfinished]
        if ended:
            self.drop(min(ended, key=lambda job: job.ended_at))
        return bool(ended)

    def seconds_left(self, jobs: Sequence[FileJob]) -> float:
        """Seconds until the first of these files is dropped, or until it is translated if none is: an estimate."""
        now, seconds = time.monotonic(), self.service.batcher.throughput.seconds
        if ended := [job.ended_at for job in jobs if not job.is_unfinished]:
            return min(ended) + _KEPT_SECONDS - now
        return min(
            (now - job.started_at) * (job.total / job.done - 1) if job.done else seconds(job.num_bytes / 4)
            for job in jobs
        )

    def _start_next(self) -> None:
        """Fill the free places: first the clients with the fewest files in progress, then by time of arrival."""
        while True:
            running = [job for job in self._jobs.values() if job.task is not None and job.is_unfinished]
            places: Counter[bytes] = Counter()
            for job in running:
                places[job.client] += job.num_places
            most = _half(_MAX_AT_ONCE)
            fitting = [job for job in self._jobs.values() if job.waits and places[job.client] + job.num_places <= most]
            if len(running) >= _MAX_AT_ONCE or not fitting:
                return
            job = min(fitting, key=lambda job: places[job.client])
            job.started_at = time.monotonic()
            job.task = asyncio.create_task(self._run(job), context=job.context)

    def num_ahead(self, job: FileJob) -> int:
        """The number of unfinished files that arrived before this one."""
        return [one for one in self._jobs.values() if one.is_unfinished].index(job)

    def path_of(self, job: FileJob) -> Path:
        """The path of a translated file. Raises Refused if it is not translated yet or no longer kept."""
        if job.refused:
            raise job.refused
        if job.path is None or job.is_unfinished:
            raise Refused(503, f"The file is not ready: {job.done} of {job.total} segments are translated.", 5)
        if not job.path.is_file():  # removed by a cleaner of temporary folders
            self.drop(job)
            raise _not_found()
        return job.path

    @contextlib.contextmanager
    def sending(self, job: FileJob) -> Iterator[Callable[[], None]]:
        """Keep the translated file on the disk meanwhile, even if it is dropped. Yields a function for its end."""
        job.num_downloads += 1
        try:
            yield partial(self.drop, job)
        finally:
            job.num_downloads -= 1
            if job.id not in self._jobs:  # dropped meanwhile
                _remove(job)

    def find(self, name: str) -> FileJob:
        """Find a file by its id or download name. Raises Refused (404) if there is none."""
        job = self._jobs.get(name) or self._jobs.get(name.partition(".")[0])
        if job is None or name not in (job.id, job.download_name):
            raise _not_found()
        return job

    def drop(self, job: FileJob) -> None:
        """Remove a file and cancel its translation if it is unfinished."""
        if job.task is not None:
            job.task.cancel()
        if job.is_unfinished:
            job.refused = Refused(410, "The file was cancelled.")
            job.ended.set()
        if job.expiry is not None:
            job.expiry.cancel()
        self._jobs.pop(job.id, None)
        _remove(job)
        self._start_next()

    def num_unfinished(self) -> int:
        """The number of files that a stopping server should wait for."""
        since = time.monotonic() - _FETCH_SECONDS
        return sum(job.is_pending and (job.is_unfinished or job.ended_at > since) for job in self._jobs.values())

    def close(self) -> None:
        """Drop all files, and log which of them are lost."""
        jobs = list(self._jobs.values())
        if lost := [f"{job.id} ({job.done} of {job.total} segments)" for job in jobs if job.is_unfinished]:
            LOG.warning("files lost before they were translated: %s", ", ".join(lost))
        if unfetched := [job.id for job in jobs if job.is_pending and not job.is_unfinished]:
            LOG.warning("files lost before they were downloaded: %s", ", ".join(unfetched))
        self._jobs.clear()
        for job in jobs:
            self.drop(job)
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._folder.close()

    async def _run(self, job: FileJob) -> None:
        """Translate a file and store the result, or the error that its client will receive."""
        try:
            await self._run_in_thread(job, self._write, job, await self._translate(job))
        except Refused as refused:
            job.refused = refused
        except DataError as error:
            job.refused = Refused(400, f"Invalid request: {error}")
        except OSError as error:
            LOG.exception("writing a translated file failed")
            status = 507 if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else 500
            words = "The server could not store the translated file. See the server's log."
            job.refused = Refused(status, words)
        except Exception:
            LOG.exception("translating a file failed")
            job.refused = internal_error()
        job.ended_at = time.monotonic()
        job.ended.set()
        self._start_next()
        job.expiry = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self.drop, job)

    async def _run_in_thread(self, job: FileJob, work: Callable[..., _Result], *arguments: Any) -> _Result:
        """Run work in a thread for files, when no other file of the client uses one, not even a cancelled one."""
        await job.turn.acquire()
        future, results = start_in_thread(self._executor, work, *arguments)

        def end(done: asyncio.Future[None]) -> None:
            job.turn.release()
            if not done.cancelled():
                done.exception()  # retrieved, or the error of a file that was dropped would be logged

        future.add_done_callback(end)
        await asyncio.shield(future)
        return results.pop()

    async def _translate(self, job: FileJob) -> bytes:
        """The translated file. Raises DataError for one that is damaged or too large in some way, and Refused."""
        content, job.content = job.content, b""
        document = await self._run_in_thread(job, read_upload, content, job.kind)
        job.notes, job.num_chars = document.notes, await self._run_in_thread(job, count_chars, document)
        self.service.metrics.count_characters(job.num_chars)
        source = job.source
        if source == AUTO:
            sample = " ".join(one.text[:1000] for one in document.segments[:100])
            source = (await self.service.detect_for(sample, job.target)).language
        models, job.total = self.service.models.require_path(source, job.target, job.tag), len(document.segments)
        for number, model in enumerate(models):
            document = await self._run_in_thread(job, read_upload, content, job.kind) if number else document
            key = BatchKey(model, escape=document.escape, by_sentence=document.by_sentence, tag=job.tag)
            answers: list[str] = []
            while turn := _turn(document.segments, len(answers)):
                answers += [one.text for one in await self.service.batcher.translate(key, turn)]
                job.done = min(job.total, (number * job.total + len(answers)) // len(models))
            content = await self._run_in_thread(job, document.write, answers, (model.source, model.target))
        return content

    def _write(self, job: FileJob, content: bytes) -> None:
        """Write the translation to a file, unless the file was dropped."""
        job.path = self._folder.open() / job.id
        try:
            job.path.write_bytes(content)
        except OSError:
            _remove(job)
            raise
        if job.id not in self._jobs:  # dropped meanwhile
            _remove(job)


def _turn(segments: Sequence[MarkedText], start: int) -> Sequence[MarkedText]:
    """The segments from `start` on that are translated next."""
    stop, chars = start, 0
    while stop < min(len(segments), start + _SEGMENTS_A_TURN) and chars < _CHARS_A_TURN:
        chars += len(segments[stop].text)
        stop += 1
    return segments[start:stop]


def _half(number: int) -> int:
    return max(1, number // 2)


def _waiting_bytes(jobs: Iterable[FileJob]) -> int:
    """Bytes of the waiting files among these."""
    return sum(job.num_bytes for job in jobs if job.waits)


def _remove(job: FileJob) -> None:
    """Remove the translated file from the disk, unless it is being downloaded."""
    if job.path is not None and not job.num_downloads:
        with contextlib.suppress(OSError):
            job.path.unlink()


def _not_found() -> Refused:
    return Refused(404, "File not found. A file is kept until it is downloaded, for at most half an hour.")

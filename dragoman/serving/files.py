"""Files translated in the background, sentence by sentence among everybody's requests, and kept for their download.

Some are translated at once, the others wait their turn; of the places among either, no client has more than half.
"""

import asyncio
import contextlib
import errno
import logging
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from dragoman.errors import DataError
from dragoman.serving.http.refusals import Refused, internal_error
from dragoman.serving.models import BatchKey
from dragoman.serving.requests import AUTO, FileRequest, TranslationRequest
from dragoman.serving.service import Service

_Result = TypeVar("_Result")
_LONGEST_TEXT = 100_000
"""Characters between two tags that end a paragraph: what is translated in one go cannot be interrupted."""
_MOST_PARTS = 400_000
"""Tags or lines of a file: reading more takes seconds and gigabytes, while all requests take longer."""
_log = logging.getLogger("dragoman.serving")
_KEPT_SECONDS = 1800.0
_MAX_AT_ONCE = 4
_SENTENCES_A_TURN = 256
_MOST_WAITING = 8
"""Files that wait take up to this many times the size of the largest file, in memory."""
_FETCH_SECONDS = 5.0
"""A server that is being stopped leaves this time for the download of a file that was just translated."""
_AGAIN_SECONDS = 30


@dataclass(eq=False, slots=True)
class FileJob:
    """A file that waits, is in translation, or translated; `done` of `total` sentences are. A `request` waits."""

    id: str
    name: str
    media_type: str
    client: bytes
    request: TranslationRequest | None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    path: Path | None = None
    status: Literal["translating", "done", "error"] = "translating"
    done: int = 0
    total: int = 0
    refused: Refused | None = None
    task: asyncio.Task[None] | None = None
    was_fetched: bool = False
    ended_at: float = 0.0

    @property
    def download_name(self) -> str:
        """As LibreTranslate names it, with what nobody can guess in front."""
        return f"{self.id}.{self.name}"

    @property
    def waits(self) -> bool:
        """Whether its turn has not come."""
        return self.status == "translating" and self.task is None

    @property
    def is_unfinished(self) -> bool:
        """Whether it waits or is in translation."""
        return self.status == "translating"

    @property
    def is_pending(self) -> bool:
        """Whether it is not done, or nobody has it yet."""
        return self.is_unfinished or (self.status == "done" and not self.was_fetched)


class FileTranslations:
    """The files of one server, in a folder of its own that goes when the server does, or at the latest the process.

    The folder is made when the first file is translated: without room for it, all else is served.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._jobs: dict[str, FileJob] = {}
        self._executor = ThreadPoolExecutor(1, "files")
        service.num_unfinished_files = self.num_unfinished

    def start(self, file: FileRequest, client: bytes) -> FileJob:
        """Begins to translate a file, or puts it among those that wait.

        Raises Refused for a pair that is not served, and where there are too many, of this client (429) or of all.
        """
        request = file.translation
        if request.source != AUTO:
            self._service.path(request.source, request.target)
        self._check_limits(client, len(request.texts[0]))
        job = FileJob(str(uuid.uuid4()), file.name, file.media_type, client, request)
        self._jobs[job.id] = job
        self._start_next()
        return job

    def _check_limits(self, client: bytes, size: int) -> None:
        """Raises Refused where there is none. Files that somebody has, or that failed, make room for others."""
        jobs = self._jobs.values()
        settings = self._service.settings
        most, most_chars = settings.max_files, _MOST_WAITING * settings.max_file_bytes
        own = [job for job in jobs if job.client == client and job.is_pending]
        if len(own) >= _half(most) or size + _chars(own) > max(size, _half(most_chars)):
            raise Refused(
                429, f"{len(own)} of your files wait, or for their download. Fetch or cancel some.", _AGAIN_SECONDS
            )
        if len(jobs) >= most:
            others = [job for job in jobs if not job.is_pending]
            if not others:
                raise Refused(503, "There are too many files here. Try again later.", _AGAIN_SECONDS)
            self.drop(min(others, key=lambda job: job.ended_at))
        if size + _chars(jobs) > max(size, most_chars):
            raise Refused(503, "Too many files wait to be translated. Try again later.", _AGAIN_SECONDS)

    def _start_next(self) -> None:
        """While there is a free place, of the clients that have fewest in translation the file that came first."""
        while True:
            running = [job for job in self._jobs.values() if job.task is not None and job.is_unfinished]
            places = Counter(job.client for job in running)
            waiting = [job for job in self._jobs.values() if job.waits and places[job.client] < _half(_MAX_AT_ONCE)]
            if len(running) >= _MAX_AT_ONCE or not waiting:
                return
            job = min(waiting, key=lambda job: places[job.client])
            job.task = asyncio.create_task(self._run(job))

    async def wait_for(self, job: FileJob) -> None:
        """Waits until it is. Raises Refused where it could not be translated."""
        await job.ended.wait()
        if job.refused:
            raise job.refused

    def num_ahead(self, job: FileJob) -> int:
        """How many files are before it while it waits."""
        return [one for one in self._jobs.values() if one.is_unfinished].index(job)

    def download(self, name: str, is_sent: bool = True) -> tuple[FileJob, Path]:
        """A file that is translated, and where it is. Raises Refused where it is not, or no longer there.

        Without `is_sent` its owner only asks about it.
        """
        job = self.find(name)
        if job.refused:
            raise job.refused
        if job.path is None:
            raise Refused(503, f"The file is not ready: {job.done} of {job.total} sentences are translated.", 5)
        if not job.path.is_file():  # what cleans temporary folders has been there
            self.drop(job)
            raise _not_found()
        job.was_fetched = job.was_fetched or is_sent
        return job, job.path

    def find(self, name: str) -> FileJob:
        """By its id or the name for the download. Raises Refused where there is none."""
        job = self._jobs.get(name) or self._jobs.get(name.partition(".")[0])
        if job is None or name not in (job.id, job.download_name):
            raise _not_found()
        return job

    def drop(self, job: FileJob) -> None:
        """It is not kept any longer, and what is not translated yet is left."""
        if job.task is not None:
            job.task.cancel()
        if job.is_unfinished:
            job.status, job.refused = "error", Refused(410, "The file was cancelled.")
            job.ended.set()
        if job.path is not None:
            with contextlib.suppress(OSError):
                job.path.unlink()
        self._jobs.pop(job.id, None)
        self._start_next()

    def num_unfinished(self) -> int:
        """How many files a server that is to be stopped should wait for."""
        since = time.monotonic() - _FETCH_SECONDS
        return sum(job.is_pending and (job.is_unfinished or job.ended_at > since) for job in self._jobs.values())

    def close(self) -> None:
        """Drops all of them, and says in the log which are lost."""
        jobs = list(self._jobs.values())
        if lost := [f"{job.id} ({job.done} of {job.total} sentences)" for job in jobs if job.is_unfinished]:
            _log.warning("files are lost that were not translated: %s", ", ".join(lost))
        if unfetched := [job.id for job in jobs if job.is_pending and not job.is_unfinished]:
            _log.warning("files are lost that were translated, but not fetched: %s", ", ".join(unfetched))
        self._jobs.clear()
        for job in jobs:
            self.drop(job)
        self._executor.shutdown(wait=False, cancel_futures=True)
        if self._folder is not None:
            self._folder.cleanup()

    async def _run(self, job: FileJob) -> None:
        request, job.request = job.request, None
        assert request is not None
        try:
            job.path = await self._run_in_thread(self._write, job, await self._translate(job, request))
            job.status = "done"
        except Refused as refused:
            job.status, job.refused = "error", refused
        except DataError as error:
            job.status, job.refused = "error", Refused(400, f"Invalid request: {error}")
        except OSError as error:
            _log.exception("a translated file could not be kept")
            status = 507 if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else 500
            words = "The server could not keep the translated file. Its log says why."
            job.status, job.refused = "error", Refused(status, words)
        except Exception:
            _log.exception("a file could not be translated")
            job.status, job.refused = "error", internal_error()
        job.ended_at = time.monotonic()
        job.ended.set()
        self._start_next()
        asyncio.get_running_loop().call_later(_KEPT_SECONDS, self.drop, job)

    async def _run_in_thread(self, work: Callable[..., _Result], *arguments: Any) -> _Result:
        """One after the other: side by side they would take as long, and more of everybody's time."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)

    async def _translate(self, job: FileJob, request: TranslationRequest) -> str:
        (text,) = request.texts
        read = request.text_format.read
        sign, name = ("\n", "lines") if request.text_format.kind == "text" else ("<", "tags")
        if (count := text.count(sign)) > _MOST_PARTS:
            raise DataError(f"the file has {count} {name}, but may have {_MOST_PARTS}. Send it in parts.")
        document = await self._run_in_thread(read, text)
        if (longest := max((len(one.text) for one in document.texts), default=0)) > _LONGEST_TEXT:
            raise DataError(
                f"a paragraph has {longest} characters, but may have {_LONGEST_TEXT}. Break it up (<p>, or a cue)."
            )
        source = request.source
        if source == AUTO:
            sample = " ".join(one.text for one in document.texts[:100])
            source = self._service.detect_for(sample, request.target).language
        for number, model in enumerate(self._service.path(source, request.target)):
            document = await self._run_in_thread(read, text) if number else document
            job.total += len(document.texts)
            key, answers = BatchKey(model, request.batch_options), list[str]()
            while turn := document.texts[len(answers) : len(answers) + _SENTENCES_A_TURN]:
                answers += [one.text for one in await self._service.batcher.translate(key, turn)]
                job.done += len(turn)
            text = await self._run_in_thread(document.with_translations, answers)
        return text

    def _write(self, job: FileJob, text: str) -> Path:
        """Where its translation is now."""
        path = self._open_folder() / job.id
        try:
            path.write_bytes(text.encode())
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        return path

    def _open_folder(self) -> Path:
        """The folder, made where it is not there, or was removed by what cleans temporary folders."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="dragoman-files-", ignore_cleanup_errors=True)
        place = Path(self._folder.name)
        place.mkdir(mode=0o700, exist_ok=True)
        return place


def _half(number: int) -> int:
    return max(1, number // 2)


def _chars(jobs: Iterable[FileJob]) -> int:
    return sum(len(job.request.texts[0]) for job in jobs if job.waits and job.request)


def _not_found() -> Refused:
    return Refused(404, "There is no such file here. Files are kept for half an hour.")

"""Files translated in the background, sentence by sentence among everybody's requests, and kept for their download."""

import asyncio
import logging
import re
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dragoman.errors import DataError
from dragoman.serve.bodies import Upload
from dragoman.serve.documents import Document, markup, plain, subtitles
from dragoman.serve.refusals import Refused, broken, busy
from dragoman.serve.service import AUTO, Kind, Service, Wanted
from dragoman.text.surrogates import well_formed

FILE_KINDS: dict[str, tuple[Callable[[str], Document], str]] = {
    "txt": (plain, "text/plain"),
    "html": (markup, "text/html"),
    "srt": (subtitles, "application/x-subrip"),
    "vtt": (subtitles, "text/vtt"),
}
"""Ending of the name -> how the file's text is found, and its type for the download."""

_LONGEST_TEXT = 100_000
"""Characters between two tags that end a paragraph: what is translated in one go cannot be interrupted."""
_log = logging.getLogger("dragoman.serve")
_KEPT_SECONDS = 1800.0
_MAX_AT_ONCE = 4
_SENTENCES_A_TURN = 256


@dataclass(eq=False, slots=True)
class FileJob:
    """A file in translation, or translated; `done` of `total` sentences are."""

    id: str
    name: str
    kind: str
    wanted: Wanted
    path: Path
    status: Literal["translating", "done", "error"] = "translating"
    done: int = 0
    total: int = 0
    refused: Refused | None = None
    task: asyncio.Task[None] | None = None

    @property
    def download_name(self) -> str:
        """As LibreTranslate names it, with what nobody can guess in front."""
        return f"{self.id}.{self.name}"

    def progress(self) -> dict[str, Any]:
        """For its owner."""
        url = f"/download_file/{self.download_name}" if self.status == "done" else None
        facts = {"id": self.id, "status": self.status, "sentences": self.total, "translated": self.done}
        return facts | ({"url": url} if url else {}) | ({"error": self.refused.message} if self.refused else {})


class Files:
    """The files of one server, in a folder of its own that goes when the server does, or at the latest the process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._folder = tempfile.TemporaryDirectory(prefix="dragoman-files-", ignore_cleanup_errors=True)
        self._jobs: dict[str, FileJob] = {}

    def begin(self, upload: Upload, wanted: Wanted) -> FileJob:
        """Begins to translate a file. Raises Refused for a kind or content that is not read, for a pair that is not
        served, and where there are too many.
        """
        stem, dot, ending = upload.name.rpartition(".")
        kind = ending.lower()
        if not dot or kind not in FILE_KINDS:
            raise Refused(400, "Invalid request: file format not supported")
        try:
            text = upload.content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise Refused(400, "Invalid request: the file is not UTF-8") from None
        if wanted.source != AUTO:
            self._service.path(wanted.source, wanted.target)
        running = sum(job.status == "translating" for job in self._jobs.values())
        if running >= _MAX_AT_ONCE or len(self._jobs) >= self._service.settings.max_files:
            raise busy(30)
        name = re.sub(r"[^\w-]+", "_", stem)[:80] or "file"
        number = str(uuid.uuid4())
        job = FileJob(number, f"{name}_{wanted.target}.{kind}", kind, wanted, Path(self._folder.name) / number)
        self._jobs[number] = job
        job.task = asyncio.create_task(self._translate(job, well_formed(text)))
        return job

    async def finished(self, job: FileJob) -> None:
        """Waits until it is. Raises Refused where it could not be translated."""
        assert job.task is not None
        await asyncio.shield(job.task)
        if job.refused:
            raise job.refused

    def find(self, name: str) -> FileJob:
        """By its id or the name for the download. Raises Refused where there is none."""
        job = self._jobs.get(name) or self._jobs.get(name.partition(".")[0])
        if job is None or name not in (job.id, job.download_name):
            raise Refused(404, "There is no such file here. Files are kept for half an hour.")
        return job

    def drop(self, job: FileJob) -> None:
        """Nobody wants it any more."""
        if job.task is not None:
            job.task.cancel()
        job.path.unlink(missing_ok=True)
        self._jobs.pop(job.id, None)

    def close(self) -> None:
        """Drops all of them."""
        for job in list(self._jobs.values()):
            self.drop(job)
        self._folder.cleanup()

    async def _translate(self, job: FileJob, text: str) -> None:
        try:
            read = FILE_KINDS[job.kind][0]
            document = await asyncio.to_thread(read, text)
            if (longest := max((len(one.text) for one in document.texts), default=0)) > _LONGEST_TEXT:
                raise DataError(
                    f"a paragraph has {longest} characters, but may have {_LONGEST_TEXT}. Break it up (<p>, or a cue)."
                )
            source = job.wanted.source
            if source == AUTO:
                sample = " ".join(one.text for one in document.texts[:100])
                source = self._service.detect_for(sample, job.wanted.target).language
            for number, model in enumerate(self._service.path(source, job.wanted.target)):
                document = await asyncio.to_thread(read, text) if number else document
                job.total += len(document.texts)
                kind, answers = Kind(model).reading(document), list[str]()
                while turn := document.texts[len(answers) : len(answers) + _SENTENCES_A_TURN]:
                    answers += [one.text for one in await self._service.batcher.translate(kind, turn)]
                    job.done += len(turn)
                text = await asyncio.to_thread(document.with_translations, answers)
            await asyncio.to_thread(job.path.write_bytes, text.encode())
            job.status = "done"
        except Refused as refused:
            job.status, job.refused = "error", refused
        except DataError as error:
            job.status, job.refused = "error", Refused(400, f"Invalid request: {error}")
        except Exception:
            _log.exception("a file could not be translated")
            job.status, job.refused = "error", broken()
        asyncio.get_running_loop().call_later(_KEPT_SECONDS, self.drop, job)

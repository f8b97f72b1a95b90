"""Translation of a large file on a Ray cluster (`dragoman translate --cluster`).

The file is split into chunks of lines. The driver sends the model to each worker, so the machines need Dragoman and
Ray, but no shared disk. Finished chunks are kept on the driver's disk: Ray replaces a worker that dies and repeats its
chunk, and the same command continues a job that was stopped. A translation does not depend on the other texts in its
batch, so the output equals the output of a single process.

OUTPUT.parts/job.json      description of the job: input, model and settings
OUTPUT.parts/part_0000012  the complete lines of part 12, written atomically
"""

import contextlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError, DragomanError, ResourceError, install_advice
from dragoman.files import remove_leftovers, sha256_of, stream_to_file, verify_folder, write_file
from dragoman.records import Translation
from dragoman.text.corpus.splitting import chunks
from dragoman.text.lines import read_lines
from dragoman.version import __version__
from dragoman.workflows.progress import QUIET, Progress

_CHUNKS_WAITING = 2  # per worker, so that a worker is never idle
_RETRIES = 3
_ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive lines of the input. Both numbers count from 0."""

    number: int
    first_line: int
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """A file to translate, how to translate and write it, and the Ray cluster with the size of its workers.

    Parameters
    ----------
    address
        `auto` for the cluster that Ray finds, HOST:PORT, or `local` for a cluster on this machine alone.
    worker_cpus
        Number of processors per worker. 0 takes all processors of the smallest machine. With GPUs the number is not
        used: each worker then has one GPU and one processor.
    source, output
        The file to translate, with one text per line, and the file to write.
    models
        Model folders. Several models translate as an ensemble.
    options
        Keyword arguments of `Translator.translate_detailed`.
    device
        The device of each worker, such as "auto", "cpu" or "cuda".
    chunk_lines
        Number of lines per chunk.
    encoding
        The encoding of `source`, or "" to detect it.
    write
        Formats a translation as the line to write. The name of the function is part of the job's identity.
    report
        Receives the number of a line, counted from 1, and its translation.
    report_invalid
        Receives the number of each line that is not valid in the encoding.
    """

    address: str
    worker_cpus: int
    source: Path
    output: Path
    models: tuple[Path, ...]
    options: Mapping[str, Any]
    device: str
    chunk_lines: int
    encoding: str
    write: Callable[[Translation], str]
    report: Callable[[int, Translation], None]
    report_invalid: Callable[[int], None]

    def facts(self) -> dict[str, Any]:
        """Return everything that determines the output and its chunks."""
        manifests = [verify_folder(folder)["files"] for folder in self.models]
        return {
            "version": __version__,
            "source": sha256_of(self.source),
            "models": [{name: facts["sha256"] for name, facts in files.items()} for files in manifests],
            "options": self.options,
            "lines": self.write.__name__,
            "lines_a_piece": self.chunk_lines,
        }


def translate_on_cluster(job: ClusterJob, progress: Progress = QUIET) -> None:
    """Translate the source on the cluster, and write the output once every chunk is translated.

    Chunks that an earlier call with the same job finished are reused.

    Raises
    ------
    ConfigError
        If Ray is not installed, if no cluster answers, if it has too few processors, or if the folder of chunks
        belongs to another job.
    ModelError
        If a model folder is missing or damaged.
    ResourceError
        If workers die repeatedly on a chunk.
    """
    _ray()  # fails before anything is written
    parts = OutputParts(job.output)
    if done := parts.begin(job.facts()):
        progress.note(f"{done} chunks are already translated; translating the others")
    lines = read_lines(job.source, encoding=job.encoding, report_invalid=job.report_invalid)
    count = 0

    def missing() -> Iterator[Chunk]:
        nonlocal count
        for chunk in split_into_chunks(lines, job.chunk_lines):
            count += 1
            if not parts.has(chunk.number):
                yield chunk

    for chunk, translations in _translate_chunks(missing(), job):
        for line, translation in enumerate(translations, start=chunk.first_line + 1):
            job.report(line, translation)
        parts.write(chunk.number, "".join(f"{job.write(translation)}\n" for translation in translations).encode())
    parts.join(count)


class Worker:
    """A process on one of the machines, with the models loaded."""

    def __init__(self, models: Sequence[Mapping[str, bytes]], device: str, threads: int) -> None:
        """Load the models. `models` are the files of each model folder by name."""
        import torch

        from dragoman.inference.translator import Translator

        torch.set_num_threads(threads)
        with tempfile.TemporaryDirectory() as folder:
            for number, files in enumerate(models):
                model = Path(folder) / str(number)
                model.mkdir()
                for name, content in files.items():
                    (model / name).write_bytes(content)
            self._translator = Translator.load_ensemble([Path(folder) / str(n) for n in range(len(models))], device)

    def translate(self, chunk: Chunk, options: Mapping[str, Any]) -> list[Translation]:
        """Translate a chunk as a single process would. Line numbers count from the first line of the file."""
        return self._translator.translate_detailed(chunk.texts, first_number=chunk.first_line, **options)


def split_into_chunks(lines: Iterable[str], chunk_lines: int) -> Iterator[Chunk]:
    """Yield the lines in chunks, in order."""
    for number, texts in enumerate(chunks(lines, chunk_lines)):
        yield Chunk(number, number * chunk_lines, tuple(texts))


def _translate_chunks(missing: Iterator[Chunk], job: ClusterJob) -> Iterator[tuple[Chunk, list[Translation]]]:
    """Yield each chunk with its translations, in order of completion. Only a few chunks are in memory at a time.

    Raises ConfigError if no cluster answers, and ResourceError if workers die repeatedly on a chunk.
    """
    ray = _ray()
    with _connection(ray, job.address):
        files = ray.put([{path.name: path.read_bytes() for path in folder.iterdir()} for folder in job.models])
        idle = _workers(ray, job, files) * _CHUNKS_WAITING
        running: dict[Any, tuple[Chunk, Any]] = {}
        while True:
            while idle and (chunk := next(missing, None)) is not None:
                worker = idle.pop(0)
                running[worker.translate.remote(chunk, dict(job.options))] = chunk, worker
            if not running:
                return
            for done in ray.wait(list(running), num_returns=1)[0]:
                chunk, worker = running.pop(done)
                yield chunk, _answer(ray, done, chunk)
                idle.append(worker)


def _ray() -> Any:
    """Import the package ray. Raises ConfigError if it is not installed."""
    # By default, Ray logs every retried chunk and sends usage statistics.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise ConfigError(f"`--cluster` needs the package ray. {install_advice('cluster')}") from None
    return ray


@contextlib.contextmanager
def _connection(ray: Any, address: str) -> Iterator[None]:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    host, colon, port = address.rpartition(":")
    try:
        if colon and "/" not in address:  # Ray itself would retry for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
        place: dict[str, Any] = {"include_dashboard": False} if address == "local" else {"address": address}
        ray.init(**place, **quiet)
    except (OSError, ValueError, OverflowError, RuntimeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ConfigError(
            f"`--cluster` is {address}, but no Ray cluster answers there: {reason}. Start one (ray start --head), or "
            "use `--cluster local` for this machine alone."
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _workers(ray: Any, job: ClusterJob, files: Any) -> list[Any]:
    """Start one worker per GPU, or without GPUs as many workers as the processors of the machines allow."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    processors = [int(machine["CPU"]) for machine in machines if machine.get("CPU", 0) >= 1]
    if not processors:
        raise ConfigError("The Ray cluster has no processors. Start its machines with --num-cpus.")
    gpus = sum(int(machine.get("GPU", 0)) for machine in machines) if job.device != "cpu" else 0
    cpus = 1 if gpus else job.worker_cpus or min(processors)
    number = gpus or sum(have // cpus for have in processors)
    if not number:
        raise ConfigError(
            f"`--worker-cpus` must be at most {max(processors)}, the processors of the largest machine of the cluster, "
            f"but is {cpus}. Lower it."
        )
    limits = {"num_cpus": cpus, "num_gpus": 1 if gpus else 0}
    actor = ray.remote(Worker).options(**limits, max_restarts=-1, max_task_retries=_RETRIES)
    return [actor.remote(files, job.device, cpus) for _ in range(number)]


def _answer(ray: Any, done: Any, chunk: Chunk) -> list[Translation]:
    """Return the translations of a chunk. Raises the worker's own DragomanError, or ResourceError if Ray failed."""
    try:
        return ray.get(done)  # type: ignore[no-any-return]
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, DragomanError):
            raise cause from None
        last = chunk.first_line + len(chunk.texts)
        reason = str(error).strip().split("\n")[-1] or type(error).__name__
        raise ResourceError(
            f"lines {chunk.first_line + 1} to {last} could not be translated on the cluster: {reason} Finished chunks "
            "are kept. Repeat the command to continue."
        ) from None


_JOB = "job.json"


@dataclass(frozen=True, slots=True)
class OutputParts:
    """The parts of the file `output`, in the folder OUTPUT.parts beside it."""

    output: Path

    @property
    def folder(self) -> Path:
        """The folder of the parts, which `join` removes."""
        return self.output.with_name(f"{self.output.name}.parts")

    def begin(self, job: Mapping[str, Any]) -> int:
        """Create the folder for a job, or continue with its folder. Returns the number of parts that exist.

        `job` describes the job. Raises ConfigError if the folder belongs to another job.
        """
        self.folder.mkdir(exist_ok=True)
        remove_leftovers(self.folder)
        described = json.dumps(job, indent=1, sort_keys=True, default=repr)
        path = self.folder / _JOB
        if not path.exists() and not any(self.folder.iterdir()):
            write_file(path, described)
        elif not path.exists() or path.read_text(encoding="utf-8") != described:
            raise ConfigError(
                f"{self.folder} has parts of another job, with another input, model or settings. Run the command that "
                "started it, or remove that folder."
            )
        return sum(1 for _ in self.folder.glob("part_*"))

    def has(self, number: int) -> bool:
        """Whether part `number`, counted from 0, exists."""
        return self._part(number).exists()

    def write(self, number: int, content: bytes) -> None:
        """Write a part, whole or not at all."""
        write_file(self._part(number), content)

    def join(self, count: int) -> None:
        """Write the output from its `count` parts, then remove the folder."""
        with stream_to_file(self.output) as stream:
            for number in range(count):
                with self._part(number).open("rb") as part:
                    shutil.copyfileobj(part, stream)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _part(self, number: int) -> Path:
        return self.folder / f"part_{number:07d}"

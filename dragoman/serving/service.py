"""What every interface of the server asks for: texts translated, from a language that may have to be found out."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeVar

from dragoman.devices.threads import compute_on_one_thread
from dragoman.inference.workers import num_search_threads
from dragoman.languages import name_with_code
from dragoman.records import Candidate, Translation
from dragoman.serving.apis.documents import Document, plain_text
from dragoman.serving.batcher import Batcher
from dragoman.serving.detection import Detection, Detector
from dragoman.serving.http.bodies import BodyMemory
from dragoman.serving.http.refusals import RefusalThrottle, Refused
from dragoman.serving.metrics import Metrics
from dragoman.serving.models import BatchOptions, Models, ServedModel
from dragoman.serving.settings import ServeSettings
from dragoman.serving.throughput import cost_of
from dragoman.text.documents.markers import MarkedText

_log = logging.getLogger("dragoman.serving")
AUTO = "auto"
_Result = TypeVar("_Result")
# This many uploads of the largest size are read at once, or more of them if they are smaller.
_FILES_AT_ONCE = 16
# Splitting and detecting more characters than this would keep other requests waiting.
_MANY_CHARS = 20_000
_QUIET_SECONDS, _PROBE_SECONDS = 5.0, 2.0
_WARM_UP = ("Where is the station?", "It is late.", "The train to the city leaves at ten o'clock every morning.") * 8


class BatchKey(NamedTuple):
    """Sentences with the same key can be in one batch."""

    model: ServedModel
    options: BatchOptions = BatchOptions()

    def for_document(self, document: Document) -> "BatchKey":
        """The same key for a document's texts."""
        options = self.options._replace(is_markup=document.is_markup, by_sentence=document.by_sentence)
        return self._replace(options=options)


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """How texts are to be translated.

    `document` makes the parts of a text. `deadline` is in seconds; None waits as long as it takes.
    """

    target: str
    source: str = AUTO
    alternatives: int = 0
    with_alignment: bool = False
    with_flags: bool = False
    document: Callable[[str], Document] = plain_text
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A translated text. `parts` are the translations of its sentences; none where nothing was to be translated.

    `ranks` say of `text` and each of the `alternatives` which candidate of its sentences it is made of: of equal texts
    there is only the first.
    """

    text: str
    alternatives: list[str]
    source: str
    detection: Detection | None
    parts: list[Translation]
    ranks: list[int]


class Service:
    """Served models, the batcher before them, and how both are doing."""

    def __init__(self, models: Models, settings: ServeSettings) -> None:
        self.models, self.settings, self.metrics = models, settings, Metrics()
        for model in models.all:
            self.metrics.add_model(model.pair, model.fingerprint)
        self.state: Literal["starting", "ok", "draining"] = "starting"
        self.detector: Detector | None = None
        self.detection_failed = False
        lanes = settings.lanes or num_search_threads(models.all[0].trained.model.device)
        self._executor = ThreadPoolExecutor(lanes, "translate", compute_on_one_thread)
        self.batcher = Batcher(_translate_batch, settings, self._executor, lanes, self.metrics)
        self._apart = ThreadPoolExecutor(1, "inspect", compute_on_one_thread)
        self.refusals = RefusalThrottle()
        self.characters = self.inspections = 0
        self.body_memory = BodyMemory(_FILES_AT_ONCE * max(settings.max_file_bytes, settings.max_body_bytes))
        self.takes_work = True
        """False once the server only finishes the work in progress."""
        self.num_unfinished_files: Callable[[], int] = lambda: 0
        """How many files are to be finished, or fetched, before the server may end."""

    def check_capacity(self) -> None:
        """Raises Refused (503) where no new work is taken, or there is too much already."""
        if not self.takes_work:
            raise Refused(503, "The server is being stopped.", 5)
        self.batcher.check_capacity()

    async def start(self) -> None:
        """Translates some sentences with every model, so that the first client finds all compiled and measured."""
        loop = asyncio.get_running_loop()
        try:
            self.detector = await asyncio.to_thread(Detector, self.models.codes)
        except OSError:  # the library unpacks its model into a temporary file
            _log.exception("languages will not be detected")
            self.detection_failed = True
        for model in self.models.all:
            key, texts = BatchKey(model), [MarkedText(text, ()) for text in _WARM_UP]
            await loop.run_in_executor(self._executor, _translate_batch, key, texts)
            start = loop.time()
            await loop.run_in_executor(self._executor, _translate_batch, key, texts)
            self.batcher.throughput.learn(sum(map(cost_of, _WARM_UP)), loop.time() - start)
        self.state = "ok"

    async def close(self) -> None:
        """What is in translation is finished."""
        await self.batcher.close()
        for executor in (self._executor, self._apart):
            executor.shutdown(wait=False, cancel_futures=True)

    async def run_inspection(self, work: Callable[[], _Result]) -> _Result:
        """Done in a thread of its own, one after the other, beside the lanes."""
        return await asyncio.get_running_loop().run_in_executor(self._apart, work)

    @property
    def status(self) -> str:
        """``ok``, or why no new work should be sent: ``starting``, ``draining``, ``stalled``."""
        return "stalled" if self.state == "ok" and self.batcher.is_stalled else self.state

    async def probe_status(self) -> str:
        """The same; where nothing has been translated for a while, a word is, to see whether it still can be."""
        quiet = time.monotonic() - self.batcher.last_done > _QUIET_SECONDS
        if self.status == "ok" and quiet:
            try:
                await self.batcher.translate(BatchKey(self.models.all[0]), [MarkedText("ok", ())], _PROBE_SECONDS)
            except Refused:
                return "stalled"
        return self.status

    async def translate(self, texts: Sequence[str], options: RequestOptions) -> list[Answer]:
        """The texts in order. Raises Refused: 400 for a pair that is not served, and as the batcher does."""
        if self.state == "starting":
            raise Refused(503, "The server is starting.", 5)
        loop = asyncio.get_running_loop()
        until = None if options.deadline is None else loop.time() + options.deadline
        prepared = await self._run_in_thread_if_long(texts, lambda: [self._prepare(text, options) for text in texts])
        self.characters += sum(map(len, texts))
        groups: dict[str, list[int]] = defaultdict(list)
        for place, one in enumerate(prepared):
            groups[one.source].append(place)
        paths = {source: self.models.path(source, options.target) for source in groups}
        if options.source != AUTO or not any(path is not None for path in paths.values()):
            paths = {source: self.path(source, options.target) for source in groups}
        answers: dict[int, Answer] = {}
        for source, places in groups.items():
            # Beside texts that can be translated, one in a language that cannot comes back as it is.
            path = paths[source] or []
            found = await self._translate_along(path, [prepared[place] for place in places], options, until)
            answers |= zip(places, found, strict=True)
        return [answers[place] for place in range(len(texts))]

    async def _translate_along(
        self, path: Sequence[ServedModel], prepared: "list[_PreparedText]", options: RequestOptions, until: float | None
    ) -> list[Answer]:
        """Texts of one language through one model after the other: what one writes, the next one reads anew."""
        for model in path[:-1]:
            plain_answers = await self._translate_with(
                BatchKey(model), prepared, replace(options, alternatives=0), until
            )
            texts = [one.text for one in plain_answers]
            documents = await self._run_in_thread_if_long(texts, partial(list[Document], map(options.document, texts)))
            prepared = [
                one._replace(text=text, document=document)
                for one, text, document in zip(prepared, texts, documents, strict=True)
            ]
        if not path:
            return [_answer(one, [], options) for one in prepared]
        in_batch = BatchOptions(1 + options.alternatives, options.with_alignment, options.with_flags)
        return await self._translate_with(BatchKey(path[-1], in_batch), prepared, options, until)

    async def _translate_with(
        self, key: BatchKey, prepared: "list[_PreparedText]", options: RequestOptions, until: float | None
    ) -> list[Answer]:
        rows = [one.document.texts for one in prepared]
        left = None if until is None else max(0.0, until - asyncio.get_running_loop().time())
        key = key.for_document(prepared[0].document)
        parts = iter(await self.batcher.translate(key, [text for row in rows for text in row], left))
        return [_answer(one, list(islice(parts, len(row))), options) for one, row in zip(prepared, rows, strict=True)]

    async def _run_in_thread_if_long(self, texts: Sequence[str], work: Callable[[], _Result]) -> _Result:
        return await asyncio.to_thread(work) if sum(map(len, texts)) > _MANY_CHARS else work()

    def detect(self, text: str, among: Sequence[str] | None = None) -> list[Detection]:
        """The served languages, or some of them, the likeliest first; before them the text's own, if clearly another.

        Raises Refused where we cannot tell.
        """
        if self.detection_failed:
            raise Refused(503, "This server cannot detect languages now. Its log says why. Name the source language.")
        if self.detector is None:
            raise Refused(400, "This server cannot detect languages. Name the source language.")
        return self.detector.detect(text, among)

    def detect_for(self, text: str, target: str) -> Detection:
        """The likeliest of the languages that can be translated to `target`, itself included, or another one where the
        text is clearly in that."""
        return self.detect(text, [code for code in self.models.codes if self.models.path(code, target) is not None])[0]

    def _prepare(self, text: str, options: RequestOptions) -> "_PreparedText":
        document = options.document(text)
        if options.source != AUTO:
            return _PreparedText(text, document, options.source, None)
        detection = self.detect_for(" ".join(one.text for one in document.texts), options.target)
        return _PreparedText(text, document, detection.language, detection)

    def path(self, source: str, target: str) -> list[ServedModel]:
        """The models to go through. Raises Refused (400) where none lead there."""
        path = self.models.path(source, target)
        if path is None:
            raise Refused(
                400,
                f"{name_with_code(target)} is not available as a target language from {name_with_code(source)}",
            )
        return path


class _PreparedText(NamedTuple):
    text: str
    document: Document
    source: str
    detection: Detection | None


def _answer(prepared: _PreparedText, parts: list[Translation], options: RequestOptions) -> Answer:
    """The k-th candidate of a text has the k-th of each sentence, or a sentence's last where it has fewer."""
    if not parts:
        return Answer(prepared.text, [], prepared.source, prepared.detection, [], [0])
    first_ranks: dict[str, int] = {}
    for rank in range(max(len(part.candidates) for part in parts) or 1):
        text = prepared.document.with_translations([_candidate_text(part, rank) for part in parts])
        first_ranks.setdefault(text, rank)
    best, *others = list(first_ranks)[: 1 + options.alternatives]
    ranks = [first_ranks[text] for text in (best, *others)]
    return Answer(best, others, prepared.source, prepared.detection, parts, ranks)


def _candidate_text(part: Translation, rank: int) -> str:
    return part.candidates[: rank + 1][-1].text if part.candidates else ""


def _translate_batch(key: Any, texts: list[MarkedText]) -> Sequence[Translation]:
    return key.model.translate(texts, key.options)  # type: ignore[no-any-return]


def join_candidates(answer: Answer, rank: int = 0) -> Candidate | None:
    """The tokens and scores of a text: those of its sentences, put together; None where nothing was translated."""
    found = [part.candidates[: rank + 1][-1] for part in answer.parts if part.candidates]
    if not found:
        return None
    return replace(
        found[0],
        text=answer.text,
        tokens=tuple(token for one in found for token in one.tokens),
        token_log_probs=tuple(log_prob for one in found for log_prob in one.token_log_probs),
        log_prob=sum(one.log_prob for one in found),
        score=sum(one.score for one in found),
    )

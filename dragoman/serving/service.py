"""Served models and the queue before them: a request in, its answers out."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple, TypeVar

from dragoman.devices.threads import compute_on_one_thread
from dragoman.inference.workers import num_search_threads
from dragoman.languages import name_with_code
from dragoman.records import Translation
from dragoman.serving.batcher import Batcher
from dragoman.serving.detection import Detection, Detector
from dragoman.serving.documents import Document
from dragoman.serving.http.bodies import BodyMemory
from dragoman.serving.http.refusals import RefusalThrottle, Refused
from dragoman.serving.metrics import Metrics
from dragoman.serving.models import BatchKey, Models, ServedModel
from dragoman.serving.requests import AUTO, Answer, TranslationRequest
from dragoman.serving.settings import ServeSettings
from dragoman.serving.throughput import cost_of
from dragoman.text.documents.markers import MarkedText

_log = logging.getLogger("dragoman.serving")
_Result = TypeVar("_Result")
# This many uploads of the largest size are read at once, or more of them if they are smaller.
_FILES_AT_ONCE = 16
# Splitting and detecting more characters than this would keep other requests waiting.
_MANY_CHARS = 20_000
_QUIET_SECONDS, _PROBE_SECONDS = 5.0, 2.0
_WARM_UP = ("Where is the station?", "It is late.", "The train to the city leaves at ten o'clock every morning.") * 8


class _ParsedText(NamedTuple):
    """A text, its parts, and its language with the detection that found it."""

    text: str
    document: Document
    source: str
    detection: Detection | None = None


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
        self.batcher = Batcher(BatchKey.translate, settings, self._executor, lanes, self.metrics)
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
            await loop.run_in_executor(self._executor, key.translate, texts)
            start = loop.time()
            await loop.run_in_executor(self._executor, key.translate, texts)
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

    async def translate(self, request: TranslationRequest) -> list[Answer]:
        """The texts in order. Raises Refused: 400 for a pair that is not served, and as the batcher does.

        Beside texts that can be translated, a text in a language that is not served comes back as it is.
        """
        if self.state == "starting":
            raise Refused(503, "The server is starting.", 5)
        texts, until = request.texts, asyncio.get_running_loop().time() + self.settings.deadline_seconds
        parsed = await _map_texts(partial(self._parse, request), texts)
        self.characters += sum(map(len, texts))
        groups: dict[str, list[int]] = defaultdict(list)
        for place, one in enumerate(parsed):
            groups[one.source].append(place)
        paths = {source: self.models.path(source, request.target) for source in groups}
        if all(path is None for path in paths.values()):
            paths = {source: self.path(source, request.target) for source in groups}
        answers: dict[int, Answer] = {}
        for source, places in groups.items():
            own = [parsed[place] for place in places]
            answers |= zip(places, await self._translate_along(paths[source] or [], own, request, until), strict=True)
        return [answers[place] for place in range(len(texts))]

    async def _translate_along(
        self, path: Sequence[ServedModel], parsed: list[_ParsedText], request: TranslationRequest, until: float
    ) -> list[Answer]:
        """Texts of one language through one model after the other. Each reads what the one before has written."""
        answers = [_answer(one, [], 0) for one in parsed]
        for step, model in enumerate(path, start=1):
            if step > 1:
                texts = [one.text for one in answers]
                documents = await _map_texts(request.text_format.read, texts)
                parsed = [
                    one._replace(text=text, document=document)
                    for one, text, document in zip(parsed, texts, documents, strict=True)
                ]
            wanted = request if step == len(path) else request.for_pivot()
            key = BatchKey(model, wanted.batch_options)
            left = max(0.0, until - asyncio.get_running_loop().time())
            parts = [part for one in parsed for part in one.document.texts]
            found = iter(await self.batcher.translate(key, parts, left))
            answers = [
                _answer(one, list(islice(found, len(one.document.texts))), wanted.num_alternatives) for one in parsed
            ]
        return answers

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

    def _parse(self, request: TranslationRequest, text: str) -> _ParsedText:
        document = request.text_format.read(text)
        if request.source != AUTO:
            return _ParsedText(text, document, request.source)
        detection = self.detect_for(" ".join(one.text for one in document.texts), request.target)
        return _ParsedText(text, document, detection.language, detection)

    def path(self, source: str, target: str) -> list[ServedModel]:
        """The models to go through. Raises Refused (400) where none lead there."""
        path = self.models.path(source, target)
        if path is None:
            raise Refused(
                400,
                f"{name_with_code(target)} is not available as a target language from {name_with_code(source)}",
            )
        return path


async def _map_texts(work: Callable[[str], _Result], texts: Sequence[str]) -> list[_Result]:
    """The results for all texts, from a thread if they are long."""
    if sum(map(len, texts)) > _MANY_CHARS:
        return await asyncio.to_thread(list[_Result], map(work, texts))
    return list(map(work, texts))


def _answer(parsed: _ParsedText, parts: list[Translation], num_alternatives: int) -> Answer:
    """Candidate k of a text has candidate k of each part, or the part's last if it has fewer."""
    if not parts:
        return Answer(parsed.text, [], parsed.source, parsed.detection, [], [0])
    first_ranks: dict[str, int] = {}
    for rank in range(max(len(part.candidates) for part in parts) or 1):
        text = parsed.document.with_translations([_candidate_text(part, rank) for part in parts])
        first_ranks.setdefault(text, rank)
    best, *others = list(first_ranks)[: 1 + num_alternatives]
    ranks = [first_ranks[text] for text in (best, *others)]
    return Answer(best, others, parsed.source, parsed.detection, parts, ranks)


def _candidate_text(part: Translation, rank: int) -> str:
    return part.candidates[: rank + 1][-1].text if part.candidates else ""

"""The service behind every API: takes a request, batches it with others, and returns its answers.

`cli/serve.py` makes one `Service` per server. The APIs call `translate` and `detect`, `http/endpoint.py` calls
`check_capacity`, and `http/server.py` changes `state` and `takes_work` at shutdown.

A translation with a pivot language passes the batcher twice. Only the last model makes alternatives, alignments and
flags. All steps share one deadline.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple, TypeVar

from dragoman.devices.without_torch import compute_on_one_thread, num_search_threads
from dragoman.errors import ResourceError
from dragoman.records import NO_DETAILS, Candidate, Details, Translation
from dragoman.serving.batcher import Batcher, cost_of
from dragoman.serving.http.bodies import BodyMemory
from dragoman.serving.limits import LOG, RefusalThrottle, Refused, ServeSettings, shutting_down
from dragoman.serving.metrics import Metrics
from dragoman.serving.models import BatchKey, Detection, Models, ServedModel, detect_language
from dragoman.text.doctor.languages import known_languages
from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.text_formats import PLAIN_TEXT, SplitText, TextFormat

_Result = TypeVar("_Result")
AUTO = "auto"
"""Source language of a request that asks the server to detect it."""
# Memory for uploads in progress, as a number of uploads of the largest size. Smaller uploads may be more.
_FILES_AT_ONCE = 16
# Splitting and detecting more characters than this in the event loop would delay other requests: up to 10 µs for each.
_FEW_CHARS = 2_000
# Characters that detection reads, which holds the interpreter for 10 ms.
_MOST_DETECTED = 100_000
# Longer requests take turns in one thread, with about this number of characters each.
_CHARS_A_TURN = 10_000
# Most parts of a request, including those that stay unchanged. No server translates that number in time.
_MOST_PIECES = 50_000
# Inspections that may run or wait.
_MAX_INSPECTIONS = 4
# A health probe translates a word if nothing was translated for 5 seconds. It must take at most 2 seconds.
_QUIET_SECONDS, _PROBE_SECONDS = 5.0, 2.0
_WARM_UP = ("Where is the station?", "It is late.", "The train to the city leaves at ten o'clock every morning.") * 8


@dataclass(frozen=True, slots=True)
class TranslationRequest:
    """Texts to translate with their options, from any API.

    Attributes
    ----------
    texts
        The texts. Their number and lengths are within the limits of `ServeSettings`.
    source, target
        Served language codes. `source` may be `AUTO`: then each text has its own language.
    text_format
        The kind of the texts and where to split them.
    num_alternatives
        How many translations to return besides the best one.
    details
        Whether the answer has word alignments and flags.
    tag
        The tag for the models that have it. "" leaves the choice to each model's settings.
    """

    texts: Sequence[str]
    source: str
    target: str
    text_format: TextFormat = PLAIN_TEXT
    num_alternatives: int = 0
    details: Details = NO_DETAILS
    tag: str = ""

    def batch_key(self, model: ServedModel) -> BatchKey:
        """The model and the options that other texts must share to be in the same batch."""
        form = self.text_format
        return BatchKey(model, 1 + self.num_alternatives, self.details, form.escape, form.by_sentence, self.tag)


class Answer(NamedTuple):
    """A translated text.

    Attributes
    ----------
    text
        The best translation.
    alternatives
        Other translations, best first, without repetitions. There may be fewer than requested.
    source
        The source language, given or detected.
    detection
        The detection, if the language was detected.
    parts
        The translations of the parts of the text. It is empty if nothing needed translation.
    candidates
        The candidates of the parts that `text` is made of, then those of each of the `alternatives`.
    """

    text: str
    alternatives: list[str]
    source: str
    detection: Detection | None
    parts: list[Translation]
    candidates: list[list[Candidate]]


class _ParsedText(NamedTuple):
    """A text, its parts, and its language. `detection` is set if the language was detected."""

    text: str
    document: SplitText
    source: str
    detection: Detection | None = None


class Service:
    """The served models, the batcher that feeds them, and the state of both.

    Attributes
    ----------
    models
        The served models, which `reload` replaces as a whole.
    state
        "starting" until all models are warm, "ok", then "draining" after SIGTERM.
    batcher
        The queue in front of the models.
    refusals
        Delays refusals, so that clients that retry at once leave time for work.
    inspections
        Held by each inspection. One runs at a time (`run_inspection`), and the others wait.
    body_memory
        Limits the memory of all uploads.
    """

    def __init__(self, models: Models, settings: ServeSettings) -> None:
        self.settings, self.metrics = settings, Metrics()
        self.state: Literal["starting", "ok", "draining"] = "starting"
        self._can_detect = False  # the first request that needs the detector loads it
        self._serve_models(models)
        lanes = settings.lanes or num_search_threads(models.all[0].model.weights.device)
        self._executor = ThreadPoolExecutor(lanes, "translate", compute_on_one_thread)
        self.batcher = Batcher(BatchKey.translate, settings, self._executor, lanes, self.metrics)
        self.metrics.waiting.set_function(lambda: self.batcher.num_requests)
        self._apart = ThreadPoolExecutor(1, "inspect", compute_on_one_thread)
        self._splitter = ThreadPoolExecutor(1, "split")
        self._reloading = ThreadPoolExecutor(1, "reload", compute_on_one_thread)
        self.refusals = RefusalThrottle()
        self.inspections = asyncio.Semaphore(_MAX_INSPECTIONS)
        self.body_memory = BodyMemory(_FILES_AT_ONCE * max(settings.max_file_bytes, settings.max_body_bytes))
        self.takes_work = True
        """False when the server only finishes the work in progress."""
        self.num_unfinished_files: Callable[[], int] = lambda: 0
        """Returns the number of files that must be translated or downloaded before the server exits."""

    def check_capacity(self) -> None:
        """Raise Refused (503) if the server is stopping or its queue is full."""
        if not self.takes_work:
            raise shutting_down()
        self.batcher.check_capacity()

    async def start(self) -> None:
        """Warm up every model: compile its code and measure its speed before the first client connects."""
        for model in self.models.all:
            seconds = await asyncio.get_running_loop().run_in_executor(self._executor, _warm_up, model)
            self.batcher.throughput.learn(sum(map(cost_of, _WARM_UP)), seconds)
        self.state = "ok"

    async def reload(self, load: Callable[[], Models], also: Callable[[], None]) -> None:
        """Replace the models by those that `load` returns, when they are warm. Requests in progress keep theirs.

        Parameters
        ----------
        load
            Loads the models. If it fails, nothing changes.
        also
            Replaces what belongs to the new models, such as the keys. If it fails, nothing changes either.
        """

        def load_warm() -> Models:
            models = load()
            for model in models.all:
                _warm_up(model)
            also()
            return models

        self._serve_models(await asyncio.get_running_loop().run_in_executor(self._reloading, load_warm))

    def _serve_models(self, models: Models) -> None:
        self.models = models
        self.metrics.models.clear()
        for model in models.all:
            self.metrics.models.labels(model.pair).info({"fingerprint": model.model.fingerprint})

    async def close(self) -> None:
        """Finish the batches in progress and stop the threads."""
        await self.batcher.close()
        for executor in (self._executor, self._apart, self._splitter, self._reloading):
            executor.shutdown(wait=False, cancel_futures=True)

    async def run_inspection(self, work: Callable[[], _Result]) -> _Result:
        """Run an inspection in the inspection thread, which runs one at a time beside the lanes."""
        return await asyncio.get_running_loop().run_in_executor(self._apart, work)

    @property
    def status(self) -> str:
        """``ok``, or the reason not to send new work: ``starting``, ``draining`` or ``stalled``."""
        return "stalled" if self.state == "ok" and self.batcher.is_stalled else self.state

    async def probe_status(self) -> str:
        """The status. If nothing was translated for 5 seconds, a test word is translated first."""
        quiet = time.monotonic() - self.batcher.last_done > _QUIET_SECONDS
        if self.status == "ok" and quiet:
            try:
                await self.batcher.translate(BatchKey(self.models.all[0]), [MarkedText("ok", ())], _PROBE_SECONDS)
            except Refused:
                return "stalled"
        return self.status

    async def translate(self, request: TranslationRequest) -> list[Answer]:
        """Translate the texts of a request and return the answers in order.

        A text in a language that is not served is returned unchanged if other texts of the request can be translated.
        A tag applies to the texts whose models have it. Raises Refused (400) for a language pair that is not served and
        for a tag that no model has, and as `Batcher.translate` does.
        """
        if self.state == "starting":
            raise Refused(503, "The server is starting. Try again later.", 5)
        models = self.models  # a reload may replace them before the answer
        texts, until = request.texts, asyncio.get_running_loop().time() + self.settings.deadline_seconds
        if request.source == AUTO:
            await self._load_detector()
        work = partial(self._parse, models, request)
        parsed = await self._map_texts(work, texts, lambda one: one.document.num_pieces)
        self.metrics.count_characters(sum(map(len, texts)))
        groups: dict[str, list[int]] = defaultdict(list)
        for place, one in enumerate(parsed):
            groups[one.source].append(place)
        paths = {source: models.path(source, request.target) for source in groups}
        if all(path is None for path in paths.values()):
            paths = {source: models.require_path(source, request.target) for source in groups}
        models.check_tag(request.tag, [model for path in paths.values() for model in path or ()])
        answers: dict[int, Answer] = {}
        for source, places in groups.items():
            own = [parsed[place] for place in places]
            answers |= zip(places, await self._translate_along(paths[source] or [], own, request, until), strict=True)
        return [answers[place] for place in range(len(texts))]

    async def _translate_along(
        self, path: Sequence[ServedModel], parsed: list[_ParsedText], request: TranslationRequest, until: float
    ) -> list[Answer]:
        """Translate texts of one language through the models of a path, each with the previous model's output."""
        answers = [_answer(one, [], 0) for one in parsed]
        for step, model in enumerate(path, start=1):
            if step > 1:
                texts = [one.text for one in answers]
                documents = await self._map_texts(request.text_format.read, texts, lambda one: one.num_pieces)
                parsed = [
                    one._replace(text=text, document=document)
                    for one, text, document in zip(parsed, texts, documents, strict=True)
                ]
            is_last = step == len(path)
            wanted = request if is_last else replace(request, num_alternatives=0, details=NO_DETAILS)
            left = max(0.0, until - asyncio.get_running_loop().time())
            parts = [part for one in parsed for part in one.document.texts]
            found = iter(await self.batcher.translate(wanted.batch_key(model), parts, left))
            answers = [
                _answer(one, list(islice(found, len(one.document.texts))), wanted.num_alternatives) for one in parsed
            ]
        return answers

    async def detect(self, text: str, among: Sequence[str] = ()) -> list[Detection]:
        """Detections of the served languages, or of those in `among`, the likeliest first.

        If the text is clearly in another language, that language comes before them. Raises Refused (503) if the
        detector cannot be loaded.
        """
        await self._load_detector()
        work = partial(detect_language, codes=among or self.models.codes)
        return (await self._map_texts(work, [text[:_MOST_DETECTED]]))[0]

    async def detect_for(self, text: str, target: str) -> Detection:
        """The likeliest language among `target` and the languages with a path to it.

        Another language if the text is clearly written in that one. Raises Refused as `detect` does.
        """
        return (await self.detect(text, self.models.sources_for(target)))[0]

    async def _load_detector(self) -> None:
        if self._can_detect:
            return
        try:
            await asyncio.to_thread(known_languages)
        except (OSError, ResourceError) as error:  # the next request tries again
            LOG.error("the language detector failed to load: %s", error)
            message = "Language detection failed to load. Specify the source language. See the server's log."
            raise Refused(503, message, 30) from None
        self._can_detect = True

    async def _map_texts(
        self, work: Callable[[str], _Result], texts: Sequence[str], num_pieces: Callable[[_Result], int] = lambda _: 0
    ) -> list[_Result]:
        """Apply `work` to all texts, in another thread if they are long.

        Raises Refused (413) if the results have too many pieces.
        """
        if sum(map(len, texts)) <= _FEW_CHARS:
            return list(map(work, texts))
        results: list[_Result] = []
        left = _MOST_PIECES
        for turn in _turns(texts):
            found = await asyncio.get_running_loop().run_in_executor(self._splitter, list[_Result], map(work, turn))
            left -= sum(map(num_pieces, found))
            if left < 0:
                raise Refused(413, f"The text has more than {_MOST_PIECES} sentences and tags. Send it in parts.")
            results += found
        return results

    def _parse(self, models: Models, request: TranslationRequest, text: str) -> _ParsedText:
        document = request.text_format.read(text)
        if request.source != AUTO:
            return _ParsedText(text, document, request.source)
        words = " ".join(one.text for one in document.texts)
        detection = detect_language(words, models.sources_for(request.target))[0]
        return _ParsedText(text, document, detection.language, detection)


def _warm_up(model: ServedModel) -> float:
    """Translate twice: to compile the code of a model, and to measure its speed in seconds."""
    key, texts = BatchKey(model), [MarkedText(text, ()) for text in _WARM_UP]
    key.translate(texts)
    start = time.monotonic()
    key.translate(texts)
    return time.monotonic() - start


def _turns(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in groups of about `_CHARS_A_TURN` characters."""
    turn: list[str] = []
    size = 0
    for text in texts:
        turn.append(text)
        size += len(text)
        if size >= _CHARS_A_TURN:
            yield turn
            turn, size = [], 0
    if turn:
        yield turn


def _answer(parsed: _ParsedText, parts: list[Translation], num_alternatives: int) -> Answer:
    """The answer of translated parts. Candidate k of a text joins candidate k of each part, or its last one."""
    if not parts:
        return Answer(parsed.text, [], parsed.source, parsed.detection, [], [[]])
    chosen: dict[str, list[Candidate]] = {}
    for rank in range(max(len(part.candidates) for part in parts) or 1):
        candidates = [part.candidates[: rank + 1] for part in parts]
        text = parsed.document.with_translations([one[-1].text if one else "" for one in candidates])
        chosen.setdefault(text, [one[-1] for one in candidates if one])
    chosen = dict(islice(chosen.items(), 1 + num_alternatives))
    best, *others = chosen
    return Answer(best, others, parsed.source, parsed.detection, parts, list(chosen.values()))

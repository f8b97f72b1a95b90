"""Translates the requests of many clients in shared batches, and takes turns between the requests.

A lane is a thread that translates one batch at a time. The default is one lane per processor. A request waits in one of
two round-robin queues, for small and for large requests. A batch takes one sentence from each request of a queue in
turn. While small requests keep arriving, large ones leave one lane free for them.

Everything but `translate_batch` happens in the event loop's thread.

`Service.translate` and `FileTranslations` call `Batcher.translate`. Texts are in one batch only if they have the same
key, because a batch runs through one model with one set of options. The output of a text does not depend on its batch,
so the order of the queue changes times only.

The measured speed estimates how long a request would wait, and refuses those that would be late (`Throughput`).

Costs are estimated tokens (`cost_of`), times are seconds of `time.monotonic`.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from typing import Any

from dragoman.records import Translation
from dragoman.serving.limits import LOG, Refused, ServeSettings, internal_error, server_busy
from dragoman.serving.metrics import Metrics
from dragoman.serving.threads import run_in_thread
from dragoman.text.documents.markers import MarkedText

# A small request, such as from a person who types, has at most 160 estimated tokens in at most 4 sentences.
_SMALL_COST, _SMALL_SENTENCES = 160, 4
# The time after a small request in which large ones leave a lane free for the next small one.
_SMALL_MEMORY_SECONDS = 2.0
# Splitting fewer sentences than this between two free lanes does not help.
_LEAST_SHARE = 4
# A batch holds the interpreter between its steps, longer with more sentences: keep it short beside small requests.
_SENTENCES_BESIDE = 16
# Longest time for a batch. The next batch, and every sentence of this one, waits until the whole batch is done.
_BATCH_SECONDS = 1.0
# A batch with at least this share of the full cost counts as full.
_FULL_SHARE = 0.5
# The weight of a new measurement in the moving average.
_NEW_SHARE = 0.2


def cost_of(text: str) -> int:
    """The estimated tokens of a sentence: one per four bytes of UTF-8, plus four.

    An exact number would need the tokenizer, in the event loop and for each text.
    """
    return 4 + len(text.encode("utf-8", "surrogatepass")) // 4


class Throughput:
    """Estimates the rate of one lane: cost per second.

    The time of a batch that is far from full is mostly that of its longest sentence, so it gives only a lower bound of
    the rate. Such a batch can raise the estimate; only a full batch can lower it.

    Parameters
    ----------
    lanes
        The number of batches translated in parallel.
    full_cost
        The cost of a full batch.
    """

    def __init__(self, lanes: int, full_cost: int) -> None:
        self._lanes, self._full_cost = lanes, full_cost
        self.rate = 0.0
        self._running: dict[int, tuple[int, float]] = {}  # cost and start by lane

    def begin(self, lane: int, cost: int) -> None:
        """Record the start of a batch."""
        self._running[lane] = cost, time.monotonic()

    def end(self, lane: int) -> tuple[int, float]:
        """Record the end of a batch. Returns its cost and its duration in seconds."""
        cost, started = self._running.pop(lane)
        seconds = max(time.monotonic() - started, 1e-6)
        self.learn(cost, seconds)
        return cost, seconds

    def learn(self, cost: int, seconds: float) -> None:
        """Update the estimate with a batch of this cost and duration."""
        seen = cost / seconds
        if cost >= _FULL_SHARE * self._full_cost and self.rate:
            self.rate += _NEW_SHARE * (seen - self.rate)
        else:
            self.rate = max(self.rate, seen)

    def seconds(self, cost: float) -> float:
        """Estimated seconds for this cost on all lanes together. 0 before the first measurement."""
        return cost / (self.rate * self._lanes) if self.rate else 0.0

    def wait(self, before: float) -> float:
        """Estimated seconds until new work starts, with this cost queued before it."""
        return self.seconds(before) + max(0.0, -max(self._overtime(1), default=0.0))

    def overdue(self) -> float:
        """Seconds that the least late lane exceeds four times its estimate. 0 if a lane is free."""
        return max(0.0, min(self._overtime(4), default=0.0))

    def _overtime(self, factor: int) -> list[float]:
        """Seconds that each running batch exceeds `factor` times its estimate. Empty if a lane is free."""
        now = time.monotonic()
        if len(self._running) < self._lanes or not self.rate:
            return []
        return [now - started - factor * cost / self.rate for cost, started in self._running.values()]


class _Job:
    """The sentences of one request that share a key.

    Attributes
    ----------
    is_small, is_urgent
        Whether there are at most 4 short sentences, and whether the request has a deadline.
    costs, cost_left
        The cost of each sentence, and the total cost of those not started yet.
    waiting
        The indices of the sentences not started yet.
    answers
        The translations so far, by index.
    done
        The result: all translations, or the refusal of one sentence.
    """

    def __init__(self, key: Hashable, texts: Sequence[MarkedText], is_urgent: bool) -> None:
        self.key, self.texts, self.is_urgent = key, texts, is_urgent
        self.costs = [cost_of(one.text) for one in texts]
        self.cost_left = sum(self.costs)
        self.is_small = len(texts) <= _SMALL_SENTENCES and self.cost_left <= _SMALL_COST
        self.waiting = deque(range(len(texts)))
        self.answers: dict[int, Translation] = {}
        self.done: asyncio.Future[list[Translation]] = asyncio.get_running_loop().create_future()
        self.received = time.monotonic()

    def receive(self, answer: Translation | Refused, number: int) -> None:
        """Store the translation of sentence `number`. A refusal fails the whole job."""
        if self.done.done():
            return
        if isinstance(answer, Refused):
            self.waiting.clear()
            self.done.set_exception(answer)
            return
        self.answers[number] = answer
        if len(self.answers) == len(self.texts):
            self.done.set_result([self.answers[place] for place in range(len(self.texts))])


_Batch = list[tuple[_Job, int]]


class Batcher:
    """The queue in front of the translators.

    Parameters
    ----------
    translate_batch
        Translates a batch whose sentences share one key (a model and its options), in a thread of `executor`.
    settings
        The limits. `batch_tokens`, `batch_sentences`, `batch_wait_ms`, `max_requests`, `max_wait_seconds` and
        `deadline_seconds` are used here.
    executor, lanes
        The threads, and their number.
    metrics
        Receives measurements of batches and waiting times.
    """

    def __init__(
        self,
        translate_batch: Callable[[Any, list[MarkedText]], Sequence[Translation]],
        settings: ServeSettings,
        executor: Executor,
        lanes: int,
        metrics: Metrics,
    ) -> None:
        self._translate_batch, self._settings, self._metrics = translate_batch, settings, metrics
        self._executor, self._lanes, self._free = executor, lanes, list(range(lanes))
        self._small: deque[_Job] = deque()
        self._large: deque[_Job] = deque()
        self._large_lanes, self._last_was_large = 0, False
        self._jobs: set[_Job] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.last_done = -math.inf  # when a text was last translated, for health probes
        self._last_small = -_SMALL_MEMORY_SECONDS
        self.throughput = Throughput(lanes, min(settings.batch_tokens, 16 * settings.batch_sentences))

    @property
    def num_requests(self) -> int:
        """The number of requests queued or in progress."""
        return len(self._jobs)

    @property
    def is_stalled(self) -> bool:
        """Whether every lane is far behind the estimated time of its batch."""
        return self.throughput.overdue() > self._settings.max_wait_seconds

    def check_capacity(self, cost: int = 1, deadline: float | None = None) -> None:
        """Raise Refused if a request of this cost would be late: 503 under load, 413 if it would be late when idle.

        `deadline` is the time left for the request in seconds. A first model may have used some of the full time.
        """
        settings, own = self._settings, self.throughput.seconds(cost)
        wait = self._wait(cost)
        if self.is_stalled or self.num_requests >= settings.max_requests:
            raise server_busy(wait)
        if deadline is not None and own > settings.deadline_seconds:
            seconds = f"about {own:.0f} seconds, but may take at most {settings.deadline_seconds:g}"
            raise Refused(413, f"The text would take {seconds}. Send it in parts, or as a file.")
        if wait > settings.max_wait_seconds or (deadline is not None and wait + own > deadline):
            raise server_busy(wait)

    def _wait(self, cost: int) -> float:
        """Estimated queueing time in seconds for work of this cost.

        A small request waits for the other small ones; a large one takes turns with all requests. For a small request,
        the wait so far of the first one in the queue is a lower bound, whatever the estimate.
        """
        if cost > _SMALL_COST:
            return self.throughput.wait(sum(min(job.cost_left, cost) for job in self._jobs))
        first = next((job for job in self._small if job.waiting), None)
        waited = time.monotonic() - first.received if first else 0.0
        small_left = sum(job.cost_left for job in self._jobs if job.is_small)
        return max(waited, self.throughput.wait(small_left + cost * len(self._large)))

    async def translate(
        self, key: Hashable, texts: Sequence[MarkedText], deadline: float | None = None
    ) -> list[Translation]:
        """Translate the texts and return the translations in order.

        Cancelling this call drops the sentences not started yet. Sentences in a running batch are translated to the
        end, and their translations are dropped.

        Parameters
        ----------
        key
            The model and the options. Only texts with equal keys share a batch.
        texts
            The sentences of the request.
        deadline
            Seconds from now. None waits without limit, and the request is never refused because of load.

        Raises
        ------
        Refused
            503 if the translations would be or are late, 413 as `check_capacity` does, and 500 if a text makes the
            model fail.
        """
        if not texts:
            return []
        job = _Job(key, texts, deadline is not None)
        if deadline is not None:
            self.check_capacity(job.cost_left, deadline)
        self._jobs.add(job)
        if job.is_small:
            self._last_small = job.received
        (self._small if job.is_small else self._large).append(job)
        self._dispatch()
        try:
            async with asyncio.timeout(deadline):
                return await job.done
        except TimeoutError:
            raise server_busy(self._wait(0)) from None
        finally:
            job.waiting.clear()
            job.done.cancel()
            self._jobs.discard(job)

    async def close(self) -> None:
        """Wait for the batches in progress."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _dispatch(self) -> None:
        """Start batches on free lanes. Called when a request arrives and when a lane becomes free."""
        while self._free and (queue := self._next_queue()) is not None:
            batch = self._next_batch(queue)
            lane = self._free.pop()
            self._last_was_large = queue is self._large
            self._large_lanes += self._last_was_large
            self.throughput.begin(lane, sum(job.costs[number] for job, number in batch))
            task = asyncio.create_task(self._run(lane, batch, self._last_was_large))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _next_queue(self) -> deque[_Job] | None:
        """The queue whose turn it is, or None if no waiting request may start now."""
        for queue in (self._small, self._large):
            while queue and self._is_finished(queue[0]):
                queue.popleft()
        lanes = self._lanes - 1 if self._has_small and self._lanes > 1 else self._lanes
        if self._large and self._large_lanes < lanes:
            its_turn = not self._large_lanes and not self._last_was_large
            if its_turn or not self._small:
                return self._large
        return self._small or None

    @property
    def _has_small(self) -> bool:
        """Whether a small request arrived within the last 2 seconds."""
        return time.monotonic() - self._last_small < _SMALL_MEMORY_SECONDS

    def _is_finished(self, job: _Job) -> bool:
        """Whether a job has no waiting sentences. Refuses an urgent job that waited too long, whatever its estimate."""
        waited = time.monotonic() - job.received
        if job.is_urgent and len(job.waiting) == len(job.texts) and waited > self._settings.max_wait_seconds:
            job.receive(server_busy(waited), 0)
        return not job.waiting

    def _next_batch(self, queue: deque[_Job]) -> _Batch:
        """Take one sentence of each request in turn, all with the key of the first, for at most a second of work."""
        settings, key = self._settings, queue[0].key
        most_cost = min(settings.batch_tokens, self.throughput.rate * _BATCH_SECONDS or settings.batch_tokens)
        jobs = [job for job in queue if job.key == key and job.waiting]
        share = -(-sum(len(job.waiting) for job in jobs) // len(self._free))
        most = min(settings.batch_sentences, max(share, _LEAST_SHARE))
        if queue is self._large and self._has_small:
            most = min(most, _SENTENCES_BESIDE)
        batch: _Batch = []
        cost = 0
        while jobs and len(batch) < most and cost < most_cost:
            for job in jobs:
                cost += job.costs[job.waiting[0]]
                if batch and (len(batch) >= most or cost > most_cost):
                    break
                if len(job.waiting) == len(job.texts):
                    self._metrics.queue.observe(time.monotonic() - job.received)
                number = job.waiting.popleft()
                job.cost_left -= job.costs[number]
                batch.append((job, number))
            jobs = [job for job in jobs if job.waiting]
        queue.rotate(-1)
        return batch

    async def _run(self, lane: int, batch: _Batch, is_large: bool) -> None:
        """Translate a batch on a lane, hand out the answers, and free the lane.

        After a batch with several requests, a sign of load, the lane waits `batch_wait_ms` for more requests that can
        share the next batch. A batch of one request has no such pause.
        """
        key = batch[0][0].key
        answers = await self._translate_or_halve(key, [job.texts[number] for job, number in batch])
        cost, seconds = self.throughput.end(lane)
        self._metrics.batch_sentences.observe(len(batch))
        self._metrics.batch_seconds.observe(seconds)
        self._metrics.tokens.inc(cost)
        if any(not isinstance(answer, Refused) for answer in answers):
            self.last_done = time.monotonic()
        for (job, number), answer in zip(batch, answers, strict=True):
            job.receive(answer, number)
        self._large_lanes -= is_large
        if self._settings.batch_wait_ms and len({id(job) for job, _ in batch}) > 1:
            await asyncio.sleep(self._settings.batch_wait_ms / 1000)
        self._free.append(lane)
        self._dispatch()

    async def _translate_or_halve(self, key: Hashable, texts: list[MarkedText]) -> list[Translation | Refused]:
        """Translate a batch. If it fails, translate its halves, so that only the text at fault is refused."""
        try:
            return list(await run_in_thread(self._executor, self._translate_batch, key, texts))
        except Exception:
            if len(texts) == 1:
                LOG.exception("the model failed on a text of %d characters", len(texts[0].text))
                return [internal_error()]
        half = len(texts) // 2
        return [*await self._translate_or_halve(key, texts[:half]), *await self._translate_or_halve(key, texts[half:])]

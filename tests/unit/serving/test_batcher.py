import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dragoman.records import Candidate, Translation
from dragoman.serving.batcher import Batcher
from dragoman.serving.limits import Refused, ServeSettings
from dragoman.serving.metrics import Metrics
from dragoman.text.documents.markers import MarkedText


class Recorded:
    """Translates to upper case, records its batches, and waits for `gate` if there is one."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate: Callable[[], Any] = lambda: None

    def __call__(self, kind: Hashable, sources: list[MarkedText]) -> list[Translation]:
        texts = [one.text for one in sources]
        self.batches.append(texts)
        self.gate()
        if any("BOOM" in text for text in texts):
            raise RuntimeError("boom")
        return [Translation(text, (Candidate(text.upper(), (), (), 0.0, 0.0),), 1, False) for text in texts]


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(20):
            return await work()

    # In a separate thread, because browser tests leave an event loop in the main thread.
    with ThreadPoolExecutor(1) as own:
        return own.submit(asyncio.run, limited()).result()


def mark(texts: list[str]) -> list[MarkedText]:
    return [MarkedText(text, ()) for text in texts]


def texts_of(answers: list[Translation]) -> list[str]:
    return [answer.text for answer in answers]


def test_waiting_requests_share_a_batch(executor: ThreadPoolExecutor) -> None:
    translate = Recorded()
    translate.gate = lambda: time.sleep(0.05)

    async def work() -> None:
        batcher = Batcher(translate, ServeSettings(batch_sentences=3), executor, 1, Metrics())
        asked = [[f"a{number}", f"b{number}"] for number in range(4)]
        answers = await asyncio.gather(*(batcher.translate("kind", mark(texts)) for texts in asked))
        assert [texts_of(one) for one in answers] == [[text.upper() for text in texts] for texts in asked]
        assert batcher.num_requests == 0

    run(work)
    assert translate.batches[0] == ["a0", "b0"], "an idle lane does not wait"
    assert translate.batches[1] == ["a1", "a2", "a3"], "one sentence of each request in turn"
    assert max(map(len, translate.batches)) == 3


def test_a_batch_has_one_key_and_a_limited_cost(executor: ThreadPoolExecutor) -> None:
    translate = Recorded()
    translate.gate = lambda: time.sleep(0.02)

    async def work() -> None:
        batcher = Batcher(translate, ServeSettings(batch_tokens=20), executor, 1, Metrics())
        await asyncio.gather(*(batcher.translate(number % 2, mark([f"{number % 2} {number}"])) for number in range(12)))

    run(work)
    assert all(len({text[0] for text in batch}) == 1 for batch in translate.batches)
    assert max(map(len, translate.batches)) == 5, "four tokens each"


def test_only_the_text_at_fault_fails(executor: ThreadPoolExecutor) -> None:
    translate = Recorded()
    translate.gate = lambda: time.sleep(0.02)

    async def work() -> list[Any]:
        batcher = Batcher(translate, ServeSettings(), executor, 1, Metrics())
        texts = [["first"], *([f"text {number}"] for number in range(30)), ["fine", "BOOM", "fine"]]
        return await asyncio.gather(*(batcher.translate("kind", mark(one)) for one in texts), return_exceptions=True)

    *good, bad = run(work)
    assert [texts_of(one) for one in good[1:]] == [[f"TEXT {number}"] for number in range(30)]
    assert isinstance(bad, Refused)
    assert bad.status == 500


def test_small_requests_do_not_wait_for_large_ones(executor: ThreadPoolExecutor) -> None:
    """While small requests keep coming, a lane is free for them. With one lane they are next."""
    translate = Recorded()
    translate.gate = lambda: time.sleep(0.03)

    async def work(lanes: int) -> list[int]:
        batcher = Batcher(translate, ServeSettings(batch_sentences=10), executor, lanes, Metrics())
        await batcher.translate("kind", mark(["word"]))
        book = asyncio.create_task(batcher.translate("kind", mark([f"sentence {number}" for number in range(200)])))
        await asyncio.sleep(0)
        waited = []
        for _ in range(4):
            before = len(translate.batches)
            await batcher.translate("kind", mark(["word"]))
            waited.append(len(translate.batches) - before)
        assert not book.done()
        assert len(await book) == 200
        return waited

    assert max(run(lambda: work(2))) <= 3
    assert max(run(lambda: work(1))) <= 4


def test_cancelled_requests_are_not_translated(executor: ThreadPoolExecutor) -> None:
    translate = Recorded()
    translate.gate = lambda: time.sleep(0.1)

    async def work() -> None:
        batcher = Batcher(translate, ServeSettings(batch_sentences=4), executor, 1, Metrics())
        asked = [asyncio.create_task(batcher.translate("kind", mark(["text"] * 50))) for _ in range(10)]
        await asyncio.sleep(0.02)
        for one in asked:
            one.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        assert batcher.num_requests == 0
        await batcher.close()
        assert texts_of(await batcher.translate("kind", mark(["next"]))) == ["NEXT"]

    run(work)
    assert sum(map(len, translate.batches)) <= 9


def test_refusals(executor: ThreadPoolExecutor) -> None:
    translate = Recorded()

    async def refusal(batcher: Batcher, texts: list[str], deadline: float) -> Refused:
        with pytest.raises(Refused) as refused:
            await batcher.translate("kind", mark(texts), deadline)
        return refused.value

    async def work() -> None:
        batcher = Batcher(translate, ServeSettings(max_requests=2, max_wait_seconds=1.0), executor, 1, Metrics())
        batcher.throughput.learn(1000, 1.0)
        own = await refusal(batcher, ["x" * 400] * 100, 5.0)
        assert own.status == 413
        assert "as a file" in own.message
        little_left = await refusal(batcher, ["x" * 400], 0.05)
        assert little_left.status == 503, "an idle server would finish it in time"
        translate.gate = lambda: time.sleep(0.5)
        asked = [asyncio.create_task(batcher.translate("kind", mark(["x" * 400] * 15))) for _ in range(2)]
        await asyncio.sleep(0.01)
        full = await refusal(batcher, ["x"], 5.0)
        assert (full.status, full.retry_after) == (503, 1)
        asked[0].cancel()
        await asyncio.sleep(0)
        late = await refusal(batcher, ["x" * 400] * 15, 5.0)
        assert late.status == 503, "it would wait more than a second"
        timed_out = await refusal(batcher, ["x"], 0.1)
        assert timed_out.status == 503
        assert timed_out.retry_after is not None
        assert len(await asked[1]) == 15

    run(work)


def test_a_request_that_waited_too_long_is_refused_despite_its_estimate(executor: ThreadPoolExecutor) -> None:
    translate = Recorded()
    translate.gate = lambda: time.sleep(0.15)

    async def work() -> list[Any]:
        batcher = Batcher(translate, ServeSettings(max_wait_seconds=0.2, batch_sentences=1), executor, 1, Metrics())
        batcher.throughput.learn(1_000_000, 1.0)
        asked = [batcher.translate("kind", mark(["text"]), 5.0) for _ in range(5)]
        patient = batcher.translate("kind", mark(["text"]))
        return await asyncio.gather(*asked, patient, return_exceptions=True)

    *urgent, patient = run(work)
    assert [isinstance(one, Refused) for one in urgent] == [False, False, True, True, True]
    assert texts_of(patient) == ["TEXT"]


def test_a_batch_is_limited_to_about_a_second(executor: ThreadPoolExecutor) -> None:
    translate = Recorded()

    async def work() -> None:
        batcher = Batcher(translate, ServeSettings(), executor, 1, Metrics())
        batcher.throughput.learn(50, 1.0)
        await batcher.translate("kind", mark(["x" * 16] * 40))

    run(work)
    assert len(translate.batches[0]) == 6, "eight tokens each"


def test_a_stalled_model_is_detected(executor: ThreadPoolExecutor) -> None:
    translate = Recorded()
    translate.gate = lambda: time.sleep(0.6)

    async def work() -> None:
        batcher = Batcher(translate, ServeSettings(max_wait_seconds=0.2), executor, 1, Metrics())
        batcher.throughput.learn(1000, 0.1)
        asked = asyncio.create_task(batcher.translate("kind", mark(["text"]), 5.0))
        await asyncio.sleep(0.4)
        assert batcher.is_stalled
        begun = time.monotonic()
        with pytest.raises(Refused):
            await batcher.translate("kind", mark(["text"]), 5.0)
        assert time.monotonic() - begun < 0.2
        await asked
        assert not batcher.is_stalled

    run(work)

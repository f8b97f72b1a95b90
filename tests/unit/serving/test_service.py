"""Reloading the models of a service."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman.errors import DataError
from dragoman.serving.limits import Refused
from dragoman.serving.models import Models
from dragoman.serving.service import AUTO, Service, TranslationRequest


def test_requests_keep_their_model_which_is_freed_afterwards(make_service: Callable[..., Service]) -> None:
    async def run() -> None:
        service, others = make_service("en-de", "de-en"), make_service("en-fr").models
        await service.start()
        old = weakref.ref(service.models)
        slow = asyncio.create_task(service.translate(TranslationRequest(["SLOW"], "en", "de")))
        late = asyncio.create_task(service.translate(TranslationRequest(["This is it."], AUTO, "de")))
        await asyncio.sleep(0.05)
        await service.reload(lambda: others, lambda: None)
        assert (await slow)[0].text == "SLOW [de]"
        (new,) = await service.translate(TranslationRequest(["one"], "en", "fr"))
        assert new.text == "one [fr]"
        assert (await late)[0].text == "This is it. [de]"
        with pytest.raises(Refused, match="German"):
            await service.translate(TranslationRequest(["one"], "en", "de"))
        assert (await service.detect_for("This is it.", "de")).language == "en", "for a file that waited"
        del slow, late
        gc.collect()
        assert old() is None
        exposed = service.metrics.expose().decode()
        assert "en-fr" in exposed
        assert "en-de" not in exposed
        await service.close()

    with ThreadPoolExecutor(1) as apart:  # the main thread may have a loop of Playwright
        apart.submit(asyncio.run, run()).result()


def test_a_reload_that_fails_in_any_step_changes_nothing(make_service: Callable[..., Service]) -> None:
    def fail() -> Models:
        raise DataError("broken")

    async def run() -> None:
        service, others = make_service("en-de"), make_service("en-fr").models
        await service.start()
        models = service.models
        for load, also in ((fail, lambda: None), (lambda: others, fail)):
            with pytest.raises(DataError):
                await service.reload(load, also)
            assert service.models is models
        await service.close()

    with ThreadPoolExecutor(1) as apart:  # the main thread may have a loop of Playwright
        apart.submit(asyncio.run, run()).result()

"""Fixtures: a server whose models append the target language, and a folder with a real, small model."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from dragoman.bundle import Model
from dragoman.inference.translator import Translator
from dragoman.records import Candidate, Translation
from dragoman.serving.app import make_app
from dragoman.serving.http.keys import Keys
from dragoman.serving.limits import ServeSettings
from dragoman.serving.models import BatchKey, Models, ServedModel
from dragoman.serving.service import Service
from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.placement import AlignedPart, insert_markers


class Echo(ServedModel):
    """Appends the target language to a text. Fails on BOOM, and takes 0.3 seconds for SLOW."""

    def translate(self, texts: Sequence[MarkedText], key: BatchKey) -> list[Translation]:
        if any("BOOM" in one.text for one in texts):
            raise RuntimeError("boom")
        if any("SLOW" in one.text for one in texts):
            time.sleep(0.3)
        return [self._echo(one, key) for one in texts]

    def _echo(self, source: MarkedText, key: BatchKey) -> Translation:
        names = [self.target, *(f"{self.target}{rank}" for rank in range(1, key.n_best))]
        texts = [_insert_markers(source, f"{source.text} [{name}]", key.escape) for name in names]
        candidates = tuple(Candidate(text, (source.text, "!"), (-0.5, -0.25), -0.75, -0.5) for text in texts)
        return Translation(source.text, candidates, 1, False, ((0, 0),) if key.details.alignment else None)


def _insert_markers(source: MarkedText, text: str, escape: Callable[[str], str]) -> str:
    """Put the markers at the same words. The last word is new and has none."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    weights = np.eye(len(spans), len(spans) - 1)
    return insert_markers(source, text, [AlignedPart(spans[:-1], spans, weights)], escape)


@pytest.fixture(scope="session")
def served_folder(small_bundle: Model, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the folder of a small model for a language pair such as en-de."""
    folders: dict[str, Path] = {}

    def saved(pair: str) -> Path:
        if pair not in folders:
            source, target = pair.split("-")
            config = replace(
                small_bundle.config, data=replace(small_bundle.config.data, src_lang=source, tgt_lang=target)
            )
            folders[pair] = tmp_path_factory.mktemp("served") / pair
            replace(small_bundle, config=config).save(folders[pair])
        return folders[pair]

    return saved


@pytest.fixture(scope="session")
def make_service(small_bundle: Model, served_folder: Callable[[str], Path]) -> Callable[..., Service]:
    """Builds a service with `model_class` for pairs such as en-de. Other keywords are settings."""
    model = replace(small_bundle, fingerprint="0123456789ab")
    translator = Translator.from_models([model])

    def made(*pairs: str, model_class: type[ServedModel] = Echo, pivot: str = "", **settings: Any) -> Service:
        folder = served_folder("en-de")
        models = [
            model_class(source, target, model, translator, {}, folder)
            for source, target in (pair.split("-") for pair in pairs or ("en-de", "de-en"))
        ]
        return Service(Models(models, pivot), ServeSettings(**{"lanes": 2, **settings}))

    return made


@pytest.fixture(scope="session")
def client(make_service: Callable[..., Service]) -> Iterator[TestClient]:
    """A client of a server for some pairs, with the limits of the recorded LibreTranslate answers."""
    pairs = ("en-de", "de-en", "en-zh", "fr-en")
    service = make_service(*pairs, max_chars=50, max_texts=3, max_alternatives=2)
    with TestClient(make_app(service, Keys(None, 0))) as opened:
        yield opened

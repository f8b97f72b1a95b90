"""Models with tags, and a search that records what it is asked."""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from dragoman.bundle import Model, Weights
from dragoman.config import InferenceSettings
from dragoman.engines.interface import Search, Source
from dragoman.inference.translator import Translator
from dragoman.model.transformer import Transformer
from dragoman.records import Hypothesis
from dragoman.serving.limits import ServeSettings
from dragoman.serving.models import Models, ServedModel
from dragoman.serving.service import Service
from dragoman.text.tokenization.pipelines import tag_token


def with_tags(model: Model, *tags: str) -> Model:
    """A model like this one, with a random embedding for each tag."""
    tokenizers = model.tokenizers.with_controls([tag_token(tag) for tag in tags])
    size = tokenizers.src.vocab_size
    torch.manual_seed(5)
    changed = Transformer(model.config.model, size, size).eval()
    new = changed.state_dict()
    for name, old in model.transformer.state_dict().items():
        new[name][tuple(slice(0, one) for one in old.shape)] = old
        if name == "src_embedding.weight":
            new[name][len(old) :] *= 5.0  # so that the tags change translations
    changed.load_state_dict(new)
    return replace(model, weights=Weights.of(changed), tokenizers=tokenizers)


class Recorder:
    """Records the pair of each search, and the tag of each of its sources, or "" without one."""

    def __init__(self) -> None:
        self.searches: list[tuple[str, list[str]]] = []
        self._lock = threading.Lock()

    def watch(self, model: ServedModel) -> None:
        """Record the searches of a model."""
        search = model.translator._search
        model.translator._search = replace(search, search=_Recorded(self, model, search.search))

    def add(self, pair: str, tags: list[str]) -> None:
        """Record a search. One without sources is none."""
        with self._lock:
            self.searches += [(pair, tags)] if tags else []

    def take(self) -> list[tuple[str, str]]:
        """The pair and the different tags of each search since the last call."""
        taken, self.searches = self.searches, []
        return [(pair, " and ".join(dict.fromkeys(tags))) for pair, tags in taken]


class _Recorded:
    def __init__(self, recorder: Recorder, model: ServedModel, search: Search) -> None:
        self._recorder, self._model, self._search = recorder, model, search

    def search(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        tokenizer = self._model.model.tokenizers.src
        ids = {tokenizer.tag_ids(tag)[0]: tag for tag in self._model.tags}
        self._recorder.add(self._model.pair, [ids.get(one.ids[0], "") for one in sources if one.ids])
        if any("slow" in one.segment.text for one in sources):  # other requests wait meanwhile
            time.sleep(0.3)
        return self._search.search(sources, settings)


def tagged_service(
    model: Model, folder: Path, pairs: dict[str, str], pivot: str = "", **settings: int
) -> tuple[Service, Recorder]:
    """A service for pairs such as en-de with the tags of each, separated by spaces, and the record of its searches."""
    recorder, served = Recorder(), []
    for pair, tags in pairs.items():
        own = with_tags(model, *tags.split())
        source, target = pair.split("-")
        served.append(ServedModel(source, target, own, Translator.from_models([own]), {}, folder))
        recorder.watch(served[-1])
    return Service(Models(served, pivot), ServeSettings(**{"lanes": 1, **settings})), recorder

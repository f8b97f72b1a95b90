"""Choice of the search: machine code where it is supported, else tensor operations.

`TransformerSearch` is the search of a `Translator`. For the settings of each call it chooses `CompiledSearch`
(`inference/compiled`) or `StepSearch` (`inference/search` with `inference/tensors`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dragoman.config import InferenceSettings
from dragoman.counting import count_share, is_counting
from dragoman.data.batch import pad_ids
from dragoman.inference.search.beam import beam_search, stream_beam_search
from dragoman.inference.search.sampling import sample
from dragoman.inference.search.step_model import Ensemble, StepModel
from dragoman.inference.segments import IdStream, Source, StreamingSearch, token_batches
from dragoman.inference.tensors.converted import Converted
from dragoman.inference.tensors.fast_model import FastModel
from dragoman.inference.tensors.products import resolve_inference_precision
from dragoman.inference.workers import map_in_threads, num_search_threads
from dragoman.kernels.compiling import can_compile, will_compile
from dragoman.model.embedding import Embedding
from dragoman.model.parameters import arrays_of
from dragoman.model.transformer import Transformer
from dragoman.records import Hypothesis
from dragoman.text.tokenization.tokenizer import EOS_ID, PAD_ID

if TYPE_CHECKING:
    from dragoman.inference.compiled.weights import CompiledWeights


class StepSearch:
    """Beam search and sampling with any StepModel, batch by batch."""

    def __init__(self, model: StepModel[Any]) -> None:
        self._model = model

    def __call__(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        """Search batches of sources of similar lengths, one on each thread at a time."""
        rows_per_sentence = settings.n_best if settings.sample else settings.beam_size
        workers = num_search_threads(self._model.device)
        batches = list(token_batches(sources, rows_per_sentence, settings.batch_tokens, workers))
        watch = (lambda done: count_share(done / len(batches))) if is_counting() else None

        def search(batch: list[int]) -> list[list[Hypothesis]]:
            return self._search_batch([sources[place] for place in batch], settings)

        found: list[list[Hypothesis]] = [[] for _ in sources]
        for batch, answers in zip(batches, map_in_threads(search, batches, workers, watch=watch), strict=True):
            for place, hypotheses in zip(batch, answers, strict=True):
                found[place] = hypotheses
        return found

    def stream(self, source: Source, settings: InferenceSettings) -> IdStream:
        """Search one source. Yields the certain start of its output after each step."""
        return stream_beam_search(self._model, *self._pad([source]), settings, source.prefix)

    def _pad(self, batch: Sequence[Source]) -> tuple[Tensor, Tensor]:
        ids, lengths = pad_ids([[*source.ids, EOS_ID] for source in batch], PAD_ID)
        return ids.to(self._model.device), lengths.to(self._model.device)

    def _search_batch(self, batch: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        src_ids, src_lengths = self._pad(batch)
        prefixes = [source.prefix for source in batch]
        if settings.sample:
            names = [source.name for source in batch]
            return sample(self._model, src_ids, src_lengths, settings, names, prefixes)
        return beam_search(self._model, src_ids, src_lengths, settings, prefixes)


def compiled_weights(model: Transformer, precision: str) -> "CompiledWeights":
    """Convert the current weights of a model on the CPU for the compiled search."""
    from dragoman.inference.compiled.positions import PositionTable
    from dragoman.inference.compiled.weights import CompiledWeights

    def table_of(embedding: Embedding) -> PositionTable:
        return lambda start, length: embedding.table(start, length).detach().numpy()

    tables = table_of(model.src_embedding), table_of(model.tgt_embedding)
    return CompiledWeights(model.settings, arrays_of(model), tables, precision)


class CompiledSearch:
    """Beam search of one model in machine code. `compiled.weights.supports` must be True for the model.

    `max_length` is the maximum length of an output in tokens. None: the model's limit.
    """

    def __init__(self, model: Transformer, precision: str, max_length: int | None = None) -> None:
        will_compile()
        self._model = model
        self._max_length = model.max_positions if max_length is None else max_length
        self._weights: Converted[CompiledWeights] = Converted(model, lambda: compiled_weights(model, precision))

    def __call__(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        """Search all sources from one queue, longest first."""
        from dragoman.inference.compiled.engine import Waiting, search_all

        weights = self._weights.now()
        if not weights.is_finite:  # compiled code assumes that no number is NaN
            return StepSearch(FastModel(self._model, weights.precision))(sources, settings)
        waiting = Waiting(sources, settings, self._max_length, weights.vocab_sizes)
        count = len(waiting)
        workers = max(1, min(num_search_threads(self._model.device), count))
        map_in_threads(
            lambda _: search_all(weights, waiting, settings, workers),
            range(workers),
            workers,
            give_up=waiting.give_up,
            watch=(lambda _: count_share(1 - len(waiting) / count)) if count and is_counting() else None,
        )
        return waiting.found

    def stream(self, source: Source, settings: InferenceSettings) -> IdStream:
        """Search one source. Yields the certain start of its output after each step."""
        from dragoman.inference.compiled.engine import Waiting, stream_search

        weights = self._weights.now()
        if not weights.is_finite:
            return (yield from StepSearch(FastModel(self._model, weights.precision)).stream(source, settings))
        waiting = Waiting([source], settings, self._max_length, weights.vocab_sizes)
        yield from stream_search(weights, waiting, settings)
        return waiting.found[0]


class TransformerSearch:
    """The fastest search of a model, or of an ensemble of models, for the settings of each call."""

    def __init__(self, models: Sequence[Transformer]) -> None:
        self._models = models
        self._searches: dict[tuple[str, bool], StreamingSearch] = {}

    def __call__(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        """Search all sources. Raises ConfigError if the device does not support the precision."""
        return self._choose(settings)(sources, settings)

    def stream(self, source: Source, settings: InferenceSettings) -> IdStream:
        """Search one source. Yields the certain start of its output after each step."""
        return self._choose(settings).stream(source, settings)

    def _choose(self, settings: InferenceSettings) -> StreamingSearch:
        precision = resolve_inference_precision(settings.precision, self._models[0].device)
        kind = precision, self._can_compile(precision, settings)
        if kind not in self._searches:
            self._searches[kind] = self._build_search(*kind)
        return self._searches[kind]

    def _can_compile(self, precision: str, settings: InferenceSettings) -> bool:
        is_other = settings.sample or len(self._models) > 1 or self._models[0].device.type != "cpu"
        if is_other or not can_compile():
            return False
        from dragoman.inference.compiled.weights import supports

        model = self._models[0]
        return model.projection.weight.dtype == torch.float32 and supports(model.settings, precision, settings)

    def _build_search(self, precision: str, compiled: bool) -> StreamingSearch:
        if compiled:
            return CompiledSearch(self._models[0], precision)
        fast = [FastModel(model, precision) for model in self._models]
        return StepSearch(fast[0] if len(fast) == 1 else Ensemble(fast))

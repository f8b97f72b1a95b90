"""Choice of the search: machine code where it is supported, else tensor operations.

`TransformerSearch` is the search of a `Translator`. For the settings of each call it chooses `CompiledSearch`
(`inference/compiled`) or `StepSearch` (`inference/search` with `inference/tensors`). Only the second imports torch.
"""

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dragoman.config import InferenceSettings
from dragoman.counting import count_share, is_counting
from dragoman.devices.precision import resolve_inference_precision
from dragoman.errors import require_torch
from dragoman.inference.segments import IdStream, Source, StreamingSearch, token_batches
from dragoman.inference.tensors.converted import Converted
from dragoman.inference.workers import map_in_threads, num_search_threads
from dragoman.kernels import library
from dragoman.model.trained import AnyTransformer, LazyTransformer
from dragoman.records import Hypothesis
from dragoman.text.tokenization.control_ids import EOS_ID, PAD_ID

if TYPE_CHECKING:
    from torch import Tensor

    from dragoman.inference.compiled.weights import CompiledWeights
    from dragoman.inference.search.step_model import StepModel


class StepSearch:
    """Beam search and sampling with any StepModel, batch by batch."""

    def __init__(self, model: "StepModel[Any]") -> None:
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
        from dragoman.inference.search.beam import stream_beam_search

        return stream_beam_search(self._model, *self._pad([source]), settings, source.prefix)

    def _pad(self, batch: Sequence[Source]) -> "tuple[Tensor, Tensor]":
        from dragoman.data.batch import pad_ids

        ids, lengths = pad_ids([[*source.ids, EOS_ID] for source in batch], PAD_ID)
        return ids.to(self._model.device), lengths.to(self._model.device)

    def _search_batch(self, batch: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        src_ids, src_lengths = self._pad(batch)
        prefixes = [source.prefix for source in batch]
        if settings.sample:
            from dragoman.inference.search.sampling import sample

            names = [source.name for source in batch]
            return sample(self._model, src_ids, src_lengths, settings, names, prefixes)
        from dragoman.inference.search.beam import beam_search

        return beam_search(self._model, src_ids, src_lengths, settings, prefixes)


def compiled_weights(model: AnyTransformer, precision: str) -> "CompiledWeights":
    """Convert the current weights of a model on the CPU for the compiled search."""
    from dragoman.inference.compiled.weights import CompiledWeights

    lazy = LazyTransformer.of(model)
    weights = CompiledWeights(lazy.settings, lazy.arrays, precision)
    lazy.forget_integers()
    return weights


def convert_once(model: LazyTransformer, precision: str) -> "Converted[CompiledWeights]":
    """The model's weights for machine code, shared by the searches, the alignment and the scores of this model.

    They do not keep the model alive, so that its memory is free as soon as nobody uses it.
    """
    weak: LazyTransformer = weakref.proxy(model)
    return model.converted.setdefault(precision, Converted(weak, lambda: compiled_weights(weak, precision)))  # type: ignore[no-any-return]


class CompiledSearch:
    """Beam search of one model in machine code. `compiled.weights.unsupported_reason` must be "" for the precision.

    `max_length` is the maximum length of an output in tokens. None: the model's limit.
    """

    def __init__(self, model: AnyTransformer, precision: str, max_length: int | None = None) -> None:
        self._model = LazyTransformer.of(model)
        self._max_length = self._model.max_positions if max_length is None else max_length
        self._weights = convert_once(self._model, precision)

    def __call__(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        """Search all sources from one queue, longest first."""
        from dragoman.inference.compiled.engine import Waiting, search_all

        weights = self._weights.now()
        if not weights.is_finite:  # compiled code assumes that no number is NaN
            return tensor_search([self._model], weights.precision)(sources, settings)
        waiting = Waiting(sources, settings, self._max_length, weights.vocab_sizes)
        count = len(waiting)
        workers = max(1, min(num_search_threads("cpu"), count))
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
            return (yield from tensor_search([self._model], weights.precision).stream(source, settings))
        waiting = Waiting([source], settings, self._max_length, weights.vocab_sizes)
        yield from stream_search(weights, waiting, settings)
        return waiting.found[0]


def tensor_search(models: Sequence[LazyTransformer], precision: str) -> StepSearch:
    """The search of one model, or of an ensemble of models, in torch operations."""
    from dragoman.inference.search.step_model import Ensemble
    from dragoman.inference.tensors.fast_model import FastModel

    fast = [FastModel(model.build(), precision) for model in models]
    return StepSearch(fast[0] if len(fast) == 1 else Ensemble(fast))


class TransformerSearch:
    """The fastest search of a model, or of an ensemble of models, for the settings of each call."""

    def __init__(self, models: Sequence[AnyTransformer]) -> None:
        self._models = [LazyTransformer.of(model) for model in models]
        self._searches: dict[tuple[str, bool], StreamingSearch] = {}

    def __call__(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        """Search all sources. Raises ConfigError if the device does not support the precision."""
        return self._choose(settings)(sources, settings)

    def stream(self, source: Source, settings: InferenceSettings) -> IdStream:
        """Search one source. Yields the certain start of its output after each step."""
        return self._choose(settings).stream(source, settings)

    def _choose(self, settings: InferenceSettings) -> StreamingSearch:
        precision = resolve_inference_precision(settings.precision, self._models[0].device)
        reason = reason_for_torch(self._models, precision, settings)
        kind = precision, not reason
        if kind not in self._searches:
            if reason:
                require_torch(reason)
            compiled = CompiledSearch(self._models[0], precision) if not reason else None
            self._searches[kind] = compiled or tensor_search(self._models, precision)
        return self._searches[kind]


def check_search(models: Sequence[LazyTransformer], settings: InferenceSettings) -> None:
    """Raise now if this machine cannot search with the settings: ConfigError, MissingExtraError or ModelError."""
    precision = resolve_inference_precision(settings.precision, models[0].device)
    if reason := reason_for_torch(models, precision, settings):
        require_torch(reason)
    for model in models:
        model.check_precision(precision)


def reason_for_torch(models: Sequence[LazyTransformer], precision: str, settings: InferenceSettings) -> str:
    """What machine code does not support, as the subject of an error. "" if it can search with these settings."""
    model = models[0]
    if settings.sample or settings.mbr_samples:
        return f"`inference.{'mbr_samples' if settings.mbr_samples else 'sample'}`"
    if len(models) > 1:
        return "an ensemble of models"
    if not model.device.startswith("cpu"):
        return f"the device {model.device}"
    if not library.is_available():
        return "translating on this processor without numba"
    from dragoman.inference.compiled.weights import unsupported_reason

    return unsupported_reason(precision) if model.is_float32 else "a model whose weights are not float32"

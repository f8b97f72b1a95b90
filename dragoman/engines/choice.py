"""The two engines of a model, and the choice between them.

An engine computes three things: `search` finds translations, `stream` finds one and reports its certain start after
each step, and `force` runs given translations through the decoder. All work on ids.

- `CompiledEngine`: machine code, for one model on a CPU (`engines/compiled`).
- `TensorEngine`: torch operations, for GPUs, ensembles, sampling and everything else (`engines/tensors`).

`Engines` chooses one for the settings of each call. Only the second imports torch.
"""

import weakref
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dragoman.bundle import Weights
from dragoman.bundle.model import Converted
from dragoman.config import InferenceSettings
from dragoman.counting import count_share, is_counting
from dragoman.devices.without_torch import (
    map_in_threads,
    num_search_threads,
    resolve_inference_precision,
)
from dragoman.engines.interface import ForcedPass, IdPair, IdStream, Source
from dragoman.errors import require_torch
from dragoman.kernels import library
from dragoman.records import Hypothesis

if TYPE_CHECKING:
    from dragoman.engines.compiled.weights import CompiledWeights
    from dragoman.engines.tensors.engine import TensorEngine


class CompiledEngine:
    """The current weights of one model in machine code. `reason_for_tensors` must be "" for the precision.

    `max_length` is the maximum length of an output in tokens. None: the model's limit.
    """

    def __init__(self, model: Weights, precision: str, max_length: int | None = None) -> None:
        self._weights = convert_once(model, precision).now()
        self._max_length = model.settings.position_limit if max_length is None else max_length

    @property
    def is_finite(self) -> bool:
        """Whether machine code may compute with the weights. It assumes that no number is NaN."""
        return self._weights.is_finite

    def search(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        """Search all sources from one queue, longest first."""
        from dragoman.engines.compiled.engine import Waiting, search_all

        waiting = Waiting(sources, settings, self._max_length, self._weights)
        count = len(waiting)
        workers = max(1, min(num_search_threads("cpu"), count))
        map_in_threads(
            lambda _: search_all(self._weights, waiting, settings, workers),
            range(workers),
            workers,
            give_up=waiting.give_up,
            watch=(lambda _: count_share(1 - len(waiting) / count)) if count and is_counting() else None,
        )
        return waiting.found

    def stream(self, source: Source, settings: InferenceSettings) -> IdStream:
        """Search one source. Yields the certain start of its output after each step."""
        from dragoman.engines.compiled.engine import Waiting, stream_search

        waiting = Waiting([source], settings, self._max_length, self._weights)
        yield from stream_search(self._weights, waiting, settings)
        return waiting.found[0]

    def force(self, pairs: Sequence[IdPair], layer: int | None = None, with_log_probs: bool = True) -> list[ForcedPass]:
        """Run the decoder over given targets, on all threads.

        Parameters
        ----------
        pairs
            Source and target ids without control ids.
        layer
            The decoder layer whose cross-attention is returned, from 0, or -1 for the last. None: no attention.
        with_log_probs
            Whether to compute the log-probabilities of the targets.
        """
        from dragoman.engines.compiled.engine import force_targets

        layer, workers = self._weights.num_layers - 1 if layer == -1 else layer, num_search_threads("cpu")
        force = partial(force_targets, self._weights, layer=layer, with_log_probs=with_log_probs)
        found = list(map(iter, map_in_threads(force, [pairs[worker::workers] for worker in range(workers)], workers)))
        return [next(found[place % workers]) for place in range(len(pairs))]


class Engines:
    """The engines of a model, or of an ensemble of models. Each call goes to the one that fits its settings."""

    def __init__(self, models: Sequence[Weights]) -> None:
        self._models = list(models)
        self._tensors: dict[str, TensorEngine] = {}

    def search(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        """Search all sources. Raises ConfigError if the device does not support the precision."""
        return self.choose(settings)[0].search(sources, settings)

    def stream(self, source: Source, settings: InferenceSettings) -> IdStream:
        """Search one source. Yields the certain start of its output after each step."""
        return self.choose(settings)[0].stream(source, settings)

    def force(
        self, pairs: Sequence[IdPair], precision: str, layer: int | None = None, with_log_probs: bool = True
    ) -> list[ForcedPass]:
        """Run the decoder over given targets, with matrix products of a precision of `InferenceSettings`."""
        settings = replace(InferenceSettings(), precision=precision)  # type: ignore[arg-type]
        return self.choose(settings)[0].force(pairs, layer, with_log_probs)

    def choose(self, settings: InferenceSettings) -> "tuple[CompiledEngine | TensorEngine, str]":
        """The engine for these settings, and what keeps machine code from computing with them: "" if it computes.

        Weights that changed since the last call are converted again. Raises MissingExtraError if the engine is the
        tensors and torch is not installed.
        """
        precision = resolve_inference_precision(settings.precision, self._models[0].device)
        reason = reason_for_tensors(self._models, precision, settings)
        if not reason:
            engine = CompiledEngine(self._models[0], precision)
            if engine.is_finite:
                return engine, ""
            reason = "a model whose weights are not finite"
        if precision not in self._tensors:
            require_torch(reason)
            from dragoman.engines.tensors.engine import TensorEngine

            self._tensors[precision] = TensorEngine([model.transformer for model in self._models], precision)
        return self._tensors[precision], reason


def check_engine(models: Sequence[Weights], settings: InferenceSettings) -> None:
    """Raise now if this machine cannot search with the settings: ConfigError, MissingExtraError or ModelError."""
    precision = resolve_inference_precision(settings.precision, models[0].device)
    if reason := reason_for_tensors(models, precision, settings):
        require_torch(reason)
    for model in models:
        model.check_precision(precision)


def reason_for_tensors(models: Sequence[Weights], precision: str, settings: InferenceSettings) -> str:
    """What machine code does not support, as the subject of an error. "" if it can compute with these settings."""
    model = models[0]
    if settings.sample or settings.mbr_samples:
        return f"`inference.{'mbr_samples' if settings.mbr_samples else 'sample'}`"
    if len(models) > 1:
        return "an ensemble of models"
    if not model.device.startswith("cpu"):
        return f"the device {model.device}"
    if not library.is_available():
        return "translating on this processor without numba"
    from dragoman.engines.compiled.weights import unsupported_reason

    return unsupported_reason(precision) if model.is_float32 else "a model whose weights are not float32"


def convert_once(weights: Weights, precision: str) -> "Converted[CompiledWeights]":
    """A model's weights for machine code, shared by all engines of this model.

    They do not keep the model alive, so that its memory is free as soon as nobody uses it.
    """
    weak: Weights = weakref.proxy(weights)
    return weights.converted.setdefault(precision, Converted(weak, partial(compile_weights, weak, precision)))  # type: ignore[no-any-return]


def compile_weights(weights: Weights, precision: str) -> "CompiledWeights":
    """Convert the current weights of a model on the CPU for machine code."""
    from dragoman.engines.compiled.weights import CompiledWeights

    compiled = CompiledWeights(weights.settings, weights.arrays, precision)
    weights.forget_integers()
    return compiled

"""A trained Transformer with its tokenizers, settings and card: load and save a model folder.

`dragoman.bundle` reads and writes the files as numpy arrays. This module turns the arrays into a torch module when
something first needs one. Machine code does not, so torch is imported inside functions.
"""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from dragoman.bundle import Bundle, Card, load_bundle, save_bundle
from dragoman.bundle.quantization import float32_arrays
from dragoman.bundle.weights import Arrays, check_stored_precision, stored_precision
from dragoman.config import Config, ModelSettings
from dragoman.devices.precision import choose_device
from dragoman.devices.threads import keep_freed_memory, return_freed_memory
from dragoman.errors import ModelError, require_torch
from dragoman.messages import say
from dragoman.text.tokenization.tokenizer import TokenizerPair

if TYPE_CHECKING:
    from dragoman.model.transformer import Transformer

AnyTransformer = Union["Transformer", "LazyTransformer"]


class LazyTransformer:
    """The weights of a model as numpy arrays, and as a `Transformer` in eval mode when it is first needed.

    Parameters
    ----------
    bundle
        The content of the model folder.
    device
        Name of the torch device for the `Transformer`.

    Attributes
    ----------
    converted
        Converted copies of the weights by precision, for all that use them.
    """

    def __init__(self, bundle: Bundle, device: str) -> None:
        self.settings: ModelSettings = bundle.config.model
        self._device = device
        self._arrays: Arrays = bundle.arrays
        self._folder, self._fingerprint = bundle.folder, bundle.fingerprint
        self.stored_precision = stored_precision(bundle.arrays)
        """The precision of the matrices: "float32", or "int8" or "int16" of a quantized model."""
        self._sizes = bundle.tokenizers.src.vocab_size, bundle.tokenizers.tgt.vocab_size
        self._lock = threading.Lock()
        self._built: Transformer | None = None
        self.converted: dict[str, Any] = {}

    @classmethod
    def of(cls, model: AnyTransformer) -> "LazyTransformer":
        """The same model. A `Transformer` may change afterwards, which `version` shows."""
        if isinstance(model, LazyTransformer):
            return model
        lazy = cls.__new__(cls)
        lazy.settings, lazy._lock, lazy.converted = model.settings, threading.Lock(), {}
        lazy.stored_precision = "float32"
        lazy._set(model)
        return lazy

    @property
    def device(self) -> str:
        """Name of the torch device."""
        return self._device if self._built is None else str(self._built.device)

    @property
    def max_positions(self) -> int | None:
        """Number of positions that a source or target can have, or None for no limit."""
        return self.settings.position_limit

    @property
    def is_float32(self) -> bool:
        """Whether the weights have full precision, as they have in folders."""
        return self._built is None or str(self._built.projection.weight.dtype) == "torch.float32"

    def check_precision(self, precision: str) -> None:
        """Raise ModelError if the model is quantized in another precision."""
        check_stored_precision(self.stored_precision, precision)

    @property
    def arrays(self) -> Arrays:
        """The current weights by name, as in `bundle.parameters`. On a CPU they share the memory of the model.

        Those of a quantized model may have to be read again. Raises ModelError if its folder has changed.
        """
        if arrays := self._arrays:
            return arrays
        if self.stored_precision != "float32":
            return self._read_again()
        from dragoman.model.parameters import arrays_of

        return arrays_of(self.build())

    def forget_integers(self) -> None:
        """Free the memory of a quantized model's arrays, which a search has packed. They can be read again."""
        if self.stored_precision != "float32" and self._folder is not None:
            self._arrays = {}
            return_freed_memory()

    def _read_again(self) -> Arrays:
        assert self._folder is not None
        bundle = load_bundle(self._folder)
        if bundle.fingerprint != self._fingerprint:
            raise ModelError(f"{self._folder} has changed since it was loaded. Load it again.")
        return bundle.arrays

    @property
    def version(self) -> list[tuple[int, int]]:
        """Memory and number of changes of every parameter. Equal as long as no weight has changed."""
        if self.stored_precision != "float32":
            return [(0, 0)]  # integers never change
        if arrays := self._arrays:
            return [(array.ctypes.data, 0) for array in arrays.values()]
        return [(each.data_ptr(), 0 if each.is_inference() else each._version) for each in self._parameters]

    def build(self) -> "Transformer":
        """The model as a torch module. On a CPU it shares the memory of the arrays, unless they are integers.

        The module of a quantized model has float32 weights. One note says so.
        """
        with self._lock:
            if self._built is None:
                require_torch("this use of a model")
                keep_freed_memory()
                import torch

                from dragoman.model.transformer import Transformer

                arrays = self.arrays
                if self.stored_precision != "float32":
                    say(
                        f"the model's weights are stored in {self.stored_precision}. Outside beam search on a CPU, "
                        "they are used in float32, so numbers may differ slightly."
                    )
                    arrays = float32_arrays(self.settings, arrays)
                model = Transformer.from_arrays(self.settings, *self._sizes, arrays)
                self._set(model.to(torch.device(self._device)).eval())
            assert self._built is not None
            return self._built

    def _set(self, model: "Transformer") -> None:
        self._parameters = list(model.parameters())
        self._built = model
        if self.stored_precision == "float32":
            self._arrays = {}  # last, because threads may read it without the lock


@dataclass(frozen=True)
class TrainedModel:
    """The content of a model folder.

    `model` may be created as a `LazyTransformer`. It becomes a `Transformer` when it is first read.
    """

    model: "Transformer"
    tokenizers: TokenizerPair
    config: Config
    card: Card
    fingerprint: str = ""
    """First digits of the hash of the manifest, if the model was read from a folder."""
    lazy: LazyTransformer = field(init=False, repr=False, compare=False)
    """The weights, which machine code uses without torch."""

    @classmethod
    def load(cls, folder: Path, device: str = "auto") -> "TrainedModel":
        """Load a model folder in eval mode on `device`. Raises ModelError if it is missing, damaged or no model.

        The folder may change or disappear afterwards, unless the model is quantized: `model`, `bundle` and `save` may
        read such a folder again.
        """
        chosen = choose_device(device)
        return cls.from_bundle(load_bundle(folder), chosen)

    @classmethod
    def from_bundle(cls, bundle: Bundle, device: str = "cpu") -> "TrainedModel":
        """The model with the weights of `bundle`, whose memory it shares on a CPU."""
        lazy: Any = LazyTransformer(bundle, device)
        return cls(lazy, bundle.tokenizers, bundle.config, bundle.card, bundle.fingerprint)

    @property
    def bundle(self) -> Bundle:
        """The same content with the weights as numpy arrays. They share the memory of a model on the CPU."""
        return Bundle(self.lazy.arrays, self.tokenizers, self.config, self.card, self.fingerprint)

    def save(self, folder: Path) -> None:
        """Write a model folder, whole or not at all. An existing folder is replaced."""
        save_bundle(self.bundle, folder)


class _BuiltWhenRead:
    """The field `model`: keeps a `LazyTransformer` in `lazy`, and builds the `Transformer` when it is read."""

    def __get__(self, trained: TrainedModel | None, owner: type) -> Any:
        return self if trained is None else trained.lazy.build()

    def __set__(self, trained: TrainedModel, model: AnyTransformer) -> None:
        object.__setattr__(trained, "lazy", LazyTransformer.of(model))


TrainedModel.model = _BuiltWhenRead()  # type: ignore[assignment]

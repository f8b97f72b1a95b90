"""A trained Transformer with its tokenizers, settings and card: load and save a model folder.

`dragoman.bundle` reads and writes the files as numpy arrays. This module turns the arrays into a torch module.
"""

from dataclasses import dataclass
from pathlib import Path

from dragoman.bundle import Bundle, Card, load_bundle, save_bundle
from dragoman.config import Config
from dragoman.devices.device import resolve_device
from dragoman.model.parameters import arrays_of
from dragoman.model.transformer import Transformer
from dragoman.text.tokenization.tokenizer import TokenizerPair


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """The content of a model folder, with the weights as a `Transformer`."""

    model: Transformer
    tokenizers: TokenizerPair
    config: Config
    card: Card
    fingerprint: str = ""
    """First digits of the hash of the manifest, if the model was read from a folder."""

    @classmethod
    def load(cls, folder: Path, device: str = "auto") -> "TrainedModel":
        """Load a model folder in eval mode on `device`. Raises ModelError if it is missing, damaged or no model."""
        bundle = load_bundle(folder)
        sizes = bundle.tokenizers.src.vocab_size, bundle.tokenizers.tgt.vocab_size
        model = Transformer.from_arrays(bundle.config.model, *sizes, bundle.arrays)
        model = model.to(resolve_device(device)).eval()
        return cls(model, bundle.tokenizers, bundle.config, bundle.card, bundle.fingerprint)

    @property
    def bundle(self) -> Bundle:
        """The same content with the weights as numpy arrays. They share the memory of a model on the CPU."""
        return Bundle(arrays_of(self.model), self.tokenizers, self.config, self.card, self.fingerprint)

    def save(self, folder: Path) -> None:
        """Write a model folder, whole or not at all. An existing folder is replaced."""
        save_bundle(self.bundle, folder)

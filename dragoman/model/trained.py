"""A Transformer with its tokenizers, settings and card, from a model folder and back."""

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
    """What a model folder holds, with the weights as a Transformer."""

    model: Transformer
    tokenizers: TokenizerPair
    config: Config
    card: Card
    fingerprint: str = ""
    """Of the folder that it was read from: the beginning of the manifest's hash."""

    @classmethod
    def load(cls, folder: Path, device: str = "auto") -> "TrainedModel":
        """Read a model folder, in eval mode on `device`. Raises ModelError as `load_bundle` does."""
        bundle = load_bundle(folder)
        sizes = bundle.tokenizers.src.vocab_size, bundle.tokenizers.tgt.vocab_size
        model = Transformer.from_arrays(bundle.config.model, *sizes, bundle.arrays)
        model = model.to(resolve_device(device)).eval()
        return cls(model, bundle.tokenizers, bundle.config, bundle.card, bundle.fingerprint)

    @property
    def bundle(self) -> Bundle:
        """The same with the weights as arrays, which share the memory of a model on the CPU."""
        return Bundle(arrays_of(self.model), self.tokenizers, self.config, self.card, self.fingerprint)

    def save(self, folder: Path) -> None:
        """Write a model folder at once; an existing one is replaced."""
        save_bundle(self.bundle, folder)

"""A model: its weights, tokenizers, settings and card. Everything that translates, trains or inspects holds a `Model`.

A model folder is read into numpy arrays. Machine code uses them as they are. `Weights.transformer` makes the
`Transformer` of them when something first needs one, so torch is imported inside functions only.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from dragoman.bundle import folder as layout
from dragoman.bundle import weights as tensors
from dragoman.bundle.card import Card, read_card
from dragoman.bundle.weights import WEIGHTS, check_stored_precision, float32_arrays, quantized_arrays, stored_precision
from dragoman.config import Config, ModelSettings
from dragoman.devices.without_torch import choose_device, keep_freed_memory, return_freed_memory
from dragoman.display import Facts, ShownRecord, say
from dragoman.errors import ModelError, ResourceError, require_torch
from dragoman.files import MANIFEST, VerifiedFolder, write_folder
from dragoman.model.shapes import Arrays, expected_parameters, parameter_shapes
from dragoman.text.lexicon import LEXICON, Lexicon
from dragoman.text.tokenization.tokenizer import TokenizerPair

if TYPE_CHECKING:
    from dragoman.model.transformer import Transformer


class Weights:
    """The weights of a model as numpy arrays, and as a `Transformer` in eval mode when it is first needed.

    Parameters
    ----------
    settings
        The sizes and variants of the model.
    arrays
        Every distinct parameter by name, as in `parameter_shapes`, or from `quantized_arrays`.
    device
        Name of the torch device for the `Transformer`.
    read_again
        Reads the arrays of a quantized model again. Without it, they stay in memory.

    Attributes
    ----------
    stored_precision
        The precision of the matrices: "float32", or "int8" or "int16" of a quantized model.
    converted
        Converted copies of the weights by precision, for all that use them.
    """

    def __init__(
        self,
        settings: ModelSettings,
        arrays: Arrays,
        device: str = "cpu",
        read_again: Callable[[], Arrays] | None = None,
    ) -> None:
        self.settings, self._arrays, self._device, self._read_again = settings, arrays, device, read_again
        self.stored_precision = stored_precision(arrays)
        self.converted: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._built: Transformer | None = None

    @classmethod
    def of(cls, transformer: "Transformer") -> "Weights":
        """The weights of a `Transformer`, which may change afterwards. `version` shows each change."""
        weights = cls(transformer.settings, {})
        weights._keep(transformer)
        return weights

    @property
    def device(self) -> str:
        """Name of the torch device."""
        return self._device if self._built is None else str(self._built.device)

    @property
    def is_float32(self) -> bool:
        """Whether the weights have full precision, as they have in folders."""
        return self._built is None or str(self._built.projection.weight.dtype) == "torch.float32"

    def check_precision(self, precision: str) -> None:
        """Raise ModelError if the model is quantized in another precision."""
        check_stored_precision(self.stored_precision, precision)

    def require_float32(self) -> None:
        """Raise ModelError if the model is quantized."""
        if self.stored_precision != "float32":
            raise ModelError(
                f"the model's weights are stored in {self.stored_precision}, but this command needs float32 weights. "
                "Use the model that they were made from."
            )

    @property
    def arrays(self) -> Arrays:
        """The current weights by name. On a CPU they share the memory of the `Transformer`.

        Those of a quantized model may have to be read again. Raises ModelError if its folder has changed.
        """
        if arrays := self._arrays:
            return arrays
        if self.stored_precision != "float32" and self._read_again is not None:
            return self._read_again()
        return self.transformer.arrays()

    def forget_integers(self) -> None:
        """Free the memory of a quantized model's arrays, which a search has packed. They can be read again."""
        if self.stored_precision != "float32" and self._read_again is not None:
            self._arrays = {}
            return_freed_memory()

    @property
    def version(self) -> list[tuple[int, int]]:
        """Memory and number of changes of every parameter. Equal as long as no weight has changed."""
        if self.stored_precision != "float32":
            return [(0, 0)]  # integers never change
        if arrays := self._arrays:
            return [(array.ctypes.data, 0) for array in arrays.values()]
        parameters = self.transformer.parameters()  # also those that were replaced
        return [(each.data_ptr(), 0 if each.is_inference() else each._version) for each in parameters]

    @property
    def transformer(self) -> "Transformer":
        """The model as a torch module. On a CPU it shares the memory of the arrays, unless they are integers.

        The module of a quantized model has float32 weights. One note says so.
        """
        with self._lock:
            if self._built is None:
                require_torch("this use of a model")
                keep_freed_memory()
                from dragoman.model.transformer import Transformer

                arrays = self.arrays
                if self.stored_precision != "float32":
                    say(
                        f"the model's weights are stored in {self.stored_precision}. Outside beam search on a CPU, "
                        "they are used in float32, so numbers may differ slightly."
                    )
                    arrays = float32_arrays(self.settings, arrays)
                src_size = len(arrays["src_embedding.weight"])
                tgt_size = len(arrays.get("tgt_embedding.weight", arrays["src_embedding.weight"]))
                built = Transformer.from_arrays(self.settings, src_size, tgt_size, arrays)
                self._keep(built.to(self._device).eval())
            assert self._built is not None
            return self._built

    def _keep(self, transformer: "Transformer") -> None:
        self._built = transformer
        if self.stored_precision == "float32":
            self._arrays = {}  # last, because threads may read it without the lock


@dataclass(frozen=True, eq=False, repr=False)
class Model(ShownRecord):
    """The content of a model folder.

    Attributes
    ----------
    weights
        The parameters, as arrays and as a `Transformer`.
    tokenizers
        The tokenizers of both sides, whose vocabulary sizes determine shapes of the weights.
    config
        The settings: `config.model` describes the weights, `config.inference` the default search.
    card
        The facts for people.
    fingerprint
        First digits of the hash of the manifest, if the model was read from a folder.
    lexicon_file
        The content of the lexicon's file, or b"" without a lexicon.
    """

    weights: Weights
    tokenizers: TokenizerPair
    config: Config
    card: Card
    fingerprint: str = ""
    lexicon_file: bytes = b""

    def _facts(self) -> Facts:
        settings, sizes = self.weights.settings, (self.tokenizers.src.vocab_size, self.tokenizers.tgt.vocab_size)
        yield "languages", self.card.languages
        yield "parameters", f"{expected_parameters(settings, *sizes):,} in {self.weights.stored_precision}"
        yield "layers", f"{settings.num_encoder_layers} of the encoder, {settings.num_decoder_layers} of the decoder"
        yield "sizes", f"d_model {settings.d_model}, num_heads {settings.num_heads}, d_ff {settings.d_ff}"
        yield from self.tokenizers._facts()
        yield "scores", self.card.scores_text()

    @property
    def transformer(self) -> "Transformer":
        """The model as a torch module, made when it is first read."""
        return self.weights.transformer

    @cached_property
    def lexicon(self) -> Lexicon | None:
        """The translations of tokens in the training text, which word alignments use. None if the model has none.

        Raises ModelError if the file is damaged or of another vocabulary.
        """
        if not self.lexicon_file:
            return None
        try:
            lexicon = Lexicon.from_bytes(self.lexicon_file)
        except ValueError as error:
            raise ModelError(f"{LEXICON} of the model cannot be read: {error}. Copy or download it again.") from None
        sizes = self.tokenizers.src.vocab_size, self.tokenizers.tgt.vocab_size
        if lexicon.vocab_sizes != sizes:
            raise ModelError(
                f"{LEXICON} of the model is for vocabularies of {' and '.join(map(str, lexicon.vocab_sizes))} entries, "
                f"but its tokenizers have {' and '.join(map(str, sizes))}. Copy or download the model again."
            )
        return lexicon

    def with_lexicon(self, lexicon: Lexicon | None, pairs: int) -> "Model":
        """The model with a lexicon learned from a number of pairs, or without one."""
        card = replace(self.card, lexicon_pairs=pairs if lexicon else 0)
        return replace(self, card=card, lexicon_file=lexicon.to_bytes() if lexicon else b"")

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> "Model":
        """Read a model folder, after a check of every file against the manifest.

        The folder may change or disappear afterwards, unless the model is quantized: `transformer` and `save` may read
        such a folder again.

        Parameters
        ----------
        folder
            The model folder itself. `resolve_model_folder` finds it from a path of the user.
        device
            Name of the torch device for the `Transformer`, or "auto".

        Raises
        ------
        ModelError
            If the format is another one, or a file is missing, damaged, or does not fit the others. The message names
            it.
        """
        device, folder = choose_device(device), Path(folder)
        checked = layout.open_folder(folder)
        config = layout.parse_settings(checked)
        tokenizers = TokenizerPair.load(folder)
        try:
            shapes = parameter_shapes(config.model, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
        except ValueError as error:
            raise ModelError(
                f"{folder} has a config.toml that does not fit its tokenizer: {error}. Copy or download the model "
                "again."
            ) from None
        path = folder / WEIGHTS
        tensors.check_file_size(path, shapes)
        # The weights are hashed from the content that is parsed, so that a large file is read only once.
        try:
            arrays = tensors.parse_weights(checked.read(WEIGHTS), path, shapes)
        except MemoryError:
            size = f"{checked.manifest['files'][WEIGHTS]['bytes']:,}"
            words = f"{path} has {size} bytes, which do not fit into memory. Use a smaller model."
            raise ResourceError(words) from None
        card = read_card(folder)
        lexicon = checked.read(LEXICON) if LEXICON in checked.manifest["files"] else b""
        layout.open_folder(folder)  # nothing changed while the other files were read
        read_again = partial(_read_again, folder.absolute(), _hash_of_weights(checked))
        weights = Weights(config.model, arrays, device, read_again)
        return cls(weights, tokenizers, config, card, checked.fingerprint, lexicon)

    def save(self, folder: str | Path) -> None:
        """Write a model folder, whole or not at all. An existing model folder is replaced.

        Raises ModelError if `folder` is a file or has other files, and ResourceError if the disk is full.
        """
        folder = Path(folder)
        names = {path.name for path in folder.glob("*")}
        if folder.is_file() or (names and MANIFEST not in names):
            raise ModelError(f"{folder} exists already and is not a model folder. Choose another folder, or remove it.")
        with write_folder(folder, self.manifest_facts()) as temporary:
            self.write_files(temporary)

    def manifest_facts(self) -> dict[str, Any]:
        """The facts of the manifest besides the files, with the lowest version of the layout that holds the model."""
        has_controls = bool(self.tokenizers.src.controls or self.tokenizers.tgt.controls)
        return layout.manifest_facts(
            layout.CONTROLS_FORMAT if has_controls else layout.layout_version(self.weights.arrays)
        )

    def write_files(self, folder: Path) -> None:
        """Write the files of a model folder, without the manifest.

        A checkpoint adds its own files to `folder` afterwards. Both are inside `write_folder`, which writes the
        manifest.
        """
        layout.write_settings(self.config, folder)
        layout.write_card(self.card, folder)
        self.tokenizers.save(folder)
        tensors.write_tensors(self.weights.arrays, folder / WEIGHTS)
        if self.lexicon_file:
            (folder / LEXICON).write_bytes(self.lexicon_file)

    @classmethod
    def average(cls, folders: Sequence[Path]) -> "Model":
        """The mean of the models in `folders`, with everything else of the last one.

        Raises ModelError if a folder is damaged or of another model.
        """
        last = cls.load(folders[-1], "cpu")
        mean = layout.mean_weights(folders, {name: array.shape for name, array in last.weights.arrays.items()})
        return replace(last, weights=Weights(last.config.model, mean))

    def quantize(self, precision: Literal["int8", "int16"], embeddings: bool = False) -> "Model":
        """The model with weights of `precision`, "int8" or "int16". Embeddings stay float32 unless `embeddings`."""
        arrays = quantized_arrays(self.config.model, self.weights.arrays, precision, embeddings)
        config = replace(self.config, inference=replace(self.config.inference, precision=precision))
        return replace(self, weights=Weights(self.config.model, arrays), config=config)


def _read_again(folder: Path, hash_of_weights: str) -> Arrays:
    if _hash_of_weights(layout.open_folder(folder)) != hash_of_weights:
        raise ModelError(f"{folder} has changed since it was loaded. Load it again.")
    return Model.load(folder, "cpu").weights.arrays


def _hash_of_weights(checked: VerifiedFolder) -> str:
    return str(checked.manifest["files"][WEIGHTS]["sha256"])


Form = TypeVar("Form")


class Converted(Generic[Form]):
    """The result of `convert`, cached until a parameter of the model is changed in place or gets new memory."""

    def __init__(self, weights: Weights, convert: Callable[[], Form]) -> None:
        self._weights = weights
        self._convert = convert
        self._lock = threading.Lock()
        self._made_from: list[tuple[int, int]] = []
        self._form: Form

    def now(self) -> Form:
        """The conversion of the current weights. Safe to call from several threads."""
        with self._lock:
            now = self._weights.version
            if now != self._made_from:
                self._form, self._made_from = self._convert(), now
            return self._form

"""Import and export of Marian models in Hugging Face format (`MarianMTModel`), such as the OPUS-MT models.

Marian's decoder starts with the padding token, so our bos gets the embedding of that token. Our padding gets a row of
zeros, and its logit is so low that it is never output. The other rows keep their order after our four control tokens.

`convert_model` in `workflows/models.py` calls `import_marian`, and saves the result as a
model folder. The input is a folder, downloaded by `hub` or made by the user:

| file | content | read by |
|---|---|---|
| config.json, generation_config.json, tokenizer_config.json | settings | `marian_config` |
| vocab.json | token -> id, for both sides, or for the source | this module |
| target_vocab.json | token -> id of the target, if `separate_vocabs` is true | this module |
| source.spm, target.spm | SentencePiece models that cut text into tokens | `sentencepiece_file` |
| model.safetensors, or pytorch_model.bin | weights | `marian_weights` |

`export_marian` writes the same files, with weights as safetensors, so that a model that is imported, exported and
imported again is the same. It needs post-norm and an imported tokenizer, because `MarianTokenizer` only reads
SentencePiece models. Names and keys are those of transformers' `convert_marian_to_pytorch.py`.

The two .spm files define pieces only; ids come from the JSON files. Marian's usual ids are eos 0, unk 1 and padding
last. A model with ids in another order is imported too.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle import Card, Model, Weights
from dragoman.bundle.weights import write_tensors
from dragoman.config import Config, DataSettings, TokenizerSettings
from dragoman.engines.compiled.weights import position_tables
from dragoman.errors import ModelError
from dragoman.exchange import marian_config, marian_weights
from dragoman.exchange.marian_config import MarianConfig
from dragoman.exchange.marian_weights import TensorFile
from dragoman.exchange.sentencepiece_file import read_spm, write_spm
from dragoman.files import write_folder
from dragoman.model.shapes import Arrays, parameter_shapes
from dragoman.records import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from dragoman.text.tokenization.pipelines import CONTROL_TOKENS
from dragoman.text.tokenization.sentencepiece import SentencePieceTokenizer
from dragoman.text.tokenization.tokenizer import Tokenizer, TokenizerPair
from dragoman.version import __version__

SOURCE_SPM, TARGET_SPM = "source.spm", "target.spm"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
UNREACHABLE = -10_000.0
"""The logit of a token that must never be output: a probability of 0, but finite in float16."""

# The end of names such as Helsinki-NLP/opus-mt-de-en, for models whose files do not name the languages.
_LANGUAGES = re.compile(r"-([a-z]{2,3})-([a-z]{2,3})$")
# The largest difference of a stored position. float16, which a file may have, rounds sines by up to 0.00025.
_POSITION_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """The result of an import.

    Attributes
    ----------
    model
        The model on the CPU, with its tokenizers, settings and card.
    notes
        Clauses for the user about unsafe files and options that were left out.
    """

    model: Model
    notes: tuple[str, ...]


def import_marian(folder: Path, origin: str) -> ImportedModel:
    """Import a Marian model from a folder in Hugging Face format.

    Nothing in the folder is trusted: every size is checked before memory is allocated.

    Parameters
    ----------
    folder
        The files of the model.
    origin
        The name of the model on the hub, or of its folder. The card states it, and it may name the languages.

    Returns
    -------
    ImportedModel
        The model. Nothing is written.

    Raises
    ------
    ModelError
        If a file is missing or damaged, or the model has a part that Dragoman's Transformer cannot represent. The
        message names the file, the key or tensor, and its value.
    """
    marian = marian_config.read_marian_config(folder)
    src, tgt = _read_tokenizers(folder, marian)
    tensors = marian_weights.open_tensors(folder)
    names = _embedding_names(tensors, marian)
    allowed = frozenset((marian_weights.SHARED, marian_weights.PROJECTION, *marian_weights.EMBEDDINGS.values()))
    marian_weights.require_shapes(tensors, _shapes_of(marian, names, tensors), allowed)
    _check_positions(tensors, marian)
    arrays = _arrays(marian, tensors, names, _our_rows(src, marian), _our_rows(tgt, marian))
    pair = TokenizerPair(Tokenizer("sentencepiece", src.tokenizer), Tokenizer("sentencepiece", tgt.tokenizer), False)
    config = _config(marian, pair, origin)
    pickled = [f"{tensors.path} is a pickle; only its tensors were read"] if tensors.path.suffix == ".bin" else []
    model = Model(Weights(config.model, arrays), pair, config, _card(config, pair, arrays, origin))
    return ImportedModel(model, (*pickled, *marian.notes))


@dataclass(frozen=True, slots=True)
class _Side:
    """The vocabulary of one side: Marian's ids by token, and the tokenizer with our ids."""

    vocabulary: dict[str, int]
    tokenizer: SentencePieceTokenizer


def _read_tokenizers(folder: Path, marian: MarianConfig) -> tuple[_Side, _Side]:
    """Both sides. Even with one vocabulary, the two .spm files may cut text differently."""
    src_path = folder / VOCABULARY
    tgt_path = folder / (TARGET_VOCABULARY if marian.separate_vocabularies else VOCABULARY)
    if marian.model.tie == "all" and src_path != tgt_path:
        raise ModelError(f"{folder} has two vocabularies, which cannot share one embedding. Download the model again.")
    src = _vocabulary(src_path, marian, marian.src_vocab_size)
    tgt = _vocabulary(tgt_path, marian, marian.tgt_vocab_size)
    return _side(folder / SOURCE_SPM, src_path, src), _side(folder / TARGET_SPM, tgt_path, tgt)


def _vocabulary(path: Path, marian: MarianConfig, size: int) -> dict[str, int]:
    """Marian's ids by token. Raises ModelError unless they are 0 ... `size` - 1 and match the ids in config.json."""
    vocabulary = marian_config.read_json(path)
    ids = list(vocabulary.values())
    if len(ids) != size or not all(type(index) is int for index in ids) or sorted(ids) != list(range(size)):
        raise ModelError(
            f"{path} must have each id from 0 to {size - 1} once (see config.json), but does not. "
            "Download the model again."
        )
    for token, expected in (("<pad>", marian.pad_id), ("</s>", marian.eos_id), ("<unk>", vocabulary.get("<unk>"))):
        if token not in vocabulary:
            raise ModelError(f"{path} has no {token}. Such a model cannot be imported.")
        if vocabulary[token] != expected:
            raise ModelError(
                f"{path}: the id of {token} is {vocabulary[token]}, but config.json says {expected}. "
                "Such a model cannot be imported."
            )
    return vocabulary


def _side(spm: Path, vocabulary_path: Path, vocabulary: dict[str, int]) -> _Side:
    """A tokenizer whose vocabulary is our control tokens, then Marian's other tokens in the order of their ids."""
    model = read_spm(spm)
    others = [token for token, _ in sorted(vocabulary.items(), key=lambda one: one[1]) if token not in _CONTROLS]
    try:
        return _Side(vocabulary, SentencePieceTokenizer(model, (*CONTROL_TOKENS, *others)))
    except ValueError as error:
        raise ModelError(f"{spm} or {vocabulary_path} is damaged: {error}. Download the model again.") from None


_CONTROLS = frozenset(("<pad>", "</s>", "<unk>"))


def _our_rows(side: _Side, marian: MarianConfig) -> list[int]:
    """Marian's id for each of our ids after padding."""
    unk_id = side.vocabulary["<unk>"]
    controls = {BOS_ID: marian.pad_id, EOS_ID: marian.eos_id, UNK_ID: unk_id}
    others = (index for index in range(len(side.vocabulary)) if index not in controls.values())
    return [*(controls[index] for index in sorted(controls)), *others]


def _embedding_names(tensors: TensorFile, marian: MarianConfig) -> dict[str, str]:
    """The name in the file for each of our embeddings and the projection. Tied tensors have one of several names."""
    present = tensors.shapes().keys()
    tied = (
        marian_weights.SHARED,
        marian_weights.EMBEDDINGS["encoder"],
        marian_weights.EMBEDDINGS["decoder"],
        marian_weights.PROJECTION,
    )
    choices: dict[str, dict[str, tuple[str, ...]]] = {
        "all": {"src_embedding.weight": tied},
        "decoder": {
            "src_embedding.weight": (marian_weights.EMBEDDINGS["encoder"],),
            "tgt_embedding.weight": (marian_weights.EMBEDDINGS["decoder"], marian_weights.PROJECTION),
        },
        "none": {
            "src_embedding.weight": (marian_weights.EMBEDDINGS["encoder"], marian_weights.SHARED),
            "tgt_embedding.weight": (marian_weights.EMBEDDINGS["decoder"], marian_weights.SHARED),
            "projection.weight": (marian_weights.PROJECTION,),
        },
    }
    chosen = choices[marian.model.tie].items()
    return {ours: next((name for name in names if name in present), names[0]) for ours, names in chosen}


def _shapes_of(marian: MarianConfig, names: dict[str, str], tensors: TensorFile) -> dict[str, tuple[int, ...]]:
    """The required shape of each tensor, by its name in the file."""
    shapes = parameter_shapes(marian.model, 4, 4)
    expected = {
        theirs: (shapes[ours][0] // len(group), *shapes[ours][1:])
        for ours, group in marian_weights.layer_tensors(marian.model).items()
        for theirs in group
    }
    sizes = {"src_embedding.weight": marian.src_vocab_size}
    width = marian.model.d_model
    expected |= {theirs: (sizes.get(ours, marian.tgt_vocab_size), width) for ours, theirs in names.items()}
    present = tensors.shapes()
    expected |= {marian_weights.BIAS: (1, marian.tgt_vocab_size)} if marian_weights.BIAS in present else {}
    return expected | {name: (*present[name][:1], width) for name in marian_weights.POSITIONS if name in present}


def _check_positions(tensors: TensorFile, marian: MarianConfig) -> None:
    """Raise ModelError if the positions in the file are not the usual sinusoids, which Dragoman computes."""
    table, _ = position_tables(marian.model, {})
    for name in marian_weights.POSITIONS:
        if shape := tensors.shapes().get(name):
            error = np.abs(tensors.tensor(name) - table(0, shape[0])).max(initial=0.0)
            if not error < _POSITION_TOLERANCE:
                raise ModelError(
                    f"{tensors.path}: tensor `{name}` is not the table of sines and cosines (differs by {error:.2g}). "
                    "Such a model cannot be imported."
                )


def _arrays(
    marian: MarianConfig,
    tensors: TensorFile,
    names: dict[str, str],
    src_rows: list[int],
    tgt_rows: list[int],
) -> Arrays:
    """The parameters with the tensors of the file, in our order. `src_rows` and `tgt_rows` come from `_our_rows`."""
    groups = marian_weights.layer_tensors(marian.model).items()
    ours = {name: np.concatenate([tensors.tensor(theirs) for theirs in group]) for name, group in groups}
    for name, theirs in names.items():
        rows = src_rows if name == "src_embedding.weight" else tgt_rows
        ours[name] = _permute_rows(tensors.tensor(theirs), rows, 0.0)
    bias = (
        tensors.tensor(marian_weights.BIAS)[0]
        if marian_weights.BIAS in tensors.shapes()
        else np.zeros(marian.tgt_vocab_size, np.float32)
    )
    ours["projection.bias"] = _permute_rows(bias, tgt_rows, UNREACHABLE)
    # Our bos has the output row of Marian's padding. With renormalization its probability must be 0.
    if marian.renormalized:
        ours["projection.bias"][BOS_ID] = UNREACHABLE
    return {name: ours[name] for name in parameter_shapes(marian.model, len(src_rows) + 1, len(tgt_rows) + 1)}


def _permute_rows(tensor: NDArray[np.float32], rows: list[int], padding: float) -> NDArray[np.float32]:
    """The rows in our order, after a row for padding."""
    assert PAD_ID == 0
    return np.concatenate((np.full_like(tensor[:1], padding), tensor[rows]))


def _config(marian: MarianConfig, pair: TokenizerPair, origin: str) -> Config:
    found = _LANGUAGES.search(origin)
    src_lang, tgt_lang = found.groups() if found else ("", "")
    return Config(
        data=DataSettings(
            src_lang=marian.src_lang or src_lang,
            tgt_lang=marian.tgt_lang or tgt_lang,
            max_tokens=marian.max_positions - 1,
        ),
        tokenizer=TokenizerSettings(
            kind="sentencepiece",
            vocab_size=max(8, pair.src.vocab_size, pair.tgt.vocab_size),
            joint=not marian.separate_vocabularies,
        ),
        model=marian.model,
        inference=marian.inference,
    )


def _card(config: Config, pair: TokenizerPair, arrays: Arrays, origin: str) -> Card:
    return Card(
        src_lang=config.data.src_lang,
        tgt_lang=config.data.tgt_lang,
        parameters=sum(array.size for array in arrays.values()),
        src_vocab_size=pair.src.vocab_size,
        tgt_vocab_size=pair.tgt.vocab_size,
        versions=(("dragoman", __version__),),
        origin=f"{origin}, a Marian model in Hugging Face form",
    )


# Marian's ids of these tokens. Padding is the last one.
_EOS, _UNK = 0, 1
# The fewest positions to write. OPUS-MT models have 512.
_POSITIONS = 512


@dataclass(frozen=True, slots=True)
class _ExportedSide:
    """The tokenizer of one side. `rows` has our id for each of Marian's: eos, unk, the vocabulary, Marian's padding."""

    tokenizer: SentencePieceTokenizer

    @property
    def rows(self) -> list[int]:
        """Our id for each of Marian's. Our bos is Marian's padding, with which its decoder starts."""
        return [EOS_ID, UNK_ID, *range(len(CONTROL_TOKENS), len(self.tokenizer.vocabulary)), BOS_ID]

    @property
    def vocabulary(self) -> dict[str, int]:
        """The content of vocab.json: Marian's ids by token."""
        names = ["</s>", "<unk>", *self.tokenizer.vocabulary[len(CONTROL_TOKENS) :], "<pad>"]
        return {name: index for index, name in enumerate(names)}


def export_marian(model: Model, folder: Path) -> tuple[str, ...]:
    """Write a model in the Hugging Face format of Marian.

    Parameters
    ----------
    model
        The model.
    folder
        The folder to write. An existing folder is replaced.

    Returns
    -------
    tuple[str, ...]
        Clauses about settings without a counterpart.

    Raises
    ------
    ModelError
        If Marian cannot represent the model. The message names the setting and its value.
    """
    src, tgt = _exported_side(model.tokenizers.src), _exported_side(model.tokenizers.tgt)
    _check_exportable(model, src, tgt)
    shared = src.tokenizer.vocabulary == tgt.tokenizer.vocabulary
    with write_folder(folder, {"format": 1, "versions": {"dragoman": __version__}}) as temporary:
        write_tensors(_tensors(model, src, tgt), temporary / marian_weights.SAFETENSORS, {"format": "pt"})
        _write(temporary / marian_config.CONFIG, _marian_json(model, src, tgt))
        _write(temporary / marian_config.GENERATION, _generation(model, tgt))
        _write(temporary / marian_config.TOKENIZER, _tokenizer(model, shared))
        _write(temporary / VOCABULARY, src.vocabulary)
        if not shared:
            _write(temporary / TARGET_VOCABULARY, tgt.vocabulary)
        for name, side in ((SOURCE_SPM, src), (TARGET_SPM, tgt)):
            (temporary / name).write_bytes(write_spm(side.tokenizer.model))
    penalty = model.config.inference.length_penalty
    if penalty == "power":
        return ()
    return (f"`inference.length_penalty` ({penalty}) has no counterpart in Marian and is left out",)


def _exported_side(tokenizer: Tokenizer) -> _ExportedSide:
    if not isinstance(tokenizer.library, SentencePieceTokenizer):
        raise ModelError(
            f"a tokenizer of kind {tokenizer.kind} cannot be exported to Marian, only an imported one can. "
            "Export to ctranslate2 instead."
        )
    return _ExportedSide(tokenizer.library)


def _check_exportable(model: Model, src: _ExportedSide, tgt: _ExportedSide) -> None:
    """Raise ModelError for a model whose layers or vocabularies `MarianMTModel` cannot represent."""
    settings = model.config.model
    problems = {
        "`model.norm_first` is true, but Marian models in transformers are post-norm": settings.norm_first,
        f'`model.positions` is "{settings.positions}", not "marian"': settings.positions != "marian",
        "`model.attention_bias` is false, but Marian's attention has biases": not settings.attention_bias,
        "the two vocabularies have different sizes, but one id must be padding in both": (
            len(src.tokenizer.vocabulary) != len(tgt.tokenizer.vocabulary)
        ),
    }
    for problem, holds in problems.items():
        if holds:
            raise ModelError(f"this model cannot be exported to Marian: {problem}. Export to ctranslate2 instead.")


def _tensors(model: Model, src: _ExportedSide, tgt: _ExportedSide) -> dict[str, NDArray[np.float32]]:
    """The tensors by Marian's names. Tied tensors are written once. transformers computes the positions itself."""
    ours = model.weights.arrays
    model.weights.require_float32()
    tensors = {
        theirs: part
        for name, group in marian_weights.layer_tensors(model.config.model).items()
        for theirs, part in zip(group, np.split(ours[name], len(group)), strict=True)
    }
    tie = model.config.model.tie
    embeddings = {
        marian_weights.SHARED if tie == "all" else marian_weights.EMBEDDINGS["encoder"]: (
            ours["src_embedding.weight"],
            src,
        )
    }
    if tie != "all":
        embeddings[marian_weights.EMBEDDINGS["decoder"]] = ours["tgt_embedding.weight"], tgt
    if tie == "none":
        embeddings[marian_weights.PROJECTION] = ours["projection.weight"], tgt
    tensors |= {name: tensor[side.rows] for name, (tensor, side) in embeddings.items()}
    bias = ours.get("projection.bias", np.zeros(model.tokenizers.tgt.vocab_size, np.float32))
    return tensors | {marian_weights.BIAS: bias[tgt.rows][None]}


def _marian_json(model: Model, src: _ExportedSide, tgt: _ExportedSide) -> dict[str, Any]:
    shape, pad = model.config.model, len(tgt.rows) - 1
    return {
        "architectures": ["MarianMTModel"],
        **marian_config.MUST_BE,
        **{key: getattr(shape, setting) for key, setting in marian_config.MODEL_KEYS.items()},
        "decoder_attention_heads": shape.num_heads,
        "decoder_ffn_dim": shape.d_ff,
        "activation_function": shape.activation,
        "max_position_embeddings": _num_positions(model),
        "vocab_size": len(src.rows),
        "decoder_vocab_size": len(tgt.rows),
        "share_encoder_decoder_embeddings": shape.tie == "all",
        "tie_word_embeddings": shape.tie != "none",
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": _EOS,
        "forced_eos_token_id": None,
        "bos_token_id": None,
        "dtype": "float32",
    }


def _num_positions(model: Model) -> int:
    """Positions for the longest source and the longest output: transformers reads positions from a table."""
    return max(_POSITIONS, model.config.data.max_tokens + 1 + model.config.inference.max_extra_tokens)


def _generation(model: Model, tgt: _ExportedSide) -> dict[str, Any]:
    """The content of generation_config.json.

    With `early_stopping` "never" transformers searches until no open hypothesis can win, which is never less thorough
    than Dragoman's own search (`engines/search/beam.py`). `bad_words_ids` suppress what Dragoman never outputs.
    """
    settings, pad = model.config.inference, len(tgt.rows) - 1
    penalty = {"length_penalty": settings.length_penalty_alpha} if settings.length_penalty == "power" else {}
    return {
        "num_beams": settings.beam_size,
        **penalty,
        "early_stopping": "never",
        "max_length": _num_positions(model),
        "bad_words_ids": [[pad], [_UNK]],
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": _EOS,
    }


def _tokenizer(model: Model, shared: bool) -> dict[str, Any]:
    """The content of tokenizer_config.json. `model_max_length` counts the end token, `data.max_tokens` does not."""
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": model.config.data.src_lang,
        "target_lang": model.config.data.tgt_lang,
        "model_max_length": model.config.data.max_tokens + 1,
        "separate_vocabs": not shared,
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

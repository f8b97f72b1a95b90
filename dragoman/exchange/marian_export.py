"""Export a post-norm model with an imported tokenizer for transformers (`MarianMTModel`, `MarianTokenizer`).

The inverse of `marian_import`: a model that is imported, exported and imported again is the same model.

`export_model` in `workflows/exchange.py` calls `export_marian`. It writes the files that `marian_import`
lists, with weights as safetensors. Models with other tokenizers cannot be exported, because `MarianTokenizer` only
reads SentencePiece models. Names and keys are those of transformers' `convert_marian_to_pytorch.py`.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle import Model
from dragoman.bundle.weights import write_tensors
from dragoman.errors import ModelError
from dragoman.exchange.marian_config import CONFIG, GENERATION, MODEL_KEYS, MUST_BE, TOKENIZER
from dragoman.exchange.marian_import import SOURCE_SPM, TARGET_SPM, TARGET_VOCABULARY, VOCABULARY
from dragoman.exchange.marian_weights import BIAS, EMBEDDINGS, PROJECTION, SAFETENSORS, SHARED, layer_tensors
from dragoman.exchange.sentencepiece_file import write_spm
from dragoman.files import write_folder
from dragoman.text.tokenization.control_ids import BOS_ID, EOS_ID, UNK_ID
from dragoman.text.tokenization.pipelines import CONTROL_TOKENS
from dragoman.text.tokenization.sentencepiece import SentencePieceTokenizer
from dragoman.text.tokenization.tokenizer import Tokenizer
from dragoman.version import __version__

# Marian's ids of these tokens. Padding is the last one.
_EOS, _UNK = 0, 1
# The fewest positions to write. OPUS-MT models have 512.
_POSITIONS = 512


@dataclass(frozen=True, slots=True)
class _Side:
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
    src, tgt = _side(model.tokenizers.src), _side(model.tokenizers.tgt)
    _check_exportable(model, src, tgt)
    shared = src.tokenizer.vocabulary == tgt.tokenizer.vocabulary
    with write_folder(folder, {"format": 1, "versions": {"dragoman": __version__}}) as temporary:
        write_tensors(_tensors(model, src, tgt), temporary / SAFETENSORS, {"format": "pt"})
        _write(temporary / CONFIG, _config(model, src, tgt))
        _write(temporary / GENERATION, _generation(model, tgt))
        _write(temporary / TOKENIZER, _tokenizer(model, shared))
        _write(temporary / VOCABULARY, src.vocabulary)
        if not shared:
            _write(temporary / TARGET_VOCABULARY, tgt.vocabulary)
        for name, side in ((SOURCE_SPM, src), (TARGET_SPM, tgt)):
            (temporary / name).write_bytes(write_spm(side.tokenizer.model))
    penalty = model.config.inference.length_penalty
    if penalty == "power":
        return ()
    return (f"`inference.length_penalty` ({penalty}) has no counterpart in Marian and is left out",)


def _side(tokenizer: Tokenizer) -> _Side:
    if not isinstance(tokenizer.library, SentencePieceTokenizer):
        raise ModelError(
            f"a tokenizer of kind {tokenizer.kind} cannot be exported to Marian, only an imported one can. "
            "Export to ctranslate2 instead."
        )
    return _Side(tokenizer.library)


def _check_exportable(model: Model, src: _Side, tgt: _Side) -> None:
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


def _tensors(model: Model, src: _Side, tgt: _Side) -> dict[str, NDArray[np.float32]]:
    """The tensors by Marian's names. Tied tensors are written once. transformers computes the positions itself."""
    ours = model.weights.arrays
    model.weights.require_float32()
    tensors = {
        theirs: part
        for name, group in layer_tensors(model.config.model).items()
        for theirs, part in zip(group, np.split(ours[name], len(group)), strict=True)
    }
    tie = model.config.model.tie
    embeddings = {SHARED if tie == "all" else EMBEDDINGS["encoder"]: (ours["src_embedding.weight"], src)}
    if tie != "all":
        embeddings[EMBEDDINGS["decoder"]] = ours["tgt_embedding.weight"], tgt
    if tie == "none":
        embeddings[PROJECTION] = ours["projection.weight"], tgt
    tensors |= {name: tensor[side.rows] for name, (tensor, side) in embeddings.items()}
    bias = ours.get("projection.bias", np.zeros(model.tokenizers.tgt.vocab_size, np.float32))
    return tensors | {BIAS: bias[tgt.rows][None]}


def _config(model: Model, src: _Side, tgt: _Side) -> dict[str, Any]:
    shape, pad = model.config.model, len(tgt.rows) - 1
    return {
        "architectures": ["MarianMTModel"],
        **MUST_BE,
        **{key: getattr(shape, setting) for key, setting in MODEL_KEYS.items()},
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


def _generation(model: Model, tgt: _Side) -> dict[str, Any]:
    """The content of generation_config.json.

    With `early_stopping` "never" transformers searches until no open hypothesis can win, which is never less thorough
    than Dragoman's own search (`inference/search/beam.py`). `bad_words_ids` suppress what Dragoman never outputs.
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

"""Export any model to CTranslate2: the same Transformer, weight by weight, with its tokenizers and a README.

Two differences remain. CTranslate2 removes pad, bos and unk before it normalizes probabilities, Dragoman afterwards.
CTranslate2 divides a log-probability by n ** length_penalty, which is Dragoman's `power` penalty (n includes eos).

`export_model` in `workflows/exchange.py` calls `export_ctranslate2`. The folder that it writes has these files:

| file | content |
|---|---|
| `model.bin` | the weights in CTranslate2's binary format, quantized if requested |
| `config.json` | the names of the control tokens, and whether eos is added to sources |
| `source_vocabulary.json`, `target_vocabulary.json` | one string per id; `shared_vocabulary.json` if both are equal |
| `tokenizer.json`, or `src.tokenizer.json` and `tgt.tokenizer.json` | Dragoman's tokenizers, unchanged |
| `source.spm`, `target.spm` | only for imported tokenizers: the same model for the library sentencepiece |
| `README.md` | an example that runs, with the search settings of the model |
| `manifest.json` | sizes and hashes, see `dragoman/files.py` |

The first three are written by `TransformerSpec.save` of the package ctranslate2 (`ctranslate2/specs/model_spec.py`).
"""

import math
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dragoman.errors import ModelError
from dragoman.exchange.ctranslate2_check import Agreement, compare_with_ctranslate2
from dragoman.exchange.ctranslate2_readme import readme_text
from dragoman.exchange.sentencepiece_file import write_spm
from dragoman.exchange.tokens import tokens_of
from dragoman.files import write_folder
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.embedding import Embedding
from dragoman.model.trained import TrainedModel
from dragoman.text.tokenization.sentencepiece import SentencePieceTokenizer
from dragoman.version import __version__

# The number format of the weights on disk. CTranslate2 can convert them to another one when it loads the model.
Quantization = Literal["float32", "float16", "int8"]

_POSITIONS = 2048
"""The fewest computed positions to write: CTranslate2 reads positions from a table."""


def export_ctranslate2(trained: TrainedModel, folder: Path, quantization: Quantization) -> Agreement:
    """Write the folder, and compare translations of a sample with those of the model.

    Parameters
    ----------
    trained
        The model, of any kind.
    folder
        The folder to write. An existing folder is replaced.
    quantization
        The number format of the weights.

    Returns
    -------
    Agreement
        The result of the comparison. Quantized models differ, so it is only checked for float32.

    Raises
    ------
    ModelError
        If ctranslate2 is not installed or float32 translations differ. Then nothing is written.
    """
    engine = import_ctranslate2()
    specification = build_specification(trained, quantization)
    with write_folder(folder, {"format": 1, "versions": {"dragoman": __version__}}) as temporary:
        specification.save(str(temporary))
        _write_tokenizers(trained, temporary)
        (temporary / "README.md").write_text(readme_text(trained, folder.name), encoding="utf-8")
        agreement = compare_with_ctranslate2(engine.Translator(str(temporary), device="cpu", intra_threads=1), trained)
        if quantization == "float32" and not agreement.exact:
            raise ModelError(f"{folder} was not written: {agreement}. Report this bug with the model's config.toml.")
    return agreement


def import_ctranslate2() -> ModuleType:
    """The package ctranslate2. Raises ModelError if it is not installed."""
    try:
        import ctranslate2
    except ImportError:
        raise ModelError(
            "the package ctranslate2 is not installed. Install it: pip install 'dragoman[exchange]'."
        ) from None
    found: ModuleType = ctranslate2
    return found


def build_specification(trained: TrainedModel, quantization: Quantization) -> Any:
    """The model as a validated CTranslate2 specification. Raises ModelError if ctranslate2 is not installed.

    A specification is a tree of arrays with the attribute names of CTranslate2's modules. `validate` reports arrays
    that are missing, and `optimize` quantizes the weights in place.
    """
    import_ctranslate2()
    from ctranslate2.specs import TransformerSpec, common_spec

    model, settings = trained.model, trained.config.model
    specification = TransformerSpec.from_config(
        (settings.num_encoder_layers, settings.num_decoder_layers),
        settings.num_heads,
        pre_norm=settings.norm_first,
        activation=common_spec.Activation[settings.activation.upper()],
    )
    length = _num_positions(trained)
    _set_embedding(specification.encoder, specification.encoder.embeddings[0], model.src_embedding, length)
    _set_embedding(specification.decoder, specification.decoder.embeddings, model.tgt_embedding, length)
    for theirs, ours in zip(specification.encoder.layer, model.encoder.layers, strict=True):
        _set_layer(theirs, ours)
    for theirs, ours in zip(specification.decoder.layer, model.decoder.layers, strict=True):
        _set_layer(theirs, ours)
        _set_cross_attention(theirs, ours)
    if settings.norm_first:
        _set_norm(specification.encoder.layer_norm, model.encoder.norm)
        _set_norm(specification.decoder.layer_norm, model.decoder.norm)
    _set_linear(specification.decoder.projection, model.projection.weight, model.projection.bias)
    specification.register_source_vocabulary(tokens_of(trained.tokenizers.src))
    specification.register_target_vocabulary(tokens_of(trained.tokenizers.tgt))
    specification.config.add_source_eos = True
    specification.config.layer_norm_epsilon = 1e-5  # torch's default, which Dragoman's norms have
    specification.validate()
    specification.optimize(quantization=quantization)
    return specification


def _num_positions(trained: TrainedModel) -> int:
    """Rows of the table of positions: enough for the longest source, its end token, and the longest output."""
    longest = trained.config.data.max_tokens + 1 + trained.config.inference.max_extra_tokens
    return trained.model.max_positions or max(_POSITIONS, longest)


def _set_embedding(stack: Any, theirs: Any, ours: Embedding, length: int) -> None:
    """Set token embeddings, their factor sqrt(d_model) (section 3.4 of the paper), and the table of positions."""
    width = ours.weight.size(1)
    theirs.weight = _array(ours.weight)
    stack.scale_embeddings = np.float32(math.sqrt(width))
    stack.position_encodings.encodings = _array(ours.table(0, length))


def _set_layer(theirs: Any, ours: Any) -> None:
    """Set self-attention and feed-forward, which encoder and decoder layers have."""
    _set_linear(theirs.self_attention.linear[0], *_part(ours.self_attn, 0, 3))
    _set_linear(theirs.self_attention.linear[1], ours.self_attn.out.weight, ours.self_attn.out.bias)
    _set_norm(theirs.self_attention.layer_norm, ours.self_attn_residual.norm)
    _set_linear(theirs.ffn.linear_0, ours.feed_forward.inner.weight, ours.feed_forward.inner.bias)
    _set_linear(theirs.ffn.linear_1, ours.feed_forward.outer.weight, ours.feed_forward.outer.bias)
    _set_norm(theirs.ffn.layer_norm, ours.feed_forward_residual.norm)


def _set_cross_attention(theirs: Any, ours: Any) -> None:
    """Set attention to the encoder. CTranslate2 has the query apart, because keys and values are computed once."""
    _set_linear(theirs.attention.linear[0], *_part(ours.cross_attn, 0, 1))
    _set_linear(theirs.attention.linear[1], *_part(ours.cross_attn, 1, 3))
    _set_linear(theirs.attention.linear[2], ours.cross_attn.out.weight, ours.cross_attn.out.bias)
    _set_norm(theirs.attention.layer_norm, ours.cross_attn_residual.norm)


def _part(attention: MultiHeadAttention, start: int, end: int) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of projections `start` to `end` - 1 of query, key and value, which are one tensor here."""
    width = attention.in_weight.size(1)
    rows = slice(start * width, end * width)
    return attention.in_weight[rows], None if attention.in_bias is None else attention.in_bias[rows]


def _set_linear(theirs: Any, weight: Tensor, bias: Tensor | None) -> None:
    theirs.weight = _array(weight)
    if bias is not None:
        theirs.bias = _array(bias)


def _set_norm(theirs: Any, norm: Any) -> None:
    theirs.gamma, theirs.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> "np.ndarray[Any, Any]":
    """A copy as a numpy array, because quantization works in place."""
    return tensor.detach().cpu().float().clone(memory_format=torch.contiguous_format).numpy()


def _write_tokenizers(trained: TrainedModel, folder: Path) -> None:
    """Write the tokenizers. CTranslate2 itself works on tokens, so a user needs them to encode and decode text."""
    trained.tokenizers.save(folder)
    for name, tokenizer in (("source.spm", trained.tokenizers.src), ("target.spm", trained.tokenizers.tgt)):
        if isinstance(tokenizer.library, SentencePieceTokenizer):
            (folder / name).write_bytes(write_spm(tokenizer.library.model))

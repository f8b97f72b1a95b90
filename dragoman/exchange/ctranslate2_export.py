"""Export any model to CTranslate2: the same Transformer, weight by weight, with its tokenizers and a README.

Two differences remain. CTranslate2 removes pad, bos and unk before it normalizes probabilities, Dragoman afterwards.
CTranslate2 divides a log-probability by n ** length_penalty, which is Dragoman's `power` penalty (n includes eos).

`export_model` in `workflows/models.py` calls `export_ctranslate2`. The folder that it writes has these files:

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
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle import Model
from dragoman.engines.compiled.weights import position_tables
from dragoman.errors import ModelError, install_advice
from dragoman.exchange.sentencepiece_file import write_spm
from dragoman.files import write_folder
from dragoman.model.shapes import Arrays, tied_names
from dragoman.text.tokenization.pipelines import CONTROL_TOKENS
from dragoman.text.tokenization.sentencepiece import SentencePieceTokenizer
from dragoman.text.tokenization.tokenizer import Tokenizer
from dragoman.version import __version__

# The number format of the weights on disk. CTranslate2 can convert them to another one when it loads the model.
Quantization = Literal["float32", "float16", "int8"]

_POSITIONS = 2048
"""The fewest computed positions to write: CTranslate2 reads positions from a table."""

_Floats = NDArray[np.float32]


def export_ctranslate2(model: Model, folder: Path, quantization: Quantization) -> None:
    """Write the folder.

    Parameters
    ----------
    model
        The model, of any kind.
    folder
        The folder to write. An existing folder is replaced.
    quantization
        The number format of the weights.

    Raises
    ------
    ModelError
        If ctranslate2 is not installed. Then nothing is written.
    """
    specification = _specification(model, quantization)
    with write_folder(folder, {"format": 1, "versions": {"dragoman": __version__}}) as temporary:
        specification.save(str(temporary))
        _write_tokenizers(model, temporary)
        (temporary / "README.md").write_text(_readme_text(model, folder.name), encoding="utf-8")


def _specification(model: Model, quantization: Quantization) -> Any:
    """The model as a validated CTranslate2 specification. Raises ModelError if ctranslate2 is not installed.

    A specification is a tree of arrays with the attribute names of CTranslate2's modules. `validate` reports arrays
    that are missing, and `optimize` quantizes the weights in place.
    """
    try:
        from ctranslate2 import specs
    except ImportError:
        raise ModelError(f"the package ctranslate2 is not installed. {install_advice('exchange')}") from None
    settings, arrays = model.config.model, model.weights.arrays
    model.weights.require_float32()
    ours = {**arrays, **{name: arrays[first] for first, names in tied_names(settings).items() for name in names}}
    specification = specs.TransformerSpec.from_config(
        (settings.num_encoder_layers, settings.num_decoder_layers),
        settings.num_heads,
        pre_norm=settings.norm_first,
        activation=specs.common_spec.Activation[settings.activation.upper()],
    )
    tables = [table(0, _num_positions(model)) for table in position_tables(settings, ours)]
    encoder, decoder = specification.encoder, specification.decoder
    _set_embedding(encoder, encoder.embeddings[0], ours["src_embedding.weight"], tables[0])
    _set_embedding(decoder, decoder.embeddings, ours["tgt_embedding.weight"], tables[1])
    for index, layer in enumerate(encoder.layer):
        _set_layer(layer, ours, f"encoder.layers.{index}")
    for index, layer in enumerate(decoder.layer):
        _set_layer(layer, ours, f"decoder.layers.{index}")
        _set_cross_attention(layer, ours, f"decoder.layers.{index}")
    if settings.norm_first:
        _set_norm(encoder.layer_norm, ours, "encoder.norm")
        _set_norm(decoder.layer_norm, ours, "decoder.norm")
    _set_linear(decoder.projection, ours, "projection.")
    specification.register_source_vocabulary(tokens_of(model.tokenizers.src))
    specification.register_target_vocabulary(tokens_of(model.tokenizers.tgt))
    specification.config.add_source_eos = True
    specification.config.layer_norm_epsilon = 1e-5  # torch's default, which Dragoman's norms have
    specification.validate()
    specification.optimize(quantization=quantization)
    return specification


def _num_positions(model: Model) -> int:
    """Rows of the table of positions: enough for the longest source, its end token, and the longest output."""
    longest = model.config.data.max_tokens + 1 + model.config.inference.max_extra_tokens
    return model.config.model.position_limit or max(_POSITIONS, longest)


def _set_embedding(stack: Any, theirs: Any, weight: _Floats, positions: _Floats) -> None:
    """Set token embeddings, their factor sqrt(d_model) (section 3.4 of the paper), and the table of positions."""
    theirs.weight = weight.copy()
    stack.scale_embeddings = np.float32(math.sqrt(weight.shape[1]))
    stack.position_encodings.encodings = positions.copy()


def _set_layer(theirs: Any, ours: Arrays, name: str) -> None:
    """Set self-attention and feed-forward, which encoder and decoder layers have."""
    _set_linear(theirs.self_attention.linear[0], ours, f"{name}.self_attn.in_")
    _set_linear(theirs.self_attention.linear[1], ours, f"{name}.self_attn.out.")
    _set_norm(theirs.self_attention.layer_norm, ours, f"{name}.self_attn_residual.norm")
    _set_linear(theirs.ffn.linear_0, ours, f"{name}.feed_forward.inner.")
    _set_linear(theirs.ffn.linear_1, ours, f"{name}.feed_forward.outer.")
    _set_norm(theirs.ffn.layer_norm, ours, f"{name}.feed_forward_residual.norm")


def _set_cross_attention(theirs: Any, ours: Arrays, name: str) -> None:
    """Set attention to the encoder. CTranslate2 has the query apart, because keys and values are computed once."""
    width = len(ours[f"{name}.cross_attn.out.weight"])
    _set_linear(theirs.attention.linear[0], ours, f"{name}.cross_attn.in_", slice(width))
    _set_linear(theirs.attention.linear[1], ours, f"{name}.cross_attn.in_", slice(width, None))
    _set_linear(theirs.attention.linear[2], ours, f"{name}.cross_attn.out.")
    _set_norm(theirs.attention.layer_norm, ours, f"{name}.cross_attn_residual.norm")


def _set_linear(theirs: Any, ours: Arrays, name: str, rows: slice = slice(None)) -> None:
    """Set some rows of weight and bias, as copies, because quantization works in place."""
    theirs.weight = ours[f"{name}weight"][rows].copy()
    if (bias := ours.get(f"{name}bias")) is not None:
        theirs.bias = bias[rows].copy()


def _set_norm(theirs: Any, ours: Arrays, name: str) -> None:
    theirs.gamma, theirs.beta = ours[f"{name}.weight"].copy(), ours[f"{name}.bias"].copy()


def _write_tokenizers(model: Model, folder: Path) -> None:
    """Write the tokenizers. CTranslate2 itself works on tokens, so a user needs them to encode and decode text."""
    model.tokenizers.with_controls(()).save(folder)  # which the library can read
    for name, tokenizer in (("source.spm", model.tokenizers.src), ("target.spm", model.tokenizers.tgt)):
        if isinstance(tokenizer.library, SentencePieceTokenizer):
            (folder / name).write_bytes(write_spm(tokenizer.library.model))


def tokens_of(tokenizer: Tokenizer) -> list[str]:
    """Every token as in the tokenizer's file. A token with the text of a control token gets its id as a suffix.

    CTranslate2 identifies a token by its string, and finds eos and unk by their names. So a vocabulary must have no
    string twice. An imported Marian vocabulary may have ``<s>`` as an ordinary token beside Dragoman's own.
    """
    num_pieces = tokenizer.vocab_size - len(tokenizer.controls)
    names = [*(str(tokenizer.library.id_to_token(index)) for index in range(num_pieces)), *tokenizer.controls]
    return [
        f"{name}#{index}" if name in CONTROL_TOKENS and index >= len(CONTROL_TOKENS) else name
        for index, name in enumerate(names)
    ]


def _readme_text(model: Model, name: str) -> str:
    """The content of README.md. `name` is the folder of the model in the example.

    For a model with learned positions the example limits the output, and the text limits the source.
    """
    card, settings, shape = model.card, model.config.inference, model.config.model
    longest = shape.longest_text(model.config.data.max_tokens)
    search = f"beam_size={settings.beam_size}"
    if shape.position_limit is not None:
        search += f", max_decoding_length={shape.position_limit}"
    if settings.length_penalty == "power":
        search += f", length_penalty={settings.length_penalty_alpha:g}"
        penalty = (
            "`length_penalty` is the exponent alpha of Dragoman's penalty n ** alpha; n includes the end token in both."
        )
    else:
        penalty = (
            f"CTranslate2 has no counterpart of Dragoman's penalty for this model, ((5 + n) / 6) ** "
            f"{settings.length_penalty_alpha:g}: translations may have other lengths."
        )
    if isinstance(model.tokenizers.tgt.library, SentencePieceTokenizer):
        package = "sentencepiece"
        load = f'source = sentencepiece.SentencePieceProcessor(model_file="{name}/source.spm")'
        tokens = 'source.encode("How are you?", out_type=str)'
        shown = '"".join(output).replace("\\u2581", " ").strip()'
    else:
        package = "tokenizers"
        files = ("tokenizer",) * 2 if model.tokenizers.joint else ("src.tokenizer", "tgt.tokenizer")
        source, target = (f'tokenizers.Tokenizer.from_file("{name}/{file}.json")' for file in files)
        load = f"source, target = {source}, {target}"
        tokens = 'source.encode("How are you?", add_special_tokens=False).tokens'
        shown = "target.decode([target.token_to_id(token) for token in output])"
    return f"""# Translation model for CTranslate2, {card.src_lang or "?"} to {card.tgt_lang or "?"}

Written by Dragoman. `pip install ctranslate2 {package}`, then:

```python
import ctranslate2, {package}
translator = ctranslate2.Translator("{name}")
{load}
tokens = {tokens}
output = translator.translate_batch([tokens], {search}, disable_unk=True)[0].hypotheses[0]
print({shown})
```

{penalty}
Sources may have up to {longest} tokens. Split longer text into sentences first. CTranslate2 adds the end token.
"""

"""Read the JSON files of a Marian model in Hugging Face format as settings of Dragoman.

Such a folder has config.json (shape), generation_config.json (search; in config.json for older models) and
tokenizer_config.json. A key with a value that Dragoman's Transformer cannot represent is an error that names the key.

The keys are those of `MarianConfig`, `GenerationConfig` and `MarianTokenizer` in the library transformers
(`transformers/models/marian/`), which defines the format. The marian-nmt program itself has another format,
`model.npz` and `decoder.yml`, which transformers' `convert_marian_to_pytorch.py` converts. `marian.py` reads these
files before all others, because they determine every other size, and writes the same keys.

| file | keys read |
|---|---|
| config.json | shape, dropout rates, activation, tied embeddings, vocabulary sizes, ids of pad and eos |
| generation_config.json | `num_beams`, `length_penalty`, `max_length`, `renormalize_logits` |
| tokenizer_config.json | `source_lang`, `target_lang`, `model_max_length`, `separate_vocabs` |
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.config import SETTINGS, InferenceSettings, ModelSettings
from dragoman.config.fields import quote_value
from dragoman.errors import ConfigError, ModelError
from dragoman.files import read_regular_file

CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"
# Vocabularies are read with the same limit. OPUS-MT's have about 60,000 entries and 1 MB.
MAX_JSON_BYTES = 64 << 20
# transformers' names on the left, the values of `model.activation` on the right.
_ACTIVATIONS = {"swish": "swish", "silu": "swish", "relu": "relu", "gelu": "gelu"}

MODEL_KEYS = {
    "d_model": "d_model",
    "encoder_ffn_dim": "d_ff",
    "encoder_attention_heads": "num_heads",
    "encoder_layers": "num_encoder_layers",
    "decoder_layers": "num_decoder_layers",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
}
"""Keys of config.json, and the settings of [model] that have the same values."""
# Values that every supported MarianMTModel has. A missing key has the value given here.
MUST_BE: dict[str, Any] = {
    "model_type": "marian",
    "is_encoder_decoder": True,
    "scale_embedding": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
# The defaults of transformers for keys that are not in config.json.
_DEFAULTS: dict[str, Any] = {
    "model_type": None,
    "scale_embedding": False,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "d_model": 1024,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "activation_function": "gelu",
    "vocab_size": 58101,
    "pad_token_id": 58100,
    "decoder_start_token_id": 58100,
    "eos_token_id": 0,
    "max_position_embeddings": 1024,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}
# A limit far beyond any existing model, so that a hostile file cannot exhaust time and memory.
_MOST_POSITIONS = 1 << 16
# Options of the search that Dragoman does not have, with the values that turn them off.
_NEUTRAL: dict[str, Any] = {
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
}


@dataclass(frozen=True, slots=True)
class MarianConfig:
    """The settings of a Marian model as Dragoman's settings, and its own ids and sizes.

    Attributes
    ----------
    model, inference
        The shape of the model and the settings of its search.
    src_vocab_size, tgt_vocab_size
        Entries of Marian's vocabularies, eos, unk and padding included.
    pad_id, eos_id
        Ids in both of Marian's vocabularies. The decoder starts with `pad_id`.
    separate_vocabularies
        Whether there is a target_vocab.json beside vocab.json.
    renormalized
        Whether transformers normalizes probabilities again after it suppressed tokens such as padding.
    src_lang, tgt_lang
        Language codes, or "" if the files have none.
    max_positions
        The longest sequence in tokens, eos included.
    notes
        Options of the search that were not imported, one clause each.
    """

    model: ModelSettings
    inference: InferenceSettings
    src_vocab_size: int
    tgt_vocab_size: int
    pad_id: int
    eos_id: int
    separate_vocabularies: bool
    renormalized: bool
    src_lang: str
    tgt_lang: str
    max_positions: int
    notes: tuple[str, ...] = ()


def read_marian_config(folder: Path) -> MarianConfig:
    """Read the configuration of a Marian model.

    Only config.json is required. Raises ModelError that names an unsupported key and its value.
    """
    config = _Table(folder / CONFIG, _DEFAULTS | read_json(folder / CONFIG))
    for key, value in MUST_BE.items():
        config.require(key, value)
    config.require("decoder_ffn_dim", config.content["encoder_ffn_dim"])
    config.require("decoder_attention_heads", config.content["encoder_attention_heads"])
    config.require("decoder_start_token_id", config.content["pad_token_id"])
    generation = config.content | (read_json(folder / GENERATION) if (folder / GENERATION).exists() else {})
    tokenizer = read_json(folder / TOKENIZER) if (folder / TOKENIZER).exists() else {}
    return MarianConfig(
        model=_model(config),
        inference=_inference(_Table(folder / GENERATION, generation)),
        src_vocab_size=config.number("vocab_size", config.content["vocab_size"]),
        tgt_vocab_size=config.number("decoder_vocab_size", _decoder_vocab_size(config.content)),
        pad_id=config.number("pad_token_id", config.content["pad_token_id"]),
        eos_id=config.number("eos_token_id", config.content["eos_token_id"]),
        separate_vocabularies=tokenizer.get("separate_vocabs") is True,
        renormalized=generation.get("renormalize_logits") is True,
        src_lang=_text(tokenizer.get("source_lang")),
        tgt_lang=_text(tokenizer.get("target_lang")),
        max_positions=_max_positions(config, tokenizer),
        notes=_notes(generation),
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds a table. Raises ModelError if it is missing or invalid."""
    try:
        content = json.loads(read_regular_file(path, MAX_JSON_BYTES))
    except FileNotFoundError:
        raise ModelError(
            f"{path} is missing. Name the complete folder of a Marian model in Hugging Face format, or its hub name."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read as JSON: {error}. Download the model again.") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path} is not a JSON table. Download the model again.")
    return content


@dataclass(frozen=True, slots=True)
class _Table:
    """The content of a JSON file, with checks whose errors name the file and the key."""

    path: Path
    content: dict[str, Any]

    def require(self, key: str, expected: Any) -> None:
        """Raise ModelError unless a key has this value and type. A missing key has it. 1 is not true here."""
        value = self.content.get(key, expected)
        if type(value) is not type(expected) or value != expected:
            raise ModelError(
                f"{self.path}: `{key}` must be {quote_value(expected)}, but is {quote_value(value)}. "
                "Such a model cannot be imported; choose another."
            )

    def value_for(self, key: str, setting: str) -> Any:
        """The value of a key. Raises ModelError if the setting of Dragoman does not allow it."""
        try:
            return SETTINGS[setting].check(self.content[key], f"{self.path}: `{key}`")
        except ConfigError as error:
            raise ModelError(f"{error} Such a model cannot be imported; choose another.") from None

    def number(self, key: str, value: Any) -> int:
        """`value` if it is a whole number from 0, else raise ModelError about `key`."""
        if type(value) is not int or value < 0:
            raise ModelError(
                f"{self.path}: `{key}` must be a whole number, but is {quote_value(value)}. Download the model again."
            )
        return value


def _model(config: _Table) -> ModelSettings:
    activation = config.content["activation_function"]
    if activation not in list(_ACTIVATIONS):
        raise ModelError(
            f"{config.path}: `activation_function` must be one of {', '.join(_ACTIVATIONS)}, but is "
            f"{quote_value(activation)}. Such a model cannot be imported; choose another."
        )
    settings = ModelSettings(
        preset="custom",
        **{setting: config.value_for(key, f"model.{setting}") for key, setting in MODEL_KEYS.items()},
        norm_first=False,
        activation=_ACTIVATIONS[activation],  # type: ignore[arg-type]
        positions="marian",
        tie=_tie(config),  # type: ignore[arg-type]
    )
    if settings.d_model % 2 or settings.d_model % settings.num_heads:
        raise ModelError(
            f"{config.path}: `d_model` must be an even multiple of `encoder_attention_heads` ({settings.num_heads}), "
            f"but is {settings.d_model}. Download the model again."
        )
    return settings


def _tie(config: _Table) -> str:
    """The value of `model.tie`. If words are not tied, embeddings shared in the file become two copies."""
    for key in ("tie_word_embeddings", "share_encoder_decoder_embeddings"):
        if not isinstance(config.content[key], bool):
            config.require(key, True)
    if not config.content["tie_word_embeddings"]:
        return "none"
    return "all" if config.content["share_encoder_decoder_embeddings"] else "decoder"


def _decoder_vocab_size(config: dict[str, Any]) -> Any:
    """The size of the target vocabulary. With shared embeddings `decoder_vocab_size` is ignored."""
    shared = config["share_encoder_decoder_embeddings"]
    return config["vocab_size"] if shared else config.get("decoder_vocab_size") or config["vocab_size"]


def _inference(generation: _Table) -> InferenceSettings:
    """The search settings. transformers divides a log-probability by tokens ** length_penalty, eos included.

    `max_length` of transformers counts the start token and limits the output alone, while `max_extra_tokens` is added
    to the length of the source. So `max_length` can only lower Dragoman's default.
    """
    content, ours = generation.content, InferenceSettings()
    content.setdefault("length_penalty", 1.0)
    content.setdefault("num_beams", ours.beam_size)
    max_length = content.get("max_length")
    limit = max_length - 1 if type(max_length) is int and max_length > 1 else ours.max_extra_tokens
    return InferenceSettings(
        beam_size=generation.value_for("num_beams", "inference.beam_size"),
        length_penalty="power",
        length_penalty_alpha=generation.value_for("length_penalty", "inference.length_penalty_alpha"),
        max_extra_tokens=min(ours.max_extra_tokens, limit),
    )


def _max_positions(config: _Table, tokenizer: dict[str, Any]) -> int:
    """The smaller one of the model's positions and its tokenizer's maximum length."""
    positions = config.value_for("max_position_embeddings", "model.max_positions")
    if positions > _MOST_POSITIONS:
        raise ModelError(
            f"{config.path}: `max_position_embeddings` must be at most {_MOST_POSITIONS}, but is "
            f"{quote_value(positions)}. Check where it comes from."
        )
    limit = tokenizer.get("model_max_length", 512)
    return min(positions, limit) if type(limit) is int and limit > 1 else int(positions)


def _notes(generation: dict[str, Any]) -> tuple[str, ...]:
    """Notes on options of the search that Dragoman does not have. They change outputs, but not the model."""
    unlike = [key for key, neutral in _NEUTRAL.items() if generation.get(key) not in (None, neutral)]
    return tuple(f"`{key}` ({quote_value(generation[key])}) of its search is not imported" for key in unlike)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

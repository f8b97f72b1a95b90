"""Settings as typed keywords: type checkers and editors know each name, its type and its choices.

tools/keyword_types.py writes this file. Nothing imports it at run time. A setting has two names: without its table if
the name is unique, and with its table. A table can also be a dict or a record.
"""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Literal, TypedDict

from dragoman.config import (
    CorpusSettings,
    InferenceSettings,
    ModelSettings,
    TokenizerSettings,
    TrainSettings,
    ValidateSettings,
)

_PathName = str | PathLike[str]
_Sentences = _PathName | Iterable[str]
_Pairs = _PathName | Iterable[Mapping[str, object] | Sequence[str]]


class _UniqueInference(TypedDict, total=False):
    """Settings of [inference] whose names no other table has."""

    length_penalty: Literal["paper", "power"]
    length_penalty_alpha: float
    max_extra_tokens: int
    min_tokens: int
    n_best: int
    retry_all_caps: bool
    sample: bool
    temperature: float
    top_k: int
    top_p: float
    tag: str
    mbr_samples: int


class _TableInference(TypedDict, total=False):
    """Settings of [inference] with the name of the table."""

    inference: Mapping[str, object] | InferenceSettings
    inference_beam_size: int
    inference_length_penalty: Literal["paper", "power"]
    inference_length_penalty_alpha: float
    inference_max_extra_tokens: int
    inference_min_tokens: int
    inference_n_best: int
    inference_batch_tokens: int
    inference_precision: Literal["float32", "bfloat16", "int16", "int8", "auto"]
    inference_retry_all_caps: bool
    inference_sample: bool
    inference_temperature: float
    inference_top_k: int
    inference_top_p: float
    inference_seed: int
    inference_tag: str
    inference_mbr_samples: int


class TranslateKeywords(_UniqueInference, total=False):
    """Keywords of the methods of `dragoman.Translator`: settings of [inference]."""

    beam_size: int
    batch_tokens: int
    precision: Literal["float32", "bfloat16", "int16", "int8", "auto"]
    seed: int


class InferenceKeywords(TranslateKeywords, _TableInference, total=False):
    """Keywords of `dragoman.evaluate`, `compare` and `inspect`: settings of [inference]."""


class TrainKeywords(_UniqueInference, _TableInference, total=False):
    """Keywords of `dragoman.train`, `dragoman.plan` and `Run.resume`: all settings."""

    tokenizer: Mapping[str, object] | TokenizerSettings
    model: Mapping[str, object] | ModelSettings
    validate: Mapping[str, object] | ValidateSettings
    corpora: Sequence[Mapping[str, object] | CorpusSettings]
    train: _Pairs | Mapping[str, object] | TrainSettings
    data_train: _Pairs | Mapping[str, object] | TrainSettings
    train_src: _Sentences
    data_train_src: _Sentences
    train_tgt: _Sentences
    data_train_tgt: _Sentences
    dev: _Pairs
    data_dev: _Pairs
    dev_src: _Sentences
    data_dev_src: _Sentences
    dev_tgt: _Sentences
    data_dev_tgt: _Sentences
    test: _Pairs
    data_test: _Pairs
    test_src: _Sentences
    data_test_src: _Sentences
    test_tgt: _Sentences
    data_test_tgt: _Sentences
    src_lang: str
    data_src_lang: str
    tgt_lang: str
    data_tgt_lang: str
    columns: str | Sequence[str | int]
    data_columns: str | Sequence[str | int]
    header: Literal["auto", "yes", "no"]
    data_header: Literal["auto", "yes", "no"]
    encoding: str
    data_encoding: str
    check_languages: bool
    data_check_languages: bool
    dev_fraction: float
    data_dev_fraction: float
    test_fraction: float
    data_test_fraction: float
    max_held_out: int
    data_max_held_out: int
    max_tokens: int
    data_max_tokens: int
    max_length_ratio: float
    data_max_length_ratio: float
    drop_duplicates: bool
    data_drop_duplicates: bool
    augment_case: float
    data_augment_case: float
    augment_punctuation: float
    data_augment_punctuation: float
    augment_noise: float
    data_augment_noise: float
    replay: _Pairs
    data_replay: _Pairs
    replay_src: _Sentences
    data_replay_src: _Sentences
    replay_tgt: _Sentences
    data_replay_tgt: _Sentences
    replay_share: float
    data_replay_share: float
    replay_test: _Pairs
    data_replay_test: _Pairs
    replay_test_src: _Sentences
    data_replay_test_src: _Sentences
    replay_test_tgt: _Sentences
    data_replay_test_tgt: _Sentences
    kind: Literal["bpe", "unigram", "word", "sentencepiece"]
    tokenizer_kind: Literal["bpe", "unigram", "word", "sentencepiece"]
    vocab_size: int
    tokenizer_vocab_size: int
    src_vocab_size: int
    tokenizer_src_vocab_size: int
    tgt_vocab_size: int
    tokenizer_tgt_vocab_size: int
    joint: bool
    tokenizer_joint: bool
    byte_fallback: bool
    tokenizer_byte_fallback: bool
    max_pairs: int
    tokenizer_max_pairs: int
    min_frequency: int
    tokenizer_min_frequency: int
    bpe_dropout: float
    tokenizer_bpe_dropout: float
    preset: Literal["tiny", "small", "base", "big", "custom"]
    model_preset: Literal["tiny", "small", "base", "big", "custom"]
    d_model: int
    model_d_model: int
    d_ff: int
    model_d_ff: int
    num_heads: int
    model_num_heads: int
    num_encoder_layers: int
    model_num_encoder_layers: int
    num_decoder_layers: int
    model_num_decoder_layers: int
    dropout: float
    model_dropout: float
    attention_dropout: float
    model_attention_dropout: float
    activation_dropout: float
    model_activation_dropout: float
    norm_first: bool
    model_norm_first: bool
    activation: Literal["relu", "gelu", "swish"]
    model_activation: Literal["relu", "gelu", "swish"]
    positions: Literal["sinusoidal", "learned", "marian"]
    model_positions: Literal["sinusoidal", "learned", "marian"]
    max_positions: int
    model_max_positions: int
    tie: Literal["all", "decoder", "none"]
    model_tie: Literal["all", "decoder", "none"]
    attention_bias: bool
    model_attention_bias: bool
    projection_bias: bool
    model_projection_bias: bool
    start_from: _PathName
    train_start_from: _PathName
    train_batch_tokens: int
    micro_batch_tokens: int
    train_micro_batch_tokens: int
    threads: int
    train_threads: int
    compile: bool
    train_compile: bool
    sharding: Literal["none", "full"]
    train_sharding: Literal["none", "full"]
    max_steps: int
    train_max_steps: int
    max_epochs: int
    train_max_epochs: int
    max_minutes: float
    train_max_minutes: float
    patience: int
    train_patience: int
    schedule: Literal["noam", "inverse_sqrt", "constant", "linear", "cosine"]
    train_schedule: Literal["noam", "inverse_sqrt", "constant", "linear", "cosine"]
    learning_rate: float
    train_learning_rate: float
    warmup_steps: int
    train_warmup_steps: int
    decay_share: float
    train_decay_share: float
    optimizer: Literal["adam", "muon"]
    train_optimizer: Literal["adam", "muon"]
    muon_momentum: float
    train_muon_momentum: float
    adam_beta1: float
    train_adam_beta1: float
    adam_beta2: float
    train_adam_beta2: float
    adam_epsilon: float
    train_adam_epsilon: float
    weight_decay: float
    train_weight_decay: float
    label_smoothing: float
    train_label_smoothing: float
    sampled_softmax: float
    train_sampled_softmax: float
    clip_norm: float
    train_clip_norm: float
    train_precision: Literal["auto", "float32", "bfloat16"]
    device: str
    train_device: str
    train_seed: int
    log_every_steps: int
    train_log_every_steps: int
    checkpoint_every_steps: int
    train_checkpoint_every_steps: int
    keep_checkpoints: int
    train_keep_checkpoints: int
    average_last: int
    train_average_last: int
    average_best: int
    train_average_best: int
    ema_decay: float
    train_ema_decay: float
    every_epochs: int
    validate_every_epochs: int
    every_steps: int
    validate_every_steps: int
    metric: Literal["chrf", "bleu", "loss"]
    validate_metric: Literal["chrf", "bleu", "loss"]
    validate_beam_size: int
    max_sentences: int
    validate_max_sentences: int

"""Rules between settings. Each error names the settings, their values, and what to set instead."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from dragoman.config.corpora import corpora_problems
from dragoman.config.settings import CORPORA, Config, DataSettings, ModelSettings
from dragoman.errors import ConfigError, SettingsWarning

Label = Callable[[str], str]

_MOST_OF_FOLDER = {
    "data.max_tokens": 2048,
    "inference.max_extra_tokens": 500,
    "inference.min_tokens": 500,
    "inference.beam_size": 64,
    "inference.n_best": 64,
    "inference.mbr_samples": 256,
    "inference.batch_tokens": 1 << 16,
}


def check_config(config: Config, label: Label = "`{}`".format) -> None:
    """Raise ConfigError for the first contradiction. `label` returns the name of a key for the message."""
    check_shape(config.model, label)
    for rules in (_model, _data, corpora_problems, _limits, _training, _inference):
        for problem in rules(config, label):
            raise ConfigError(problem)


def check_shape(model: ModelSettings, label: Label = "`{}`".format) -> None:
    """Raise ConfigError for a shape that no model can have. Trained models are checked too."""
    for problem in _shape(model, label):
        raise ConfigError(problem)


def limit_folder(config: Config, origin: str) -> Config:
    """The settings of a model folder, at most those with which a sentence takes seconds.

    Warns for each setting that is lowered. The user may set higher values.
    """
    for key, most in _MOST_OF_FOLDER.items():
        table, name = key.split(".")
        settings: Any = getattr(config, table)
        if (value := getattr(settings, name)) > most:
            warnings.warn(
                f"`{key}` in {origin} is {value}, more than a model folder may set, so it is {most}.",
                SettingsWarning,
                stacklevel=1,
            )
            config = replace(config, **{table: replace(settings, **{name: most})})
    return config


def check_vocabularies(model: ModelSettings, src_vocab_size: int, tgt_vocab_size: int) -> None:
    """Raise ConfigError if vocabularies of different sizes would share one embedding."""
    if model.tie == "all" and src_vocab_size != tgt_vocab_size:
        raise ConfigError(
            f'`model.tie` must not be "all" for vocabularies of {src_vocab_size} and {tgt_vocab_size} entries, which '
            f'cannot share one embedding. Set `model.tie` to "decoder" or "none".'
        )


def _shape(model: ModelSettings, label: Label) -> Iterator[str]:
    if model.d_model % model.num_heads:
        yield (
            f"{label('model.d_model')} must be a multiple of {label('model.num_heads')} ({model.num_heads}), "
            f"but is {model.d_model}. Change one of them."
        )
    if model.positions != "learned" and model.d_model % 2:
        yield (
            f"{label('model.d_model')} must be even for sinusoidal positions, but is {model.d_model}. "
            f'Change it, or set `model.positions` to "learned".'
        )


def _model(config: Config, label: Label) -> Iterator[str]:
    """Rules for new runs, not for trained models."""
    model, tokenizer = config.model, config.tokenizer
    if model.longest_text(config.data.max_tokens) < config.data.max_tokens:
        yield (
            f"{label('model.max_positions')} must be greater than `data.max_tokens` ({config.data.max_tokens}), "
            f"but is {model.max_positions}. Raise it, or lower `data.max_tokens`."
        )
    if model.tie == "all" and not tokenizer.joint:
        yield (
            f'{label("model.tie")} must not be "all" if `tokenizer.joint` is false, because two vocabularies '
            f'cannot share one embedding. Set `model.tie` to "decoder".'
        )
    for name in ("src_vocab_size", "tgt_vocab_size"):
        if tokenizer.joint and (size := getattr(tokenizer, name)):
            yield (
                f"{label(f'tokenizer.{name}')} must be 0 if `tokenizer.joint` is true, because both languages share "
                f"one vocabulary, but is {size}. Set `tokenizer.joint` to false, or use `tokenizer.vocab_size`."
            )
    if tokenizer.bpe_dropout and tokenizer.kind != "bpe":
        yield (
            f'{label("tokenizer.bpe_dropout")} must be 0 if `tokenizer.kind` is "{tokenizer.kind}", but is '
            f"{tokenizer.bpe_dropout}. Leave it out, or use bpe, which has merges to skip."
        )
    if tokenizer.byte_fallback and tokenizer.kind != "bpe":
        yield (
            f'{label("tokenizer.byte_fallback")} must be false if `tokenizer.kind` is "{tokenizer.kind}", but is true. '
            f"Leave it out, or use bpe."
        )


def check_sides(src: object, tgt: object, names: Sequence[str]) -> None:
    """Raise ConfigError if a corpus has one side alone. `names`: of the source, the target, and one file with both."""
    if bool(src) != bool(tgt):
        present, missing = names[:2] if src else names[1::-1]
        raise ConfigError(
            f"{present} is given, but {missing} is not. Give both, or one file with both sides as {names[2]}."
        )


def check_corpora(data: DataSettings, label: Label = "`{}`".format) -> None:
    """Raise ConfigError unless each corpus is one file with both sides, or two aligned files, or not given."""
    for corpus in CORPORA:
        keys = [f"data.{corpus}{side}" for side in ("_src", "_tgt", "")]
        src, tgt, both = (getattr(data, key.partition(".")[2]) for key in keys)
        if both and (src or tgt):
            extra = keys[0] if src else keys[1]
            raise ConfigError(f"{label(keys[2])} and {label(extra)} must not both be given. Leave one out.")
        check_sides(src, tgt, [label(key) for key in keys])


def _data(config: Config, label: Label) -> Iterator[str]:
    data = config.data
    check_corpora(data, label)
    if data.replay_share != type(data)().replay_share and not (data.replay or data.replay_src):
        yield (
            f"{label('data.replay_share')} has no effect without replay data, but is {data.replay_share}. "
            "Set `data.replay` to earlier training data, or leave it out."
        )
    if not data.dev_fraction and not (data.dev or data.dev_src):
        yield (
            f"{label('data.dev_fraction')} must be greater than 0 if no dev file is given, "
            f"because validation picks the best checkpoint. Set it, or give a file as `data.dev`."
        )


def _limits(config: Config, label: Label) -> Iterator[str]:
    train, validate = config.train, config.validate
    if not (train.max_steps or train.max_epochs or train.max_minutes or train.patience):
        yield (
            f"{label('train.patience')} must not be 0 if `train.max_steps`, `train.max_epochs` and "
            f"`train.max_minutes` are 0, because training would never end. Set one of them."
        )
    if not (validate.every_epochs or validate.every_steps):
        yield (
            f"{label('validate.every_epochs')} and {label('validate.every_steps')} must not both be 0, "
            f"because a run without validation has no best checkpoint. Set one of them."
        )


def _training(config: Config, label: Label) -> Iterator[str]:
    data, train = config.data, config.train
    if train.sharding == "full" and train.compile:
        yield (
            f'{label("train.compile")} must be false if `train.sharding` is "full", because sharded layers cannot be '
            f"compiled. Change one of them."
        )
    if train.sharding == "full" and (train.optimizer != "adam" or train.ema_decay):
        yield (
            f'{label("train.sharding")} must be "none" if `train.optimizer` is "muon" or `train.ema_decay` is '
            'set, but is "full". Change one of them.'
        )
    if train.schedule in ("linear", "cosine") and not train.max_steps:
        yield (
            f'{label("train.max_steps")} must not be 0 if `train.schedule` is "{train.schedule}", because the '
            "learning rate falls to 0 at that step. Set it, or use inverse_sqrt."
        )
    elif train.schedule in ("linear", "cosine") and train.warmup_steps >= train.max_steps:
        yield (
            f"{label('train.warmup_steps')} must be less than `train.max_steps` ({train.max_steps}) if "
            f'`train.schedule` is "{train.schedule}", but is {train.warmup_steps}. Lower it, or raise the limit.'
        )
    if train.decay_share and train.schedule in ("linear", "cosine"):
        yield (
            f'{label("train.decay_share")} must be 0 if `train.schedule` is "{train.schedule}", which falls to 0 '
            f"itself, but is {train.decay_share:g}. Leave one out."
        )
    if (data.replay or data.replay_src or data.replay_test or data.replay_test_src) and not train.start_from:
        yield (
            f"{label('train.start_from')} must be set if replay data is given. Name the model to fine-tune "
            "(`--from`), or put all data into `data.train`."
        )
    if train.average_last > train.keep_checkpoints:
        yield (
            f"{label('train.average_last')} must be at most `train.keep_checkpoints` ({train.keep_checkpoints}), "
            f"but is {train.average_last}. Lower it, or raise `train.keep_checkpoints`."
        )


def _inference(config: Config, label: Label) -> Iterator[str]:
    inference = config.inference
    samples = inference.sample or inference.mbr_samples
    limit, most = "beam_size", inference.beam_size
    if inference.mbr_samples:
        limit, most = "mbr_samples", inference.mbr_samples
    if inference.n_best > most and (inference.mbr_samples or not samples):
        yield (
            f"{label('inference.n_best')} must be at most `inference.{limit}` ({most}), "
            f"but is {inference.n_best}. Lower it, or raise `inference.{limit}`."
        )
    for name, neutral in (("temperature", 1.0), ("top_k", 0), ("top_p", 1.0)):
        value = getattr(inference, name)
        if value != neutral and not samples:
            yield (
                f"{label(f'inference.{name}')} has no effect without sampling, but is {value}. "
                f"Set `inference.sample` to true (or `inference.mbr_samples`), or leave it out."
            )

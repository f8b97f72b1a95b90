"""The words of other libraries: each door names the setting of Dragoman, and what to know if it counts otherwise."""

import re
from pathlib import Path

import pytest

import dragoman
from dragoman.cli.main import run_command
from dragoman.config import SETTINGS, config_from_dict, loading
from dragoman.workflows.api import keywords

ROWS = [
    (*row.split("\t"), "")[:3]
    for row in (Path(loading.__file__).parent / "other_names.txt").read_text(encoding="utf-8").splitlines()
    if not row.startswith("#")
] if (Path(loading.__file__).parent / "other_names.txt").exists() else []  # fmt: skip
NAMES = {key.partition(".")[2] for key in SETTINGS}

# The word, and its setting by flag, in TOML and as a keyword, with what to know.
COUNTED = "It counts padded tokens: a step of `batch_tokens` is computed in parts of this size."
EXAMPLES = {
    "gradient_accumulation_steps": ("train.micro_batch_tokens", "micro_batch_tokens", COUNTED),  # Hugging Face
    "update_freq": ("train.micro_batch_tokens", "micro_batch_tokens", COUNTED),  # fairseq
    "accum_count": ("train.micro_batch_tokens", "micro_batch_tokens", COUNTED),  # OpenNMT-py
    "per_device_train_batch_size": (
        "train.batch_tokens",
        "train_batch_tokens",
        "It counts the target tokens of a step, not sentences.",
    ),
    "warmup_ratio": ("train.warmup_steps", "warmup_steps", "It is a number of steps, not a share."),
    "warmup_updates": ("train.warmup_steps", "warmup_steps", ""),
    "label_smoothing_factor": ("train.label_smoothing", "label_smoothing", ""),
    "num_train_epochs": ("train.max_epochs", "max_epochs", ""),
    "max_update": ("train.max_steps", "max_steps", ""),
    "lr": ("train.learning_rate", "learning_rate", ""),
    "lr_scheduler_type": ("train.schedule", "schedule", ""),
    "max_grad_norm": ("train.clip_norm", "clip_norm", ""),
    "early_stopping_patience": (
        "train.patience",
        "patience",
        "It counts validations without a better score.",
    ),
    "save_steps": ("train.checkpoint_every_steps", "checkpoint_every_steps", "Each validation saves a checkpoint too."),
    "save_total_limit": ("train.keep_checkpoints", "keep_checkpoints", ""),
    "eval_steps": ("validate.every_steps", "every_steps", "`every_epochs` counts epochs instead."),
    "logging_steps": ("train.log_every_steps", "log_every_steps", ""),
    "exponential_smoothing": ("train.ema_decay", "ema_decay", "It is 1 minus that number, such as 0.9999."),  # Marian
    "random_seed": ("train.seed", "train_seed", ""),
    "num_beams": ("inference.beam_size", "inference_beam_size", ""),
    "lenpen": (
        "inference.length_penalty_alpha",
        "length_penalty_alpha",
        'For the same formula, set `length_penalty` to "power".',
    ),
    "do_sample": ("inference.sample", "sample", ""),
    "nhead": ("model.num_heads", "num_heads", ""),  # PyTorch
    "dim_feedforward": ("model.d_ff", "d_ff", ""),
    "num_layers": (
        "model.num_encoder_layers",
        "num_encoder_layers",
        "The layers of the decoder are `num_decoder_layers`.",
    ),
    "enc_depth": ("model.num_encoder_layers", "num_encoder_layers", ""),  # Marian
    "emb_size": ("model.d_model", "d_model", ""),
    "target": ("data.train_tgt", "train_tgt", ""),
    "validation": ("data.dev", "dev", ""),
    "share_vocab": ("tokenizer.joint", "joint", ""),  # OpenNMT-py
    "src_vocab": ("tokenizer.src_vocab_size", "src_vocab_size", ""),
    "max_len": (
        "data.max_tokens",
        "max_tokens",
        "It limits the pairs of training. `max_extra_tokens` limits translations.",
    ),
}


def error_of(call: object, *arguments: object, **settings: object) -> str:
    try:
        return f"no error: {call(*arguments, **settings)}"  # type: ignore[operator]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("word", EXAMPLES)
def test_every_door_names_the_setting(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    key, keyword, remark = EXAMPLES[word]
    rest = f" {remark}" if remark else ""
    table = key.partition(".")[0]
    assert error_of(dragoman.train, "a", "b", **{word: 4}) == (
        f"ConfigError: `{word}` is not a setting. Dragoman calls it `{keyword}`.{rest}"
    )
    assert error_of(config_from_dict, {table: {word: 4}}, "my.toml") == (
        f"ConfigError: `{table}.{word}` in my.toml is not a setting. Dragoman calls it `{key}`.{rest}"
    )
    for flag in (f"--{word}", f"--{table}.{word}".replace("_", "-")):
        assert run_command(["train", flag, "4"]) == 2
        said = f"is not a flag of `dragoman train`. Dragoman calls it `--{key.replace('_', '-')}`.{rest}"
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            lambda: dragoman.Transformer.build(6, 6, n_heads=8),
            "`n_heads` is not a setting of [model]. Dragoman calls it `num_heads`.",
        ),
        (
            lambda: dragoman.Transformer.build(6, 6, max_len=8),
            "`max_len` is not a setting of [model]. Dragoman calls it `max_positions`. Only learned positions have a "
            "limit.",
        ),
        (
            lambda: dragoman.ModelSettings(nhead=8),  # type: ignore[call-arg]
            "`nhead` is not a setting of [model]. Dragoman calls it `num_heads`.",
        ),
        (
            lambda: dragoman.TrainSettings(lr=0.1),  # type: ignore[call-arg]
            "`lr` is not a setting of [train]. Dragoman calls it `learning_rate`.",
        ),
        (
            lambda: dragoman.TrainSettings(warmup_step=4),  # type: ignore[call-arg]
            "`warmup_step` is not a setting of [train]. Did you mean `warmup_steps`?",
        ),
        (
            lambda: dragoman.InferenceSettings(zzzzz=4),  # type: ignore[call-arg]
            "`zzzzz` is not a setting of [inference]. See `help(dragoman.InferenceSettings)`.",
        ),
    ],
)
def test_models_and_settings_in_python_name_the_setting(call: object, error: str) -> None:
    assert error_of(call) == f"ConfigError: {error}"


def test_only_settings_that_a_function_takes_are_named() -> None:
    error = error_of(keywords.overrides_of_keywords, {"max_length": 9}, ["inference"])
    assert error.startswith("ConfigError: `max_length` is not a setting. Dragoman calls it `max_extra_tokens`. It is")
    error = error_of(keywords.overrides_of_keywords, {"gradient_accumulation_steps": 9}, ["inference"])
    assert error == "ConfigError: `gradient_accumulation_steps` is not a setting."
    assert error_of(dragoman.train, "a", "b", save_model="c") == (
        "ConfigError: `save_model` is not a setting. Dragoman calls it `out`."
    )
    assert error_of(dragoman.train, "a", "b", resume_from_checkpoint=True) == (
        "ConfigError: `resume_from_checkpoint` is not a setting. Dragoman calls it `out`. A run in that folder "
        "continues."
    )


def test_only_flags_that_a_command_has_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["serve", "model", "--batch-size", "8"]) == 2
    assert capsys.readouterr().err.endswith("Dragoman calls it `--batch-sentences`.\n")
    assert run_command(["translate", "model", "--output-dir", "x"]) == 2
    assert capsys.readouterr().err.endswith("Did you mean `--output`?\n")


def test_each_row_names_settings_and_each_word_leads_to_one_setting_of_a_table() -> None:
    assert len(ROWS) > 50
    seen = set()
    for key, words, remark in ROWS:
        assert key in SETTINGS or key in ("out", "batch_sentences"), key
        assert set(re.findall(r"`(\w+)`", remark)) <= NAMES, remark
        assert not remark or remark.endswith("."), remark
        for word in words.split():
            table, _, name = key.rpartition(".")
            assert f"{table}.{word}" not in SETTINGS, f"{word} is a setting itself"
            assert (table, word) not in seen, f"{word} is listed twice for [{table}]"
            seen.add((table, word))
            assert word != name

import dataclasses
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.config import (
    PRESETS,
    SETTINGS,
    Config,
    Setting,
    TrainSettings,
    check_config,
    config_from_dict,
    dump_config,
    load_config,
    read_config,
    read_given,
)
from dragoman.config.loading import parse_toml
from dragoman.errors import ConfigError


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that writes a file into the current folder, so that its path in messages is short."""
    monkeypatch.chdir(tmp_path)

    def writer(content: str | bytes, name: str = "base.toml") -> Path:
        path = Path(name)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return writer


def test_defaults_are_a_valid_configuration() -> None:
    assert load_config([]) == Config()


def test_later_files_and_flags_win(write: Any) -> None:
    first = write("[train]\nmax_steps = 5\nseed = 2\nlearning_rate = 1\n", "a.toml")
    second = write("[train]\nmax_steps = 6\nwarmup_steps = 7\n", "b.toml")
    loaded = read_config([first, second], {"train.warmup_steps": "8", "model.norm_first": "false"})
    assert loaded.config.train == TrainSettings(max_steps=6, seed=2, warmup_steps=8, learning_rate=1.0)
    assert type(loaded.config.train.learning_rate) is float
    assert not loaded.config.model.norm_first
    assert loaded.given == {
        "train.max_steps", "train.seed", "train.learning_rate", "train.warmup_steps", "model.norm_first",
    }  # fmt: skip


def test_one_file_replaces_two_files_of_a_corpus_and_vice_versa(write: Any) -> None:
    path = write('[data]\ntrain = "old.tsv"\ndev_src = "dev.en"\ndev_tgt = "dev.de"\n')
    data = load_config([path], {"data.train_src": "a.en", "data.train_tgt": "a.de", "data.dev": "dev.tsv"}).data
    assert (data.train, data.train_src, data.train_tgt) == ("", "a.en", "a.de")
    assert (data.dev, data.dev_src, data.dev_tgt) == ("dev.tsv", "", "")
    data = load_config([path], {"data.train": "", "data.train_src": "a.en", "data.train_tgt": "a.de"}).data
    assert (data.train, data.dev_src) == ("", "dev.en")


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        (
            {"data.train_src": "a.en", "data.train_tgt": "a.de"},
            "`data.dev` in base.toml, `data.tgt_lang` in base.toml still apply.",
        ),
        ({"data.train": "new.tsv", "data.tgt_lang": "fr"}, "`data.dev` in base.toml still applies."),
        ({"data.train": "new.tsv", "data.tgt_lang": "", "data.dev": "dev.tsv"}, ""),
        ({"data.train": "old.tsv"}, ""),
        ({"data.train_tgt": "taught.de"}, ""),
        ({"train.max_steps": "3"}, ""),
    ],
)
def test_settings_kept_from_another_text_are_noted(write: Any, flags: dict[str, str], kept: str) -> None:
    path = write('[data]\ntrain = "old.tsv"\ndev = "old-dev.tsv"\ntgt_lang = "te"\n')
    notes = read_given([path], flags).notes
    assert len(notes) == bool(kept)
    assert all(f"replaces `data.train` in base.toml, but {kept}" in note for note in notes)
    assert not read_given([path], {}).notes


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_valid(preset: str) -> None:
    assert load_config([], {"model.preset": preset}).model == PRESETS[preset]


def test_explicit_keys_win_over_a_preset_given_later(write: Any) -> None:
    first = write("[model]\nd_model = 96\n", "a.toml")
    second = write('[model]\npreset = "big"\n', "b.toml")
    model = load_config([first, second], {"model.preset": "base"}).model
    assert model == dataclasses.replace(PRESETS["base"], d_model=96)


def test_naming_the_preset_of_the_recipe_changes_nothing(write: Any) -> None:
    recipe = Config(model=dataclasses.replace(PRESETS["tiny"], dropout=0.05))
    assert load_config([], {"model.preset": "tiny"}, recipe).model.dropout == 0.05
    assert load_config([], {"model.preset": "small"}, recipe).model.dropout == PRESETS["small"].dropout


def test_given_files_of_a_corpus_replace_those_of_the_run(write: Any) -> None:
    run = Config(data=dataclasses.replace(Config().data, train="old.tsv"))
    data = load_config([], {"data.train_src": "a.en", "data.train_tgt": "a.de"}, run).data
    assert (data.train, data.train_src) == ("", "a.en")


def test_the_recipe_sets_only_settings_that_are_not_given(write: Any) -> None:
    recipe = Config(model=PRESETS["tiny"], train=TrainSettings(batch_tokens=100, seed=9))
    path = write("[train]\nseed = 3\n[model]\ndropout = 0.5\n")
    config = load_config([path], base=recipe)
    assert config.train == TrainSettings(batch_tokens=100, seed=3)
    assert config.model == dataclasses.replace(PRESETS["tiny"], dropout=0.5)


def test_byte_order_mark_and_carriage_returns_are_accepted(write: Any) -> None:
    assert load_config([write(b"\xef\xbb\xbf[train]\r\nseed = 4\r\n")]).train.seed == 4


BAD_FILES = {
    "[train]\nwarmup_stepps = 1": "`train.warmup_stepps` in base.toml is not a setting. "
    "Did you mean `train.warmup_steps`?",
    "[train]\nd_model = 1": "`train.d_model` in base.toml is not a setting. Did you mean `model.d_model`?",
    "[train]\nwarmup_steps = -1": "`train.warmup_steps` in base.toml must be at least 0, but is -1.",
    "[train]\nwarmup_steps = 1.5": "`train.warmup_steps` in base.toml must be a whole number, but is 1.5.",
    "[train]\nwarmup_steps = true": "`train.warmup_steps` in base.toml must be a whole number, but is true.",
    "[train]\nlearning_rate = true": "`train.learning_rate` in base.toml must be a number, but is true.",
    "[train]\nlearning_rate = 0": "`train.learning_rate` in base.toml must be greater than 0, but is 0.",
    "[train]\nlearning_rate = nan": "`train.learning_rate` in base.toml must be a finite number, but is nan.",
    "[train]\nlearning_rate = inf": "`train.learning_rate` in base.toml must be a finite number, but is inf.",
    '[train]\nlearning_rate = "1e-4"': '`train.learning_rate` in base.toml must be a number, but is "1e-4".',
    "[train]\nmax_steps = 1" + "0" * 30: "`train.max_steps` in base.toml must be at most 9223372036854775807",
    "[train]\nmax_steps = [1]": "`train.max_steps` in base.toml must be a whole number, but is a list.",
    "[train.max_steps]\nx = 1": "`train.max_steps` in base.toml must be a whole number, but is a table.",
    "[train]\nmax_steps = 1979-05-27": "`train.max_steps` in base.toml must be a whole number, but is 1979-05-27.",
    "[model]\nnorm_first = 1": "`model.norm_first` in base.toml must be true or false, but is 1.",
    "[model]\nnorm_first = 'true'": '`model.norm_first` in base.toml must be true or false, but is "true".',
    "[model]\npreset = 'bas'": "`model.preset` in base.toml must be one of tiny, small, base, big, custom, "
    'but is "bas". '
    "Did you mean `base`?",
    "[model]\npreset = 3": "`model.preset` in base.toml must be one of tiny, small, base, big, custom, but is 3.",
    "[model]\ndropout = 1.0": "`model.dropout` in base.toml must be at most 0.95, but is 1.",
    '[data]\ntrain = "a\\u0000b"': "`data.train` in base.toml must be plain text",
    "[trian]\nseed = 1": "`trian` in base.toml is not a table of settings. Did you mean `train`?",
    "[zzz]\nseed = 1": "`zzz` in base.toml is not a table of settings. The tables are data, tokenizer, model, train, "
    "validate, inference.",
    "max_steps = 1": "`max_steps` in base.toml is not a setting. Did you mean `train.max_steps`?",
    "qqqqqq = 1": "`qqqqqq` in base.toml is not a setting. See `dragoman train --help-all`.",
    '"" = 1': "`` in base.toml is not a setting.",
    '"a\\nb" = 1': '`"a\\nb"` in base.toml is not a setting.',
    "train = 1": "`train` in base.toml must be a table, but is 1. Write [train] and its settings below it.",
    "[train]\nseed = 1\nseed = 2\n": "base.toml line 3, column 9 is not TOML: Cannot overwrite a value.",
    "[train]\nseed 1\n": "base.toml line 2, column 6 is not TOML",
    "[train\n": "base.toml line 1, column 7 is not TOML",
    "[train]\nseed =": "base.toml line 2 is not TOML: Invalid value.",
    "a = " + "[" * 100_000: "base.toml is nested too deeply.",
    "[model]\nd_model = 250": "`model.d_model` in base.toml must be a multiple of `model.num_heads` (4), but is 250.",
    "[model]\nd_model = 255\nnum_heads = 5": "`model.d_model` in base.toml must be even for sinusoidal positions",
    "[model]\npositions = 'learned'\nmax_positions = 128": "`model.max_positions` in base.toml must be greater than "
    "`data.max_tokens` (128), but is 128.",
    "[tokenizer]\njoint = false": '`model.tie` must not be "all" if `tokenizer.joint` is false',
    "[tokenizer]\nkind = 'word'\nbpe_dropout = 0.1": "`tokenizer.bpe_dropout` in base.toml must be 0",
    "[tokenizer]\nkind = 'word'\nbyte_fallback = true": "`tokenizer.byte_fallback` in base.toml must be false",
    "[inference]\nn_best = 6": "`inference.n_best` in base.toml must be at most `inference.beam_size` (5), but is 6.",
    "[inference]\ntop_k = 6": "`inference.top_k` in base.toml has no effect without sampling, but is 6.",
    "[data]\nreplay_share = 0.5": "`data.replay_share` in base.toml has no effect without replay data, but is 0.5.",
    "[train]\nr_drop = 5": "`train.r_drop` in base.toml is 5, but R-Drop was removed. Remove the line.",
    "[train]\nteachers = 'one,two'": (
        '`train.teachers` in base.toml is "one,two", but learning from the predictions of teachers was removed. '
        "Remove the line. Train on what the teacher writes instead: "
        "`dragoman translate TEACHER < train.en > train.de`."
    ),
    "[train]\nteacher_weight = 0.7": "`train.teacher_weight` in base.toml is 0.7, but learning from",
    "[train]\npatience = 0": "`train.patience` in base.toml must not be 0 if",
    "[train]\naverage_last = 6": "`train.average_last` in base.toml must be at most `train.keep_checkpoints` (5)",
    "[validate]\nevery_epochs = 0": "`validate.every_epochs` in base.toml and `validate.every_steps` must not",
    "[data]\ntrain = 'a'\ntrain_src = 'b'": "`data.train` in base.toml and `data.train_src` in base.toml must not both",
    "[data]\ntrain_src = 'b'": "`data.train_src` in base.toml is given, but `data.train_tgt` is not.",
    "[data]\ndev_tgt = 'b'": "`data.dev_tgt` in base.toml is given, but `data.dev_src` is not.",
    "[data]\ndev_fraction = 0": "`data.dev_fraction` in base.toml must be greater than 0 if no dev file is given",
}


@pytest.mark.parametrize(("content", "message"), BAD_FILES.items(), ids=range(len(BAD_FILES)))
def test_errors_in_files_name_file_key_and_value(write: Any, content: str, message: str) -> None:
    path = write(content)
    with pytest.raises(ConfigError) as caught:
        load_config([path])
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


BAD_FLAGS = {
    ("train.max_steps", "1.5"): '`--train.max-steps` must be a whole number, but is "1.5".',
    ("train.max_steps", "-1"): "`--train.max-steps` must be at least 0, but is -1.",
    ("train.max_steps", "9" * 5000): "`--train.max-steps` must be",
    ("train.learning_rate", "nan"): "`--train.learning-rate` must be a finite number, but is nan.",
    ("train.learning_rate", "fast"): '`--train.learning-rate` must be a number, but is "fast".',
    ("model.norm_first", "yes"): '`--model.norm-first` must be true or false, but is "yes".',
    ("model.tie", "al"): '`--model.tie` must be one of all, decoder, none, but is "al". Did you mean `all`?',
    ("train.max_steps", "1_000"): '`--train.max-steps` must be a whole number, but is "1_000".',
    ("train.max_steps", "٣"): "`--train.max-steps` must be a whole number, but is",
    ("tokenizer.vocab_size", f"{10**18}"): "`--tokenizer.vocab-size` must be at most 10000000, but is",
    ("validate.beam_size", f"{10**9}"): "`--validate.beam-size` must be at most 1000, but is 1000000000.",
    ("data.train", "\udcff"): "`--data.train` must be plain text",
    ("train.lr", "0.1"): "`--train.lr` is not a setting. Dragoman calls it `train.learning_rate`.",
    (
        "model.layers",
        "6",
    ): "`--model.layers` is not a setting. Dragoman calls it `model.num_encoder_layers`. The layers",
    ("train.r_drop", "0"): "`--train.r-drop` was removed together with R-Drop. Leave the flag out.",
    ("train.teachers", "a,b"): "`--train.teachers` was removed together with learning from the predictions of teachers",
    ("data.trian", "x"): "`--data.trian` is not a setting. Did you mean `data.train`?",
}


@pytest.mark.parametrize(("flag", "message"), BAD_FLAGS.items(), ids=range(len(BAD_FLAGS)))
def test_errors_in_flags_name_the_flag(flag: tuple[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config([], dict([flag]))
    assert str(caught.value).startswith(message)
    str(caught.value).encode()


def test_unreadable_files_are_named(write: Any, tmp_path: Path) -> None:
    path = write("")
    Path("run").mkdir()
    with pytest.raises(ConfigError, match=r"^bass\.toml does not exist\. Did you mean `base\.toml`\?$"):
        load_config([path, Path("bass.toml")])
    with pytest.raises(ConfigError, match=r"^run is a folder, not a TOML file\."):
        load_config([Path("run")])
    Path("run/config.toml").touch()
    with pytest.raises(ConfigError, match=re.escape("Did you mean `run/config.toml`?")):
        load_config([Path("run")])
    with pytest.raises(ConfigError, match=r"^latin\.toml line 2 is not UTF-8 text\. Save the file as UTF-8\.$"):
        load_config([write('[data]\ntrain = "Bücher.tsv"'.encode("latin-1"), "latin.toml")])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("#" * (1 << 18) + "\n", r"big\.toml has more than 262144 bytes, the limit for settings\."),
        (".".join("a" * 17) + " = 1", r"big\.toml has a key of more than 16 parts\."),
        ("x = 1\n[" + " . ".join(["'a'", '"b\\".c"', "d-1"] * 6) + "]", r"big\.toml has a key of more than 16 parts\."),
        ("x = [{" + ".".join("a" * 20_000) + " = 1}]", r"big\.toml has a key of more than 16 parts\."),
        ("x = " + "[" * 100_000, r"big\.toml is nested too deeply\."),
        ("x = " + "{a=" * 50_000, r"big\.toml"),
    ],
    ids=["size", "key", "quoted", "inline", "lists", "tables"],
)
def test_files_that_need_much_memory_are_not_parsed(write: Any, content: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        load_config([write(content, "big.toml")])


@settings(max_examples=30, deadline=None)
@given(st.text("ab-_.\"'\\ =[]{},#\n1", max_size=200))
def test_small_files_are_parsed_as_by_tomllib(text: str) -> None:
    try:
        expected: Any = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        expected = None
    try:
        found: Any = parse_toml(text, "x.toml")
    except (ValueError, ConfigError):
        found = None
    assert found == expected or text.count(".") >= 16


def test_strings_and_comments_with_many_dots_are_not_keys(write: Any) -> None:
    path = "/".join(["..", "..", "..", "a.b.c-1.2.3.tsv"] * 4)
    config = load_config([write(f'# {"." * 100} see a.b.c\n[data]\ntrain = "{path}" # {"." * 60}\n')])
    assert config.data.train == path


def test_model_folder_errors_name_their_file() -> None:
    with pytest.raises(ConfigError, match=r"^`model\.d_mode` in m/config\.toml is not a setting"):
        config_from_dict({"model": {"d_mode": 3}}, "m/config.toml")


def _values(setting: Setting) -> st.SearchStrategy[Any]:
    if setting.choices:
        return st.sampled_from(setting.choices)
    if setting.kind is bool:
        return st.booleans()
    if setting.kind is str:
        return st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
    low = setting.above if setting.minimum is None else setting.minimum
    assert low is not None
    if setting.kind is int:
        return st.integers(int(low), int(setting.maximum or 2**63 - 1))
    return st.floats(low, setting.maximum or math.inf, exclude_min=setting.above is not None, allow_infinity=False)


@settings(deadline=None)
@given(values=st.fixed_dictionaries({}, optional={key: _values(setting) for key, setting in SETTINGS.items()}))
def test_written_configurations_are_read_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]
) -> None:
    tables: dict[str, dict[str, Any]] = {table: {} for table in tomllib.loads(dump_config(Config()))}
    for key, value in values.items():
        table, name = key.split(".")
        tables[table][name] = value
    for name in ("train_src", "train_tgt", "dev_src", "dev_tgt", "test_src", "test_tgt"):
        tables["data"].pop(name, None)
    heads = min(tables["model"].get("num_heads", 4), 2**15)  # twice this number is the largest width
    tables["model"] |= {"num_heads": heads, "d_model": 2 * heads, "tie": "none"}
    tables["inference"] |= {"sample": True}
    config = config_from_dict(tables, "x.toml")
    assert config_from_dict(tomllib.loads(dump_config(config)), "x.toml") == config
    path = tmp_path_factory.mktemp("configs") / "config.toml"
    path.write_text(dump_config(config), encoding="utf-8")
    try:
        check_config(config)
    except ConfigError:
        with pytest.raises(ConfigError):
            load_config([path])
    else:
        assert load_config([path]) == config


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from([*tomllib.loads(dump_config(Config())), "x"]),
        JUNK | st.dictionaries(st.sampled_from([key.split(".")[1] for key in SETTINGS]), JUNK),
    )
)
def test_random_files_raise_config_errors_only(content: dict[str, Any]) -> None:
    try:
        config_from_dict(content, "x.toml")
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017


def test_a_trained_model_with_contradicting_settings_loads() -> None:
    assert config_from_dict({"train": {"average_last": 9}}, "m/config.toml").train.average_last == 9


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"num_heads": 3}, r"`model\.d_model` must be a multiple of `model\.num_heads` in m/config\.toml \(3\)"),
        ({"d_model": 27, "num_heads": 3}, r"`model\.d_model` in m/config\.toml must be even for sinusoidal positions"),
    ],
)
def test_a_trained_model_with_an_impossible_shape_does_not_load(model: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_from_dict({"model": model}, "m/config.toml")


def test_every_setting_has_help_and_a_checked_default() -> None:
    for setting in SETTINGS.values():
        assert setting.help, setting.key
        assert setting.check(setting.default, setting.key) == setting.default

"""``dragoman train``: from parallel text to a model folder; continues a run by itself."""

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.cli.arguments import ArgumentParser, add_layout_flags, file_name, listed_name, overrides_of, path_name
from dragoman.cli.models import require_model
from dragoman.config import (
    CORPUS_FILES,
    Config,
    DataSettings,
    GivenSettings,
    TokenizerSettings,
    TrainSettings,
    read_given,
)
from dragoman.config.loading import flag_of
from dragoman.config.recipes import CorpusSize, adapt_recipe, chosen_keys, every_recipe, recipe_for
from dragoman.errors import ConfigError
from dragoman.interrupts import interrupts
from dragoman.languages import check_language, language_code
from dragoman.messages import say
from dragoman.text.corpus.corpus import Corpora
from dragoman.text.corpus.opening import open_corpora
from dragoman.text.doctor.examine import check_corpus, check_corpus_languages
from dragoman.training.run.frozen_settings import check_frozen, check_recorded, frozen_config

# Short flags of the data -> the settings they stand for.
_DATA_FLAGS = {
    "from": "train.start_from",
    "teacher": "train.teachers",
    "data": "data.train",
    "src": "data.train_src",
    "tgt": "data.train_tgt",
    "src_lang": "data.src_lang",
    "tgt_lang": "data.tgt_lang",
    "columns": "data.columns",
    "header": "data.header",
    "encoding": "data.encoding",
}


def run(arguments: Sequence[str]) -> int:
    """Trains until a limit or patience ends it; scores on stdout. 128 + a signal that stopped it."""
    parser = ArgumentParser("train", "Trains a translator on your parallel text, or continues a run.")
    add_data_flags(parser)
    parser.add_flag("--out", "RUN", "the run's folder (default runs/NAME)", path_name)
    given = parser.parse(arguments)
    return train(given.configs, data_overrides(given), given.out)


def add_data_flags(parser: ArgumentParser) -> None:
    """Configuration files, short flags for data and languages, and every setting as a flag."""
    parser.add_argument("configs", metavar="CONFIG", nargs="*", type=path_name, help="TOML files; later ones win")
    parser.add_flag("--from", "MODEL", "fine-tune this model folder or run instead of starting a new model", file_name)
    text = "learn what this model or run says of the text, too; several times for an ensemble of several"
    parser.add_argument("--teacher", metavar="MODEL", type=listed_name, action="append", help=text)
    parser.add_flag("--data", "FILE", "one file with both sides: .tsv, .csv, .jsonl or .tmx (or .gz)", file_name)
    parser.add_flag("--src", "FILE", "the source side of two aligned files", file_name)
    parser.add_flag("--tgt", "FILE", "the target side of two aligned files", file_name)
    for side, name in (("src", "source"), ("tgt", "target")):
        text = f"{name} language, code or name, where the file names do not tell"
        parser.add_flag(f"--{side}-lang", "LANG", text)
    add_layout_flags(parser)
    parser.add_settings("data", "tokenizer", "model", "train", "validate", "inference", by_recipe=chosen_keys())


def data_overrides(given: argparse.Namespace) -> dict[str, str]:
    """The settings among the parsed flags of `add_data_flags`, the short ones under their keys. Raises ConfigError."""
    if not given.configs and (given.src is None) != (given.tgt is None):
        present, missing = ("--src", "--tgt") if given.tgt is None else ("--tgt", "--src")
        raise ConfigError(
            f"`{present}` is given, but `{missing}` is not. Give both, or one file with both sides as --data."
        )
    said = {key: getattr(given, flag) for flag, key in _DATA_FLAGS.items() if getattr(given, flag) is not None}
    short = {key: ",".join(value) if isinstance(value, list) else value for key, value in said.items()}
    long = overrides_of(given)
    for flag, key in _DATA_FLAGS.items():
        if key in short and long.get(key, short[key]) != short[key]:
            raise ConfigError(
                f"`{flag_of(flag)}` is {short[key]}, and `{flag_of(key)}`, which means the same, {long[key]}. "
                "Leave one out."
            )
    return long | short


def train(configs: Sequence[Path], overrides: Mapping[str, str], out: Path | None) -> int:
    """The verb behind its flags: settings and data are checked first, and only then is torch loaded."""
    out = out or Path("runs") / _name(configs, overrides)
    interrupts.last_words = lambda: _last_words(out)
    frozen = frozen_config(out)
    if frozen:  # what may not change is said before what contradicts it
        given = read_given(configs, overrides)
        requested = _requested_config(given, frozen)
        check_recorded(out, requested.data, given.keys)
        check_frozen(out, replace(requested, train=replace(requested.train, precision=frozen.train.precision)))
    settled = resolve_run(configs, overrides, frozen)
    check_frozen(out, settled.config)  # before anything is written into a folder that may hold something else
    from dragoman.workflows.training import run_training

    code = run_training(settled.config, settled.corpora, out, settled.strict_vocabulary, settled.given)
    interrupts.last_words = None
    return code


@dataclass(frozen=True, slots=True)
class ResolvedRun:
    """All settings, the corpora, the size of what is trained on, and the keys the user gave."""

    config: Config
    corpora: Corpora
    size: CorpusSize
    given: frozenset[str]

    @property
    def strict_vocabulary(self) -> bool:
        """Whether a text that does not support as many entries as the vocabulary is to have is an error."""
        return "tokenizer.vocab_size" in self.given


def resolve_run(configs: Sequence[Path], overrides: Mapping[str, str], frozen: Config | None = None) -> ResolvedRun:
    """Resolve the settings of a run and open its corpora.

    Settings that are not given come from the run if it exists. A new run takes the recipe for the size of the corpus,
    fitted by `adapt_recipe` to the given settings.
    """
    given = read_given(configs, overrides)
    for note in given.notes:
        say(note)
    requested = _requested_config(given, frozen)
    start_from, teachers = requested.train.start_from, requested.train.teachers
    if frozen or not start_from:
        check_early(given, frozen)
    if frozen is None:
        for path in filter(None, [start_from, *teachers.split(",")]):
            require_model(path.strip())
    tokenizer = _teacher_tokenizer(teachers) if teachers and not frozen else None
    corpora = open_corpora(_expand_variables(requested.data))
    say(f"reading {corpora.train}")
    learns_from_models = frozen is None and bool(start_from or teachers)
    checks_languages = requested.data.check_languages
    if frozen is None:
        size = check_corpus(corpora.train, say, with_languages=checks_languages and not learns_from_models)
        base = adapt_recipe(_recipe(size, requested, tokenizer), requested, "model.preset" in given.keys)
    else:
        size, base = CorpusSize(corpora.train.count()), frozen
    loaded = given.over(base)
    config = with_languages(loaded.config, corpora.train.src_lang, corpora.train.tgt_lang)
    if learns_from_models:
        config = _match_models(config)
        corpora = open_corpora(_expand_variables(config.data))  # in the model's languages, as in a run that continues
    _check_corpora(corpora, checks_languages, with_train=learns_from_models)
    config = replace(config, train=_settle_device(config.train, is_new=frozen is None))
    _report_size(config, size)
    return ResolvedRun(config, corpora, size, loaded.given)


def _check_corpora(corpora: Corpora, check_languages: bool, with_train: bool) -> None:
    """Check the languages of the corpora. Warn if the test is the validation data."""
    if check_languages:
        train = corpora.train if with_train else None
        for corpus in filter(None, [train, corpora.dev, corpora.test, corpora.replay, corpora.replay_test]):
            check_corpus_languages(corpus, say)
    if corpora.dev and corpora.test and corpora.dev.paths == corpora.test.paths:
        say("`data.dev` and `data.test` are one text: the model is chosen by it, so that its test score is too good")


def _report_size(config: Config, size: CorpusSize) -> None:
    """Print the size of the corpus, the languages and the size of the model."""
    model, names = config.model, f"{config.data.src_lang or 'source'} to {config.data.tgt_lang or 'target'}"
    words = f", {size.words:,} words" if size.words else ""
    say(
        f"{size.pairs:,} pairs{words}, {names}; model {model.preset}: "
        f"{model.num_encoder_layers}+{model.num_decoder_layers} layers, d_model {model.d_model}"
    )


def _requested_config(given: GivenSettings, frozen: Config | None) -> Config:
    """The settings that are given, with codes for languages, over those of the run or else the defaults.

    A run keeps the form in which it has them. Raises ConfigError where a language does not exist, or both are one.
    """
    requested = given.unchecked_over(frozen or Config())
    languages = []
    for name in ("src_lang", "tgt_lang"):
        text: str = getattr(requested.data, name)
        before: str = getattr(frozen.data, name) if frozen else ""
        code = text if text == before else check_language(text, f"`data.{name}`")
        languages.append(before if before and language_code(before) == code else code)
    src_lang, tgt_lang = languages
    if frozen is None and src_lang and src_lang == tgt_lang:
        raise ConfigError(
            f"`data.src_lang` and `data.tgt_lang` are both {src_lang}. Name two languages; for a task within one "
            "language, name none."
        )
    return with_languages(requested, src_lang, tgt_lang)


def check_early(given: GivenSettings, frozen: Config | None) -> None:
    """Raises ConfigError for a contradiction with the run, or with whatever recipe, before the corpus is read."""
    requested, names_preset = given.unchecked_over(Config()), "model.preset" in given.keys
    recipes = [] if frozen else every_recipe(requested.tokenizer)
    bases = [frozen] if frozen else [adapt_recipe(each, requested, names_preset) for each in recipes]
    contradictions = []
    for base in bases:
        try:
            given.over(base)
        except ConfigError as error:
            contradictions.append(error)
    if len(contradictions) == len(bases):
        raise contradictions[0]


def with_languages(config: Config, src_lang: str, tgt_lang: str) -> Config:
    """The configuration of a model between these languages."""
    return replace(config, data=replace(config.data, src_lang=src_lang, tgt_lang=tgt_lang))


def _teacher_tokenizer(teachers: str) -> TokenizerSettings:
    from dragoman.workflows.teachers import tokenizer_settings_of

    return tokenizer_settings_of(teachers)


def _recipe(size: CorpusSize, requested: Config, teacher_tokenizer: TokenizerSettings | None) -> Config:
    """The recipe for fine-tuning, or for a corpus of this size; with teachers the tokenizer is theirs."""
    if requested.train.start_from:
        from dragoman.workflows.fine_tuning import settings_for

        return settings_for(requested.train.start_from, size)
    recipe = recipe_for(size, teacher_tokenizer or requested.tokenizer)
    return recipe if teacher_tokenizer is None else replace(recipe, tokenizer=teacher_tokenizer)


def _match_models(config: Config) -> Config:
    """The configuration, with the languages of the model it starts from, or else of its teachers, where the data does
    not tell them. Raises ConfigError where that model, or they, are of another kind."""
    from dragoman.workflows.fine_tuning import check_same_model, model_languages
    from dragoman.workflows.teachers import check_teachers, paths_of

    start_from, teachers = config.train.start_from, config.train.teachers
    if start_from:
        check_same_model(config, start_from)
    if teachers:
        check_teachers(config)
    src_lang, tgt_lang = model_languages(start_from or paths_of(teachers)[0])
    return with_languages(config, config.data.src_lang or src_lang, config.data.tgt_lang or tgt_lang)


def _expand_variables(data: DataSettings) -> DataSettings:
    """The settings with environment variables in file names ($DRAGOMAN_DATA/train.en) replaced by their values.

    Raises ConfigError for a variable that is not set.
    """
    values = {}
    for name in CORPUS_FILES:
        given = getattr(data, name)
        values[name] = os.path.expandvars(given)
        if (unset := re.search(r"\$\{?(\w+)", values[name])) and not Path(values[name]).exists():
            raise ConfigError(
                f"`data.{name}` is {given}, but the environment variable {unset[1]} is not set. "
                f"Set it to the folder of the data: export {unset[1]}=..."
            )
    return replace(data, **values)


def _settle_device(train: TrainSettings, is_new: bool) -> TrainSettings:
    """The settings with the precision that `auto` means here, and for a new run the threads that 0 means.

    So a run continues as it started. Dropout's random numbers depend on the threads. They stay 0 except on a CPU.
    """
    import torch

    from dragoman.devices.device import multiplies_bfloat16, resolve_device, resolve_precision
    from dragoman.training.step.gradients import num_threads

    device = resolve_device(train.device, "train.device")
    is_bfloat16 = resolve_precision(train.precision, device) == torch.bfloat16
    if is_bfloat16 and device.type == "cpu" and not multiplies_bfloat16(device):
        say("train.precision is bfloat16, which this processor has not: float32 is some hundred times as fast")
    threads = num_threads(train, device) if is_new and device.type == "cpu" else train.threads
    return replace(train, precision="bfloat16" if is_bfloat16 else "float32", threads=threads)


def _last_words(out: Path) -> str:
    """What a run that was stopped before it could save says: where the same command continues."""
    steps = sorted(path.name for path in (out / "checkpoints").glob("step_*"))
    if not steps:
        return "stopped without saving. There is no checkpoint yet: the same command starts from the beginning."
    return f"stopped without saving. The same command continues from {out / 'checkpoints' / steps[-1]}."


def _name(configs: Sequence[Path], overrides: Mapping[str, str]) -> str:
    """A run's name after its last configuration file, or else after its data."""
    source = configs[-1] if configs else overrides.get("data.train") or overrides.get("data.train_src") or "run"
    return Path(source).name.split(".")[0] or "run"

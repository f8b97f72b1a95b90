"""The settings of a run and the corpora that it reads, settled before anything is trained."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dragoman.config import (
    CORPUS_FILES,
    Config,
    DataSettings,
    GivenSettings,
    TokenizerSettings,
    TrainSettings,
    read_given,
)
from dragoman.config.recipes import CorpusSize, adapt_recipe, every_recipe, recipe_for
from dragoman.errors import ConfigError
from dragoman.languages import check_language, language_code
from dragoman.text.corpus.corpus import Corpora
from dragoman.text.corpus.opening import open_corpora
from dragoman.text.doctor.examine import check_corpus, check_corpus_languages
from dragoman.training.run.frozen_settings import check_frozen, check_recorded, frozen_config
from dragoman.workflows.models import require_model
from dragoman.workflows.progress import QUIET, Progress


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What the user asks of a run: TOML files, settings by key as text (such as ``train.max_steps``), and its folder.

    Later files win over earlier ones, and `overrides` over files. A run that exists in `out` continues. Without `out`
    the run is only planned.
    """

    configs: tuple[Path, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)
    out: Path | None = None


@dataclass(frozen=True, slots=True)
class ResolvedRun:
    """All settings of a run, its folder and corpora, the keys the user set, and the size of the training text.

    `size` is None if the run continues: its settings are known, so the text is not read to count it.
    """

    config: Config
    corpora: Corpora
    size: CorpusSize | None
    given: frozenset[str]
    out: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder of a run that is more than planned."""
        assert self.out is not None
        return self.out


def resolve_run(request: RunRequest, progress: Progress = QUIET) -> ResolvedRun:
    """Resolve the settings of a run and open its corpora. Raises ConfigError, DataError, ModelError, CheckpointError.

    Settings that are not given come from the run if it exists. A new run takes the recipe for the size of the corpus,
    fitted by `adapt_recipe` to the given settings. Nothing is written.
    """
    frozen = frozen_config(request.out) if request.out else None
    given = read_given(request.configs, request.overrides)
    if request.out and frozen:  # first what may not change, then what contradicts it
        _check_continued(request.out, given, frozen)
    for note in given.notes:
        progress.note(note)
    requested = _requested_config(given, frozen)
    start_from, teachers = requested.train.start_from, requested.train.teachers
    if frozen or not start_from:
        check_early(given, frozen)
    if frozen is None:
        for path in filter(None, [start_from, *teachers.split(",")]):
            require_model(path.strip())
    tokenizer = _teacher_tokenizer(teachers) if teachers and not frozen else None
    corpora = open_corpora(_expand_variables(requested.data))
    learns_from_models = frozen is None and bool(start_from or teachers)
    checks_languages = requested.data.check_languages
    if frozen is None:
        progress.note(f"reading {corpora.train}")
        size = check_corpus(corpora.train, progress.note, with_languages=checks_languages and not learns_from_models)
        base = adapt_recipe(_recipe(size, requested, tokenizer), requested, "model.preset" in given.keys)
    else:
        size, base = None, frozen
    loaded = given.over(base)
    config = _with_languages(loaded.config, corpora.train.src_lang, corpora.train.tgt_lang)
    if learns_from_models:
        config = _match_models(config)
        corpora = open_corpora(_expand_variables(config.data))  # in the model's languages, as in a run that continues
    if checks_languages:
        _check_languages(corpora, learns_from_models, progress)
    if corpora.dev and corpora.test and corpora.dev.paths == corpora.test.paths:
        progress.note(
            "`data.dev` and `data.test` are one text: the model is chosen by it, so that its test score is too good"
        )
    config = replace(config, train=_settle_device(config.train, frozen is None, progress))
    progress.note(_describe(config, size))
    if request.out:
        check_frozen(request.out, config)  # before anything is written into a folder that may hold something else
    return ResolvedRun(config, corpora, size, loaded.given, request.out)


def _check_continued(out: Path, given: GivenSettings, frozen: Config) -> None:
    """Raise an error if the run in `out` cannot continue with the given settings, or its corpora are gone."""
    requested = _requested_config(given, frozen)
    check_recorded(out, requested.data, given.keys)
    check_frozen(out, replace(requested, train=replace(requested.train, precision=frozen.train.precision)))


def _check_languages(corpora: Corpora, with_train: bool, progress: Progress) -> None:
    """Raise DataError if a corpus is clearly in another language than it should be in."""
    train = corpora.train if with_train else None
    for corpus in filter(None, [train, corpora.dev, corpora.test, corpora.replay, corpora.replay_test]):
        check_corpus_languages(corpus, progress.note)


def _describe(config: Config, size: CorpusSize | None) -> str:
    """The size of the corpus, the languages and the size of the model, in one line."""
    model, data = config.model, config.data
    counts = f"{size.pairs:,} pairs, {size.words:,} words, " if size else ""
    return (
        f"{counts}{data.src_lang or 'source'} to {data.tgt_lang or 'target'}; model {model.preset}: "
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
    return _with_languages(requested, src_lang, tgt_lang)


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


def _with_languages(config: Config, src_lang: str, tgt_lang: str) -> Config:
    """The configuration of a model between these languages."""
    return replace(config, data=replace(config.data, src_lang=src_lang, tgt_lang=tgt_lang))


def _teacher_tokenizer(teachers: str) -> TokenizerSettings:
    from dragoman.workflows.training.teachers import tokenizer_settings_of

    return tokenizer_settings_of(teachers)


def _recipe(size: CorpusSize, requested: Config, teacher_tokenizer: TokenizerSettings | None) -> Config:
    """The recipe for fine-tuning, or for a corpus of this size; with teachers the tokenizer is theirs."""
    if requested.train.start_from:
        from dragoman.workflows.training.fine_tuning import settings_for

        return settings_for(requested.train.start_from, size)
    recipe = recipe_for(size, teacher_tokenizer or requested.tokenizer)
    return recipe if teacher_tokenizer is None else replace(recipe, tokenizer=teacher_tokenizer)


def _match_models(config: Config) -> Config:
    """The configuration, with the languages of the model it starts from, or else of its teachers, where the data does
    not tell them. Raises ConfigError where that model, or they, are of another kind."""
    from dragoman.workflows.training.fine_tuning import check_same_model, model_languages
    from dragoman.workflows.training.teachers import check_teachers, paths_of

    start_from, teachers = config.train.start_from, config.train.teachers
    if start_from:
        check_same_model(config, start_from)
    if teachers:
        check_teachers(config)
    src_lang, tgt_lang = model_languages(start_from or paths_of(teachers)[0])
    return _with_languages(config, config.data.src_lang or src_lang, config.data.tgt_lang or tgt_lang)


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


def _settle_device(train: TrainSettings, is_new: bool, progress: Progress) -> TrainSettings:
    """The settings with the precision that `auto` means here, and for a new run the threads that 0 means.

    So a run continues as it started. Dropout's random numbers depend on the threads. They stay 0 except on a CPU.
    """
    import torch

    from dragoman.devices.device import multiplies_bfloat16, resolve_device, resolve_precision
    from dragoman.training.step.gradients import num_threads

    device = resolve_device(train.device, "train.device")
    is_bfloat16 = resolve_precision(train.precision, device) == torch.bfloat16
    if is_bfloat16 and device.type == "cpu" and not multiplies_bfloat16(device):
        progress.note(
            "train.precision is bfloat16, which this processor has not: float32 is some hundred times as fast"
        )
    threads = num_threads(train, device) if is_new and device.type == "cpu" else train.threads
    return replace(train, precision="bfloat16" if is_bfloat16 else "float32", threads=threads)

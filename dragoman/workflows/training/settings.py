"""Resolution of a run's settings and corpora, before anything is trained or written.

Settings come, from weakest to strongest, from the recipe for the size of the corpus (or the model to fine-tune, or the
run that continues), from TOML files, and from overrides. Contradictions are found before the corpus is read where that
is possible, because reading may take minutes.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dragoman.config import Config, CorpusSettings, GivenSettings, TrainSettings, read_given
from dragoman.config.recipes import CorpusSize, adapt_recipe, every_recipe, recipe_for, row_for
from dragoman.errors import ConfigError, require_torch
from dragoman.languages import check_language, language_code
from dragoman.text.corpus.corpus import Corpora, SizeCounter
from dragoman.text.corpus.opening import open_corpora
from dragoman.text.doctor.examine import check_corpus, check_corpus_languages, detect_languages
from dragoman.training.run.frozen_settings import check_frozen, check_recorded, frozen_config
from dragoman.workflows.models import require_model
from dragoman.workflows.progress import QUIET, Progress


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The settings that a user gives for a run, and its folder.

    Parameters
    ----------
    configs
        TOML files. Later files win over earlier ones.
    overrides
        Settings by key, as text, such as ``{"train.max_steps": "1000"}``. They win over the files.
    out
        The folder of the run. A run that exists there continues. None for a run that is only planned.
    sources
        For corpora that the run will keep in its own folder: where each file is now, by its future path.
    corpora
        Several training corpora. They win over the files.
    """

    configs: tuple[Path, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)
    out: Path | None = None
    sources: Mapping[str, Path] = field(default_factory=dict)
    corpora: tuple[CorpusSettings, ...] = ()

    @property
    def folder(self) -> Path:
        """`out`, or else ``runs/NAME`` after the last configuration file or the training text."""
        overrides = self.overrides
        source = self.configs[-1] if self.configs else overrides.get("data.train") or overrides.get("data.train_src")
        source = source or (self.corpora[0].files[0] if self.corpora else None)
        return self.out or Path("runs") / (Path(source or "run").name.split(".")[0] or "run")


@dataclass(frozen=True, slots=True)
class ResolvedRun:
    """A run with all of its settings known.

    Parameters
    ----------
    config
        All settings.
    corpora
        The training, validation and test text.
    size
        The size of the training text. None if the run continues: its settings are known, so the text is not counted.
    given
        The keys of the settings that the user set.
    unfitted
        All settings, with the warm-up before it was fitted to `train.max_steps`.
    out
        The folder of the run, or None if it is only planned.
    sources
        As in the request.
    """

    config: Config
    corpora: Corpora
    size: CorpusSize | None
    given: frozenset[str]
    unfitted: Config
    out: Path | None = None
    sources: Mapping[str, Path] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder of the run, which must not be None."""
        assert self.out is not None
        return self.out


def resolve_run(request: RunRequest, progress: Progress = QUIET) -> ResolvedRun:
    """Resolve all settings of a run, and open its corpora. Nothing is written.

    Settings that the user did not set come from the run if it exists. Otherwise they come from the recipe for the size
    of the corpus, adapted to the settings that the user did set.

    Parameters
    ----------
    request
        The settings that the user set, and the folder of the run.
    progress
        Receives notes about the corpus and the settings.

    Returns
    -------
    ResolvedRun
        The run, ready for `train_run`.

    Raises
    ------
    ConfigError
        If a setting is invalid, or if settings contradict each other, the run or the model to start from.
    DataError
        If a corpus cannot be read, has sides of different lengths, or is clearly in the wrong language.
    ModelError
        If the model to start from is missing or damaged.
    CheckpointError
        If the run in `out` cannot continue with these settings.
    MissingExtraError
        If torch is not installed.
    """
    require_torch("training")  # now, not after the corpus is read
    frozen = frozen_config(request.out) if request.out else None
    given = read_given(request.configs, request.overrides, request.corpora)
    for note in given.notes:
        progress.note(note)
    requested = _requested_config(given, frozen)
    if request.out:  # settings that must not change come before settings that contradict each other
        if frozen:
            check_recorded(request.out, requested, given.keys)
        precision = (frozen or requested).train.precision  # "auto" is resolved below, and `train_run` checks it
        check_frozen(request.out, replace(requested, train=replace(requested.train, precision=precision)))
    fine_tunes = frozen is None and bool(requested.train.start_from)
    if fine_tunes:
        require_model(requested.train.start_from)
    else:
        check_early(given, frozen)
    checks_languages = requested.data.check_languages
    if len(requested.corpora) > 1 and checks_languages and not (requested.data.src_lang and requested.data.tgt_lang):
        first = replace(requested, corpora=requested.corpora[:1])  # the other corpora must have its languages
        requested = _with_languages(
            requested, *detect_languages(open_corpora(_current_paths(first, request.sources)).train[0])
        )
    corpora = open_corpora(_current_paths(requested, request.sources))
    if frozen is None:
        counter = SizeCounter()
        for corpus in corpora.train:
            progress.note(f"reading {corpus}")
            with progress.counting("checking", unit="pairs"):
                check_corpus(corpus, progress.note, checks_languages and not fine_tunes, counter)
        size = counter.size()
        _check_stages(requested, size)
        recipe = recipe_for(size, requested.tokenizer)
        if fine_tunes:
            from dragoman.workflows.training.fine_tuning import settings_for

            recipe = settings_for(requested.train.start_from, size)
        base = adapt_recipe(recipe, requested, given.keys)
        endless = replace(requested, train=replace(requested.train, max_steps=0))
        unfitted = adapt_recipe(recipe, endless, given.keys)
    else:
        size, base, unfitted = None, frozen, frozen
    loaded = given.over(base)
    config = _with_languages(loaded.config, corpora.train[0].src_lang, corpora.train[0].tgt_lang)
    if fine_tunes:
        from dragoman.workflows.training.fine_tuning import match_model

        config = match_model(config)
        corpora = open_corpora(_current_paths(config, request.sources))  # now with the model's languages
    if checks_languages:
        others = corpora.dev, corpora.test, corpora.replay, corpora.replay_test
        for corpus in filter(None, (*(corpora.train if fine_tunes else ()), *others)):
            check_corpus_languages(corpus, progress.note)
    if corpora.dev and corpora.test and corpora.dev.paths == corpora.test.paths:
        progress.note(
            "`data.dev` and `data.test` are the same text: the model is selected on it, so its test score is too good"
        )
    config = replace(config, train=_settle_device(config.train, frozen is None, progress))
    progress.note(_describe(config, size))
    unfitted = given.unchecked_over(unfitted)
    return ResolvedRun(config, corpora, size, loaded.given, unfitted, request.out, request.sources)


def _describe(config: Config, size: CorpusSize | None) -> str:
    """Return the size of the corpus, the languages and the size of the model, in one line."""
    model, data = config.model, config.data
    counts = f"{size.pairs:,} pairs, {size.words:,} words, " if size else ""
    return (
        f"{counts}{data.src_lang or 'source'} to {data.tgt_lang or 'target'}; model {model.preset}: "
        f"{model.num_encoder_layers}+{model.num_decoder_layers} layers, d_model {model.d_model}"
    )


def _requested_config(given: GivenSettings, frozen: Config | None) -> Config:
    """Return the user's settings over those of the run or else the defaults, with language names replaced by codes.

    A run that continues keeps the names that it started with. Raises ConfigError if a language does not exist, or if
    both languages are the same.
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
            f"`data.src_lang` and `data.tgt_lang` are both {src_lang}. Set two languages, or none for a task within "
            "one language."
        )
    return _with_languages(requested, src_lang, tgt_lang)


def check_early(given: GivenSettings, frozen: Config | None) -> None:
    """Raise ConfigError if the settings contradict the run, or every recipe, before the corpus is read."""
    requested = given.unchecked_over(Config())
    recipes = [] if frozen else every_recipe(requested.tokenizer)
    bases = [frozen] if frozen else [adapt_recipe(each, requested, given.keys) for each in recipes]
    contradictions = []
    for base in bases:
        try:
            given.over(base)
        except ConfigError as error:
            contradictions.append(error)
    if len(contradictions) == len(bases):
        raise contradictions[0]


def _with_languages(config: Config, src_lang: str, tgt_lang: str) -> Config:
    """Return the configuration with these languages."""
    return replace(config, data=replace(config.data, src_lang=src_lang, tgt_lang=tgt_lang))


def _check_stages(config: Config, size: CorpusSize) -> None:
    """Raise ConfigError if a corpus is used in a part of a run whose length is not known."""
    for number, corpus in enumerate(config.corpora):
        if (corpus.from_ > 0 or corpus.until < 1) and not (config.train.max_steps or config.train.max_epochs):
            key, value = ("from", corpus.from_) if corpus.from_ > 0 else ("until", corpus.until)
            raise ConfigError(
                f"`corpora[{number}].{key}` is {value:g}, a share of the run, but the run has no fixed length. Set "
                f"`train.max_epochs`, for example to {row_for(size).usual_epochs}, or `train.max_steps`."
            )


def _current_paths(config: Config, sources: Mapping[str, Path]) -> Config:
    """Replace environment variables in file names, such as $DRAGOMAN_DATA/train.en, and paths that `sources` has.

    Raises ConfigError for a variable that is not set.
    """
    values = dict[str, str]()
    for key, path in config.corpus_paths.items():
        values[key] = str(sources.get(path) or os.path.expandvars(path))
        if (unset := re.search(r"\$\{?(\w+)", values[key])) and not Path(values[key]).exists():
            raise ConfigError(
                f"`{key}` is {path}, but the environment variable {unset[1]} is not set. "
                f"Set it to the folder of the data: export {unset[1]}=..."
            )
    return config.with_corpus_paths(values)


def _settle_device(train: TrainSettings, is_new: bool, progress: Progress) -> TrainSettings:
    """Replace `auto` by the precision of this machine, and 0 threads of a new run on a CPU by their number.

    The run records both values, so that it continues as it started: dropout's random numbers depend on the threads.
    """
    import torch

    from dragoman.devices.device import multiplies_bfloat16, resolve_device, resolve_precision
    from dragoman.training.step.gradients import num_threads

    device = resolve_device(train.device, "train.device")
    is_bfloat16 = resolve_precision(train.precision, device) == torch.bfloat16
    if is_bfloat16 and device.type == "cpu" and not multiplies_bfloat16(device):
        progress.note(
            "`train.precision` is bfloat16, but this processor has no bfloat16: float32 is about 100 times as fast"
        )
    threads = num_threads(train, device) if is_new and device.type == "cpu" else train.threads
    return replace(train, precision="bfloat16" if is_bfloat16 else "float32", threads=threads)

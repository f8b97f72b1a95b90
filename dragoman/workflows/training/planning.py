"""Forecast of a training run's time, memory and disk, from a few measured steps on this machine (`dragoman plan`).

The measurement trains in a temporary folder with the code that `train` uses, so it leaves nothing behind.
"""

import math
import resource
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from dragoman.bundle import Model
from dragoman.config import PRESETS, Config
from dragoman.config.recipes import CorpusSize, Recipe, row_for, vocab_size_for
from dragoman.data.batching import epoch_batches
from dragoman.data.prepare import PreparedData
from dragoman.display import Facts, ShownRecord
from dragoman.evaluation.learning_curve import TOKENS_TO_90_PERCENT
from dragoman.evaluation.metrics import score_outputs
from dragoman.inference.translator import Translator
from dragoman.signals import clean_up_when_terminated
from dragoman.text.corpus.corpus import Corpora
from dragoman.text.corpus.opening import open_aligned
from dragoman.text.tokenization.tokenizer import vocabulary_notes
from dragoman.training.decay import share_after_patience
from dragoman.training.limits import TrainingPace, fit_validations, fitting_values, kept_bytes, validations_until
from dragoman.training.run.log import RunLog, duration
from dragoman.training.trainer import fit
from dragoman.workflows.progress import QUIET, Progress
from dragoman.workflows.training.settings import ResolvedRun, RunRequest, resolve_run
from dragoman.workflows.training.training import make_session, prepare_pairs, validation_data

_MOST_PAIRS, _FEWEST_PAIRS = 200_000, 1000  # to prepare of all corpora, and of each
_STEPS, _WARM_STEPS, _MOST_MINUTES = 20, 10, 2.0  # the first _WARM_STEPS are not timed
_SCORED_SENTENCES = 200
_REPORT_SENTENCES = 120  # the report translates these again


@dataclass(frozen=True, slots=True)
class Measurement:
    """Time and memory of single operations on this machine.

    Preparation is extrapolated from a sample to the whole corpus: `prepare_seconds`, `steps_per_epoch`, `data_bytes`.

    Parameters
    ----------
    prepare_seconds
        Reading, cleaning and encoding the corpus.
    step_seconds, steps_measured
        The mean time of an optimizer step, and the number of steps that it was measured on.
    validation_seconds, save_seconds
        One validation, and one checkpoint.
    scoring_seconds
        Translating and scoring the validation and test data after training.
    steps_per_epoch
        Optimizer steps per pass over the training pairs.
    parameters
        Number of parameters of the model.
    peak_bytes
        The most memory in use at once, of the GPU or of the process.
    checkpoint_bytes, data_bytes
        One checkpoint, and the prepared data, on disk.
    """

    prepare_seconds: float
    step_seconds: float
    steps_measured: int
    validation_seconds: float
    save_seconds: float
    scoring_seconds: float
    steps_per_epoch: float
    parameters: int
    peak_bytes: int
    checkpoint_bytes: int
    data_bytes: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecast of a whole run, from reading the corpus to the final scores.

    Parameters
    ----------
    steps, epochs, validations
        The length of the run until the setting `ends_by` ends it.
    hours
        The expected duration.
    hours_at_most
        The duration if patience never ends the run. Infinite if the run has no other limit.
    ends_by
        The key of the setting that is expected to end the run, such as "train.max_steps".
    disk_bytes
        The size of the run's folder at the end.
    minutes_to_90_percent_bleu
        The least, usual and most minutes of training to 90 % of the BLEU of a long run. Empty in
        fine-tuning, and for models that are not as large as "tiny", whose curves were not measured.
    """

    steps: int
    epochs: float
    validations: int
    hours: float
    hours_at_most: float
    ends_by: str
    disk_bytes: float
    minutes_to_90_percent_bleu: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Plan(ShownRecord):
    """A resolved run, the size of its corpus, the recipe for that size, the measurements, and the forecast."""

    run: ResolvedRun
    size: CorpusSize
    recipe: Recipe
    measured: Measurement
    forecast: Forecast

    def __str__(self) -> str:
        return "\n".join(f"{name:18}{value}" for name, value in self.rows())

    def _facts(self) -> Facts:
        return self.rows()

    def rows(self) -> list[tuple[str, str]]:
        """Describe the plan: the name of each fact, such as "memory", and the fact as text.

        Returns
        -------
        list of (str, str)
        """
        config, recipe, measured, forecast = self.run.config, self.recipe, self.measured, self.forecast
        model, train = config.model, config.train
        limit = "more words" if math.isinf(recipe.max_words) else f"up to {recipe.max_words:,.0f} words"
        per_epoch = measured.steps_per_epoch * measured.step_seconds
        end = f"`{forecast.ends_by}` ends it"
        if forecast.ends_by == "train.patience":
            end = "when patience usually ends it, which is a guess"
            if math.isfinite(forecast.hours_at_most):
                end += f"; at most {duration(3600 * forecast.hours_at_most)}"
        quality = []
        if forecast.minutes_to_90_percent_bleu:
            least, usual, most = (f"{math.ceil(minutes):,}" for minutes in forecast.minutes_to_90_percent_bleu)
            minutes = f"about {usual} min ({least} to {most}) of training"
            quality = [("quality", f"{minutes} to 90 % of the BLEU that this recipe reaches")]
        shape = f"{model.num_encoder_layers}+{model.num_decoder_layers} layers, d_model {model.d_model}"
        suggested = f"{recipe.preset}, vocabulary {recipe.vocab_size:,}: the default recipe for {limit} ({recipe.why})"
        if train.start_from:
            suggested = f"that of {train.start_from}, which is fine-tuned"
        return [
            ("suggested size", suggested),
            ("this model", f"{shape}, {measured.parameters:,} parameters; {train.precision}"),
            ("a step", f"{measured.step_seconds:.3g} s for {train.batch_tokens:,} target tokens "
                       f"(mean of {measured.steps_measured})"),
            ("an epoch", f"{measured.steps_per_epoch:,.0f} steps, {duration(per_epoch)}"),
            ("a validation", f"{duration(measured.validation_seconds)}, and {measured.save_seconds:.1f} s to save"),
            ("before and after", f"{duration(measured.prepare_seconds)} to prepare, "
                                 f"{duration(measured.scoring_seconds)} to score"),
            ("the whole run", f"{duration(3600 * forecast.hours)}: {forecast.steps:,} steps, {forecast.epochs:,.1f} "
                              f"epochs, {forecast.validations:,} validations; {end}"),
            *quality,
            ("memory", f"{measured.peak_bytes / 1e9:.1f} GB"),
            ("disk", f"{forecast.disk_bytes / 1e9:.2f} GB"),
        ]  # fmt: skip


def plan_run(request: RunRequest, progress: Progress = QUIET) -> Plan:
    """Resolve the settings as training does, measure a few steps, and forecast the run.

    Parameters
    ----------
    request
        The run, without a folder (`out` is None).
    progress
        Receives notes and the stages of preparation.

    Returns
    -------
    Plan
        The settings, the measurements and the forecast.

    Raises
    ------
    ConfigError, DataError, ModelError
        As `resolve_run` and training.
    Interrupted
        If a signal stopped the measurement. Temporary files are removed first.
    """
    clock = time.perf_counter()
    run = resolve_run(request, progress)
    reading_seconds = time.perf_counter() - clock
    with clean_up_when_terminated(), tempfile.TemporaryDirectory(prefix="dragoman-plan-") as folder:
        measured = measure(run, Path(folder), progress)
    measured = replace(measured, prepare_seconds=measured.prepare_seconds + reading_seconds)
    assert run.size is not None, "a run without a folder is new"
    recipe = replace(row_for(run.size), vocab_size=vocab_size_for(run.size))
    config = run.config
    if "validate.every_steps" in fitting_values(config, run.given):
        pace = TrainingPace(0, 0.0, measured.step_seconds, max(1, round(measured.steps_per_epoch)))
        validate = fit_validations(config.validate, pace, *pace.steps_until(config.train))
        config = replace(config, validate=validate)
    return Plan(run, run.size, recipe, measured, forecast_of(config, measured, recipe.usual_epochs))


def forecast_of(config: Config, measured: Measurement, usual_epochs: int) -> Forecast:
    """Forecast the steps, time and disk of a run until its first limit, or until patience usually ends it.

    `usual_epochs` is the number of epochs after which patience usually ends a run with a corpus of this size.
    """
    train, validate = config.train, config.validate
    by_epoch = measured.steps_per_epoch * validate.every_epochs
    validations_per_step = sum(1 / each for each in (by_epoch, validate.every_steps) if each)
    saves_per_step = validations_per_step + (1 / train.checkpoint_every_steps if train.checkpoint_every_steps else 0.0)
    step_seconds = measured.step_seconds + validations_per_step * measured.validation_seconds
    step_seconds += saves_per_step * measured.save_seconds
    limits = {
        "train.max_steps": float(train.max_steps),
        "train.max_epochs": train.max_epochs * measured.steps_per_epoch,
        "train.max_minutes": 60 * train.max_minutes / step_seconds,
    }
    limits = {name: steps for name, steps in limits.items() if steps}
    most = min(limits.values(), default=math.inf)
    usual = math.inf
    if train.patience:
        usual = usual_epochs * measured.steps_per_epoch / (1 - share_after_patience(train))
    ends_by = min(limits, key=lambda name: limits[name]) if most <= usual else "train.patience"
    steps = max(1, math.ceil(min(most, usual)))
    means = (train.average_last > 1) + (train.average_best > 1) + (train.ema_decay > 0)
    rest = measured.prepare_seconds + measured.scoring_seconds
    rest += means * (measured.validation_seconds + measured.save_seconds)
    validations = validations_until(config, steps, measured.steps_per_epoch)
    return Forecast(
        steps=steps,
        epochs=steps / measured.steps_per_epoch,
        validations=validations,
        hours=(steps * step_seconds + rest) / 3600,
        hours_at_most=(most * step_seconds + rest) / 3600,
        ends_by=ends_by,
        disk_bytes=kept_bytes(train, validations, measured.checkpoint_bytes, measured.parameters) + measured.data_bytes,
        minutes_to_90_percent_bleu=_minutes_to_90_percent(config, step_seconds),
    )


def _minutes_to_90_percent(config: Config, step_seconds: float) -> tuple[float, ...]:
    """The minutes of training until `TOKENS_TO_90_PERCENT`, or () if no curve was measured for such a run."""
    models = config.model, PRESETS["tiny"]
    sizes = {(model.d_model, model.num_encoder_layers, model.num_decoder_layers) for model in models}
    if config.train.start_from or len(sizes) > 1:
        return ()
    return tuple(tokens / config.train.batch_tokens * step_seconds / 60 for tokens in TOKENS_TO_90_PERCENT)


def measure(run: ResolvedRun, folder: Path, progress: Progress = QUIET) -> Measurement:
    """Train a few steps in `folder` as training would, with one validation, one checkpoint and a scored sample."""
    config, num_pairs = run.config, sum(corpus.count() for corpus in run.corpora.train)
    share = min(1.0, _MOST_PAIRS / num_pairs)
    sample = replace(run, out=folder / "run")
    if share < 1.0:
        sample = replace(sample, corpora=_sample_corpora(run.corpora, num_pairs, folder))
    progress.note("preparing the data" if share == 1.0 else f"preparing {share:.0%} of the data")
    clock = time.perf_counter()
    data, start = prepare_pairs(sample, progress=progress)
    prepare_seconds = time.perf_counter() - clock
    if share == 1.0 and start is None:  # a sample may be too small for the vocabulary of the whole corpus
        for note in vocabulary_notes(config.tokenizer, data.tokenizers):
            progress.note(note)
    log = _Clock(sample.folder)
    session = make_session(replace(sample, config=_shorten(config)), data, start, log)
    session.seconds_alone = 0.0
    progress.note(f"measuring up to {_STEPS} steps, a validation and the scoring")
    scoring_seconds = _scoring_seconds(config, session.model, data)  # before `fit`: this compiles the search
    fit(session)
    save_seconds = time.perf_counter() - log.validated_at
    seconds = log.seconds[min(_WARM_STEPS - 1, len(log.seconds) - 2) :] if len(log.seconds) > 1 else [0.0, *log.seconds]
    return Measurement(
        prepare_seconds=prepare_seconds / share,
        step_seconds=(seconds[-1] - seconds[0]) / (len(seconds) - 1),
        steps_measured=len(seconds) - 1,
        validation_seconds=log.validation_seconds,
        save_seconds=save_seconds,
        scoring_seconds=scoring_seconds,
        steps_per_epoch=len(epoch_batches(session.train, config.train.batch_tokens, config.train.seed, 0)) / share,
        parameters=session.model.card.parameters,
        peak_bytes=_peak_bytes(session.transformer.device),
        checkpoint_bytes=_bytes_in(sample.folder / "checkpoints"),
        data_bytes=_bytes_in(sample.folder / "data") / share
        + sum(path.stat().st_size for path in run.sources.values()),
    )


def _peak_bytes(device: torch.device) -> int:
    """Return the most memory that was in use at once, of the GPU or else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class _Clock(RunLog):
    """A log that records the run's seconds after every step, and the duration of the validation."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.seconds: list[float] = []
        self.validation_seconds = self.validated_at = 0.0

    def progress(self, event: dict[str, Any], seconds_left: float | None) -> None:
        self.seconds.append(event["seconds"])

    def validation(self, event: dict[str, Any], best: bool) -> None:
        self.validation_seconds = event["seconds"] - self.seconds[-1]
        self.validated_at = time.perf_counter()


def _shorten(config: Config) -> Config:
    """Return the configuration with limits of a few steps and one validation.

    An untrained model decodes up to the length limit, so the limit is lowered to the usual length of a translation.
    """
    steps = _WARM_STEPS + _STEPS
    train = replace(config.train, max_steps=steps, max_epochs=0, max_minutes=_MOST_MINUTES, patience=0)
    train = replace(
        train, schedule="constant", decay_share=0.0, log_every_steps=1, checkpoint_every_steps=0, start_from=""
    )
    validate = replace(config.validate, every_epochs=0, every_steps=2 * steps)
    inference = replace(config.inference, max_extra_tokens=1)
    corpora = tuple(replace(corpus, from_=0.0, until=1.0) for corpus in config.corpora)
    return replace(config, train=train, validate=validate, inference=inference, corpora=corpora)


def _scoring_seconds(config: Config, model: Model, data: PreparedData) -> float:
    """Return the seconds to translate and score validation and test data at the end, extrapolated from a sample."""
    dev = validation_data(data)
    translator = Translator.from_models([replace(model, config=_shorten(config))])
    sources, references = (texts[:: max(1, len(texts) // _SCORED_SENTENCES)] for texts in dev.texts())
    translator.translate(sources[:2])
    clock = time.perf_counter()
    score_outputs(translator.translate(sources), references)
    seconds = time.perf_counter() - clock
    total = len(dev) + (len(data.test) if data.test is not None else 0) + _REPORT_SENTENCES
    return seconds * total / len(sources)


def _sample_corpora(corpora: Corpora, num_pairs: int, folder: Path) -> Corpora:
    """Return the corpora with `_MOST_PAIRS` of their training pairs, evenly spread, in files in `folder`."""
    samples = []
    for number, corpus in enumerate(corpora.train):
        src, tgt = (folder / f"sample{number}.{side}" for side in ("src", "tgt"))
        wanted = max(min(corpus.count(), _FEWEST_PAIRS), round(_MOST_PAIRS * corpus.count() / num_pairs))
        with src.open("w", encoding="utf-8") as sources, tgt.open("w", encoding="utf-8") as targets:
            for index, pair in enumerate(corpus.pairs()):
                if (index + 1) * wanted // corpus.count() > index * wanted // corpus.count():
                    sources.write(f"{pair.src}\n")
                    targets.write(f"{pair.tgt}\n")
        samples.append(open_aligned(src, tgt, src_lang=corpus.src_lang, tgt_lang=corpus.tgt_lang))
    return replace(corpora, train=tuple(samples))


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

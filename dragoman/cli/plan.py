"""``dragoman plan``: what `train` would take, from some measured steps on this machine. Leaves nothing behind."""

import json
import math
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from dragoman.cli.arguments import ArgumentParser
from dragoman.cli.train import ResolvedRun, add_data_flags, data_overrides, resolve_run
from dragoman.config import Config
from dragoman.config.recipes import row_for, vocab_size_for
from dragoman.messages import say
from dragoman.text.corpus.corpus import Corpora
from dragoman.text.corpus.opening import open_aligned
from dragoman.training.run.limits import kept_bytes, validations_until
from dragoman.training.run.log import RunLog, duration, finite_or_none
from dragoman.training.run.signals import Interrupted, clean_up_when_terminated

if TYPE_CHECKING:
    import torch

    from dragoman.workflows.training import TrainingInputs

_MOST_PAIRS, _MOST_TAUGHT_PAIRS = 200_000, 5_000
_STEPS, _WARM_STEPS, _MOST_MINUTES = 20, 5, 2.0
_SCORED_SENTENCES = 200
_REPORT_SENTENCES = 120  # translated again for the report


@dataclass(frozen=True, slots=True)
class Measurement:
    """Seconds and bytes of single steps on this machine. Those of preparation are extrapolated to the whole corpus."""

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
    """A whole run, from reading the corpus to the final scores. `ends_by` is the setting expected to end it."""

    steps: int
    epochs: float
    validations: int
    hours: float
    hours_at_most: float
    ends_by: str
    disk_bytes: float


def run(arguments: Sequence[str]) -> int:
    """Prints the plan on stdout; returns the exit code."""
    parser = ArgumentParser("plan", "Measures some steps and says what training would take. Leaves nothing behind.")
    add_data_flags(parser)
    parser.add_switch("--json", "one JSON object instead of a table")
    given = parser.parse(arguments)
    clock = time.perf_counter()
    settled = resolve_run(given.configs, data_overrides(given))
    reading_seconds = time.perf_counter() - clock
    with clean_up_when_terminated(), tempfile.TemporaryDirectory(prefix="dragoman-plan-") as folder:
        try:
            measured = measure(settled, Path(folder))
            measured = replace(measured, prepare_seconds=measured.prepare_seconds + reading_seconds)
        except Interrupted as stop:
            return stop.exit_code
    forecast = forecast_of(settled.config, measured, row_for(settled.size).usual_epochs)
    if given.json:
        rule = replace(row_for(settled.size), vocab_size=vocab_size_for(settled.size))
        parts = {"rule": asdict(rule), "measured": asdict(measured), "forecast": asdict(forecast)}
        found = {name: {key: finite_or_none(value) for key, value in part.items()} for name, part in parts.items()}
        print(json.dumps(asdict(settled.size) | found))
    else:
        _print(settled, measured, forecast)
    return 0


def forecast_of(config: Config, measured: Measurement, usual_epochs: int) -> Forecast:
    """The run until its first limit, or until patience usually ends it: steps, time and disk."""
    train, validate = config.train, config.validate
    by_epoch = measured.steps_per_epoch * validate.every_epochs
    intervals = [1 / each for each in (by_epoch, validate.every_steps) if each]
    validation_share = sum(intervals)
    save_share = validation_share + (1 / train.checkpoint_every_steps if train.checkpoint_every_steps else 0.0)
    seconds_a_step = (
        measured.step_seconds + validation_share * measured.validation_seconds + save_share * measured.save_seconds
    )
    limits = {
        "train.max_steps": float(train.max_steps),
        "train.max_epochs": train.max_epochs * measured.steps_per_epoch,
        "train.max_minutes": 60 * train.max_minutes / seconds_a_step,
    }
    limits = {name: steps for name, steps in limits.items() if steps}
    most = min(limits.values(), default=math.inf)
    usual = usual_epochs * measured.steps_per_epoch if train.patience else math.inf
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
        hours=(steps * seconds_a_step + rest) / 3600,
        hours_at_most=(most * seconds_a_step + rest) / 3600,
        ends_by=ends_by,
        disk_bytes=kept_bytes(train, validations, measured.checkpoint_bytes, measured.parameters) + measured.data_bytes,
    )


def measure(settled: ResolvedRun, folder: Path) -> Measurement:
    """Train some steps in `folder` as `train` would, with one validation, one checkpoint and a scored sample."""
    from dragoman.data.batching import epoch_batches
    from dragoman.workflows.training import make_trainer

    config = settled.config
    most = _MOST_TAUGHT_PAIRS if config.train.teachers else _MOST_PAIRS
    share = min(1.0, most / settled.size.pairs)
    inputs, prepare_seconds = _prepare(settled, share, most, folder)
    log = _Clock(folder)
    trainer = make_trainer(_shorten(config), inputs, folder / "run", log)
    say(f"measuring up to {_STEPS} steps, a validation and the scoring")
    scoring_seconds = _scoring_seconds(config, trainer.trained, inputs.data)  # first, so that the search is compiled
    trainer.fit()
    save_seconds = time.perf_counter() - log.validated_at
    seconds = log.seconds[min(_WARM_STEPS - 1, len(log.seconds) - 2) :] if len(log.seconds) > 1 else [0.0, *log.seconds]
    return Measurement(
        prepare_seconds=prepare_seconds / share,
        step_seconds=(seconds[-1] - seconds[0]) / (len(seconds) - 1),
        steps_measured=len(seconds) - 1,
        validation_seconds=log.validation_seconds,
        save_seconds=save_seconds,
        scoring_seconds=scoring_seconds,
        steps_per_epoch=len(epoch_batches(inputs.data.train, config.train.batch_tokens, config.train.seed, 0)) / share,
        parameters=trainer.trained.card.parameters,
        peak_bytes=_peak_bytes(trainer.model.device),
        checkpoint_bytes=_bytes_in(folder / "run" / "checkpoints"),
        data_bytes=_bytes_in(folder / "data") / share,
    )


def _prepare(settled: ResolvedRun, share: float, most: int, folder: Path) -> "tuple[TrainingInputs, float]":
    """Prepare a `share` of the data, or `most` pairs of it. Returns the inputs and the seconds it took."""
    from dragoman.data.prepare import Requirements, prepare
    from dragoman.workflows.fine_tuning import starting_point_of
    from dragoman.workflows.teachers import soft_targets_of, tokenizers_of
    from dragoman.workflows.training import Stages, TrainingInputs

    config = settled.config
    corpora = settled.corpora if share == 1.0 else _sample_corpora(settled.corpora, settled.size.pairs, most, folder)
    start = starting_point_of(config.train.start_from)
    say("preparing the data" if share == 1.0 else f"preparing {share:.0%} of the data")
    clock = time.perf_counter()
    strict = share == 1.0 and settled.strict_vocabulary  # a sample may not support the vocabulary of the whole
    tokenizers = start.tokenizers if start else None
    if config.train.teachers:
        tokenizers = tokenizers_of(config.train.teachers, tokenizers)
    data = prepare(config, corpora, folder / "data", tokenizers, require=Requirements(full_vocabulary=strict))
    soft_targets = soft_targets_of(config, data, folder / "data", None, Stages().show)
    return TrainingInputs(data, start, soft_targets), time.perf_counter() - clock


def _peak_bytes(device: "torch.device") -> int:
    """The most memory that was in use at once: of the GPU, or else of this process."""
    import torch

    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class _Clock(RunLog):
    """Records the run's seconds after every step, and the duration of the validation."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, StringIO())
        self.seconds: list[float] = []
        self.validation_seconds = self.validated_at = 0.0

    def progress(self, event: dict[str, Any], seconds_left: float | None) -> None:
        self.seconds.append(event["seconds"])

    def validation(self, event: dict[str, Any], best: bool) -> None:
        self.validation_seconds = event["seconds"] - self.seconds[-1]
        self.validated_at = time.perf_counter()


def _shorten(config: Config) -> Config:
    """The configuration for a few steps and a validation.

    An untrained model decodes up to the length limit, so the limit becomes the usual length of a translation.
    """
    steps = _WARM_STEPS + _STEPS
    train = replace(config.train, max_steps=steps, max_epochs=0, max_minutes=_MOST_MINUTES, patience=0)
    train = replace(train, schedule="constant", log_every_steps=1, checkpoint_every_steps=0)
    validate = replace(config.validate, every_epochs=0, every_steps=2 * steps)
    inference = replace(config.inference, max_extra_tokens=1)
    return replace(config, train=train, validate=validate, inference=inference)


def _scoring_seconds(config: Config, trained: Any, data: Any) -> float:
    """Seconds to translate and score validation and test data at the end, extrapolated from a sample."""
    from dragoman.evaluation.metrics import evaluate
    from dragoman.inference.translator import Translator

    translator = Translator.from_trained([replace(trained, config=_shorten(config))])
    sources, references = (texts[:: max(1, len(texts) // _SCORED_SENTENCES)] for texts in data.dev.texts())
    translator.translate(sources[:2])
    clock = time.perf_counter()
    evaluate(translator.translate(sources), references)
    seconds = time.perf_counter() - clock
    total = len(data.dev) + (len(data.test) if data.test is not None else 0) + _REPORT_SENTENCES
    return seconds * total / len(sources)


def _sample_corpora(corpora: Corpora, num_pairs: int, most: int, folder: Path) -> Corpora:
    """The corpora with `most` of their training pairs, evenly spread, in files in `folder`."""
    train, paths = corpora.train, (folder / "sample.src", folder / "sample.tgt")
    with paths[0].open("w", encoding="utf-8") as src, paths[1].open("w", encoding="utf-8") as tgt:
        for index, pair in enumerate(train.pairs()):
            if (index + 1) * most // num_pairs > index * most // num_pairs:
                src.write(pair.src + "\n")
                tgt.write(pair.tgt + "\n")
    return replace(corpora, train=open_aligned(*paths, src_lang=train.src_lang, tgt_lang=train.tgt_lang))


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _print(settled: ResolvedRun, measured: Measurement, forecast: Forecast) -> None:
    config, row = settled.config, row_for(settled.size)
    model, train = config.model, config.train
    limit = "more words" if math.isinf(row.max_words) else f"up to {row.max_words:,.0f} words"
    per_epoch = measured.steps_per_epoch * measured.step_seconds
    end = f"`{forecast.ends_by}` ends it"
    if forecast.ends_by == "train.patience":
        end = "when patience usually ends it, which is a guess"
        if math.isfinite(forecast.hours_at_most):
            end += f"; at most {duration(3600 * forecast.hours_at_most)}"
    shape = f"{model.num_encoder_layers}+{model.num_decoder_layers} layers, d_model {model.d_model}"
    suggested = f"{row.preset}, vocabulary {vocab_size_for(settled.size):,}: the rule for {limit} ({row.why})"
    if train.teachers:
        suggested += "; tokenizer and vocabulary are the teachers'"
    if train.start_from:
        suggested = f"that of {train.start_from}, which is fine-tuned"
    rows = [
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
        ("memory", f"{measured.peak_bytes / 1e9:.1f} GB"),
        ("disk", f"{forecast.disk_bytes / 1e9:.2f} GB"),
    ]  # fmt: skip
    table = Table(box=None, show_header=False)
    for name, value in rows:
        table.add_row(name, value)
    Console(highlight=False, markup=False).print(table)

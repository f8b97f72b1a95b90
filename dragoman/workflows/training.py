"""A training run once its settings are known: data, model, training, average, scores, card, report."""

import math
import sys
import time
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from shlex import quote

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from dragoman.bundle import Card, replace_card, resolve_model_folder
from dragoman.config import WITHOUT_SAMPLING, Config, InferenceSettings
from dragoman.config.recipes import WARMUP_SHARE
from dragoman.data.prepare import PreparedData, Requirements, epoch_encoder, prepare
from dragoman.data.soft_targets import SoftTargets
from dragoman.data.store import PairStore
from dragoman.devices.device import resolve_device
from dragoman.errors import DataError, DragomanError
from dragoman.evaluation.metrics import bleu, chrf, evaluate, tokenizer_for
from dragoman.evaluation.verdict import Outcome, is_improving, verdict, weakest_group
from dragoman.inference.translator import Translator
from dragoman.interrupts import interrupts
from dragoman.kernels.compiling import announce_compiling
from dragoman.messages import say
from dragoman.model.trained import TrainedModel
from dragoman.model.transformer import Transformer
from dragoman.records import Score
from dragoman.text.corpus.cleaning import TOO_LONG
from dragoman.text.corpus.corpus import Corpora
from dragoman.text.tokenization.tokenizer import TokenizerPair
from dragoman.training.distributed import SINGLE_PROCESS, Processes, join_processes
from dragoman.training.run.checkpoint import RunFolder, set_weights
from dragoman.training.run.finished import finish_of, read_finished, write_finished
from dragoman.training.run.frozen_settings import absolute_paths, check_frozen, freeze_config, shared_paths
from dragoman.training.run.lock import lock_run
from dragoman.training.run.log import RunLog
from dragoman.training.run.signals import Interrupted
from dragoman.training.trainer import Trainer
from dragoman.training.validation import fitting
from dragoman.version import __version__
from dragoman.visualization.report.report import ReportedTest, write_report
from dragoman.visualization.report.run_facts import read_log
from dragoman.visualization.report.word_weights import cross_attention_of
from dragoman.workflows.fine_tuning import (
    StartingPoint,
    TranslatedTest,
    compare_with_base,
    continuation_of,
    starting_point_of,
)
from dragoman.workflows.teachers import soft_targets_of, tokenizers_of

_SILENCE_SECONDS = 20.0
_MUCH_TOO_LONG = 0.1
_PACKAGES = ("torch", "tokenizers", "sacrebleu", "safetensors", "numpy")


def run_training(config: Config, corpora: Corpora, out: Path, strict_vocabulary: bool, given: Collection[str]) -> int:
    """Train in the folder `out` and print the final scores. Returns 0, or 128 + the signal that stopped the run.

    In a run of several processes, all processes train and only the first does the rest. Raises CheckpointError if
    another command trains in `out`.
    """
    device = resolve_device(config.train.device, "train.device")
    with join_processes(device) as processes, lock_run(out) if processes.is_first else nullcontext():
        processes.call_on_first(lambda: check_frozen(out, config))
        shared_config = replace(config, data=shared_paths(out, config.data))
        run = _Run(out, config, shared_config, corpora, processes, is_new=not RunFolder(out).steps())
        if processes.is_first:
            announce_compiling()
        inputs = _prepare_inputs(run, strict_vocabulary)
        processes.call_on_first(lambda: freeze_config(out, config))
        fits_warmup = run.is_new and "train.warmup_steps" not in given
        if processes.is_first:
            _report_data(inputs.data, config, fits_warmup)
        return _train(run, inputs, fits_warmup)


@dataclass(frozen=True, slots=True)
class _Run:
    """A run to train: its folder, its settings, those its model folders keep, and its corpora."""

    out: Path
    config: Config
    shared_config: Config
    corpora: Corpora
    processes: Processes
    is_new: bool


@dataclass(frozen=True, slots=True)
class TrainingInputs:
    """What a model is trained from: prepared pairs, and optionally a starting point and the teachers' soft targets."""

    data: PreparedData
    start: StartingPoint | None = None
    soft_targets: SoftTargets | None = None


def _prepare_inputs(run: _Run, strict_vocabulary: bool) -> TrainingInputs:
    """Prepare the data, or load what an earlier call prepared. The first process works before the others."""
    config, folder, processes = run.config, run.out / "data", run.processes
    progress = Stages().show if processes.is_first else lambda stage, pairs: None
    start = continuation_of(run.out) or starting_point_of(config.train.start_from)
    tokenizers = start.tokenizers if start else None
    if config.train.teachers and (run.is_new or not start):
        tokenizers = tokenizers_of(config.train.teachers, tokenizers)
    require = Requirements(full_vocabulary=strict_vocabulary, same_pairs=not run.is_new)
    first_then_others = processes.call_first_before_others
    data = first_then_others(lambda: prepare(config, run.corpora, folder, tokenizers, progress, require))
    soft_targets = first_then_others(lambda: soft_targets_of(config, data, folder, start, progress, processes.is_first))
    return TrainingInputs(data, start, soft_targets)


def _report_data(data: PreparedData, config: Config, fits_warmup: bool) -> None:
    """Print what cleaning left, the warm-up of a new run, and which test sets may overlap with the training text."""
    _print_cleaning(data, config.data.max_tokens)
    steps, limit = config.train.warmup_steps, config.train.max_steps
    if fits_warmup and limit and steps > WARMUP_SHARE / 2 * limit:
        say(f"the warm-up is {steps:,} of {limit:,} steps (`train.warmup_steps`)")
    for part in data.late_tests:
        say(
            f"`data.{part}` was named, or has changed, after training had begun, so that some of it may have "
            "been trained on; `dragoman evaluate` with `--train` scores without that."
        )


def _train(run: _Run, inputs: TrainingInputs, fits_warmup: bool) -> int:
    out, config, data = run.out, run.config, inputs.data
    log = RunLog(out, speaks=run.processes.is_first)
    trainer = make_trainer(run.shared_config, inputs, out, log, run.processes)
    if fits_warmup:
        trainer.adapts_warmup = lambda train: freeze_config(out, replace(config, train=train))
    try:
        reason = trainer.fit()
        if not run.processes.is_first:
            return 0
        log.say(f"Stopped: {reason}.")
        finish = finish_of(replace(config, data=absolute_paths(config.data)), trainer.state.step, [data.dev, data.test])
        if finish == read_finished(out):
            log.say("Nothing is left to do; raise a limit to train on (it stays until it is given anew; 0 is none).")
        else:
            trainer.average()
            _score(run, data, _end_of(trainer, reason, out, len(data.train)))
            write_finished(out, finish)
    except Interrupted as stop:
        interrupts.has_saved()
        log.say(f"Saved after step {trainer.state.step}. The same command continues.")
        return stop.exit_code
    finally:
        log.close()
    say(f"the model is {resolve_model_folder(out)}; `dragoman translate {quote(str(out))}` uses it")
    return 0


@dataclass(frozen=True, slots=True)
class _DecodedScores:
    """The trainer's `validate`: BLEU, chrF and the share of distinct translations of the validation set."""

    tokenizers: TokenizerPair
    settings: InferenceSettings
    max_tokens: int
    sources: tuple[str, ...]
    references: tuple[str, ...]
    tokenize: str

    def __call__(self, model: Transformer) -> dict[str, float]:
        translator = Translator.from_model(model, self.tokenizers, self.settings, self.max_tokens)
        hypotheses = translator.translate(self.sources)
        return {
            "bleu": bleu(hypotheses, self.references, self.tokenize).value,
            "chrf": chrf(hypotheses, self.references).value,
            "distinct": len(set(hypotheses)) / len(set(self.sources)),
        }


def make_trainer(
    config: Config, inputs: TrainingInputs, out: Path, log: RunLog, processes: Processes = SINGLE_PROCESS
) -> Trainer:
    """A trainer in the folder `out`, with the weights of the starting point or fresh ones."""
    data, start = inputs.data, inputs.start
    torch.manual_seed(config.train.seed)
    tokenizers = data.tokenizers
    device = processes.device(resolve_device(config.train.device, "train.device"))
    model = Transformer(config.model, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
    if start and start.trained:
        set_weights(model, {name: each.detach() for name, each in start.trained.model.named_parameters()})
    model = model.to(device)
    card = _card(config, data, model)
    if start:
        card = replace(card, lineage=start.lineage, origin=start.origin)
    if inputs.soft_targets:
        card = replace(card, teachers=inputs.soft_targets.teachers)
    log.say(
        f"{card.parameters:,} parameters, vocabulary {card.tgt_vocab_size:,}; on {device} in {config.train.precision}"
        + (f", {processes.count} processes" if processes.count > 1 else "")
    )
    dev = _dev(data)
    _check_lengths(model, dev, config.data.max_tokens, log)
    sources, references = dev.texts(config.validate.max_sentences)
    settings = replace(config.inference, beam_size=config.validate.beam_size, n_best=1, **WITHOUT_SAMPLING)
    most, tokenize = config.data.max_tokens, tokenizer_for(config.data.tgt_lang)
    validate = _DecodedScores(tokenizers, settings, most, sources, references, tokenize)
    encode = epoch_encoder(data.train, tokenizers, config)
    trained = TrainedModel(model, tokenizers, config, card)
    return Trainer(RunFolder(out), trained, data.train, dev, validate, log, encode, processes, inputs.soft_targets)


def _check_lengths(model: Transformer, dev: PairStore, max_tokens: int, log: RunLog) -> None:
    """Log how many pairs validation leaves out. Raises DataError if it leaves out all of them."""
    too_long = int((~fitting(model, dev, np.arange(len(dev)), max_tokens)).sum())
    name, limit = "data.max_tokens", max_tokens
    if model.max_positions is not None and model.max_positions - 1 < limit:
        name, limit = "model.max_positions", model.max_positions
    if too_long == len(dev):
        raise DataError(
            f"every validation pair is longer than `{name}`, which is {limit}. Raise it, or give shorter sentences as "
            "`data.dev`."
        )
    if too_long:
        log.say(
            f"{too_long:,} of {len(dev):,} validation pairs are longer than `{name}`, {limit}: their loss is not "
            "counted."
        )


def _dev(data: PreparedData) -> PairStore:
    if data.dev is None or not len(data.dev):
        raise DataError("There is no validation data. Set `data.dev_fraction` above 0, or `data.dev` to a file.")
    return data.dev


def _card(config: Config, data: PreparedData, model: Transformer) -> Card:
    report = data.cleaning
    return Card(
        src_lang=config.data.src_lang,
        tgt_lang=config.data.tgt_lang,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        src_vocab_size=model.src_vocab_size,
        tgt_vocab_size=model.tgt_vocab_size,
        train_pairs=len(data.train),
        dev_pairs=len(_dev(data)),
        test_pairs=len(data.test) if data.test is not None else 0,
        cleaning=tuple((name, count) for name, count, _ in report.rows()),
        device=str(model.device),
        precision=config.train.precision,
        versions=(("dragoman", __version__), *((name, version(name)) for name in _PACKAGES)),
    )


@dataclass(frozen=True, slots=True)
class _TrainingEnd:
    """How training ended, in the terms of `Outcome`."""

    train_pairs: int
    limit: str
    is_improving: bool
    within_warmup: bool
    gap: float | None


def _end_of(trainer: Trainer, reason: str, out: Path, train_pairs: int) -> _TrainingEnd:
    log = read_log(out / "log.jsonl")
    losses = log.validation.get("loss"), log.train.get("perplexity")
    gap = losses[0][-1][1] - math.log(losses[1][-1][1]) if losses[0] and losses[1] else None
    limit = reason.split(" ")[0] if reason.startswith("train.") else ""
    scores = [record.score for record in trainer.state.validations]
    within_warmup = trainer.state.step <= trainer.settings.warmup_steps
    return _TrainingEnd(train_pairs, limit, is_improving(scores), within_warmup, gap)


def _score(run: _Run, data: PreparedData, end: _TrainingEnd) -> None:
    """Translate validation and test data as `translate` will, print a verdict and the scores, keep them, report.

    The model takes over [inference], which may have been given only after its weights were saved.
    """
    folder, device, corpora = resolve_model_folder(run.out), run.config.train.device, run.corpora
    trained = TrainedModel.load(folder, device)
    trained = replace(trained, config=replace(trained.config, inference=run.config.inference))
    card = replace(trained.card, test_pairs=len(data.test) if data.test is not None else 0)
    translator = Translator.from_trained([trained])
    search = f"beam {trained.config.inference.beam_size}"
    last: ReportedTest | None = None
    line = ""
    parts: dict[str, TranslatedTest] = {}
    lines: list[str] = []
    for part, store in (("validation", data.dev), ("test", data.test)):
        if store is None or not len(store):
            continue
        sources, references = store.texts()
        outputs = translator.translate(sources)
        parts[part] = TranslatedTest(sources, references, outputs)
        result = evaluate(outputs, references, tokenizer_for(trained.config.data.tgt_lang))
        card = card.with_scores(f"{part}, {search}", list(result.scores))
        for warning in result.warnings:
            say(f"{part}: {warning}")
        lines += [f"{part} ({result.num_sentences} sentences, {search}): {score}" for score in result.scores]
        is_own = (corpora.dev if part == "validation" else corpora.test) is not None
        line = verdict(_outcome(part, parts[part], result.scores[0], trained, not is_own, end))
        alignment = cross_attention_of(trained)
        last = ReportedTest(part, sources, references, outputs, result.warnings, translator.translate, alignment)
    print("\n".join([line, *lines]))
    if start_from := trained.config.train.start_from:
        for name, scores in compare_with_base(start_from, trained, corpora, parts, device).items():
            card = card.with_scores(f"{name}, {search}", scores)
    sys.stdout.flush()
    replace_card(folder, card, trained.config)
    _report(run.out, last)


def _outcome(
    part: str, test: TranslatedTest, score: Score, trained: TrainedModel, held_out: bool, end: _TrainingEnd
) -> Outcome:
    sources, references, outputs = test.sources, test.references, test.outputs
    right = sum(output == reference for output, reference in zip(outputs, references, strict=True))
    return Outcome(
        part=part,
        sentences=len(sources),
        bleu=score.value,
        by_character=tokenizer_for(trained.config.data.tgt_lang) == "char",
        exact=right / len(sources),
        distinct=len(set(outputs)) / len(set(sources)),
        held_out=held_out,
        train_pairs=end.train_pairs,
        limit=end.limit,
        is_improving=end.is_improving,
        within_warmup=end.within_warmup,
        gap=end.gap,
        weakest=weakest_group(sources, references, outputs),
    )


def _report(out: Path, last: ReportedTest | None) -> None:
    """Write the report. The model is complete and scored, so a failure here does not fail the run."""
    try:
        say(f"the report is {write_report(out, last)}")
    except DragomanError as error:
        say(f"the report was not written: {error}")


class Stages:
    """Report on stderr what is being prepared: with a running count on a terminal, every 20 seconds elsewhere."""

    def __init__(self) -> None:
        self._stage = ""
        self._said = 0.0
        self._live = sys.stderr.isatty()

    def show(self, stage: str, pairs: int) -> None:
        """Report that `pairs` pairs have reached `stage`."""
        if self._live:
            sys.stderr.write(f"\r\033[K{stage}: {pairs:,} pairs" + ("" if stage == self._stage else "\n"))
        elif stage != self._stage:
            say(stage)
            self._said = time.monotonic()
        elif time.monotonic() - self._said > _SILENCE_SECONDS:
            say(f"{stage}: {pairs:,} pairs")
            self._said = time.monotonic()
        self._stage = stage


def _print_cleaning(data: PreparedData, max_tokens: int) -> None:
    table = Table("cleaning", "pairs", "share", box=None)
    for name, count, share in data.cleaning.rows():
        table.add_row(name, f"{count:,}", f"{share:.1%}")
    table.add_row("validation", f"{len(_dev(data)):,}", "")
    if data.test is not None:
        table.add_row("test", f"{len(data.test):,}", "")
    Console(stderr=True).print(table)
    share = data.cleaning.dropped[TOO_LONG] / max(data.cleaning.read, 1)
    if share >= _MUCH_TOO_LONG:
        say(
            f"{share:.0%} of the pairs are longer than `data.max_tokens` ({max_tokens}) and left out. Split them into "
            "sentences, or start a new run with a larger `--data.max-tokens`."
        )

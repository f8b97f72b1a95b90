"""A training run from resolved settings to the report: data, model, training, average, scores, card, report.

`resolve_run` in `workflows/training/settings.py` comes first. The training loop itself is in `dragoman.training`.
"""

from contextlib import closing, nullcontext
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from dragoman import signals
from dragoman.bundle import Card, Model, Weights, resolve_model_folder
from dragoman.config import WITHOUT_SAMPLING, Config
from dragoman.config.recipes import WARMUP_SHARE
from dragoman.data.prepare import PreparedData, Requirements, epoch_encoder, mix_corpora, prepare
from dragoman.data.store import PairStore
from dragoman.devices.device import resolve_device
from dragoman.errors import DataError
from dragoman.evaluation.metrics import bleu, chrf, tokenizer_for
from dragoman.inference.translator import Translator
from dragoman.model.transformer import Transformer
from dragoman.text.corpus.cleaning import TOO_LONG
from dragoman.text.corpus.opening import open_corpora
from dragoman.text.doctor.languages import LANGUAGE_SAMPLE_LINES
from dragoman.text.lexicon import improve_lexicon
from dragoman.text.tokenization.tokenizer import TokenizerPair, vocabulary_notes
from dragoman.training import distributed
from dragoman.training.limits import fitting_values
from dragoman.training.run import checkpoint, frozen_settings, run_folder
from dragoman.training.run.log import RunLog
from dragoman.training.session import TrainingSession, Validate, count_labels, fitting, initialize_bias
from dragoman.training.trainer import choose_mean, fit
from dragoman.version import __version__
from dragoman.workflows.progress import QUIET, PairCounts, Progress
from dragoman.workflows.training.fine_tuning import StartingPoint, continuation_of, starting_point_of
from dragoman.workflows.training.scoring import score_run
from dragoman.workflows.training.settings import ResolvedRun

_MUCH_TOO_LONG = 0.1
_PACKAGES = ("torch", "tokenizers", "sacrebleu", "safetensors", "numpy")


def prepare_pairs(
    run: ResolvedRun, processes: distributed.Processes = distributed.SINGLE_PROCESS, progress: Progress = QUIET
) -> tuple[PreparedData, StartingPoint | None]:
    """Prepare the data, or load what an earlier call prepared, and load the starting point, if there is one.

    The first process works before the others.
    """
    config, is_new = run.config, not run_folder.RunFolder(run.folder).steps()
    start = continuation_of(run.folder) or starting_point_of(config.train.start_from)
    tokenizers = start.tokenizers if start else None
    require = Requirements(same_pairs=not is_new)
    folder = run.folder / "data"
    with progress.ending_stages():
        data = processes.call_first_before_others(
            lambda: prepare(config, run.corpora, folder, tokenizers, progress.stage, require)
        )
    return data, start


def report_pairs(data: PreparedData, config: Config, fits_warmup: bool, progress: Progress) -> None:
    """Report the counts of pairs, and note what the user should know before training.

    Notes are about many pairs that are too long, a new run whose warm-up takes much of its steps, and test sets that
    were set after training started.
    """
    test = None if data.test is None else len(data.test)
    progress.result(PairCounts(data.cleaning, len(validation_data(data)), test, data.corpora))
    share = data.cleaning.dropped[TOO_LONG] / max(data.cleaning.read, 1)
    if share >= _MUCH_TOO_LONG:
        progress.note(
            f"{share:.0%} of the pairs are longer than `data.max_tokens` ({config.data.max_tokens}) and are left out. "
            "Split them into sentences, or start a new run with a larger `--data.max-tokens`."
        )
    steps, limit = config.train.warmup_steps, config.train.max_steps
    if fits_warmup and limit and steps > WARMUP_SHARE / 2 * limit:
        progress.note(f"the warm-up is {steps:,} of {limit:,} steps (`train.warmup_steps`)")
    for part in data.late_tests:
        progress.note(
            f"`data.{part}` was set or changed after training started, so the model may have been trained on some of "
            "its sentences. `dragoman evaluate --train` scores without them."
        )


def validation_data(data: PreparedData) -> PairStore:
    """Return the validation pairs. Raises DataError if there are none."""
    if data.dev is None or not len(data.dev):
        raise DataError("There is no validation data. Set `data.dev_fraction` above 0, or `data.dev` to a file.")
    return data.dev


def train_run(run: ResolvedRun, progress: Progress = QUIET) -> Path | None:
    """Train a model in the run's folder, score the best checkpoint, and write the report.

    A run that exists continues. A run that is finished is scored again only if the settings or the data have changed.

    Parameters
    ----------
    run
        The settings and corpora, from `resolve_run`.
    progress
        Receives notes, stages and the lines of the log. Its `result` receives `PairCounts` and `FinalScores`.

    Returns
    -------
    Path or None
        The folder of the best model. With several processes, only the first prepares, scores and reports; the others
        return None.

    Raises
    ------
    CheckpointError
        If another command trains in the folder, or if the run cannot continue with these settings.
    DataError
        If cleaning leaves too few pairs, or if there is no validation data.
    ResourceError
        If memory or disk space runs out.
    Interrupted
        If a signal stopped training. A checkpoint is saved first, so the same call continues.

    Examples
    --------
    >>> settings = {"data.train_src": "train.en", "data.train_tgt": "train.de", "train.max_minutes": "30"}
    >>> model = train_run(resolve_run(RunRequest(overrides=settings, out=Path("run"))))
    >>> Translator.load(model).translate(["Where is the station?"])
    """
    out, config = run.folder, run.config
    device = resolve_device(config.train.device, "train.device")
    lock = run_folder.lock_run(out)
    with distributed.join_processes(device) as processes, lock if processes.is_first else nullcontext():
        if not processes.is_first:
            progress = QUIET
        processes.call_on_first(lambda: frozen_settings.check_frozen(out, config))
        model_config = frozen_settings.shared_paths(out, config)
        fits = fitting_values(run.unfitted, run.given)
        fits_warmup = not run_folder.RunFolder(out).steps() and "train.warmup_steps" in fits
        data, start = prepare_pairs(run, processes, progress)
        processes.call_on_first(lambda: frozen_settings.freeze_config(out, config, run.sources))
        if processes.is_first:
            report_pairs(data, config, fits_warmup, progress)
            for note in () if start else vocabulary_notes(config.tokenizer, data.tokenizers):
                progress.note(note)
        with closing(RunLog(out, progress.log, speaks=processes.is_first)) as log:
            session = make_session(replace(run, config=model_config), data, start, log, processes)
            session.fits = fits
            session.freeze = lambda fitted: frozen_settings.freeze_config(
                out, replace(fitted, data=config.data, corpora=config.corpora)
            )
            try:
                reason = fit(session)
                return _finish(run, data, session, reason, progress) if processes.is_first else None
            except signals.Interrupted:
                log.say(f"Saved after step {session.state.step}. The same command continues.")
                raise


def _finish(run: ResolvedRun, data: PreparedData, session: TrainingSession, reason: str, progress: Progress) -> Path:
    """Average and score the model of a run that has stopped, unless an earlier call did it with these settings."""
    out, config, log = run.folder, run.config, session.log
    log.say(f"Stopped: {reason}.")
    recorded = frozen_settings.absolute_paths(config)
    finish = frozen_settings.finish_of(recorded, session.state.step, [data.dev, data.test])
    if finish == frozen_settings.read_finished(out):
        log.say("Nothing is left to do. Raise a limit to continue. A limit persists until you change it; 0 removes it.")
    else:
        choose_mean(session)
        if run.sources:  # the temporary files of a long run may be gone
            run = replace(run, corpora=open_corpora(recorded))
        score_run(run, data, session, reason, progress)
        frozen_settings.write_finished(out, finish)
    return resolve_model_folder(out)


def _scores_on(dev: PairStore, tokenizers: TokenizerPair, config: Config) -> Validate:
    """Return a function that translates `dev` and returns BLEU, chrF and the share of distinct translations."""
    sources, references = dev.texts(config.validate.max_sentences)
    settings = replace(config.inference, beam_size=config.validate.beam_size, n_best=1, **WITHOUT_SAMPLING)
    tokenize = tokenizer_for(config.data.tgt_lang)

    def validate(model: Transformer) -> dict[str, float]:
        translator = Translator.from_model(model, tokenizers, settings, config.data.max_tokens)
        hypotheses = translator.translate(sources)
        return {
            "bleu": bleu(hypotheses, references, tokenize).value,
            "chrf": chrf(hypotheses, references).value,
            "distinct": len(set(hypotheses)) / len(set(sources)),
        }

    return validate


def make_session(
    run: ResolvedRun,
    data: PreparedData,
    start: StartingPoint | None,
    log: RunLog,
    processes: distributed.Processes = distributed.SINGLE_PROCESS,
) -> TrainingSession:
    """Build a session in the run's folder, with the weights of the starting point or random ones."""
    config, tokenizers = run.config, data.tokenizers
    torch.manual_seed(config.train.seed)
    device = processes.device(resolve_device(config.train.device, "train.device"))
    train = mix_corpora(data, config)
    model = Transformer(config.model, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
    if start and start.model:
        weights = {name: each.detach() for name, each in start.model.transformer.named_parameters()}
        checkpoint.set_weights(model, weights)
    else:
        initialize_bias(model, count_labels(train, model.tgt_vocab_size))
    model = model.to(device)
    card = _card(config, data, model)
    if start:
        card = replace(card, lineage=start.lineage, origin=start.origin)
    sizes = " and ".join(dict.fromkeys(f"{size:,}" for size in (card.src_vocab_size, card.tgt_vocab_size)))
    log.say(
        f"{card.parameters:,} parameters, vocabulary {sizes}; on {device} in {config.train.precision}"
        + (f", {processes.count} processes" if processes.count > 1 else "")
    )
    dev = validation_data(data)
    _check_lengths(model, dev, config.data.max_tokens, log)
    validate, encode = _scores_on(dev, tokenizers, config), epoch_encoder(data.train, tokenizers, config)
    known, learned_from = start.lexicon if start else (None, 0)
    lexicon = known
    if not known or (start and start.model):  # a run that continues keeps its lexicon
        lexicon = improve_lexicon(known, data.lexicon, data.coverage)
        learned_from += data.coverage.pairs if lexicon is not known else 0
    whole = Model(Weights.of(model), tokenizers, config, card).with_lexicon(lexicon, learned_from)
    return TrainingSession(run_folder.RunFolder(run.folder), whole, train, dev, validate, log, encode, processes)


def _check_lengths(model: Transformer, dev: PairStore, max_tokens: int, log: RunLog) -> None:
    """Log how many pairs validation leaves out. Raises DataError if it leaves out all of them."""
    too_long = int((~fitting(model, dev, np.arange(len(dev)), max_tokens)).sum())
    name, limit = "data.max_tokens", max_tokens
    if model.settings.longest_text(max_tokens) < max_tokens:
        name, limit = "model.max_positions", model.settings.max_positions
    if too_long == len(dev):
        raise DataError(
            f"every validation pair is longer than `{name}`, which is {limit}. Raise it, or set `data.dev` to shorter "
            "sentences."
        )
    if too_long:
        log.say(
            f"{too_long:,} of {len(dev):,} validation pairs are longer than `{name}` ({limit}), so their loss is not "
            "counted."
        )


def _card(config: Config, data: PreparedData, model: Transformer) -> Card:
    report = data.cleaning
    card = Card(
        src_lang=config.data.src_lang,
        tgt_lang=config.data.tgt_lang,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        src_vocab_size=model.src_vocab_size,
        tgt_vocab_size=model.tgt_vocab_size,
        train_pairs=len(data.train),
        dev_pairs=len(validation_data(data)),
        test_pairs=len(data.test) if data.test is not None else 0,
        cleaning=tuple((name, count) for name, count, _ in report.rows()),
        device=str(model.device),
        precision=config.train.precision,
        versions=(("dragoman", __version__), *((name, version(name)) for name in _PACKAGES)),
    )
    sample = validation_data(data).texts(LANGUAGE_SAMPLE_LINES)
    return card.with_languages_of(*sample) if config.data.check_languages else card

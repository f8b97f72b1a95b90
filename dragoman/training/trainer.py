"""The training loop: one optimiser step, repeated, until there is a reason to stop (Vaswani et al. 2017, section 5)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from dragoman.config import TrainSettings
from dragoman.data.pairs import Pairs
from dragoman.data.soft_targets import SoftTargets
from dragoman.data.stream import Encode
from dragoman.devices.device import keep_freed_memory
from dragoman.files import remove_folder
from dragoman.model.trained import TrainedModel
from dragoman.model.transformer import Transformer
from dragoman.training.averaging import means_of
from dragoman.training.distributed import SINGLE_PROCESS, Processes
from dragoman.training.loop import Diverged, Loop
from dragoman.training.run.checkpoint import RunFolder, card_of, restore_latest, set_weights
from dragoman.training.run.limits import check_disk, kept_bytes, validations_until
from dragoman.training.run.log import RunLog, perplexity
from dragoman.training.run.signals import catch_signals
from dragoman.training.run.state import TrainState
from dragoman.training.step.memory import MemoryPlan, memory_errors
from dragoman.training.step.optimizer import build_optimizer, optimizer_bytes
from dragoman.training.step.sharding import ShardedModel
from dragoman.training.validation import dev_loss

_SMALL_FILES_BYTES = 1 << 20
"""Of a checkpoint: tokenisers, settings, state, card."""

Validate = Callable[[Transformer], Mapping[str, float]]
"""Translates the validation set and returns the metrics by name ("bleu", "chrf"), higher is better."""


@dataclass(slots=True)
class Trainer:
    """Trains `trained.model` on `train`, validates on `dev`, and keeps or continues the run in the folder `run`.

    `validate` brings the scores of decoded text; the trainer knows no search. `encode` replaces stored ids while
    training (BPE dropout); `soft` is what teachers say of the stored ones. The same settings give the same steps: what
    each draws follows from (seed, step), and with several `processes` from the number of the process. With
    `adapts_warmup` a new run may shorten its warm-up to fit a time limit, and hands over the settings that it takes.
    """

    run: RunFolder
    trained: TrainedModel
    train: Pairs
    dev: Pairs
    validate: Validate
    log: RunLog
    encode: Encode | None = None
    processes: Processes = SINGLE_PROCESS
    soft: SoftTargets | None = None
    adapts_warmup: Callable[[TrainSettings], None] | None = None
    state: TrainState = field(default_factory=TrainState)
    sharded: ShardedModel | None = None
    memory_plan: MemoryPlan | None = None

    def fit(self) -> str:
        """Trains until a limit or patience ends it and returns why, in words.

        Raises Interrupted after saving where SIGINT, SIGTERM or SIGHUP came; ConfigError, ResourceError or
        CheckpointError where the run cannot begin or go on.
        """
        self.processes.call_on_first(self.run.tidy)
        if self.settings.sharding == "full" and self.processes.count > 1:
            self.sharded = ShardedModel(self.model, self.settings, self.processes)
        optimizer = build_optimizer(self.model, self.settings)
        self._restore(optimizer)
        self.processes.call_on_first(lambda: self._check_disk(optimizer))
        if self.state.step:
            self.log.say(f"Continuing after step {self.state.step}.")
        self.processes.call_on_first(lambda: self.log.drop_after(self.state.step))
        keep_freed_memory()
        smaller = "Choose a smaller `model.preset`, or lower `data.max_tokens`."
        with catch_signals() as request, memory_errors("training", smaller):
            while True:
                try:
                    reason = Loop(self, optimizer).run(request)
                    self.trained, self.sharded = replace(self.trained, model=self.gather_model()), None
                    return reason
                except Diverged:
                    self._go_back(optimizer)

    def _restore(self, optimizer: torch.optim.Optimizer) -> None:
        """Takes up the newest checkpoint that is whole; what is wrong with a newer one is said."""
        self.state, notes = restore_latest(self.run, self.model, optimizer)
        for note in notes:
            self.log.say(note)
        if self.state.step:
            self.processes.call_on_first(lambda: self.run.point_to(self.state))

    def _check_disk(self, optimizer: torch.optim.Optimizer) -> None:
        """Raise ResourceError if the run will keep more than its models take now plus the free disk space."""
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        checkpoint = 4 * parameters + optimizer_bytes(optimizer) + _SMALL_FILES_BYTES
        settings, tokens = self.settings, int(np.sum(self.train.tgt_lengths)) + len(self.train)
        steps_in_epoch = max(1, tokens // settings.batch_tokens)
        limits = [steps for steps in (settings.max_steps, settings.max_epochs * steps_in_epoch) if steps]
        left = max(0, min(limits, default=math.inf) - self.state.step)
        validations = validations_until(self.trained.config, left, steps_in_epoch)
        needed = kept_bytes(settings, validations, checkpoint, parameters)
        check_disk(settings, self.run.path, needed, self.run.model_bytes())

    def _go_back(self, optimizer: torch.optim.Optimizer) -> None:
        """To the last checkpoint, or where there is none to the weights as they are, with half the rate."""
        memory, step = self.state.watchdog.with_half_rate(), self.state.step
        if self.run.steps():
            self._restore(optimizer)
            self.processes.call_on_first(lambda: self.log.drop_after(self.state.step))
        self.state.watchdog = memory
        memory.measured = [each for each in memory.measured if each.step <= self.state.step]
        self.log.finding(
            self.state.step,
            "went back",
            f"Steps up to {step} had no finite loss or gradient. The run goes back to step {self.state.step} and on "
            "from there with half the learning rate, once. Lower `train.learning_rate` if that does not help.",
        )

    def average(self) -> tuple[int, ...]:
        """Tries the means of weights that the settings ask for; RUN/averaged becomes the one that scores best.

        Only where that is at least as well as the best checkpoint; else there is none, because that of an earlier
        stretch would be taken for the run's model. Returns the steps it is the mean of, or nothing.
        """
        best, chosen = self.state.best, None
        kept, notes = self.run.whole_steps(self.run.steps())
        for note in notes:
            self.log.say(note)
        means = means_of(kept, self.state, self.settings)
        if best is None or not means:
            remove_folder(self.run.averaged)
            return ()
        score, metric = best.score, self.trained.config.validate.metric
        for mean in means:
            set_weights(self.model, mean.weights(self.run, self.model))
            found = self.score_of(self.measure(self.model))
            better = "the best single checkpoint" if chosen is None else "the other mean"
            verdict = "kept" if found >= score else f"not kept: {better} scores higher"
            self.log.say(f"{mean.name}: {metric} {abs(found):.2f}, best single {abs(best.score):.2f}; {verdict}.")
            if found >= score:
                chosen, score = mean, found
        if chosen is None:
            remove_folder(self.run.averaged)
            return ()
        if chosen is not means[-1]:
            set_weights(self.model, chosen.weights(self.run, self.model))
        card = card_of(self.state, self.trained.card)
        card = replace(card, averaged_steps=chosen.steps, ema_decay=chosen.ema_decay)
        replace(self.trained, card=card).save(self.run.averaged)
        return chosen.steps

    @property
    def model(self) -> Transformer:
        """The model in training."""
        return self.trained.model

    @property
    def settings(self) -> TrainSettings:
        """The [train] table."""
        return self.trained.config.train

    def gather_model(self) -> Transformer:
        """The model; where it is spread over the processes, all must ask, and the first gets a copy that is whole."""
        return self.model if self.sharded is None else self.sharded.gather_model()

    def measure(self, model: Transformer) -> dict[str, float]:
        """Losses (mean negative log-probability a token, in nats), perplexity and the metrics of `validate`, on dev.

        `own_source_loss` and `other_source_loss` are of the same few hundred pairs, the second with wrong sources;
        both are missing where there are too few pairs.
        """
        model.eval()
        try:
            with memory_errors("validating", "Lower `inference.batch_tokens`; it does not change the result."):
                found = dev_loss(model, self.dev, self.trained.config.data.max_tokens)
                scores = {"loss": found.loss, "perplexity": perplexity(found.loss)}
                if found.own is not None and found.shuffled is not None:
                    scores |= {"own_source_loss": found.own, "other_source_loss": found.shuffled}
                return {**scores, **self.validate(model)}
        finally:
            model.train()

    def score_of(self, scores: Mapping[str, float]) -> float:
        """What decides: the chosen metric, higher is better; the loss counts negative."""
        metric = self.trained.config.validate.metric
        return -scores["loss"] if metric == "loss" else scores[metric]

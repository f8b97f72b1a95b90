"""The training loop: one optimiser step, repeated, until there is a reason to stop (Vaswani et al. 2017, section 5)."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch

from dragoman.bundle import Bundle, save_bundle
from dragoman.config import TrainSettings
from dragoman.data.pairs import Pairs
from dragoman.data.stream import Encode
from dragoman.model.device import keep_freed_memory
from dragoman.model.transformer import Transformer
from dragoman.train.averaging import averaged_weights
from dragoman.train.checkpoint import RunFolder, card_of, restore_latest, set_weights
from dragoman.train.distributed import ALONE, Processes
from dragoman.train.loop import Diverged, Loop
from dragoman.train.memory import memory_errors
from dragoman.train.optimizer import build_optimizer
from dragoman.train.run_log import RunLog, perplexity
from dragoman.train.sharding import ShardedModel
from dragoman.train.signals import caught_signals
from dragoman.train.state import TrainState
from dragoman.train.validation import dev_loss

Validate = Callable[[Transformer], Mapping[str, float]]
"""Translates the validation set and returns the metrics by name ("bleu", "chrf"), higher is better."""


@dataclass(slots=True)
class Trainer:
    """Trains `bundle.model` on `train`, judged on `dev`, in the folder `run`; continues what is there.

    `validate` brings the scores of decoded text; the trainer knows no search. `encode` replaces stored ids while
    training (BPE dropout). The same settings give the same steps: what each draws follows from (seed, step), and
    with several `processes` from the number of the process.
    """

    run: RunFolder
    bundle: Bundle
    train: Pairs
    dev: Pairs
    validate: Validate
    log: RunLog
    encode: Encode | None = None
    processes: Processes = ALONE
    state: TrainState = field(default_factory=TrainState)
    sharded: ShardedModel | None = None

    def fit(self) -> str:
        """Trains until a limit or patience ends it and returns why, in words.

        Raises Interrupted after saving where SIGINT or SIGTERM came; ConfigError, ResourceError or CheckpointError
        where the run cannot begin or go on.
        """
        self.processes.of_first(self.run.tidy)
        if self.settings.sharding == "full" and self.processes.count > 1:
            self.sharded = ShardedModel(self.model, self.settings, self.processes)
        optimizer = build_optimizer(self.model, self.settings)
        self._restore(optimizer)
        if self.state.step:
            self.log.say(f"Continuing after step {self.state.step}.")
        self.processes.of_first(lambda: self.log.drop_after(self.state.step))
        keep_freed_memory()
        smaller = "Choose a smaller `model.preset`, or lower `data.max_tokens`."
        with caught_signals() as request, memory_errors("training", smaller):
            while True:
                try:
                    reason = Loop(self, optimizer).run(request)
                    self.bundle, self.sharded = replace(self.bundle, model=self.gathered()), None
                    return reason
                except Diverged:
                    self._go_back(optimizer)

    def _restore(self, optimizer: torch.optim.AdamW) -> None:
        """Takes up the newest checkpoint that is whole; what is wrong with a newer one is said."""
        self.state, notes = restore_latest(self.run, self.model, optimizer)
        for note in notes:
            self.log.say(note)

    def _go_back(self, optimizer: torch.optim.AdamW) -> None:
        """To the last checkpoint, or where there is none to the weights as they are, with half the rate."""
        memory, step = self.state.watchdog.halved(), self.state.step
        if self.run.steps():
            self._restore(optimizer)
            self.log.drop_after(self.state.step)
        self.state.watchdog = memory
        memory.measured = [each for each in memory.measured if each.step <= self.state.step]
        self.log.finding(
            self.state.step,
            "went back",
            f"Steps up to {step} had no finite loss or gradient. The run goes back to step {self.state.step} and on "
            "from there with half the learning rate, once. Lower `train.learning_rate` if that does not help.",
        )

    def average(self) -> tuple[int, ...]:
        """Averages the last validated checkpoints into RUN/averaged where that scores at least as well as the best.

        Returns the averaged steps; nothing where there was nothing to average or the average is worse.
        """
        kept = set(self.run.steps())
        steps = [record.step for record in self.state.validations if record.step in kept]
        steps, notes = self.run.whole_steps(steps[-self.settings.average_last :] if self.settings.average_last else [])
        for note in notes:
            self.log.say(note)
        best = self.state.best
        if len(steps) < 2 or best is None:
            return ()
        set_weights(self.model, averaged_weights([self.run.step_folder(step) for step in steps], self.model))
        scores = self.measure(self.model)
        score = self.score_of(scores)
        verdict = "kept" if score >= best.score else "not kept: the best single checkpoint scores higher"
        metric = self.bundle.config.validate.metric
        self.log.say(
            f"Average of {len(steps)} checkpoints: {metric} {abs(score):.2f}, best single {abs(best.score):.2f}; "
            f"{verdict}."
        )
        if score < best.score:
            # An average of an earlier stretch of this run would otherwise be taken for the run's model.
            shutil.rmtree(self.run.path / "averaged", ignore_errors=True)
            return ()
        card = replace(card_of(self.state, self.bundle.card), averaged_steps=tuple(steps))
        save_bundle(replace(self.bundle, card=card), self.run.path / "averaged")
        return tuple(steps)

    @property
    def model(self) -> Transformer:
        """The model in training."""
        return self.bundle.model

    @property
    def settings(self) -> TrainSettings:
        """The [train] table."""
        return self.bundle.config.train

    def gathered(self) -> Transformer:
        """The model; where it is spread over the processes, all must ask, and the first gets a copy that is whole."""
        return self.model if self.sharded is None else self.sharded.gathered()

    def measure(self, model: Transformer) -> dict[str, float]:
        """Losses (mean negative log-probability a token, in nats), perplexity and the metrics of `validate`, on dev.

        `own_source_loss` and `other_source_loss` are of the same few hundred pairs, the second with wrong sources.
        """
        model.eval()
        try:
            with memory_errors("validating", "Lower `inference.batch_tokens`; it does not change the result."):
                found = dev_loss(model, self.dev)
                probe = {"own_source_loss": found.own, "other_source_loss": found.shuffled}
                return {"loss": found.loss, "perplexity": perplexity(found.loss), **probe, **self.validate(model)}
        finally:
            model.train()

    def score_of(self, scores: Mapping[str, float]) -> float:
        """What decides: the chosen metric, higher is better; the loss counts negative."""
        metric = self.bundle.config.validate.metric
        return -scores["loss"] if metric == "loss" else scores[metric]

"""The training loop: one optimiser step, repeated, until there is a reason to stop (Vaswani et al. 2017, section 5)."""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch

from dragoman.bundle import Bundle, save_bundle
from dragoman.config import TrainSettings
from dragoman.data.batching import sequential_batches, smallest_micro_batch
from dragoman.data.pairs import Pairs
from dragoman.data.stream import BatchStream, Encode, Position, StepBatches, load_batch
from dragoman.model.device import keep_freed_memory, resolve_precision
from dragoman.model.transformer import Transformer
from dragoman.train.averaging import best_steps, means_of
from dragoman.train.checkpoint import RunFolder, card_of, restore_latest, save_checkpoint, set_weights
from dragoman.train.gradients import Gradients, losses, num_workers
from dragoman.train.memory import choose_micro_batch_tokens, memory_errors, padding_slack
from dragoman.train.optimizer import build_optimizer
from dragoman.train.run_log import RunLog, perplexity
from dragoman.train.schedule import learning_rate
from dragoman.train.signals import Interrupted, StopRequest, caught_signals
from dragoman.train.state import TrainState, ValidationRecord

Validate = Callable[[Transformer], Mapping[str, float]]
"""Translates the validation set and returns the metrics by name ("bleu", "chrf"), higher is better."""


@dataclass(slots=True)
class Trainer:
    """Trains `bundle.model` on `train`, judged on `dev`, in the folder `run`; continues what is there.

    `validate` brings the scores of decoded text; the trainer knows no search. `encode` replaces stored ids while
    training (BPE dropout). The same settings give the same steps: what each draws follows from (seed, step).
    """

    run: RunFolder
    bundle: Bundle
    train: Pairs
    dev: Pairs
    validate: Validate
    log: RunLog
    encode: Encode | None = None
    state: TrainState = field(default_factory=TrainState)

    def fit(self) -> str:
        """Trains until a limit or patience ends it and returns why, in words.

        Raises Interrupted after saving where SIGINT or SIGTERM came; ConfigError, ResourceError or CheckpointError
        where the run cannot begin or go on.
        """
        self.run.tidy()
        optimizer = build_optimizer(self.model, self.settings)
        self.state, notes = restore_latest(self.run, self.model, optimizer)
        for note in notes:
            self.log.say(note)
        if self.state.step:
            self.log.say(f"Continuing after step {self.state.step}.")
        self.log.drop_after(self.state.step)
        keep_freed_memory()
        loop = _Loop(self, optimizer)
        with caught_signals() as request, memory_errors(loop.micro_batch_tokens):
            return loop.run(request)

    def average(self) -> tuple[int, ...]:
        """Tries the means of weights that the settings ask for; RUN/averaged becomes the one that scores best.

        Only where that is at least as well as the best checkpoint. Returns the steps it is the mean of, else nothing.
        """
        best, chosen = self.state.best, None
        means = means_of(self.run, self.state, self.settings)
        if best is None or not means:
            return ()
        score, metric = best.score, self.bundle.config.validate.metric
        for mean in means:
            set_weights(self.model, mean.weights(self.run, self.model))
            found = self.score_of(self.measure())
            better = "the best single checkpoint" if chosen is None else "the other mean"
            verdict = "kept" if found >= score else f"not kept: {better} scores higher"
            self.log.say(f"{mean.name}: {metric} {abs(found):.2f}, best single {abs(best.score):.2f}; {verdict}.")
            if found >= score:
                chosen, score = mean, found
        if chosen is None:
            # An average of an earlier stretch of this run would otherwise be taken for the run's model.
            shutil.rmtree(self.run.path / "averaged", ignore_errors=True)
            return ()
        if chosen is not means[-1]:
            set_weights(self.model, chosen.weights(self.run, self.model))
        card = card_of(self.state, self.bundle.card)
        card = replace(card, averaged_steps=chosen.steps, ema_decay=chosen.ema_decay)
        save_bundle(replace(self.bundle, card=card), self.run.path / "averaged")
        return chosen.steps

    @property
    def model(self) -> Transformer:
        """The model in training."""
        return self.bundle.model

    @property
    def settings(self) -> TrainSettings:
        """The [train] table."""
        return self.bundle.config.train

    def measure(self) -> dict[str, float]:
        """Loss (mean negative log-probability a token, in nats), perplexity and the metrics of `validate`, on dev."""
        self.model.eval()
        try:
            nll = self._dev_loss()
            return {"loss": nll, "perplexity": perplexity(nll), **self.validate(self.model)}
        finally:
            self.model.train()

    def score_of(self, scores: Mapping[str, float]) -> float:
        """What decides: the chosen metric, higher is better; the loss counts negative."""
        metric = self.bundle.config.validate.metric
        return -scores["loss"] if metric == "loss" else scores[metric]

    @torch.no_grad()
    def _dev_loss(self) -> float:
        total, tokens = 0.0, 0
        limit = max(4096, smallest_micro_batch(self.dev))
        for indices in sequential_batches(self.dev, limit):
            batch = load_batch(self.dev, indices).to(self.model.device)
            _, nll = losses(self.model, batch, 0.0)
            total, tokens = total + nll.item(), tokens + batch.num_tgt_tokens
        return total / tokens


class _Loop:
    """The state of one call of `Trainer.fit`."""

    def __init__(self, trainer: Trainer, optimizer: torch.optim.Optimizer) -> None:
        self.trainer, self.optimizer = trainer, optimizer
        self.model, self.settings, self.state = trainer.model, trainer.settings, trainer.state
        precision = resolve_precision(self.settings.precision, self.model.device)
        self.micro_batch_tokens = choose_micro_batch_tokens(
            self.model,
            self.settings,
            smallest_micro_batch(trainer.train),
            precision,
            num_workers(self.settings, self.model.device),
        )
        window = (self.state.window_loss, self.state.window_nll)
        self.sums = torch.tensor(window, dtype=torch.float64).to(self.model.device)
        self.clock = time.perf_counter()
        self.window_seconds = 0.0

    def run(self, request: StopRequest) -> str:
        start = Position(self.state.epoch, self.state.step_in_epoch)
        self.model.train()
        stream = BatchStream(
            self.trainer.train,
            self.settings.batch_tokens,
            self.micro_batch_tokens,
            self.settings.seed,
            start,
            self.trainer.encode,
            padding_slack=padding_slack(self.model.device),
            pin_memory=self.model.device.type == "cuda",
        )
        with stream, Gradients(self.model, self.settings) as gradients:
            while (reason := self.reason_to_stop()) is None:
                step = next(stream)
                self.optimise(step, gradients)
                self.after_step(step)
                if request.signal_number is not None:
                    self.save()
                    raise Interrupted(request.signal_number)
        if not self.state.validations or self.state.validations[-1].step != self.state.step:
            self.validate()
        return reason

    def reason_to_stop(self) -> str | None:
        settings, state = self.settings, self.state
        if settings.max_steps and state.step >= settings.max_steps:
            return f"train.max_steps = {settings.max_steps} reached"
        if settings.max_epochs and state.epoch >= settings.max_epochs:
            return f"train.max_epochs = {settings.max_epochs} reached"
        if settings.max_minutes and state.seconds >= 60 * settings.max_minutes:
            return f"train.max_minutes = {settings.max_minutes:g} reached"
        if settings.patience and state.validations_since_best >= settings.patience:
            return f"no better score in {settings.patience} validations"
        return None

    def optimise(self, step: StepBatches, gradients: Gradients) -> None:
        """One update with the gradient of the mean loss over all labels of the step (section 5.3)."""
        state, seed = self.state, self.settings.seed
        state.step += 1
        state.epoch, state.step_in_epoch = step.following.epoch, step.following.step
        torch.manual_seed(_draw_seed(seed, state.step))
        self.sums += gradients.compute(step.batches, (seed, state.step), step.num_tgt_tokens)
        state.sentences += sum(len(batch.src_lengths) for batch in step.batches)
        state.window_tokens += step.num_tgt_tokens
        state.tgt_tokens += step.num_tgt_tokens
        self.update()

    def update(self) -> None:
        """Clips and applies the gradients; a step whose gradient is not finite is skipped and counted."""
        limit = self.settings.clip_norm or float("inf")
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        if torch.isfinite(norm):
            rate = learning_rate(self.state.step, self.settings, self.model.settings.d_model)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
        else:
            self.state.skipped_steps += 1
            self.trainer.log.say(f"Step {self.state.step} is skipped: its gradient is not finite.")
        self.optimizer.zero_grad()

    def after_step(self, step: StepBatches) -> None:
        """Logs, validates and saves as often as the settings say."""
        self.window_seconds += self.count_time()
        if self.state.step % self.settings.log_every_steps == 0:
            self.report()
        schedule, every = self.trainer.bundle.config.validate, self.settings.checkpoint_every_steps
        by_epoch = schedule.every_epochs and step.ends_epoch and self.state.epoch % schedule.every_epochs == 0
        by_step = schedule.every_steps and self.state.step % schedule.every_steps == 0
        if by_epoch or by_step:
            self.validate()
        elif every and self.state.step % every == 0:
            self.save()

    def report(self) -> None:
        state = self.state
        state.window_loss, state.window_nll = self.sums.tolist()
        tokens = max(state.window_tokens, 1)
        event = {
            "step": state.step,
            "epoch": state.epoch,
            "loss": state.window_loss / tokens,
            "perplexity": perplexity(state.window_nll / tokens),
            "learning_rate": learning_rate(state.step, self.settings, self.model.settings.d_model),
            "tokens_per_second": tokens / self.window_seconds,
            "seconds": state.seconds,
        }
        self.trainer.log.progress(event, self.seconds_left())
        state.window_loss = state.window_nll = 0.0
        self.sums.zero_()
        state.window_tokens, self.window_seconds = 0, 0.0

    def seconds_left(self) -> float | None:
        """Until the nearest limit, at the speed so far; patience may end the run before."""
        state, settings = self.state, self.settings
        left = []
        if settings.max_steps:
            left.append(state.seconds / state.step * (settings.max_steps - state.step))
        if settings.max_minutes:
            left.append(60 * settings.max_minutes - state.seconds)
        if settings.max_epochs and state.epoch:
            left.append(state.seconds / state.epoch * (settings.max_epochs - state.epoch))
        return max(0.0, min(left)) if left else None

    def validate(self) -> None:
        """Scores the model on dev, saves it, and moves the pointer to the best."""
        scores = self.trainer.measure()
        self.count_time()
        record = ValidationRecord(self.state.step, self.trainer.score_of(scores))
        self.state.validations.append(record)
        event = {"step": self.state.step, "epoch": self.state.epoch, **scores, "seconds": self.state.seconds}
        self.trainer.log.validation(event, best=self.state.best == record)
        self.save()

    def save(self) -> None:
        """Writes a checkpoint of this step and removes those that no longer count."""
        trainer, state = self.trainer, self.state
        state.window_loss, state.window_nll = self.sums.tolist()
        bundle = replace(trainer.bundle, card=card_of(state, trainer.bundle.card))
        save_checkpoint(trainer.run, bundle, self.optimizer, state)
        validated = [record.step for record in state.validations]
        wanted = {*validated[-max(self.settings.keep_checkpoints, self.settings.average_last) :], state.step}
        wanted.update(best_steps(state.validations, self.settings.average_best))
        if state.best is not None:
            trainer.run.point("best", state.best.step)
            wanted.add(state.best.step)
        earlier = [step for step in trainer.run.steps() if step < state.step]
        wanted.update(earlier[-1:])  # at least two are kept: the newest may turn out damaged
        trainer.run.remove_all_but(wanted)

    def count_time(self) -> float:
        """Adds the seconds since the last call to the run's, and returns them."""
        now = time.perf_counter()
        passed, self.clock = now - self.clock, now
        self.state.seconds += passed
        return passed


def _draw_seed(seed: int, step: int) -> int:
    """A seed of torch's generator for one step: distinct for distinct (seed, step) below 2**31 and 2**32."""
    return (seed << 32) | step

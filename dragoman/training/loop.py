"""One stretch of a run: step after step, with logging, validation and checkpoints in between."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

import torch

from dragoman.bundle import Weights
from dragoman.data.batch import Batch
from dragoman.data.batching import smallest_micro_batch
from dragoman.data.stream import BatchStream, Position, StepBatches, StepPlan
from dragoman.devices.device import sum_type
from dragoman.errors import ConfigError, ResourceError
from dragoman.signals import Interrupted, StopRequest
from dragoman.training.decay import bleu_at_end, decay_factor, forecast_end, progress_of, start_decay
from dragoman.training.distributed import ShardedModel, whole
from dragoman.training.limits import TrainingPace, fit_settings, limit_notes, pace_note
from dragoman.training.run.checkpoint import best_steps, card_of, save_checkpoint
from dragoman.training.run.log import perplexity
from dragoman.training.run.run_folder import ValidationRecord
from dragoman.training.run.watchdog import ValidationLosses, Verdict
from dragoman.training.session import TrainingSession, count_labels, guessing_loss
from dragoman.training.stages import last_stage
from dragoman.training.step.accelerated import cpu_seeds, torch_seed
from dragoman.training.step.gradients import Gradients
from dragoman.training.step.memory import (
    free_bytes,
    give_back_memory,
    is_out_of_memory,
    micro_batch_tokens,
    padded_width,
    padding_slack,
    plan_memory,
)
from dragoman.training.step.optimizer import learning_rate, optimizer_tensors

_MEASURED_STEPS = 4
_PACE_STEPS = 64  # steps in the median pace
_TELLING_STEPS, _TELLING_SECONDS = 5, 10.0
_HELPER_BYTES = 1 << 30
"""Other processes help to compute if this much memory is free for each of them."""


class Diverged(Exception):
    """The losses or gradients of several steps in a row are not finite, so the run must go back."""


class Loop:
    """One stretch of training, which ends when a limit is reached, a signal arrives or the run must go back."""

    def __init__(self, session: TrainingSession, optimizer: torch.optim.Optimizer) -> None:
        self.session, self.optimizer = session, optimizer
        self.model, self.settings, self.state = session.transformer, session.settings, session.state
        self.processes = session.processes
        self.gradients: Gradients | ShardedModel = session.sharded or Gradients(self.model, self.settings)
        window = (self.state.window_loss, self.state.window_nll)
        self.sums = torch.tensor(window, dtype=sum_type(self.model.device), device=self.model.device)
        self.guessing_loss = guessing_loss(count_labels(session.train, self.model.tgt_vocab_size))
        self.steps_in_epoch = session.steps_in_epoch
        self.start_step, self.start_seconds = self.state.step, self.state.seconds
        self.has_told_pace = self.has_helpers = False
        self.clock = time.perf_counter()

    def run(self, request: StopRequest) -> str:
        """Train until a limit is reached, and return the reason. Raises Interrupted and Diverged."""
        self.model.train()
        with self.gradients:
            micro_batch_tokens = self.fit_into_memory()
            self.fit_settings(micro_batch_tokens)
            self.validate_start()
            with self.stream(micro_batch_tokens) as stream:
                reason = self.take_steps(stream, request)
        if not self.state.validations or self.state.validations[-1].step != self.state.step:
            self.validate()
            for signal in self.processes.gather(request.signal_number):
                if signal is not None:
                    raise Interrupted(signal)
        return reason

    def take_steps(self, stream: BatchStream, request: StopRequest) -> str:
        """Take steps until a limit is reached, and return the reason. Raises Interrupted and Diverged."""
        self.clock = time.perf_counter()  # steps and limits do not include compiling and the trial batch
        reason = self.processes.call_on_first(self.reason_to_stop)
        while reason is None:
            step = next(stream)
            self.optimize(step)
            self.after_step(step)
            # Their clocks differ, so all processes stop for the first one's reason. A signal may reach any process.
            told = self.processes.gather((self.reason_to_stop(), self.progress(), request.signal_number))
            reason, progress, _ = told[0]
            if reason is None:
                self.start_decay(progress)
            signals = [number for _, _, number in told if number is not None]
            if signals:
                self.save()
                # If another process ended earlier, torchrun would kill the first before it saves.
                self.processes.gather(None)
                raise Interrupted(signals[0])
        return reason

    def stream(self, micro_batch_tokens: int) -> BatchStream:
        """The steps that follow the current position of the run."""
        settings, processes, device = self.settings, self.processes, self.model.device
        plan = StepPlan(
            batch_tokens=settings.batch_tokens,
            micro_batch_tokens=micro_batch_tokens,
            seed=settings.seed,
            padding_slack=padding_slack(device),
            rank=processes.rank,
            world_size=processes.count,
            pin_memory=device.type == "cuda",
        )
        position = Position(self.state.epoch, self.state.step_in_epoch)
        return BatchStream(self.session.train, plan, position, self.session.encode)

    def fit_into_memory(self) -> int:
        """Forecast the memory, try the batch that needs the most, and return the tokens per micro-batch."""
        if isinstance(self.gradients, ShardedModel):
            return micro_batch_tokens(self.settings, self.session.train, self.model.device)
        # This process still holds memory that an earlier stretch freed, so one plan serves all its stretches.
        plan = self.session.memory_plan
        if plan is None:
            plan = plan_memory(self.gradients, self.settings, self.session.train, self.state.micro_batch_splits)
            self.session.memory_plan, free = plan, free_bytes(self.model.device)
            parts = f", in {plan.splits} parts" if plan.splits > 1 else ""
            self.session.log.say(
                f"Memory: about {plan.need_bytes / 1e9:.1f} GB forecast"
                + (f", {free / 1e9:.1f} GB free" if free is not None else "")
                + f"; micro-batches of at most {plan.micro_batch_tokens:,} tokens{parts}."
            )
        self.state.micro_batch_splits = max(self.state.micro_batch_splits, plan.splits)
        self.gradient_of((plan.largest,), (self.settings.seed, 0), plan.largest.num_tgt_tokens)
        self.optimizer.zero_grad()
        return plan.micro_batch_tokens

    def fit_settings(self, micro_batch_tokens: int) -> None:
        """Fit the settings of a new run to its limits. A time limit becomes steps by timing the gradients of some.

        Those gradients are discarded, so the run uses the same random numbers and learns the same as without.
        """
        settings, seconds = self.settings, list[float]()
        if self.state.step or not self.state.fitted:
            return
        if settings.max_minutes:
            with self.stream(micro_batch_tokens) as stream:
                for number, step in zip(range(_MEASURED_STEPS), stream, strict=False):
                    clock = time.perf_counter()
                    float(self.gradient_of_step(step, number + 1).sum())  # waits for a GPU
                    self.optimizer.zero_grad()
                    seconds.append(time.perf_counter() - clock)
        # Without the first step, which compiles. Batches are built beside the later ones.
        pace = TrainingPace(0, self.state.seconds, median(seconds[1:] or [0.0]), self.session.steps_in_epoch)
        fit_settings(self.session, pace)
        self.settings = self.session.settings

    def tell_pace(self, step: StepBatches) -> None:
        """Log once, when the speed is known, when the next progress line comes and what a limit will cut short."""
        taken, seconds = self.state.step - self.start_step, self.state.seconds - self.start_seconds
        if self.has_told_pace or (taken < _TELLING_STEPS and seconds < _TELLING_SECONDS):
            return
        self.has_told_pace = True
        step_seconds = median(self.state.step_seconds[-taken:])
        pace = TrainingPace(self.state.step, self.state.seconds, step_seconds, step.steps_in_epoch)
        validate = self.session.model.config.validate
        notes = limit_notes(self.settings, validate, pace, bool(self.state.validations))
        for note in (pace_note(self.settings, pace), *notes):
            if note:
                self.session.log.say(note)

    def reason_to_stop(self) -> str | None:
        """The limit that is reached, in words, or None."""
        settings, state = self.settings, self.state
        if settings.max_steps and state.step >= settings.max_steps:
            return f"train.max_steps = {settings.max_steps} reached"
        if settings.max_epochs and state.epoch >= settings.max_epochs:
            return f"train.max_epochs = {settings.max_epochs} reached"
        if settings.max_minutes and state.seconds >= 60 * settings.max_minutes:
            return f"train.max_minutes = {settings.max_minutes:g} reached"
        if state.decay is not None:
            ended = state.decay.by_patience and state.step >= state.decay.end
        else:
            ended = self.has_lost_patience() and not settings.decay_share
        return f"no better score in {settings.patience} validations" if ended else None

    def has_lost_patience(self) -> bool:
        """Whether enough validations were without a better score to end the run, or to start its decay."""
        return 0 < self.settings.patience <= self.state.validations_since_best

    def progress(self) -> float:
        """The share of the run that is done."""
        return progress_of(self.state, self.settings, self.steps_in_epoch)

    def start_decay(self, progress: float) -> None:
        """Start the decay of the learning rate if it is due, and save the checkpoint to go back to."""
        state = self.state
        if start_decay(state, self.settings, progress, self.has_lost_patience()):
            assert state.decay is not None
            self.session.log.say(
                f"The learning rate falls to 0 from step {state.step:,} to about step {state.decay.end:,} "
                "(`train.decay_share`)."
            )
            self.save()

    def optimize(self, step: StepBatches) -> None:
        """Update the weights with the gradient of the mean loss over all labels of the step (section 5.3)."""
        state = self.state
        sums = self.processes.sum(self.gradient_of_step(step, state.step + 1))
        state.step += 1
        state.epoch, state.step_in_epoch = step.following.epoch, step.following.step
        if state.patience_step < 0 and state.epoch >= last_stage(state.stages):
            state.patience_step = state.step
        state.sentences += step.num_sentences
        state.tgt_tokens += step.num_tgt_tokens
        if self.update(float(sums[1]) / step.num_tgt_tokens):
            self.sums += sums
            state.window_tokens += step.num_tgt_tokens

    def gradient_of_step(self, step: StepBatches, number: int) -> torch.Tensor:
        """Compute the gradients of step `number`, summed over all processes. Returns the sums of this process."""
        seed = self.settings.seed, number, self.processes.rank
        torch.manual_seed(torch_seed(*seed))
        sums = self.gradient_of(step.batches, cpu_seeds(*seed), step.num_tgt_tokens)
        if self.session.sharded is None:
            self.processes.sum_gradients(self.model)
        return sums

    def gradient_of(self, batches: Sequence[Batch], seeds: Sequence[int], num_tokens: int) -> torch.Tensor:
        """Compute gradients as `Gradients.compute` does. If memory runs out, double the splits and try again."""
        while True:
            try:
                return self.gradients.compute(batches, seeds, num_tokens, self.state.micro_batch_splits)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or isinstance(self.gradients, ShardedModel):
                    raise
            self.halve(batches)

    def halve(self, batches: Sequence[Batch]) -> None:
        """Double the splits of a micro-batch. Raises ResourceError if no batch has that many rows."""
        before = self.state.micro_batch_splits
        largest = max(batches, key=lambda batch: batch.src_ids.numel() + batch.tgt_ids.numel())
        rows, width = len(largest.src_lengths), padded_width(largest)
        if before >= max(len(batch.src_lengths) for batch in batches):
            raise ResourceError(
                f"Memory ran out while computing a single pair of {width} tokens. Choose a smaller `model.preset`, "
                "or lower `data.max_tokens`."
            )
        self.state.micro_batch_splits = splits = 2 * before
        give_back_memory(self.model.device)
        fitting = max(-(-rows // splits) * width, smallest_micro_batch(self.session.train))
        self.session.log.finding(
            self.state.step,
            "out of memory",
            f"Memory ran out while computing {-(-rows // before) * width:,} tokens at once. Training continues with "
            f"the same steps, each micro-batch in {splits} parts. `train.micro_batch_tokens` = {fitting} fits.",
        )

    def update(self, loss: float) -> bool:
        """Clip and apply the gradients, unless the watchdog skips this step. Returns whether they were applied."""
        limit, watchdog = self.settings.clip_norm or float("inf"), self.state.watchdog
        norm = float(whole(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)))
        verdict, finding = watchdog.judge_step(self.state.step, loss, norm)
        if finding is not None:
            self.session.log.finding(self.state.step, finding.name, finding.text)
        if verdict is Verdict.APPLY:
            for group in self.optimizer.param_groups:
                group["lr"] = self.learning_rate()
            self.optimizer.step()
        else:
            self.state.skipped_steps += 1
        self.optimizer.zero_grad()
        if verdict is Verdict.GO_BACK:
            self.keep_sums()
            raise Diverged
        if verdict is Verdict.STOP:
            raise ConfigError(
                f"Steps up to {self.state.step} have no finite loss or gradient again, at half the learning rate. The "
                "earlier checkpoints are intact. Start a new run with a tenth of `train.learning_rate`, or with "
                "`train.precision` = float32."
            )
        return verdict is Verdict.APPLY

    def learning_rate(self) -> float:
        """The rate of the schedule times the watchdog's factor."""
        rate = learning_rate(self.state.step, self.settings, self.model.settings.d_model)
        return rate * self.state.watchdog.rate_factor * decay_factor(self.state)

    def after_step(self, step: StepBatches) -> None:
        """Log, validate and save at the intervals of the settings."""
        seconds = self.count_time()
        self.state.window_seconds += seconds
        self.state.step_seconds = [*self.state.step_seconds[1 - _PACE_STEPS :], seconds]
        self.tell_pace(step)
        self.start_helpers()
        if self.state.step % self.settings.log_every_steps == 0:
            self.report(step)
        schedule, every = self.session.model.config.validate, self.settings.checkpoint_every_steps
        by_epoch = schedule.every_epochs and step.ends_epoch and self.state.epoch % schedule.every_epochs == 0
        by_step = schedule.every_steps and self.state.step % schedule.every_steps == 0
        if by_epoch or by_step:
            self.validate()
        elif every and self.state.step % every == 0 and not self.state.watchdog.not_finite_in_a_row:
            self.save()

    def start_helpers(self) -> None:
        """Let other processes compute with this one, once this stretch has taken some seconds."""
        if self.has_helpers or self.state.seconds - self.start_seconds < self.session.seconds_alone:
            return
        self.has_helpers = True
        if isinstance(self.gradients, Gradients):
            free, helpers = free_bytes(self.model.device), self.gradients.threads - 1
            if free is not None and free > helpers * _HELPER_BYTES:
                self.gradients.start_helpers()

    def report(self, step: StepBatches) -> None:
        """Log the mean loss and the speed since the last line, unless all steps were skipped."""
        state = self.state
        if not state.window_tokens:
            return
        self.keep_sums()
        tokens = state.window_tokens
        event = {
            "step": state.step,
            "epoch": state.epoch,
            "loss": state.window_loss / tokens,
            "perplexity": perplexity(state.window_nll / tokens),
            "learning_rate": self.learning_rate(),
            "tokens_per_second": tokens / state.window_seconds,
            "seconds": state.seconds,
        }
        self.session.log.progress(event, self.seconds_left(step))
        state.window_loss = state.window_nll = 0.0
        self.sums.zero_()
        state.window_tokens, state.window_seconds = 0, 0.0

    def seconds_left(self, step: StepBatches) -> float | None:
        """The seconds until the nearest limit at the current speed, or None. Patience may end the run earlier."""
        state, taken = self.state, self.state.step - self.start_step
        step_seconds = (state.seconds - self.start_seconds) / taken
        pace = TrainingPace(state.step, state.seconds, step_seconds, step.steps_in_epoch)
        end, limit = pace.steps_until(self.settings)
        if state.decay is not None and state.decay.by_patience:
            end, limit = min(end, state.decay.end), "train.patience"
        return max(0.0, (end - state.step) * step_seconds) if limit else None

    def validate_start(self) -> None:
        """Score the model that a new run fine-tunes, so that its validations can be compared with that."""
        if self.settings.start_from and not self.state.step:
            model = self.session.gather_model()
            scores = self.processes.call_on_first(lambda: self.session.measure(model))
            self.state.start_score = self.session.score_of(scores)
            self.session.log.validation({"step": 0, "epoch": 0, **scores, "seconds": self.state.seconds}, best=False)

    def validate(self) -> None:
        """Score the model on dev, save it, and update the pointer to the best checkpoint."""
        model = self.session.gather_model()
        scores = self.processes.call_on_first(lambda: self.session.measure(model))
        self.count_time()
        record = ValidationRecord(self.state.step, self.session.score_of(scores), scores.get("bleu", 0.0))
        self.state.validations.append(record)
        progress = self.processes.call_on_first(self.progress)
        event = {"step": self.state.step, "epoch": self.state.epoch, **scores, "seconds": self.state.seconds}
        event |= bleu_at_end(self.state, self.settings, progress)
        start = self.state.start_score
        self.session.log.validation(event, best=self.state.best == record and (start is None or record.score > start))
        self.judge_validation(scores)
        forecast_end(self.state, progress)
        self.save()

    def judge_validation(self, scores: Mapping[str, float]) -> None:
        """Let the watchdog judge the run by a validation, and log its warnings."""
        watchdog, step = self.state.watchdog, self.state.step
        train_loss = watchdog.train_loss if watchdog.train_loss is not None else float("inf")
        own, other = scores.get("own_source_loss"), scores.get("other_source_loss")
        measured = ValidationLosses(step, scores["loss"], other, train_loss, scores.get("distinct"), own)
        # A young model seems to ignore the source, also after a warm-up that was shortened to fit a limit.
        warmup = max(self.settings.warmup_steps, int(self.state.fitted.get("train.warmup_steps", 0)))
        for finding in watchdog.judge_validation(measured, warmup, self.guessing_loss):
            self.session.log.finding(step, finding.name, finding.text)

    def save(self) -> None:
        """Write a checkpoint of this step and remove those that are no longer needed."""
        session, state = self.session, self.state
        self.keep_sums()
        model, moments = session.gather_model(), optimizer_tensors(self.model, self.optimizer)
        if not self.processes.is_first:
            return
        saved = replace(session.model, weights=Weights.of(model), card=card_of(state, session.model.card))
        save_checkpoint(session.run, saved, moments, state)
        validated = [record.step for record in state.validations]
        wanted = {*validated[-max(self.settings.keep_checkpoints, self.settings.average_last) :], state.step}
        wanted.update(best_steps(state.validations, self.settings.average_best))
        if state.best is not None:
            wanted.add(state.best.step)
        earlier = [step for step in session.run.steps() if step < state.step]
        wanted.update(earlier[-1:])  # keep at least two: the newest may be damaged
        if state.decay is not None:
            wanted.add(state.decay.start)
        session.run.remove_all_but(wanted)

    def keep_sums(self) -> None:
        """Copy the sums since the last log line from the device into the state."""
        self.state.window_loss, self.state.window_nll = self.sums.tolist()

    def count_time(self) -> float:
        """Add the seconds since the last call to the time of the run, and return them."""
        now = time.perf_counter()
        passed, self.clock = now - self.clock, now
        self.state.seconds += passed
        return passed

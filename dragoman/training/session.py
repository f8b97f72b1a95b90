"""The record that the parts of a training run share: model, data, state of the run, and how to validate.

`workflows.training` builds it, `trainer.fit` trains it, and `loop.Loop` takes its steps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dragoman.config import TrainSettings
from dragoman.data.pairs import Pairs
from dragoman.data.soft_targets import SoftTargets
from dragoman.data.stream import Encode
from dragoman.model.trained import TrainedModel
from dragoman.model.transformer import Transformer
from dragoman.training.distributed import SINGLE_PROCESS, Processes
from dragoman.training.run.checkpoint import RunFolder
from dragoman.training.run.log import RunLog, perplexity
from dragoman.training.run.state import TrainState
from dragoman.training.step.memory import MemoryPlan, memory_errors
from dragoman.training.step.sharding import ShardedModel
from dragoman.training.validation import dev_loss

Validate = Callable[[Transformer], Mapping[str, float]]
"""Translates the validation set and returns the metrics by name ("bleu", "chrf"), higher is better."""


@dataclass(slots=True)
class TrainingSession:
    """The training of `trained.model` on `train` in the folder `run`, as one process sees it.

    `validate` returns the scores of decoded text on `dev`; training knows no search. `encode` replaces stored ids while
    training (BPE dropout). `soft` are the predictions of teachers for the stored ids. The same settings give the same
    steps: random numbers follow from (seed, step), and with several `processes` from the number of the process. With
    `adapts_warmup` a new run may shorten its warm-up to fit a time limit; it is called with the new settings.
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

    @property
    def model(self) -> Transformer:
        """The model in training."""
        return self.trained.model

    @property
    def settings(self) -> TrainSettings:
        """The [train] table."""
        return self.trained.config.train

    def gather_model(self) -> Transformer:
        """The whole model. If it is spread over the processes, all must call this, and the first gets a copy."""
        return self.model if self.sharded is None else self.sharded.gather_model()

    def measure(self, model: Transformer) -> dict[str, float]:
        """Losses (mean negative log-probability a token, in nats), perplexity and the metrics of `validate`, on dev.

        `own_source_loss` and `other_source_loss` are of the same few hundred pairs, the second with wrong sources.
        Both are missing if there are too few pairs.
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
        """The value of `validate.metric`, higher is better. The loss counts negative."""
        metric = self.trained.config.validate.metric
        return -scores["loss"] if metric == "loss" else scores[metric]

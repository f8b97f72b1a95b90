"""The record that the parts of a training run share: model, data, state of the run, and how to validate.

`workflows.training` builds it, `trainer.fit` trains it, and `loop.Loop` takes its steps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from dragoman.bundle import Model
from dragoman.config import Config, TrainSettings
from dragoman.data.pairs import Pairs
from dragoman.data.stream import Encode
from dragoman.model.transformer import Transformer
from dragoman.training.distributed import SINGLE_PROCESS, Processes, ShardedModel
from dragoman.training.run.log import RunLog, perplexity
from dragoman.training.run.run_folder import RunFolder, TrainState
from dragoman.training.step.memory import MemoryPlan, memory_errors
from dragoman.training.validation import dev_losses

Validate = Callable[[Transformer], Mapping[str, float]]
"""Translates the validation set and returns the metrics by name ("bleu", "chrf"), higher is better."""


@dataclass(slots=True)
class TrainingSession:
    """The training of one model in the folder of one run, as one process sees it.

    The same settings give the same steps: random numbers depend on seed and step alone, and with several processes on
    the rank of the process.

    Attributes
    ----------
    run : RunFolder
        Where checkpoints are written, and where training continues from.
    trained : Model
        The model in training, with its tokenizers, settings and card.
    train, dev : Pairs
        Encoded sentence pairs to train on and to validate with.
    validate : Validate
        Translates `dev` and scores the output. Training itself does not import inference.
    log : RunLog
        Receives progress, validations and warnings.
    encode : Encode, optional
        Encodes pairs again in each epoch (augmentation, BPE dropout). Without it, training uses the stored ids.
    processes : Processes
        The processes of the run. By default there is one.
    fits : mapping of str to float
        The settings that the run may fit to its limits, by key, and their values before they were fitted.
    freeze : callable
        Records settings that were fitted, so that the run continues with them.
    state : TrainState
        The position of the run. `fit` restores it.
    sharded : ShardedModel, optional
        The model, if it is sharded over the processes. `fit` sets it.
    memory_plan : MemoryPlan, optional
        The size of micro-batches. The first stretch of training computes it.
    """

    run: RunFolder
    trained: Model
    train: Pairs
    dev: Pairs
    validate: Validate
    log: RunLog
    encode: Encode | None = None
    processes: Processes = SINGLE_PROCESS
    fits: Mapping[str, float] = field(default_factory=dict)
    freeze: Callable[[Config], None] = lambda config: None
    state: TrainState = field(default_factory=TrainState)
    sharded: ShardedModel | None = None
    memory_plan: MemoryPlan | None = None

    @property
    def model(self) -> Transformer:
        """The model in training."""
        return self.trained.transformer

    @property
    def settings(self) -> TrainSettings:
        """The [train] table."""
        return self.trained.config.train

    @property
    def steps_in_epoch(self) -> int:
        """The approximate number of steps in an epoch."""
        tokens = int(np.sum(self.train.tgt_lengths)) + len(self.train)
        return max(1, tokens // self.settings.batch_tokens)

    def gather_model(self) -> Transformer:
        """The whole model. If it is spread over the processes, all must call this, and the first gets a copy."""
        return self.model if self.sharded is None else self.sharded.gather_model()

    def measure(self, model: Transformer) -> dict[str, float]:
        """The scores of a model on dev: losses, perplexity, and the metrics of `validate`.

        The losses are those of `dev_losses`.
        """
        model.eval()
        try:
            with memory_errors("validating", "Lower `inference.batch_tokens`; it does not change the result."):
                losses = dev_losses(model, self.dev, self.trained.config.data.max_tokens)
                loss = losses["loss"]
                return {"loss": loss, "perplexity": perplexity(loss), **losses, **self.validate(model)}
        finally:
            model.train()

    def score_of(self, scores: Mapping[str, float]) -> float:
        """The value of `validate.metric`, higher is better. The loss counts negative."""
        metric = self.trained.config.validate.metric
        return -scores["loss"] if metric == "loss" else scores[metric]

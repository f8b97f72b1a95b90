"""The record that the parts of a training run share: model, data and state of the run. Also the validation losses.

`workflows.training` builds it, `trainer.fit` trains it, and `loop.Loop` takes its steps.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from dragoman.bundle import Model
from dragoman.config import Config, TrainSettings
from dragoman.data.batch import Batch
from dragoman.data.batching import micro_batches, smallest_micro_batch
from dragoman.data.mixing import epoch_tokens
from dragoman.data.store import Pairs
from dragoman.data.stream import Encode, load_batch
from dragoman.model.transformer import Transformer
from dragoman.records import EOS_ID
from dragoman.training.distributed import SINGLE_PROCESS, Processes, ShardedModel
from dragoman.training.run.log import RunLog, perplexity
from dragoman.training.run.run_folder import RunFolder, TrainState
from dragoman.training.step.memory import MemoryPlan, memory_errors
from dragoman.training.step.replica import losses

_TOKENS_AT_ONCE = 4096
_PAIRS_SHUFFLED = 500
_LEAST_SHUFFLED = 10
_PAIRS_COUNTED = 20_000


@torch.no_grad()
def dev_losses(model: Transformer, dev: Pairs, max_tokens: int) -> dict[str, float]:
    """The losses of all pairs of `dev`, and of some of them with the sources of pairs of similar length.

    They are mean negative log-probabilities per token, in nats. `loss` is that of all pairs. `other_source_loss` is
    that of a few hundred targets with the sources of other sentences, and `own_source_loss` that of the same targets
    with their own sources. Both are missing if there are too few pairs to compare. Pairs that are not `fitting` are
    left out. At least one must be fitting. A model whose loss hardly rises with wrong sources ignores its input, about
    which the watchdog warns.
    """
    sums, own, shuffled, tokens, probed, pairs = 0.0, 0.0, 0.0, 0, 0, 0
    limit = max(_TOKENS_AT_ONCE, smallest_micro_batch(dev))
    for indices in micro_batches(dev.src_counts, dev.tgt_counts, limit):
        indices = indices[fitting(model, dev, indices, max_tokens)]
        if not len(indices):
            continue
        batch = load_batch(dev, indices).to(model.device)
        _, nll = losses(model, batch)
        sums, tokens = sums + nll.item(), tokens + batch.num_tgt_tokens
        if len(indices) > 1 and pairs < _PAIRS_SHUFFLED:
            _, other = losses(model, _with_other_sources(batch))
            own, shuffled = own + nll.item(), shuffled + other.item()
            probed, pairs = probed + batch.num_tgt_tokens, pairs + len(indices)
    compared = (
        {} if pairs < _LEAST_SHUFFLED else {"own_source_loss": own / probed, "other_source_loss": shuffled / probed}
    )
    return {"loss": sums / tokens, **compared}


def fitting(
    model: Transformer, pairs: Pairs, indices: npt.NDArray[np.integer], max_tokens: int
) -> npt.NDArray[np.bool_]:
    """A mask of the pairs with at most `max_tokens` per side, as in training, for which the model has positions.

    Without this limit, one line that is a whole book would take longer than all other pairs together.
    """
    longest = np.maximum(pairs.src_counts[indices], pairs.tgt_counts[indices])
    fits: npt.NDArray[np.bool_] = longest <= model.settings.longest_text(max_tokens)
    return fits


def _with_other_sources(batch: Batch) -> Batch:
    half = max(1, len(batch.src_lengths) // 2)
    return Batch(batch.src_ids.roll(half, 0), batch.src_lengths.roll(half, 0), batch.tgt_ids, batch.tgt_lengths)


def count_labels(pairs: Pairs, vocab_size: int) -> npt.NDArray[np.int64]:
    """The number of times that each token is a label, (V,), in up to 20,000 evenly spread pairs."""
    looked_at = np.linspace(0, len(pairs) - 1, min(len(pairs), _PAIRS_COUNTED)).astype(int)
    rows = [np.append(pairs.tgt_ids(int(index)), EOS_ID) for index in looked_at]
    return np.bincount(np.concatenate(rows).astype(np.int64), minlength=vocab_size)


def guessing_loss(counts: npt.NDArray[np.int64]) -> float:
    """The loss in nats of a model that knows only the frequencies of the labels: their entropy."""
    shares = counts[counts > 0] / counts.sum()
    return -math.fsum((shares * np.log(shares)).tolist())


def initialize_bias(model: Transformer, counts: npt.NDArray[np.int64]) -> None:
    """Set the bias of the output projection to the logarithms of the label frequencies, with a mean of 0.

    Otherwise, training would start with learning which tokens are frequent. A token that is no label counts as half a
    label.
    """
    if model.projection.bias is not None:
        logarithms = np.log(np.maximum(counts, 0.5))
        with torch.no_grad():
            model.projection.bias.copy_(torch.from_numpy(logarithms - logarithms.mean()))


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
    model : Model
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
    seconds_alone : float
        Seconds after which other processes help to compute (`dragoman.training.step.helpers`). They take seconds to
        start.
    state : TrainState
        The position of the run. `fit` restores it.
    sharded : ShardedModel, optional
        The model, if it is sharded over the processes. `fit` sets it.
    memory_plan : MemoryPlan, optional
        The size of micro-batches. The first stretch of training computes it.
    """

    run: RunFolder
    model: Model
    train: Pairs
    dev: Pairs
    validate: Validate
    log: RunLog
    encode: Encode | None = None
    processes: Processes = SINGLE_PROCESS
    fits: Mapping[str, float] = field(default_factory=dict)
    freeze: Callable[[Config], None] = lambda config: None
    seconds_alone: float = 5.0
    state: TrainState = field(default_factory=TrainState)
    sharded: ShardedModel | None = None
    memory_plan: MemoryPlan | None = None

    @property
    def transformer(self) -> Transformer:
        """The Transformer of the model."""
        return self.model.transformer

    @property
    def settings(self) -> TrainSettings:
        """The [train] table."""
        return self.model.config.train

    @property
    def steps_in_epoch(self) -> int:
        """The approximate number of steps in an epoch."""
        return max(1, epoch_tokens(self.train, self.state.epoch) // self.settings.batch_tokens)

    def gather_model(self) -> Transformer:
        """The whole model. If it is spread over the processes, all must call this, and the first gets a copy."""
        return self.transformer if self.sharded is None else self.sharded.gather_model()

    def measure(self, model: Transformer) -> dict[str, float]:
        """The scores of a model on dev: losses, perplexity, and the metrics of `validate`.

        The losses are those of `dev_losses`.
        """
        model.eval()
        try:
            with memory_errors("validating", "Lower `inference.batch_tokens`; it does not change the result."):
                found = dev_losses(model, self.dev, self.model.config.data.max_tokens)
                loss = found["loss"]
                return {"loss": loss, "perplexity": perplexity(loss), **found, **self.validate(model)}
        finally:
            model.train()

    def score_of(self, scores: Mapping[str, float]) -> float:
        """The value of `validate.metric`, higher is better. The loss counts negative."""
        metric = self.model.config.validate.metric
        return -scores["loss"] if metric == "loss" else scores[metric]

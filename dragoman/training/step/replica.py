"""A replica of the model in training: it computes the gradients of one share of a step, on one thread."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dragoman.config import ModelSettings, TrainSettings
from dragoman.data.batch import Batch
from dragoman.devices.device import sum_type
from dragoman.model.transformer import Transformer
from dragoman.records import PAD_ID
from dragoman.training.step.accelerated import AcceleratedEmbedding, Randomness, accelerate
from dragoman.training.step.loss import PreparedProjection, TokenSample, projected_cross_entropy


def losses(
    model: Transformer,
    batch: Batch,
    label_smoothing: float = 0.0,
    projection: PreparedProjection | None = None,
    precision: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """The smoothed loss and the negative log-probability of a batch, summed over its labels without padding, in nats.

    The decoder sees the target shifted right by one position (`batch.decoder_input`), and each position predicts the
    next token (teacher forcing). If `projection` is set, it receives the gradient of the model's projection instead of
    the model's parameters. The projection is computed in `precision`, or else in the type of the decoder's states.
    """
    memory = model.encode(batch.src_ids, batch.src_lengths)
    hidden = model.decode(batch.decoder_input, memory, batch.src_lengths)
    counted = batch.labels != PAD_ID
    states, labels, matrix = hidden[counted].to(precision), batch.labels[counted], model.projection
    return projected_cross_entropy(states, matrix.weight, matrix.bias, labels, label_smoothing, projection)


@dataclass(slots=True)
class Replica:
    """The model of one thread. All replicas share the storage of the parameters, and each has gradients of its own.

    `sums` are the float32 gradients so far, of the parameters in working precision and of the large tables.
    """

    model: Transformer
    randomness: Randomness
    precision: torch.dtype
    settings: TrainSettings
    sums: dict[str, Tensor] = field(default_factory=dict)

    def add(self, share: Sequence[Batch], seed: Sequence[int], num_tokens: int, splits: int) -> Tensor:
        """Add the gradients of loss / num_tokens over a share. Returns the sums of loss and nll, (2,)."""
        self.randomness.seed(*seed)
        total = torch.zeros(2, dtype=sum_type(self.model.device), device=self.model.device)
        with self._tables(num_tokens, self._sample(share)) as projection:
            for batch in share:
                rows = len(batch.src_lengths)
                size = -(-rows // splits)
                for start in range(0, rows, size):
                    stop = min(start + size, rows)
                    part = batch if size == rows else _rows(batch, start, stop)
                    with self.randomness.rows(start, stop, rows):
                        loss, nll = losses(self.model, part, self.settings.label_smoothing, projection)
                    (loss / num_tokens).backward()  # type: ignore[no-untyped-call]
                    total += torch.stack((loss.detach(), nll))
                    # Of rounded gradients, a long sum in their own type would lose the small ones.
                    named = self.model.named_parameters()
                    self._gather((name, each) for name, each in named if each.dtype != torch.float32)
        return total

    def take(self) -> dict[str, Tensor]:
        """Remove the gradients from the replica and return them by name, in float32."""
        self._gather(self.model.named_parameters())
        taken, self.sums = self.sums, {}
        return taken

    def drop(self) -> None:
        """Delete all gradients without allocating memory, which may have run out."""
        self.sums = {}
        for parameter in self.model.parameters():
            parameter.grad = None

    def _sample(self, share: Sequence[Batch]) -> TokenSample | None:
        """The sample for the softmax of a share, or None to compute all logits."""
        size, part = self.model.projection.weight.size(0), self.settings.sampled_softmax
        if part == 1 or self.model.device.type != "cpu":
            return None
        return TokenSample.of((batch.labels for batch in share), self.randomness.sample_mask(size, part), part)

    @contextlib.contextmanager
    def _tables(self, num_tokens: int, sample: TokenSample | None) -> Iterator[PreparedProjection]:
        """Inside the block, the gradients of projection and embeddings are summed in place over the batches."""
        model, weight, bias = self.model, self.model.projection.weight, self.model.projection.bias
        projection = PreparedProjection(weight, bias, self.precision, 1 / num_tokens, sample=sample)
        sums = {id(weight): projection.weight_grad, id(bias): projection.bias_grad}
        embeddings = [each for each in model.modules() if isinstance(each, AcceleratedEmbedding)]
        for embedding in embeddings:
            key = id(embedding.weight)
            embedding.sums = sums[key] = sums[key] if key in sums else torch.zeros_like(embedding.weight)
        try:
            yield projection
        finally:
            for embedding in embeddings:
                embedding.sums = None
        projection.finish()
        for name, parameter in model.named_parameters():
            if (summed := sums.get(id(parameter))) is not None:
                self._sum(name, summed)

    def _gather(self, parameters: Iterable[tuple[str, torch.nn.Parameter]]) -> None:
        """Move the gradients of the parameters into the sums."""
        for name, parameter in parameters:
            if parameter.grad is not None:
                self._sum(name, parameter.grad)
                parameter.grad = None

    def _sum(self, name: str, gradient: Tensor) -> None:
        if name in self.sums:
            self.sums[name] += gradient
        else:
            self.sums[name] = gradient.float()


ModelShape = tuple[ModelSettings, int, int]
"""The settings of a model and the sizes of its vocabularies."""


def build_replica(
    shape: ModelShape, weights: Mapping[str, Tensor], precision: torch.dtype, settings: TrainSettings
) -> Replica:
    """A replica of a model that shares the memory of `weights`."""
    model, randomness = (
        Transformer.from_arrays(*shape, {name: each.detach() for name, each in weights.items()}),
        Randomness(),
    )
    accelerate(model, randomness, precision)
    return Replica(model.train(), randomness, precision, settings)


def _rows(batch: Batch, start: int, stop: int) -> Batch:
    return batch.map_tensors(lambda tensor: tensor[start:stop])

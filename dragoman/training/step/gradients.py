"""The gradient of the loss of one optimizer step, in the fastest precision and on several threads.

The optimizer's weights are float32. Products use copies in the working precision, which are refreshed after every
update. That is bfloat16 where the processor multiplies in it. Embeddings and the projection stay float32, because the
gradients of frequent words would vanish in rounding. Only their outputs are rounded.

On a CPU, several threads compute a step in parallel. Each has one processor, an equal share of the positions, and
gradients and random numbers of its own. If the threads shared every product instead, they would wait for each other
about a thousand times per step: idle between the products, and blocked if another program takes a processor.

Python's lock still lets two threads compute only 1.4 times as much as one. So in a longer run, other processes compute
the shares of all threads but the first (`helpers`).
"""

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import torch
from torch import Tensor

from dragoman.config import ModelSettings, TrainSettings
from dragoman.data.batch import Batch
from dragoman.devices.device import resolve_precision
from dragoman.devices.without_torch import compute_on_one_thread, restore_num_threads
from dragoman.model.transformer import Transformer
from dragoman.records import EOS_ID
from dragoman.training.step.helpers import Helpers
from dragoman.training.step.replica import Replica, build_replica, losses

_MAX_THREADS = 4
# Fewer positions are not worth another thread or a cut.
_LEAST_POSITIONS = 128


def num_threads(settings: TrainSettings, device: torch.device) -> int:
    """The number of threads per step: `train.threads`, or the number of processors up to 4. Always 1 on a GPU."""
    if device.type != "cpu":
        return 1
    return settings.threads or min(torch.get_num_threads(), _MAX_THREADS)


def shares(batches: Sequence[Batch], count: int) -> list[list[Batch]]:
    """Divide the batches, in order, into up to `count` shares with about the same number of positions.

    A batch at the border of two shares is cut in two. Small steps have fewer shares.
    """
    total = sum(_positions(batch) for batch in batches)
    count = max(1, min(count, total // _LEAST_POSITIONS))
    dealt: list[list[Batch]] = [[] for _ in range(count)]
    taken, share = 0, 0
    for batch in batches:
        rest: Batch | None = batch
        while rest is not None:
            left = total * (share + 1) / count - taken
            first, rest = _cut(rest, left) if share + 1 < count else (rest, None)
            dealt[share].append(first)
            taken += _positions(first)
            share = min(count - 1, max(share, int((taken + _LEAST_POSITIONS / 2) * count / total)))
    return dealt


def _positions(batch: Batch) -> int:
    return batch.src_ids.numel() + batch.decoder_input.numel()


def first_rows(batch: Batch, count: int) -> Batch:
    """A batch of `count` copies of the first row, without changing its width."""
    return batch.map_tensors(lambda tensor: tensor[:1].repeat_interleave(count, dim=0))


def _cut(batch: Batch, positions: float) -> tuple[Batch, Batch | None]:
    """The rows that fit into `positions` (at least one), and the other rows, or None if a cut is not worth it."""
    rows = len(batch.src_lengths)
    fitting = max(1, round(positions * rows / _positions(batch)))
    if _positions(batch) - positions < _LEAST_POSITIONS or fitting >= rows:
        return batch, None
    return batch.part(0, fitting), batch.part(fitting, rows)


class Gradients:
    """Computes the gradients of `model`, one optimizer step per call. A `with` block ends its threads."""

    def __init__(self, model: Transformer, settings: TrainSettings) -> None:
        self.model = model
        self.threads = num_threads(settings, model.device)
        self.precision = resolve_precision(settings.precision, model.device)
        self._copies = _working_copies(model, self.precision)
        self._replicas = [self._build_replica(settings) for _ in range(self.threads)]
        self._pool = ThreadPoolExecutor(self.threads, "gradients", initializer=compute_on_one_thread)
        self.helpers: Helpers | None = None
        self._may_have_helpers = self.threads > 1 and not settings.compile and Helpers.are_supported()

    def __enter__(self) -> "Gradients":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        if self.helpers is not None:
            self.helpers.end()

    def start_helpers(self) -> None:
        """Start processes that compute the shares of all threads but the first, where that is supported.

        Nothing waits for them: until a process is ready, and when it is gone, its thread computes the same gradients.
        """
        if self._may_have_helpers and self.helpers is None:
            with contextlib.suppress(OSError):  # the system refuses shared memory
                self.helpers = Helpers(self._replicas[0], self._copies, self.threads - 1)

    def compute(self, batches: Sequence[Batch], seed: Sequence[int], num_tokens: int, splits: int = 1) -> Tensor:
        """Compute the gradient of the mean loss of a step, and store it in `parameter.grad` of the model.

        Parameters
        ----------
        batches : sequence of Batch
            The micro-batches of the step.
        seed : sequence of int
            Determines the random numbers of dropout, with the number of the thread.
        num_tokens : int
            The number of labels of the whole step, in all processes.
        splits : int
            Compute the rows of each batch in this many parts, which takes less memory in proportion. The result is
            equal except for rounding. On a GPU, dropout uses other random numbers.

        Returns
        -------
        Tensor, (2,)
            The sums of loss and negative log-probability. If an error is raised, no gradients are left.
        """
        self._refresh()
        dealt = shares([batch.to(self.model.device) for batch in batches], self.threads)
        try:
            if len(dealt) == 1:
                total = self._replicas[0].add(dealt[0], [*seed, 0], num_tokens, splits)
            else:
                total = self._side_by_side(dealt, seed, num_tokens, splits)
        except BaseException:
            for replica in self._replicas:
                replica.drop()
            raise
        self._collect(len(dealt))
        return total

    def _side_by_side(
        self, dealt: Sequence[Sequence[Batch]], seed: Sequence[int], num_tokens: int, splits: int
    ) -> Tensor:
        # The number of BLAS threads belongs to the process. While the workers compute, it is one, as they need it.
        with restore_num_threads():
            torch.set_num_threads(1)
            futures = [
                self._pool.submit(self._add, number, share, [*seed, number], num_tokens, splits)
                for number, share in enumerate(dealt)
            ]
            wait(futures)  # even if one has failed: the others still write
            return torch.stack([future.result() for future in futures]).sum(0)

    def _add(self, number: int, share: Sequence[Batch], seed: Sequence[int], num_tokens: int, splits: int) -> Tensor:
        """Add the gradients of a share in the helper of this number or else in the calling thread."""
        replica = self._replicas[number]
        if number and self.helpers is not None:
            found = self.helpers.add(number - 1, share, seed, num_tokens, splits)
            if found is not None:
                replica.sums, total = found
                return total
        return replica.add(share, seed, num_tokens, splits)

    def kept_bytes(self, batch: Batch) -> int:
        """The bytes that a forward pass of this batch keeps for its backward pass, measured by running one."""
        self._refresh()
        replica, seen = self._replicas[0], {}
        replica.randomness.seed(0)
        weights = {parameter.data_ptr() for parameter in replica.model.parameters()}

        def note(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            seen[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            kept = losses(replica.model, batch.to(self.model.device), replica.settings.label_smoothing)
        total = sum(size for place, size in seen.items() if place not in weights)
        del kept
        return total

    def _build_replica(self, settings: TrainSettings) -> Replica:
        model = self.model
        shape = model.settings, model.src_vocab_size, model.tgt_vocab_size
        replica = build_replica(shape, self._copies, self.precision, settings)
        if settings.compile:
            for stack in (replica.model.encoder, replica.model.decoder):
                stack.compile(dynamic=True)
        return replica

    @torch.no_grad()
    def _refresh(self) -> None:
        """Update the copies from the weights."""
        parameters = dict(self.model.named_parameters())
        changed = {name: copy for name, copy in self._copies.items() if copy is not parameters[name]}
        if changed:
            torch._foreach_copy_(list(changed.values()), [parameters[name] for name in changed])
        if self.helpers is not None:
            self.helpers.refresh(self._copies)

    def _collect(self, count: int) -> None:
        """Move the gradients of the first `count` replicas into the model, summed in their order."""
        taken = [replica.take() for replica in self._replicas[:count]]
        for name, parameter in self.model.named_parameters():
            parts = [part[name] for part in taken if name in part]
            for part in parts[1:]:
                parts[0] += part
            parameter.grad = parts[0] if parts else None


def compile_kernels() -> None:
    """Compile the functions of `kernels/training.py` for all types of numbers, unless their code is in the cache."""
    settings = ModelSettings(d_model=32, d_ff=64, num_heads=2, num_encoder_layers=1, num_decoder_layers=1)
    model, batch = Transformer(settings, EOS_ID + 1, EOS_ID + 1), Batch.from_ids([[EOS_ID]], [[EOS_ID]])
    for precision in ("float32", "bfloat16"):
        with Gradients(model, TrainSettings(threads=1, precision=precision)) as gradients:
            gradients.compute([batch], [0], batch.num_tgt_tokens)


def _working_copies(model: Transformer, precision: torch.dtype) -> dict[str, Tensor]:
    """The tensor to compute with for each parameter: the parameter if it stays float32, else a copy to refresh."""
    kept = {id(model.src_embedding.weight), id(model.tgt_embedding.weight), id(model.projection.weight)}
    return {
        name: parameter if id(parameter) in kept or precision == parameter.dtype else parameter.detach().to(precision)
        for name, parameter in model.named_parameters()
    }

"""One run in several processes, on one machine or several, as `torchrun` starts them.

Every process has the whole model and computes its share of each step's micro-batches. The gradients are summed over
the processes, and all apply the same update (Li et al. 2020, who overlap the sum with the backward pass). A model that
is too large for one process is sharded instead, with its gradients and optimizer. `ShardedModel` uses torch's FSDP2
(`fully_shard`; Zhao et al. 2023): the weights of a layer are gathered when it computes, and its gradients are summed
and sharded again. A checkpoint holds the whole model, so any number of processes can continue.

Only the first process validates, writes and logs. It sends its decisions to the others. The run's folder must be on a
disk that all processes share.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

from dragoman.config import TrainSettings
from dragoman.data.batch import Batch
from dragoman.devices.device import resolve_precision, sum_type
from dragoman.errors import ConfigError, ResourceError
from dragoman.model.transformer import Transformer
from dragoman.records import UNK_ID
from dragoman.signals import Interrupted
from dragoman.training.step.accelerated import Randomness, accelerate
from dragoman.training.step.replica import losses

_TIMEOUT = timedelta(minutes=60)
"""Longer than a validation takes. A process that exits is noticed at once, whatever the limit."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of a run, seen from one of them. The methods are collective: all processes must call them.

    `rank` counts from 0 over all machines, and `local_rank` within the machine. `talk` is the process group for values
    other than gradients.
    """

    rank: int = 0
    count: int = 1
    local_rank: int = 0
    talk: Any = None

    @property
    def is_first(self) -> bool:
        """True in the process that validates, writes and logs."""
        return self.rank == 0

    def call_on_first(self, make: Callable[[], _Value]) -> _Value:
        """The value of `make()`, which only the first process calls. All processes get it."""
        if self.count == 1:
            return make()
        box = [make() if self.is_first else None]
        with _lost_processes():
            distributed.broadcast_object_list(box, src=0, group=self.talk)
        return box[0]  # type: ignore[return-value]

    def gather(self, value: _Value) -> list[_Value]:
        """The values of all processes, by rank."""
        if self.count == 1:
            return [value]
        found: list[Any] = [None] * self.count
        with _lost_processes():
            distributed.all_gather_object(found, value, group=self.talk)
        return found

    def call_first_before_others(self, work: Callable[[], _Value]) -> _Value:
        """The value of `work()` in each process. The first process finishes it before the others start."""
        if self.count == 1:
            return work()
        done = work() if self.is_first else None
        self.gather(None)
        return done if self.is_first else work()  # type: ignore[return-value]

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over all processes."""
        if self.count == 1:
            return tensor
        return self._sum_in_place(tensor.clone())

    def _sum_in_place(self, tensor: Tensor) -> Tensor:
        """Replace the tensor's values by their sum over all processes. Returns the tensor."""
        with _lost_processes():
            distributed.all_reduce(tensor)
        return tensor

    def sum_gradients(self, model: nn.Module) -> None:
        """Replace the gradients of `model` by their sum over all processes.

        A process without a share of the step has no gradients. It gets those of the others.
        """
        if self.count == 1:
            return
        parameters = list(model.parameters())
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        flat = self._sum_in_place(torch.cat([gradient.flatten() for gradient in gradients]))
        pieces = torch.split(flat, [parameter.numel() for parameter in parameters])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece.view_as(parameter)

    def device(self, device: torch.device) -> torch.device:
        """The device of this process. Each process of a machine has its own GPU; ConfigError if there are too few."""
        if device.type != "cuda" or self.count == 1:
            return device
        if self.local_rank >= torch.cuda.device_count():
            raise ConfigError(
                f"torchrun started a process number {self.local_rank} on this machine, which has "
                f"{torch.cuda.device_count()} GPUs. Set `--nproc-per-node` to at most that."
            )
        return torch.device("cuda", self.local_rank)


SINGLE_PROCESS = Processes()


@contextmanager
def join_processes(device: torch.device) -> Iterator[Processes]:
    """Join the processes that `torchrun` started, or return this process alone.

    Raises ConfigError if only some of torchrun's environment variables are set, and ResourceError if the processes
    cannot reach each other.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "RANK" not in os.environ:
        yield SINGLE_PROCESS
        return
    for name in ("LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        if name not in os.environ:
            raise ConfigError(
                f"RANK and WORLD_SIZE are set, but the environment variable {name} is not. Start the processes with "
                "torchrun (torchrun --nproc-per-node 2 -m dragoman train ...), or unset RANK and WORLD_SIZE."
            )
    if device.type == "mps":
        raise ConfigError(
            "Several processes cannot share Apple's GPU. Set `train.device` to cpu, or start one process."
        )
    rank, count, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    with _lost_processes():
        if device.type == "cuda":
            torch.cuda.set_device(Processes(rank, count, local).device(device))
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_TIMEOUT)
        talk = distributed.new_group(backend="gloo", timeout=_TIMEOUT)
    try:
        yield Processes(rank, count, local, talk)
    except Interrupted:  # all processes leave together
        distributed.destroy_process_group()
        raise
    # Not after another error: the other processes may wait for this one, and NCCL would wait for them without a word.
    distributed.destroy_process_group()


@contextmanager
def _lost_processes() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        words = str(error).strip()
        if not isinstance(error, distributed.DistError) and not re.search("gloo|connection", words, re.IGNORECASE):
            raise
        reason = words.partition("\n")[0][:200]
        raise ResourceError(
            f"Another process of this run has ended or cannot be reached ({reason}). What it said comes before this "
            "line; the same command continues from the last checkpoint."
        ) from error


def whole(tensor: Tensor) -> Tensor:
    """The whole of a tensor that may be sharded. All processes must call this."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def spread(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor on the device of `like`, sharded like it. All processes must pass the same tensor."""
    tensor = tensor.to(like.device)
    if not hasattr(like, "device_mesh"):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor, like.device_mesh, like.placements)  # type: ignore[attr-defined]


class ShardedModel:
    """`model`, sharded over the processes in place, and the gradients of its steps.

    Used instead of `Gradients`, with two differences. The gradients are sums over all processes. If memory runs out,
    the run ends, because the other processes could not know that one computes in parts.
    """

    def __init__(self, model: Transformer, settings: TrainSettings, processes: Processes) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        self._model, self._processes = model, processes
        self._whole = model
        if processes.is_first:
            self._whole = Transformer(model.settings, model.src_vocab_size, model.tgt_vocab_size).to(model.device)
        self._randomness = Randomness()
        accelerate(model, self._randomness)
        mesh = init_device_mesh(model.device.type, (processes.count,))
        precision = resolve_precision(settings.precision, model.device)
        policy = MixedPrecisionPolicy(precision, reduce_dtype=torch.float32, output_dtype=torch.float32)
        for layer in (*model.encoder.layers, *model.decoder.layers):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        self._losses = _Losses(model, settings.label_smoothing, precision)
        fully_shard(self._losses, mesh=mesh)
        self._losses.train()

    def __enter__(self) -> "ShardedModel":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def compute(self, batches: Sequence[Batch], seed: Sequence[int], num_tokens: int, splits: int = 1) -> Tensor:
        """As `Gradients.compute`. Returns the sums of this process."""
        self._randomness.seed(*seed, 0)
        device, filler = self._model.device, Batch.from_ids([[UNK_ID]], [[UNK_ID]])
        total = torch.zeros(2, dtype=sum_type(device), device=device)
        # Every pass gathers from all processes, so all make equally many. Surplus passes have no weight.
        for number in range(max(self._processes.gather(len(batches)))):
            counts = number < len(batches)
            loss, nll = self._losses((batches[number] if counts else filler).to(device))
            (loss * (self._processes.count / num_tokens if counts else 0.0)).backward()
            if counts:
                total += torch.stack((loss.detach(), nll))
        return total

    @torch.no_grad()
    def gather_model(self) -> Transformer:
        """A plain model with the current weights, for the first process. The others get a meaningless one."""
        theirs = dict(self._whole.named_parameters()) if self._processes.is_first else {}
        for name, parameter in self._model.named_parameters():
            values = whole(parameter)
            if name in theirs:
                theirs[name].copy_(values)
        return self._whole


class _Losses(nn.Module):
    """The losses as a module, so that FSDP gathers the parameters that belong to no layer in its `forward`."""

    def __init__(self, model: Transformer, label_smoothing: float, precision: torch.dtype) -> None:
        super().__init__()
        self.model, self._label_smoothing, self._precision = model, label_smoothing, precision

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """As `losses`."""
        return losses(self.model, batch, self._label_smoothing, precision=self._precision)

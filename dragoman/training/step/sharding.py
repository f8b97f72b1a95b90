"""A model sharded over the processes of a run, with its gradients and optimizer, if it does not fit into one.

Uses torch's FSDP2 (`fully_shard`; Zhao et al. 2023): the weights of a layer are gathered when it computes, and its
gradients are summed and sharded again. A checkpoint holds the whole model, so any number of processes can continue.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dragoman.config import TrainSettings
from dragoman.data.batch import Batch
from dragoman.devices.device import resolve_precision, sum_type
from dragoman.model.transformer import Transformer
from dragoman.text.tokenization.control_ids import UNK_ID
from dragoman.training.distributed import Processes
from dragoman.training.step.accelerated import accelerate
from dragoman.training.step.dropout import Randomness
from dragoman.training.step.gradients import losses


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

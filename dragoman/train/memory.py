"""How many positions fit into memory at once, and a clear word when they do not."""

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import torch

from dragoman.config import ModelSettings, TrainSettings
from dragoman.data.batching import PADDING_SLACK
from dragoman.errors import ResourceError
from dragoman.model.transformer import Transformer

# What is fast: enough rows for efficient products, few enough to stay near the caches.
_FAST_TOKENS = {"cpu": 4096, "mps": 8192, "cuda": 32768}
_FORECAST_LENGTH = 64


def activation_bytes(settings: ModelSettings, length: int, precision: torch.dtype) -> int:
    """A forecast of the memory one training position (a source and a target one) takes until the backward pass.

    Counts what autograd keeps: inputs of norms and products, both sides of activations, attention weights over
    `length` positions, one byte of mask an element dropped out.
    """
    width, inner, scores = settings.d_model, settings.d_ff, settings.num_heads * length
    encoder = 13 * width + 3 * inner + 3 * scores
    decoder = 20 * width + 3 * inner + 6 * scores
    elements = settings.num_encoder_layers * encoder + settings.num_decoder_layers * decoder
    # Measured with float32 and bfloat16 autocast on tiny to base: 2.5 to 4.5 and 1.4 to 2.3 bytes an element.
    return int(elements * (4.5 if precision == torch.float32 else 2.4))


def fixed_bytes(model: Transformer, workers: int = 1) -> int:
    """Both moments, the copies to compute with, and each worker's gradients; the weights are there already.

    A worker holds the sum of its gradients, the latest ones, and what the loss gathers for the projection.
    """
    return (2 * 4 + 2 + workers * 3 * 4) * sum(parameter.numel() for parameter in model.parameters())


def choose_micro_batch_tokens(
    model: Transformer, settings: TrainSettings, smallest: int, precision: torch.dtype, workers: int = 1
) -> int:
    """The padded positions computed at once: as the setting says, or what is fast on the device and fits.

    `smallest` is what the longest pair needs. Raises ResourceError, naming a value that fits, where the forecast for
    the asked value exceeds the memory there is.
    """
    device = model.device
    asked = settings.micro_batch_tokens or min(_FAST_TOKENS.get(device.type, 4096), settings.batch_tokens)
    asked = max(asked, smallest) if not settings.micro_batch_tokens else asked
    free = free_bytes(device)
    if free is None:
        return asked
    position = activation_bytes(model.settings, min(smallest, _FORECAST_LENGTH), precision)
    # A step is shared out to the workers, so together they compute no more at once than the step holds.
    position *= max(1, min(workers, settings.batch_tokens // asked))
    fixed = fixed_bytes(model, workers)
    room = free - fixed
    fitting = int(room * 0.9) // position
    if asked <= fitting:
        return asked
    if not settings.micro_batch_tokens and fitting >= smallest:
        return fitting
    if fitting < smallest:
        raise ResourceError(
            f"The model needs about {(fixed + position * smallest) / 1e9:.1f} GB for one pair of "
            f"{smallest} tokens, but {free / 1e9:.1f} GB are free. Choose a smaller `model.preset`, or lower "
            "`data.max_tokens`."
        )
    raise ResourceError(
        f"`train.micro_batch_tokens` is {asked}, which needs about {(fixed + position * asked) / 1e9:.1f} "
        f"GB, but {free / 1e9:.1f} GB are free. Set it to at most {fitting}, or to 0 to let it be chosen."
    )


def padding_slack(device: torch.device) -> int:
    """Padding that is cheaper to compute than another micro-batch: little on a CPU, more where launches cost."""
    return PADDING_SLACK if device.type == "cpu" else 1024


@contextlib.contextmanager
def memory_errors(micro_batch_tokens: int) -> Iterator[None]:
    """Turns a failed allocation into a ResourceError with a value to try."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise _too_large(micro_batch_tokens) from error
    except RuntimeError as error:
        if "can't allocate memory" in str(error) or "not enough memory" in str(error):
            raise _too_large(micro_batch_tokens) from error
        raise


def free_bytes(device: torch.device) -> int | None:
    """Memory that can still be taken on the device; None where that cannot be known."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type != "cpu":
        return None
    limits = [limit for limit in (_available(), _control_group(), _address_space()) if limit is not None]
    return min(limits) if limits else None


def _too_large(micro_batch_tokens: int) -> ResourceError:
    return ResourceError(
        f"Memory ran out while computing {micro_batch_tokens} positions at once. Set `train.micro_batch_tokens` to "
        f"{max(1, micro_batch_tokens // 2)} and start the same command again: the run continues, with the same steps."
    )


def _available() -> int | None:
    """MemAvailable of Linux."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").split("\n")
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None


def _control_group() -> int | None:
    """What a container's limit leaves."""
    try:
        folder = Path("/sys/fs/cgroup")
        limit, used = (int((folder / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
        return limit - used
    except (OSError, ValueError):
        return None


def _address_space() -> int | None:
    """What `ulimit -v` leaves."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return None
    return soft - pages * os.sysconf("SC_PAGE_SIZE")

"""A forecast of the memory that training needs, and the number of parts in which a micro-batch fits."""

import contextlib
import math
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from dragoman.config import TrainSettings
from dragoman.data.batch import Batch
from dragoman.data.batching import PADDING_SLACK, epoch_batches, micro_batches, smallest_micro_batch
from dragoman.data.store import Pairs
from dragoman.data.stream import load_batch
from dragoman.errors import ResourceError
from dragoman.training.step.gradients import Gradients, first_rows

# The fastest size: enough rows for efficient products, few enough to stay near the caches.
_FAST_TOKENS = {"cpu": 4096, "mps": 8192, "cuda": 32768}
_GIVE_BACK = {"cuda": torch.cuda.empty_cache, "mps": torch.mps.empty_cache}
_STEPS_LOOKED_AT = 256
# Fitted to the peaks of 15 runs on a CPU; `tests/soak/test_memory.py` measures the forecast:
# - the memory of torch's libraries, and of oneDNN's kernels for each further 64 rows of bfloat16 products;
# - bytes per byte of weights (moments, copies, gradients);
# - bytes per byte of kept activations (temporary ones come on top), and of a slice of logits.
_LIBRARY_BYTES = {"cpu": 100_000_000}
_KERNEL_BYTES, _KERNEL_ROWS = 12_000_000, 64
_PER_WEIGHT = {torch.float32: 3.0, torch.bfloat16: 4.1}
_PER_WEIGHT_OF_ANOTHER_THREAD = 2.0
_PER_KEPT, _PER_LOGIT, _LOGIT_ROWS = 2.35, 0.6, 512
_GIVEN_UP = ("active_file", "inactive_file", "slab_reclaimable")  # what a control group frees on demand


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Micro-batches of `micro_batch_tokens` padded positions, each computed in `splits` parts.

    `largest` is the batch with the largest forecast. With these splits it needs `need_bytes` beside the weights.
    """

    micro_batch_tokens: int
    splits: int
    need_bytes: int
    largest: Batch


def plan_memory(gradients: Gradients, settings: TrainSettings, pairs: Pairs, splits: int = 1) -> MemoryPlan:
    """Plan micro-batches of the set size, or of the size that is fast on the device, in at least `splits` parts.

    More parts are used if the forecast exceeds the free memory. The result of a step does not depend on the free
    memory, except for rounding. Raises ResourceError if not even one pair fits.
    """
    device = gradients.model.device
    tokens = micro_batch_tokens(settings, pairs, device)
    largest = max(_large_batches(pairs, settings, tokens, device), key=partial(forecast_bytes, gradients))
    free = math.inf if (known := free_bytes(device)) is None else known
    while (need := forecast_bytes(gradients, largest, splits)) > free:
        if splits >= len(largest.src_lengths):
            raise ResourceError(
                f"The model needs about {need / 1e9:.2f} GB for one pair of {padded_width(largest)} tokens, but "
                f"{free / 1e9:.2f} GB are free. Choose a smaller `model.preset`, or lower `data.max_tokens`."
            )
        splits *= 2
    return MemoryPlan(tokens, splits, need, largest)


def micro_batch_tokens(settings: TrainSettings, pairs: Pairs, device: torch.device) -> int:
    """The set number of padded positions to compute at once, or the number that is fast and fits every pair."""
    # Where launches cost, a step with its padding is one micro-batch.
    fast = min(_FAST_TOKENS.get(device.type, 4096), settings.batch_tokens * (1 if device.type == "cpu" else 2))
    return settings.micro_batch_tokens or max(smallest_micro_batch(pairs), fast)


def forecast_bytes(gradients: Gradients, batch: Batch, splits: int = 1) -> int:
    """The memory that training needs beside the weights, if this batch in `splits` parts is the largest.

    Extrapolated from the measured memory that one and two rows of the batch keep for the backward pass.
    """
    model, precision, threads = gradients.model, gradients.precision, gradients.threads
    count = -(-len(batch.src_lengths) // splits)
    one, two = (gradients.kept_bytes(first_rows(batch, rows)) for rows in (1, 2))
    kept = one + (two - one) * (count - 1)
    positions = count * padded_width(batch)
    weights = 4 * sum(parameter.numel() for parameter in model.parameters())
    logits = precision.itemsize * model.tgt_vocab_size * min(_LOGIT_ROWS, positions)
    need = _LIBRARY_BYTES.get(model.device.type, 0) + _PER_WEIGHT[precision] * weights
    need += (threads - 1) * _PER_WEIGHT_OF_ANOTHER_THREAD * weights
    need += threads * (_PER_LOGIT * logits + _PER_KEPT * kept)
    if precision == torch.bfloat16 and model.device.type == "cpu":
        need += _KERNEL_BYTES * positions / _KERNEL_ROWS
    return int(need)


def _large_batches(pairs: Pairs, settings: TrainSettings, limit: int, device: torch.device) -> list[Batch]:
    """The batch with the most positions and the batch with the longest pair, of the first epoch.

    If several corpora are mixed, the longest pair may come in a later epoch. Then the second batch is full of it.
    """
    epoch = epoch_batches(pairs, settings.batch_tokens, settings.seed, 0)
    longest = int(np.argmax(pairs.src_counts + pairs.tgt_counts))
    its_steps = np.searchsorted(epoch.ends, np.flatnonzero(epoch.order == longest)[:1], side="right")
    some = np.linspace(0, len(epoch) - 1, min(len(epoch), _STEPS_LOOKED_AT)).astype(int)
    pieces = []
    for indices in (epoch[step] for step in {*some.tolist(), *its_steps.tolist()}):
        cut = micro_batches(pairs.src_counts[indices], pairs.tgt_counts[indices], limit, padding_slack(device))
        pieces += [indices[rows] for rows in cut]

    def positions(piece: npt.NDArray[np.int32]) -> int:
        return len(piece) * int(pairs.src_counts[piece].max() + pairs.tgt_counts[piece].max())

    if not len(its_steps):
        longer_side = 1 + max(int(pairs.src_counts[longest]), int(pairs.tgt_counts[longest]))
        pieces.append(np.full(max(1, limit // longer_side), longest, np.int32))
    chosen = max(pieces, key=positions), next(piece for piece in pieces if longest in piece)
    return [load_batch(pairs, piece) for piece in chosen]


def padded_width(batch: Batch) -> int:
    """The positions of a row, on the longer side."""
    return max(batch.src_ids.size(1), batch.tgt_ids.size(1) - 1)


def padding_slack(device: torch.device) -> int:
    """Padding that is cheaper to compute than another micro-batch: little on a CPU, more where launches cost."""
    return {"cpu": PADDING_SLACK, "cuda": 16384}.get(device.type, 1024)


def is_out_of_memory(error: BaseException) -> bool:
    """True if an error of any library reports that memory ran out."""
    words = ("can't allocate memory", "not enough memory", "bad_alloc", "Cannot allocate memory", "out of memory")
    says_so = isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    return says_so or isinstance(error, MemoryError | torch.OutOfMemoryError)


@contextlib.contextmanager
def memory_errors(doing: str, remedy: str) -> Iterator[None]:
    """Turn a failed allocation into a ResourceError that names the activity and the remedy."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise ResourceError(f"Memory ran out while {doing}. {remedy}") from error


def give_back_memory(device: torch.device) -> None:
    """Return the memory that torch caches for later tensors to the device."""
    if give_back := _GIVE_BACK.get(device.type):
        give_back()


def free_bytes(device: torch.device) -> int | None:
    """The free memory of the device in bytes, or None if it is unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type != "cpu":
        return None
    limits = _available(), _control_group(), _address_space()
    return min((limit for limit in limits if limit is not None), default=None)


def _available() -> int | None:
    """The available memory according to Linux (MemAvailable)."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").split("\n")
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None


def _control_group(root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> int | None:
    """The least memory that the limits of the container and the groups around it leave, or None without limits."""
    try:
        lines = membership.read_text(encoding="utf-8").split("\n")
        own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    except OSError:
        own = ""
    left = [_left_in(folder) for folder in (root / own, *(root / own).parents) if folder.is_relative_to(root)]
    return min((each for each in left if each is not None), default=None)


def _left_in(group: Path) -> int | None:
    """The memory that a group's limit leaves. Cached file pages count as used, but the kernel frees them on demand."""
    try:
        limit, used = (int((group / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
        known = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        return limit - used + sum(int(known.get(name, 0)) for name in _GIVEN_UP)
    except (OSError, ValueError):
        return None


def _address_space() -> int | None:
    """The memory that `ulimit -v` leaves, or None without such a limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return None
    return soft - pages * os.sysconf("SC_PAGE_SIZE")

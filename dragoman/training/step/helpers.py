"""Helpers: processes that compute shares of a training step beside this one.

A helper has a replica of the model, as a thread of `gradients` has. It reads the weights from memory that it shares
with this process, and writes its gradients there. The gradients are those that a thread would compute, bit for bit.

A request and its answer are one pickled object each, in the pipes between the two processes. Unpickling them is safe,
because both ends run this module.
"""

import math
import mmap
import os
import pickle
import select
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

import torch
from torch import Tensor

from dragoman.data.batch import Batch
from dragoman.devices.without_torch import compute_on_one_thread, keep_freed_memory
from dragoman.signals import WorkerProcess
from dragoman.training.step.replica import Replica, build_replica

_PROGRAM = f"from {__name__} import answer_requests; answer_requests()"
_ALIGNMENT = 64

TensorLayout = list[tuple[str, torch.dtype, tuple[int, ...]]]
"""The names, types and shapes of tensors, in the order in which they lie in memory."""


class SharedTensors:
    """Tensors by name in memory that several processes map, from the file descriptor `fd` of an anonymous file."""

    def __init__(self, layout: TensorLayout, fd: int | None = None) -> None:
        sizes = [dtype.itemsize * math.prod(shape) for _, dtype, shape in layout]
        ends = [-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes]
        self.fd = os.memfd_create("dragoman") if fd is None else fd
        if fd is None:
            os.ftruncate(self.fd, sum(ends))
        memory, self.tensors, start = mmap.mmap(self.fd, sum(ends)), dict[str, Tensor](), 0
        for (name, dtype, shape), end in zip(layout, ends, strict=True):
            count = math.prod(shape)
            self.tensors[name] = torch.frombuffer(memory, dtype=dtype, count=count, offset=start).view(shape)
            start += end


class Helpers:
    """Processes with a replica like `replica`, whose weights are copies of `weights`.

    `refresh` updates the weights. A process that has not started yet, has failed or is gone answers None.
    """

    def __init__(self, replica: Replica, weights: Mapping[str, Tensor], count: int) -> None:
        layout = [(name, each.dtype, tuple(each.shape)) for name, each in weights.items()]
        self._weights = SharedTensors(layout)
        self._helpers = [_Helper(replica, layout, self._weights.fd) for _ in range(count)]
        os.close(self._weights.fd)  # the memory stays mapped

    @staticmethod
    def are_supported() -> bool:
        """Whether this system has anonymous files that processes can share (Linux)."""
        return hasattr(os, "memfd_create")

    def refresh(self, weights: Mapping[str, Tensor]) -> None:
        """Copy the weights into the memory of the helpers. None may be computing."""
        for name, shared in self._weights.tensors.items():
            shared.copy_(weights[name])

    def add(
        self, number: int, share: Sequence[Batch], seed: Sequence[int], num_tokens: int, splits: int
    ) -> tuple[dict[str, Tensor], Tensor] | None:
        """The gradients of a share and its sums of loss and nll, as `Replica.add` computes them, or None.

        The gradients are valid until the next call with this number.
        """
        return self._helpers[number].add(share, seed, num_tokens, splits)

    def count_ready(self) -> int:
        """The number of processes that have started and are not gone."""
        return sum(helper.is_ready() for helper in self._helpers)

    def end(self) -> None:
        """End the processes."""
        for helper in self._helpers:
            helper.end()


class _Helper(WorkerProcess):
    """One process. It ends when its input is closed, so also when this process is killed."""

    def __init__(self, replica: Replica, layout: TensorLayout, weights_fd: int) -> None:
        self._gradients = SharedTensors([(name, torch.float32, shape) for name, _, shape in layout])
        fds, model = (weights_fd, self._gradients.fd), replica.model
        super().__init__(_PROGRAM, *map(str, fds), fds=fds, OMP_NUM_THREADS="1")
        self._has_answered = False
        os.close(self._gradients.fd)
        shape = model.settings, model.src_vocab_size, model.tgt_vocab_size
        self._ask((layout, shape, replica.precision, replica.settings))

    def add(
        self, share: Sequence[Batch], seed: Sequence[int], num_tokens: int, splits: int
    ) -> tuple[dict[str, Tensor], Tensor] | None:
        if not self.is_ready():
            return None
        self._ask(([[each.numpy() for each in _tensors(batch)] for batch in share], list(seed), num_tokens, splits))
        answer = self._answer()
        if answer is None:
            return None
        names, total = answer
        return {name: self._gradients.tensors[name] for name in names}, torch.tensor(total, dtype=torch.float64)

    def is_ready(self) -> bool:
        """Whether the process has built its replica, as its first answer tells, and is not known to be gone."""
        if self.process is None:
            return False
        assert self.process.stdout is not None
        if not self._has_answered and select.select([self.process.stdout], [], [], 0)[0]:
            self._has_answered = self._answer() is not None
        return self._has_answered and self.process is not None

    def _ask(self, request: object) -> None:
        if self.process is not None:
            try:
                _write(self.process.stdin, request)
            except OSError:
                self.end()

    def _answer(self) -> Any:
        """The next answer, or None if the process is gone or has failed."""
        if self.process is None:
            return None
        try:
            return pickle.load(self.process.stdout)  # type: ignore[arg-type]
        except (OSError, EOFError, pickle.UnpicklingError):
            self.end()
            return None


def _tensors(batch: Batch) -> tuple[Tensor, ...]:
    return batch.src_ids, batch.src_lengths, batch.tgt_ids, batch.tgt_lengths


def _write(stream: IO[bytes] | None, content: object) -> None:
    assert stream is not None
    pickle.dump(content, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


def answer_requests() -> None:
    """The main loop of a helper: compute the gradients of one share after the other until the input ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    compute_on_one_thread()
    keep_freed_memory()
    layout, shape, precision, settings = pickle.load(requests)
    weights, gradients = (int(fd) for fd in sys.argv[1:])
    shared = SharedTensors([(name, torch.float32, sizes) for name, _, sizes in layout], gradients).tensors
    replica = build_replica(shape, SharedTensors(layout, weights).tensors, precision, settings)
    _write(answers, "ready")
    with suppress(EOFError, BrokenPipeError):
        while True:
            batches, seed, num_tokens, splits = pickle.load(requests)
            share = [Batch(*map(torch.from_numpy, arrays)) for arrays in batches]
            try:
                total = replica.add(share, seed, num_tokens, splits).tolist()
            except (MemoryError, RuntimeError):  # the parent computes this share, and reports what is wrong
                return
            taken = replica.take()
            for name, gradient in taken.items():
                shared[name].copy_(gradient)
            _write(answers, (list(taken), total))

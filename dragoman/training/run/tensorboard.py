"""The curves for TensorBoard: an events file, written with TensorBoard's own library.

Every point is written at once, so a full disk is an error of the call that wrote it. torch's SummaryWriter writes in
another thread, which ends with a traceback. Its error appears in some later call, and again on closing.
"""

import os
import socket
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path


class Board:
    """An events file in `folder`. If writing fails, the call that wrote raises OSError."""

    def __init__(self, folder: Path) -> None:
        """Raise OSError, also if the library is installed but cannot be loaded."""
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.record_writer import RecordWriter
        except Exception as error:  # an installation with incompatible parts may raise anything
            first = str(error).partition("\n")[0]
            raise OSError(0, f"TensorBoard is installed, but cannot be loaded ({first})") from error

        self._event, self._summary = Event, Summary
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._stream = (folder / name).open("wb", buffering=0)
        self._writer = RecordWriter(self._stream)
        self._writer.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())

    @staticmethod
    def is_installed() -> bool:
        """True if TensorBoard is installed."""
        return find_spec("tensorboard") is not None

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Add a point to each of the named curves."""
        summary = self._summary(value=[self._summary.Value(tag=name, simple_value=values[name]) for name in values])
        self._writer.write(self._event(wall_time=time.time(), step=step, summary=summary).SerializeToString())

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

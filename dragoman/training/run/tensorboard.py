"""The curves for TensorBoard: an events file, in the format of its own library.

It is written at once, so that a full disk is an error of the call that wrote. torch's SummaryWriter has a thread of its
own write, which then ends with a traceback; its error comes with some later call, and again on closing.
"""

import os
import socket
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path


class Board:
    """An events file in `folder`. What goes wrong with it is an OSError of the call that wrote."""

    def __init__(self, folder: Path) -> None:
        """Raise OSError, also if the library is installed but cannot be loaded."""
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.record_writer import RecordWriter
        except Exception as error:  # whatever an installation whose parts do not fit together says
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
        """A point on each of the named curves."""
        summary = self._summary(value=[self._summary.Value(tag=name, simple_value=values[name]) for name in values])
        self._writer.write(self._event(wall_time=time.time(), step=step, summary=summary).SerializeToString())

    def close(self) -> None:
        """Closes the file."""
        self._stream.close()

"""A lock on the folder of a run, so that two commands never train in it at once."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from dragoman.errors import CheckpointError

LOCK = ".lock"


@contextlib.contextmanager
def lock_run(run: Path) -> Iterator[None]:
    """Hold RUN/.lock, and create the folder if it is missing. The system releases the lock however the process ends.

    Raises CheckpointError if another process holds the lock. A disk that does not support locks is not locked.
    """
    run.mkdir(parents=True, exist_ok=True)
    path = run / LOCK
    with contextlib.ExitStack() as stack:
        while True:
            stack.close()
            stream = stack.enter_context(path.open("a+", encoding="ascii"))
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                stream.seek(0)
                number = stream.read().strip()
                raise CheckpointError(
                    f"{run} is being trained by another process{number and f' (id {number})'}. Wait until it ends, "
                    "or choose another --out."
                ) from None
            except OSError:
                break
            # The previous holder may have removed the file since it was opened. No other process would see this lock.
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_ino == os.fstat(stream.fileno()).st_ino:
                    break
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

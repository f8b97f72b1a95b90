"""One training at a time in a run's folder."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from dragoman.errors import CheckpointError

LOCK = ".lock"


@contextlib.contextmanager
def lock_run(run: Path) -> Iterator[None]:
    """Holds RUN/.lock, making the folder where it is missing; the system lets go of it however the process ends.

    Raises CheckpointError where another process holds it. On a disk without locks everybody gets in.
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
            # The previous holder may have removed the file since it was opened: no other process could see this lock.
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

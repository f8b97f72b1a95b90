"""Notes to the user on standard error."""

import os
import sys


def say(message: str) -> None:
    """Print a note to standard error. With several processes of one run (`torchrun`), only the first prints."""
    if os.environ.get("RANK", "0") != "0" and "WORLD_SIZE" in os.environ:
        return
    # On a terminal, the note replaces a progress line, which is drawn again below it.
    start = "\r\033[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{start}dragoman: {message}\n")

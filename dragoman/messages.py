"""Notes to the user on standard error."""

import os
import sys


def say(message: str) -> None:
    """Print a note to standard error. With several processes of one run (`torchrun`), only the first prints."""
    if os.environ.get("RANK", "0") != "0" and "WORLD_SIZE" in os.environ:
        return
    sys.stderr.write(f"dragoman: {message}\n")

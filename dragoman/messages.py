"""Notes to the user on standard error."""

import os
import re
import sys

# The control characters of C0 and C1, except tab and line feed. A terminal obeys them: they could change other lines.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def has_controls(text: str) -> bool:
    """Whether a text has characters that a terminal obeys."""
    return _CONTROLS.search(text) is not None


def escape_controls(text: str) -> str:
    """The text with the characters that a terminal obeys written as in Python."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def say(message: str) -> None:
    """Print a note to standard error. With several processes of one run (`torchrun`), only the first prints."""
    if os.environ.get("RANK", "0") != "0" and "WORLD_SIZE" in os.environ:
        return
    # On a terminal, the note replaces a progress line, which is drawn again below it.
    start = "\r\033[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{start}dragoman: {escape_controls(message)}\n")

"""``python -m dragoman`` and the ``dragoman`` command."""

import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command, `argv` without the program's name; returns its exit code."""
    try:
        from dragoman.interrupts import interrupts
    except KeyboardInterrupt:
        os._exit(130)
    try:
        interrupts.install()
        from dragoman.cli.main import run_command

        code = run_command(argv)
        if not interrupts.is_leaving:
            return code
        if interrupts.last_words:  # caught on the way, and not for good
            code = 130
    except BaseException:
        if not interrupts.is_leaving:
            raise
        code = 130
    # After an interrupt even the interpreter's own end is not safe from a second one.
    interrupts.say_last_words()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())

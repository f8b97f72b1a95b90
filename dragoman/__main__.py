"""``python -m dragoman`` and the ``dragoman`` command."""

import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code. `argv` is without the name of the program."""
    try:
        from dragoman.signals import interrupts
    except KeyboardInterrupt:
        os._exit(130)
    try:
        interrupts.install()
        from dragoman.cli.main import run_command

        code = run_command(argv)
        if not interrupts.is_leaving:
            return code
        if interrupts.last_words:  # the verb caught the interrupt and continued
            code = 130
    except BaseException:
        if not interrupts.is_leaving:
            raise
        code = 130
    # A second interrupt could hit the shutdown of the interpreter, so skip it.
    interrupts.say_last_words()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())

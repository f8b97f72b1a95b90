"""``python -m dragoman`` and the ``dragoman`` command."""

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command, `argv` without the program's name; returns its exit code."""
    try:
        from dragoman.cli.main import main as run  # here, so that Ctrl-C during the imports is no traceback

        return run(argv)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())

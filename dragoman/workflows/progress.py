"""Progress reports of a workflow to its caller.

Workflows print nothing. They call a `Progress`, which the command line shows on stderr and a Python caller can ignore.
"""

from typing import TextIO


class Progress:
    """Receiver of a workflow's reports. This class ignores them; override the methods that you need.

    `log` receives the lines of training, as a terminal shows them. None discards them.
    """

    log: TextIO | None = None

    def note(self, text: str) -> None:
        """Receive a sentence for the user, such as a warning or the path of a file."""

    def stage(self, name: str, pairs: int) -> None:
        """Receive the name of the current stage of preparation, and how many sentence pairs of it are done."""

    def result(self, part: object) -> None:
        """Receive a part of the result as soon as it is known. Each workflow documents the records it reports."""


QUIET = Progress()

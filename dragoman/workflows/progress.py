"""How a workflow tells its caller what it is doing."""

from typing import TextIO


class Progress:
    """Receives what a workflow reports while it works. This class ignores it; override what you need.

    `log` receives the lines of training, as a terminal shows them.
    """

    log: TextIO | None = None

    def note(self, text: str) -> None:
        """A sentence that the user should read, such as a warning or where a file is."""

    def stage(self, name: str, pairs: int) -> None:
        """Preparation is in the stage `name` and has passed `pairs` sentence pairs of it."""

    def result(self, part: object) -> None:
        """A part of the result, as soon as it is known. Each workflow names the records that it reports."""


QUIET = Progress()

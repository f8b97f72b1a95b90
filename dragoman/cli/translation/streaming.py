"""``dragoman translate --stream``: each translation is printed word by word, as the decoder writes it."""

import re
from collections.abc import Generator
from itertools import chain
from typing import BinaryIO, cast

from dragoman.cli.translation.notes import Notes
from dragoman.cli.translation.sources import InputLines
from dragoman.inference.options import Preserve
from dragoman.records import Translation
from dragoman.workflows.models import LoadedTranslator

LINE_BREAK = re.compile(r"\r\n|\n|\r")


def stream_lines(
    source: InputLines, output: BinaryIO, model: LoadedTranslator, notes: Notes, preserve: Preserve
) -> None:
    """Translate lines as they arrive, and write every word at once. Notes about single lines go to `notes`."""
    options = {**model.overrides, "protect": preserve.protect, "by_sentence": preserve.by_sentence}
    for number, text in enumerate(chain.from_iterable(source.windows(notes.invalid)), start=1):
        parts = model.translator.stream(text, terms=preserve.terms, **options)
        notes.line(number, _write_parts(parts, output))


def _write_parts(parts: Generator[str, None, Translation], output: BinaryIO) -> Translation:
    """Write the parts of a translation on one line, with spaces for line breaks, and return the translation."""
    while True:
        try:
            part = next(parts)
        except StopIteration as end:
            output.write(b"\n")
            output.flush()
            return cast(Translation, end.value)
        output.write(LINE_BREAK.sub(" ", part).encode())
        output.flush()

"""Measures translation by a toolkit's own command with untrained weights and outputs of equal length.

A model of a few updates is made once. To exclude loading, the time of a short input is subtracted from that of a long
input, unless the toolkit logs the time of its search. Sockeye cannot force a minimum length: `output_tokens` is the
length that it wrote.
"""

import argparse
import sys
from dataclasses import dataclass

from recording import read_lines

from side_by_side.processes import run
from side_by_side.timing import translation_arguments
from side_by_side.toolkits import add_arguments, print_toolkit_result, toolkit_of
from side_by_side.toolkits.toolkit import Search, Toolkit

SHORT_SENTENCES = 64
UPDATES = 4


def main() -> None:
    parser = translation_arguments(__doc__)
    add_arguments(parser)
    parser.add_argument("--prepare", action="store_true", help="only make the model, so that its memory is not counted")
    given = parser.parse_args()
    toolkit = toolkit_of(given, "translation")
    if given.prepare:
        make_model(toolkit, given.limit)
        return
    long = translated(toolkit, given, "long", given.sentences)
    sentences, seconds, tokens = given.sentences, long.own_seconds, long.tokens
    if seconds is None:
        short = translated(toolkit, given, "short", SHORT_SENTENCES)
        sentences, seconds, tokens = sentences - SHORT_SENTENCES, long.seconds - short.seconds, tokens - short.tokens
    if seconds <= 0:
        sys.exit(f"{given.toolkit} took no longer for {given.sentences} sentences than for {SHORT_SENTENCES}")
    result = {
        "speed": round(sentences / seconds, 2),
        "unit": "sentences/s",
        "sentences": sentences,
        "seconds": round(seconds, 2),
        "output_tokens": round(tokens / sentences, 2),
    }
    print_toolkit_result(toolkit, result, batch=given.batch)


def make_model(toolkit: Toolkit, limit: float) -> None:
    """Train a few updates and save, once."""
    done = toolkit.work / "model_is_made"
    if done.exists():
        return
    log = toolkit.work / "make_model.log"
    heard = run(toolkit.train_command(1, UPDATES), log, limit)
    if heard.code:
        sys.exit(f"making a model ended with code {heard.code}: see {log}")
    done.touch()


@dataclass(frozen=True, slots=True)
class Run:
    """One call of the toolkit: seconds in all, seconds of the search if the toolkit logs them, and output tokens."""

    seconds: float
    own_seconds: float | None
    tokens: int


def translated(toolkit: Toolkit, given: argparse.Namespace, name: str, sentences: int) -> Run:
    """Translate the first `sentences` sentences."""
    search = Search(
        toolkit.first_lines(name, sentences), toolkit.work / f"{name}.output", given.beam, given.batch, given.forced
    )
    log = toolkit.work / f"translate_{name}.log"
    heard = run(toolkit.translate_command(search), log, given.limit)
    if heard.code or not toolkit.written(search).exists():
        sys.exit(f"{given.toolkit} ended with code {heard.code}: see {log}")
    tokens = sum(len(line.split()) for line in read_lines(toolkit.written(search)))
    return Run(heard.seconds, toolkit.generation_seconds(heard.text), tokens)


if __name__ == "__main__":
    main()

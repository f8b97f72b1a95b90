"""Flags and standard input of all verbs that use a model."""

import argparse
import sys
from collections.abc import Sequence
from typing import BinaryIO, TextIO, cast

from dragoman.cli.arguments import ArgumentParser, overrides_of
from dragoman.errors import ConfigError
from dragoman.workflows.models import ModelRequest

_COMMON = ("inference.beam_size", "inference.batch_tokens", "inference.precision")


def add_model_flags(parser: ArgumentParser, without: Sequence[str] = ()) -> None:
    """``--device`` and the settings of [inference], except the keys in `without`."""
    parser.add_device()
    parser.add_settings("inference", common=_COMMON, without=without, defaults="from the model")


def model_request(paths: Sequence[str], options: argparse.Namespace) -> ModelRequest:
    """The models at the paths, with the device and the settings of the flags. Raises ConfigError if no model fits."""
    return ModelRequest(tuple(paths), overrides_of(options), options.device)


def standard_input() -> BinaryIO:
    """The binary stream of standard input. Raises ConfigError if it is closed."""
    if cast(TextIO | None, sys.stdin) is None:
        raise ConfigError("standard input is closed. Redirect a file to it, or name one with `--input`.")
    return sys.stdin.buffer

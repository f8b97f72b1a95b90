"""What every verb that uses a model has in common: its flags, and standard input."""

import argparse
import sys
from collections.abc import Sequence
from typing import BinaryIO, TextIO, cast

from dragoman.cli.arguments import ArgumentParser, overrides_of
from dragoman.config import read_given
from dragoman.errors import ConfigError
from dragoman.workflows.models import ModelRequest


def add_model_flags(parser: ArgumentParser, without: Sequence[str] = ()) -> None:
    """``--device`` and the settings of the search, but for the keys in `without`."""
    parser.add_device()
    parser.add_settings("inference", without=without, defaults_from="the model's own")


def check_search_flags(options: argparse.Namespace) -> None:
    """Raises ConfigError for flags whose values no model could have, before time goes into loading one."""
    read_given([], overrides_of(options))


def model_request(paths: Sequence[str], options: argparse.Namespace) -> ModelRequest:
    """The models at the paths, on the device and with the settings of the search that the flags give."""
    return ModelRequest(tuple(paths), overrides_of(options), options.device)


def standard_input() -> BinaryIO:
    """The binary stream of standard input. Raises ConfigError if it is closed."""
    if cast(TextIO | None, sys.stdin) is None:
        raise ConfigError("standard input is closed. Redirect a file to it, or name one with `--input`.")
    return sys.stdin.buffer

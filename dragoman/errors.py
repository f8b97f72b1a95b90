"""Errors that a user can cause and fix.

Each message is one line: what is wrong (with the file and line, or the setting and its value), then what to do next.
The command line prints the message without a traceback and exits with code 2. A notebook shows the message alone too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from dragoman.version import REPOSITORY

__all__ = ["DragomanError", "ConfigError", "DataError", "ModelError", "CheckpointError", "ResourceError"]
__all__ += ["MissingExtraError", "SettingsWarning"]


class DragomanError(Exception):
    """The base class of all errors with a message for the user."""

    def _render_traceback_(self) -> list[str]:
        """What IPython prints instead of a traceback, which has nothing that helps the user."""
        return [f"{type(self).__name__}: {self}"]


class ConfigError(DragomanError):
    """A setting, flag or configuration file is unknown, misspelled, out of range or contradicts another."""


class DataError(DragomanError):
    """A corpus or text file is missing, empty, misaligned, wrongly encoded or malformed."""


class ModelError(DragomanError):
    """A model folder is incomplete, damaged, or does not fit the request."""


class CheckpointError(ModelError):
    """A run or one of its checkpoints cannot be continued."""


class SettingsWarning(FutureWarning):
    """A file or a flag has the old name of a setting, or a value that is limited."""


class ResourceError(DragomanError):
    """Memory or disk space is too small. The message says what would fit."""


def install_advice(extra: str, quotes: tuple[str, str] = ("`", "`")) -> str:
    """The sentence that tells how to install an extra: from PyPI, or from a checkout until the package is there."""
    source, where = ("dragoman", "") if REPOSITORY else (".", " in the checkout of Dragoman")
    return f"Run {quotes[0]}pip install '{source}[{extra}]'{quotes[1]}{where}."


class MissingExtraError(DragomanError):
    """A feature needs a package that the extra `train` installs.

    Parameters
    ----------
    feature : str
        What needs the package.
    package : str
        Name of the package.
    """

    def __init__(self, feature: str, package: str = "torch") -> None:
        super().__init__(f"{feature} needs {package}. {install_advice('train')}")


def has_torch() -> bool:
    """Whether torch is installed, without importing it."""
    return find_spec("torch") is not None


def require_torch(feature: str) -> None:
    """Raise MissingExtraError if torch is not installed. `feature` is what needs it, such as a setting."""
    if not has_torch():
        raise MissingExtraError(feature)


@contextmanager
def needs_train_extra(feature: str) -> Iterator[None]:
    """Context or decorator that raises MissingExtraError where an import finds no torch or matplotlib."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("torch", "matplotlib"):
            raise
        raise MissingExtraError(feature, package) from None

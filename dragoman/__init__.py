"""Dragoman: train, serve and inspect your own translator.

Public names are imported on first use, so that ``import dragoman`` and ``dragoman --help`` stay fast.
"""

from typing import TYPE_CHECKING, Any

from dragoman.version import __version__

if TYPE_CHECKING:
    from dragoman.inference.translator import Translator

__all__ = ["Translator", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Translator":
        from dragoman.inference.translator import Translator

        return Translator
    raise AttributeError(f"module 'dragoman' has no attribute {name!r}")

"""TOML that nobody vouches for: its size and the length of its keys are checked before it is parsed."""

import re
import tomllib
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError

MOST_TOML_BYTES = 1 << 18
_MOST_KEY_PARTS = 16
# tomllib keeps every beginning of a dotted key: 20,000 parts take 2.4 GB. Parts in quotes are looked at for 256
# characters only, so that looking takes no longer than reading; of longer ones there cannot be enough to matter.
_PART = r"""(?:(?<![\w-])[\w-]++|"(?:[^"\\\n]|\\.){0,256}+"|'[^'\n]{0,256}+')"""
_LONG_KEY = re.compile(rf"{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{_MOST_KEY_PARTS}}}", re.ASCII)


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a file. Raises as `parsed_toml` does, and OSError where it cannot be read."""
    return parsed_toml(toml_bytes(path), str(path))


def toml_bytes(path: Path) -> bytes:
    """A file's bytes. Raises ConfigError where there are more than `MOST_TOML_BYTES`, OSError."""
    with path.open("rb") as stream:
        content = stream.read(MOST_TOML_BYTES + 1)
    check_size(len(content), str(path))
    return content


def check_size(size: int, origin: str) -> None:
    """Raises ConfigError for more bytes than settings take."""
    if size > MOST_TOML_BYTES:
        raise ConfigError(
            f"{origin} has more than {MOST_TOML_BYTES} bytes, the limit for settings. Check that it is the right file."
        )


def parsed_toml(content: bytes | str, origin: str) -> dict[str, Any]:
    """The tables of a text. Raises ConfigError, which names `origin`, for what is too large or nested too deeply, and
    ValueError for what is no TOML in UTF-8.
    """
    check_size(len(content), origin)
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    if _LONG_KEY.search(text):
        raise ConfigError(
            f"{origin} has a key of more than {_MOST_KEY_PARTS} parts. A setting is named by its table and its name."
        )
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{origin} is nested too deeply. A setting is a number, a text, true or false.") from None

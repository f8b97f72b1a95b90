"""Parse TOML from untrusted files. Checks the size and the length of keys first."""

import re
import tomllib
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError

MOST_TOML_BYTES = 1 << 18
_MOST_KEY_PARTS = 16
# tomllib stores every prefix of a dotted key, so a key of 20,000 parts takes 2.4 GB. The pattern matches at most 256
# characters of a quoted part, which keeps the search linear. Few longer parts fit into `MOST_TOML_BYTES`.
_PART = r"""(?:(?<![\w-])[\w-]++|"(?:[^"\\\n]|\\.){0,256}+"|'[^'\n]{0,256}+')"""
_LONG_KEY = re.compile(rf"{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{_MOST_KEY_PARTS}}}", re.ASCII)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file. Raises OSError, and the errors of `parse_toml`."""
    return parse_toml(toml_bytes(path), str(path))


def toml_bytes(path: Path) -> bytes:
    """The bytes of a file. Raises ConfigError for more than `MOST_TOML_BYTES`, and OSError."""
    with path.open("rb") as stream:
        content = stream.read(MOST_TOML_BYTES + 1)
    check_size(len(content), str(path))
    return content


def check_size(size: int, origin: str) -> None:
    """Raise ConfigError for more than `MOST_TOML_BYTES` bytes."""
    if size > MOST_TOML_BYTES:
        raise ConfigError(f"{origin} has more than {MOST_TOML_BYTES} bytes, the limit for settings. Check the path.")


def parse_toml(content: bytes | str, origin: str) -> dict[str, Any]:
    """The tables of a TOML text.

    Raises ConfigError, which names `origin`, for a text that is too large or too deeply nested, and ValueError for
    invalid TOML or UTF-8.
    """
    check_size(len(content), origin)
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    if _LONG_KEY.search(text):
        raise ConfigError(
            f"{origin} has a key of more than {_MOST_KEY_PARTS} parts. Write `[table]`, and `name = value` below it."
        )
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{origin} is nested too deeply. Use numbers, strings, true or false as values.") from None

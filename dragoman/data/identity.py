"""The identity of a run's data: digests of the files it was prepared from, stored beside the prepared data."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from dragoman.errors import DataError

IDENTITY = "corpus.json"


def read_identity(path: Path) -> dict[str, Any]:
    """Read the identity that data preparation wrote. Raises DataError if the file is damaged."""
    with suppress(ValueError, KeyError, TypeError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found["key"], str) and {"test", "files"} <= set(found) and isinstance(found["files"], dict):
            return dict(found)
    raise DataError(
        f"{path} is damaged: it does not list the files that this run started with. If these files have not changed, "
        "delete it and repeat the command."
    )

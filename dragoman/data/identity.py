"""What a run's data were prepared from: the digests of its files, in a file of the folder of its stores."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from dragoman.errors import DataError

IDENTITY = "corpus.json"


def read_identity(path: Path) -> dict[str, Any]:
    """What preparing the data wrote there. Raises DataError where the file holds anything else."""
    with suppress(ValueError, KeyError, TypeError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found["key"], str) and {"test", "files"} <= set(found) and isinstance(found["files"], dict):
            return dict(found)
    raise DataError(
        f"{path} is damaged: it does not say which files this run started with. If they have not changed since, "
        "delete it, and go on."
    )

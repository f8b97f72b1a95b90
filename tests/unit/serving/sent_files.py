"""What the tests of files over HTTP share."""

import time
from typing import Any

EN = {"source": "en", "target": "de"}


def wait_for_end(client: Any, number: str) -> dict[str, Any]:
    """What the server says about a file as soon as it is done or has failed."""
    until = time.monotonic() + 60
    while (said := client.get(f"/v1/files/{number}").json())["status"] == "translating":
        assert time.monotonic() < until
        time.sleep(0.02)
    return dict(said)

"""Opens pages from files, and notes what they request and say."""

from pathlib import Path
from typing import Any


def open_file(context: Any, path: Path) -> tuple[Any, list[str]]:
    """The page of a file, and its further requests, messages and errors so far."""
    page, events = context.new_page(), list[str]()
    page.on("request", lambda request: events.append(request.url))
    page.on("console", lambda message: events.append(message.text))
    page.on("pageerror", lambda error: events.append(str(error)))
    page.goto(path.as_uri())
    assert events.pop(0) == path.as_uri()
    return page, events

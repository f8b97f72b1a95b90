"""The access log: one JSON line per request, without texts, keys or query strings.

`Middleware` writes an entry when a request ends, also if it was refused or its client disconnected. Paths are logged as
the label of their route in the metrics, because a path can hold the id of a file or a text.
"""

import errno
import json
import logging
import select
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import Any, TextIO

from starlette.types import Scope

from dragoman.errors import ConfigError
from dragoman.serving.limits import LOG

REQUEST_ID = "dragoman.request_id"
"""The key of a scope with the id of the request."""
# Most characters of a user agent.
_LONGEST_AGENT = 200
# Seconds between two warnings that the log cannot be written.
_WARNING_SECONDS = 60.0


class AccessLog:
    """Writes entries to a file, or to standard output for ``-``. A file that was renamed is opened again.

    A log that cannot be written, such as on a full disk or to a pipe that nobody reads, is reported once a minute and
    changes no answer. The entry is lost.
    """

    def __init__(self, place: str) -> None:
        """Open the log. Raises ConfigError if that is not possible."""
        try:
            self._handler = logging.StreamHandler(sys.stdout) if place == "-" else WatchedFileHandler(place)
        except OSError as error:
            raise ConfigError(f"`--access-log` cannot write {place}: {error.strerror}. Choose another file.") from None
        self._handler.handleError = self._warn  # type: ignore[method-assign]
        self._next_warning = 0.0

    def write(self, scope: Scope, facts: dict[str, Any]) -> None:
        """Write an entry with these facts, after what the scope of the request has."""
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "id": scope[REQUEST_ID],
            "client": (scope.get("client") or ("unix",))[0],
            "key": scope.get("dragoman.key") or None,
            "method": scope["method"],
            **facts,
            "agent": dict(scope["headers"]).get(b"user-agent", b"").decode("latin-1")[:_LONGEST_AGENT],
        }
        record = logging.makeLogRecord({"msg": json.dumps(entry)})
        try:
            if not _can_write(self._handler.stream):
                raise BlockingIOError(errno.EAGAIN, "its reader is too slow")
            self._handler.emit(record)
        except OSError:  # also if the file was renamed, and a new one cannot be made
            self._warn(record)

    def _warn(self, record: logging.LogRecord) -> None:
        if time.monotonic() >= self._next_warning and _can_write(sys.stderr):
            self._next_warning = time.monotonic() + _WARNING_SECONDS
            LOG.warning("the access log cannot be written: %s", sys.exception())


def _can_write(stream: TextIO | None) -> bool:
    """Whether a line can be written without waiting for the reader of a pipe. An entry has less than 4 KiB."""
    with suppress(AttributeError, OSError, TypeError):  # Windows has no poll, and some streams are not files
        poll = select.poll()
        poll.register(stream, select.POLLOUT)  # type: ignore[arg-type]
        return bool(poll.poll(0))
    return True

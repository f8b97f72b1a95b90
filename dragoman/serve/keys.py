"""Who may use the service, and how often: API keys from a file, and so many requests a minute."""

import hashlib
import math
import re
import time
from collections import OrderedDict
from pathlib import Path
from urllib.parse import unquote

from starlette.requests import HTTPConnection
from starlette.types import Scope

from dragoman.errors import DataError
from dragoman.serve.bodies import Fields
from dragoman.serve.refusals import Refused

_MAX_CLIENTS = 10_000
_COOKIE = "dragoman-key"
"""The page's links cannot have a header, and a key in an address stays in histories and logs."""
_AUTHORIZATION = re.compile(r"(?:Bearer|DeepL-Auth-Key)\s+(\S+)\s*$", re.IGNORECASE)


class Keys:
    """The keys of a file, one a line (``#`` begins a remark), kept as hashes; without a file everybody may."""

    def __init__(self, path: Path | None, requests_per_minute: int) -> None:
        """Raises DataError where the file cannot be read or has no keys."""
        self._known: set[bytes] | None = None
        self._rate = requests_per_minute
        self._left: OrderedDict[bytes, tuple[float, float]] = OrderedDict()
        if path is None:
            return
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise DataError(f"{path} cannot be read: {reason}. Name a file of keys as `--api-keys`.") from None
        self._known = {_hash(key) for line in lines if (key := line.partition("#")[0].strip())}
        if not self._known:
            raise DataError(f"{path} has no API keys. Write one a line, or leave out `--api-keys`.")

    @property
    def are_needed(self) -> bool:
        """Whether a request must have a key."""
        return self._known is not None

    def check(self, scope: Scope, fields: Fields) -> None:
        """Raises Refused without a key (400, as LibreTranslate), with a wrong one (403), or too often (429)."""
        key = _key_in(scope, fields)
        who = _hash(key) if key and self._known is not None else _hash((scope.get("client") or ("",))[0])
        if self._known is not None and not key and scope["path"].startswith("/v2/"):
            raise Refused(403, "Authorization failure, check auth_key")
        if self._known is not None and not key:
            raise Refused(400, "Please contact the server operator to get an API key")
        if self._known is not None and who not in self._known:
            raise Refused(403, "Invalid API key")
        if self._rate:
            self._count(who)

    def _count(self, who: bytes) -> None:
        """A bucket of a minute's requests, filled again as time goes; the clients longest away are forgotten."""
        now, per_second = time.monotonic(), self._rate / 60
        left, seen = self._left.pop(who, (float(self._rate), now))
        left = min(float(self._rate), left + (now - seen) * per_second)
        self._left[who] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _MAX_CLIENTS:
            self._left.popitem(last=False)
        if left < 1:
            raise Refused(429, f"Slowdown: {self._rate} per 1 minute", math.ceil((1 - left) / per_second))


def _key_in(scope: Scope, fields: Fields) -> str:
    """Empty where there is none. The cookie is the page's, and only asks to be shown something: nothing else has it."""
    sent = HTTPConnection(scope)
    if found := _AUTHORIZATION.match(sent.headers.get("authorization", "")):
        return found[1]
    return fields.text("api_key") or (unquote(sent.cookies.get(_COOKIE, "")) if scope["method"] == "GET" else "")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

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
from dragoman.text.lines import read_lines

_MAX_CLIENTS = 10_000
_COOKIE = "dragoman-key"
"""How the names of cookies with a key begin; the port follows.

The page's links cannot have a header, and a key in an address stays in histories and logs. Browsers keep one set of
cookies for all ports of a host, where another server may have its own.
"""
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
        self._known = {_hash(key) for line in read_lines(path) if (key := line.partition("#")[0].strip())}
        if not self._known:
            raise DataError(f"{path} has no API keys. Write one a line, or leave out `--api-keys`.")

    @property
    def are_needed(self) -> bool:
        """Whether a request must have a key."""
        return self._known is not None

    def check(self, scope: Scope, fields: Fields) -> None:
        """Raises Refused without a key (400, as LibreTranslate), with a wrong one (403), or too often (429)."""
        key = self._key_in(scope, fields)
        who = _hash(key) if key and self._known is not None else _hash((scope.get("client") or ("",))[0])
        if self._known is not None and not key and scope["path"].startswith("/v2/"):
            raise Refused(403, "Authorization failure, check auth_key")
        if self._known is not None and not key:
            raise Refused(400, "Please contact the server operator to get an API key")
        if self._known is not None and not self._is_known(key):
            raise Refused(403, "Invalid API key")
        if self._rate:
            self._count(who)

    def _key_in(self, scope: Scope, fields: Fields) -> str:
        """Empty where there is none.

        The cookie is the page's, and only asks to be shown something: nothing else has it. Of several the known one is
        taken; which port the browser went to is not known behind a proxy.
        """
        sent = HTTPConnection(scope)
        if found := _AUTHORIZATION.match(sent.headers.get("authorization", "")):
            return found[1]
        if (key := fields.text("api_key")) or scope["method"] != "GET":
            return key
        keys = [unquote(value) for name, value in sent.cookies.items() if name.startswith(_COOKIE)]
        return next((key for key in keys if self._is_known(key)), "".join(keys[:1]))

    def _is_known(self, key: str) -> bool:
        return self._known is not None and _hash(key) in self._known

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


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

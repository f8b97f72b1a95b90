"""Who may use the service, and how often: API keys from a file, and so many requests a minute."""

import contextlib
import hashlib
import ipaddress
import re
import time
from collections import OrderedDict
from pathlib import Path
from urllib.parse import unquote

from starlette.requests import HTTPConnection
from starlette.types import Scope

from dragoman.errors import DataError
from dragoman.serving.http.bodies import Fields
from dragoman.serving.http.refusals import Refused
from dragoman.text.lines import read_lines

_MAX_CLIENTS = 10_000
_GUESSES_PER_MINUTE = 30
"""Of one address: keys that are wrong, and those that have not been right there before."""
_MAX_COOKIES = 8
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
        self._requests = _Buckets(requests_per_minute)
        self._guesses = _Buckets(_GUESSES_PER_MINUTE)
        self._seen: OrderedDict[tuple[bytes, bytes], None] = OrderedDict()
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
        if self._known is not None:
            self._check_key(scope, self._key_in(scope, fields))
        if (seconds := self._requests.take(self.client(scope, fields))) is not None:
            raise Refused(429, f"Slowdown: {self._requests.per_minute} per 1 minute", seconds)

    def client(self, scope: Scope, fields: Fields) -> bytes:
        """Who asks: the key where keys are needed, or else the address."""
        return _hash(self._key_in(scope, fields)) if self._known is not None else _address(scope)

    def _check_key(self, scope: Scope, key: str) -> None:
        """From an address that sends many wrong keys only those are taken that were right there before: of another,
        nobody is told whether it is right.
        """
        if not key and scope["path"].startswith("/v2/"):
            raise Refused(403, "Authorization failure, check auth_key")
        if not key:
            raise Refused(400, "Please contact the server operator to get an API key")
        who = (_address(scope), _hash(key))
        if who in self._seen:
            self._seen.move_to_end(who)
            return
        if (seconds := self._guesses.take(who[0])) is not None:
            raise Refused(429, f"Slowdown: {_GUESSES_PER_MINUTE} wrong API keys per 1 minute", seconds)
        if not self._is_known(key):
            raise Refused(403, "Invalid API key")
        self._guesses.give_back(who[0])
        self._seen[who] = None
        if len(self._seen) > _MAX_CLIENTS:
            self._seen.popitem(last=False)

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
        keys = keys[:_MAX_COOKIES]  # each of them is a guess
        return next((key for key in keys if self._is_known(key)), "".join(keys[:1]))

    def _is_known(self, key: str) -> bool:
        return self._known is not None and _hash(key) in self._known


class _Buckets:
    """For each client a bucket of a minute's tries, filled again as time goes; the longest away are forgotten.

    With 0 a minute there are any number.
    """

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._left: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def take(self, who: bytes) -> float | None:
        """Takes one; where there is none, takes nothing and says in how many seconds there will be."""
        if not self.per_minute:
            return None
        now, per_second = time.monotonic(), self.per_minute / 60
        left, seen = self._left.pop(who, (float(self.per_minute), now))
        left = min(float(self.per_minute), left + (now - seen) * per_second)
        self._left[who] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _MAX_CLIENTS:
            self._left.popitem(last=False)
        return None if left >= 1 else (1 - left) / per_second

    def give_back(self, who: bytes) -> None:
        """What was taken just now."""
        left, seen = self._left[who]
        self._left[who] = (left + 1, seen)


def _address(scope: Scope) -> bytes:
    """Of IPv6 its first half: the rest is the client's own to choose."""
    host = (scope.get("client") or ("",))[0]
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        if address.version == 6 and address.ipv4_mapped is None:
            host = str(ipaddress.ip_network((address, 64), strict=False))
    return _hash(host)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

"""API keys from a file, and the rate limit per client.

`cli/serve.py` makes one `Keys` from `--api-keys` and `--requests-per-minute`. `Endpoint` calls `check_header` and
`check` for each request of a route that needs a key, and `files.py` counts the files of a client by `Keys.client`. Only
hashes of keys and addresses are kept, and only in memory. Each key is one client, or each address if the server has no
keys.
"""

import contextlib
import hashlib
import ipaddress
import re
import time
from collections import OrderedDict
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import Scope

from dragoman.errors import DataError
from dragoman.serving.http.bodies import Fields
from dragoman.serving.http.decoding import unquote
from dragoman.serving.limits import Refused
from dragoman.text.lines import read_lines

# Clients remembered for limits, so that an attacker with many addresses cannot fill the memory.
_MAX_CLIENTS = 10_000
# Attempts per address with a wrong key, or with a right key that nobody has used since the start.
_GUESSES_PER_MINUTE = 30
# Cookies tried per request.
_MAX_COOKIES = 8
# Cookies with a key. Their names end with the port. The page's links cannot send a header, and a key in
# a URL would stay in histories and logs. Browsers share cookies between all ports of a host, so another server on the
# same host may have its own.
_COOKIE = re.compile(rb"(?:^|;) *dragoman-key[\w-]*=([^;]*)")
_AUTHORIZATION = re.compile(r"(?:Bearer|DeepL-Auth-Key)\s+(\S+)\s*$", re.IGNORECASE)


class Keys:
    """The API keys of a file, stored as hashes. Without a file, no key is needed.

    The file has one key per line, and the text after ``#`` is the name of the key. A key without a name is called
    ``key-N`` by its line. `are_needed` tells whether a request must have a key.
    """

    def __init__(self, path: Path | None, requests_per_minute: int) -> None:
        """Read the keys. Raises DataError if the file cannot be read or has no keys."""
        self._path, self.are_needed = path, path is not None
        self._names = _read_names(path)
        self._requests = _Buckets(requests_per_minute)
        self._guesses = _Buckets(_GUESSES_PER_MINUTE)
        self._seen: set[bytes] = set()

    def reload(self) -> None:
        """Read the file again. Raises DataError, and keeps the keys, if it cannot be read or has no keys.

        Keys that were accepted before and are still in the file stay accepted from any address.
        """
        self._names = _read_names(self._path)
        self._seen &= self._names.keys()

    def check_header(self, scope: Scope) -> None:
        """Raise Refused, as `check` does, for a wrong key in a header. A key in a field needs the body."""
        if self.are_needed and (key := _header_key(scope)):
            self._check_key(scope, key)

    def check(self, scope: Scope, fields: Fields) -> str:
        """The name of the request's key, or "" if no key is needed.

        Raises Refused without a key (400, as LibreTranslate), with a wrong key (403) or over the rate (429).
        """
        name = self._check_key(scope, self._key_in(scope, fields)) if self.are_needed else ""
        if (seconds := self._requests.take(self.client(scope, fields))) is not None:
            raise Refused(429, f"Slowdown: {self._requests.per_minute} per 1 minute", seconds)
        return name

    def client(self, scope: Scope, fields: Fields) -> bytes:
        """The identity of a client: a hash of its key if keys are needed, or else of its address."""
        return _hash(self._key_in(scope, fields)) if self.are_needed else address_of(scope)

    def _check_key(self, scope: Scope, key: str) -> str:
        """The name of a right key. Raises Refused for a missing or wrong key.

        A key that was accepted before is accepted from any address: clients behind a proxy may share theirs. For any
        other key from an address with too many wrong keys, the answer does not reveal whether the key is right.
        """
        if not key and scope["path"].startswith("/v2/"):
            raise Refused(403, "Authorization failure, check auth_key")
        if not key:
            raise Refused(400, "Please contact the server operator to get an API key")
        hashed = _hash(key)
        if hashed not in self._seen:
            who = address_of(scope)
            if (seconds := self._guesses.take(who)) is not None:
                raise Refused(429, f"Slowdown: {_GUESSES_PER_MINUTE} wrong API keys per 1 minute", seconds)
            if hashed not in self._names:
                raise Refused(403, "Invalid API key")
            self._guesses.give_back(who)
            self._seen.add(hashed)
        return self._names[hashed]

    def _key_in(self, scope: Scope, fields: Fields) -> str:
        """The key of a request: from its header, a field or, for GET only, its cookie. Empty if none.

        Old clients of DeepL send the field `auth_key`. Only the page sets the cookie. Behind a proxy the browser's port
        is unknown, so of several cookies the one with a known key counts.
        """
        key = _header_key(scope) or fields.text("api_key") or fields.text("auth_key")
        if key or scope["method"] != "GET":
            return key
        cookies = _COOKIE.findall(Headers(scope=scope).get("cookie", "").encode("latin-1"))
        keys = [unquote(value) for value in cookies[:_MAX_COOKIES]]  # each cookie is a guess
        return next((key for key in keys if _hash(key) in self._names), "".join(keys[:1]))


class _Buckets:
    """A token bucket per client, with the tokens of one minute. The least recent clients are forgotten.

    0 per minute means no limit.
    """

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._left: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def take(self, who: bytes) -> float | None:
        """Take a token and return None, or return the seconds until the next token if there is none."""
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
        """Return the token taken last."""
        left, seen = self._left[who]
        self._left[who] = (left + 1, seen)


def _read_names(path: Path | None) -> dict[bytes, str]:
    """The name of each key by its hash. Raises DataError if the file cannot be read or has no keys."""
    lines = read_lines(path) if path is not None else ()
    parts = [[part.strip() for part in line.partition("#")] for line in lines]
    names = {_hash(key): name or f"key-{number}" for number, (key, _, name) in enumerate(parts, start=1) if key}
    if path is not None and not names:
        raise DataError(f"{path} has no API keys. Write one per line, or leave out `--api-keys`.")
    return names


def _header_key(scope: Scope) -> str:
    """The key in the header `Authorization`. Empty if none."""
    found = _AUTHORIZATION.match(Headers(scope=scope).get("authorization", ""))
    return found[1] if found else ""


def address_of(scope: Scope) -> bytes:
    """A hash of the client's address. For IPv6 only its first 64 bits, because clients can choose the rest."""
    host = (scope.get("client") or ("",))[0]
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        if address.version == 6 and address.ipv4_mapped is None:
            host = str(ipaddress.ip_network((address, 64), strict=False))
    return _hash(host)


def _hash(text: str) -> bytes:
    """SHA-256. Comparing hashes takes no longer for a key that is nearly right."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

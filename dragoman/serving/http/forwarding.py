"""How clients reach the server through a proxy: their addresses, the server's public URL, and the prefix of its paths.

`cli/serve.py` makes a `Deployment` of the flags. `Middleware` changes the scope of a request with it before any other
code reads the scope. Paths have no prefix after that.

Headers of a proxy count only if the peer is trusted. The last value of each header counts, because the proxy appended
it, and a client may have forged the values before. ``Forwarded`` (RFC 7239) counts only without ``X-Forwarded-*``.

uvicorn's ProxyHeadersMiddleware is not enough: it reads only X-Forwarded-For and -Proto, takes a wrong network for a
host name, passes on addresses that are none, and never trusts a unix socket.
"""

import ipaddress
import random
import re
from collections import defaultdict
from dataclasses import dataclass, field

from starlette.types import Scope

from dragoman.errors import ConfigError
from dragoman.serving.http.access_log import REQUEST_ID, AccessLog

BASE_URL = "dragoman.base_url"
"""The key of a scope with the server's address in the form that clients use."""
_X_HEADERS = {b"x-forwarded-" + name.encode(): name for name in ("for", "proto", "host", "prefix")}
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
_PREFIX = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")
_URL = re.compile(rf"((?i:https?)://{_HOST.pattern})({_PREFIX.pattern})/?")
_SANE_ID = re.compile(r"[A-Za-z0-9._:=+/-]{1,128}")
# Values read per header: an attacker's long list before the proxy's own value costs no time.
_MOST_HOPS = 50


class TrustedProxies:
    """The proxies whose headers count: addresses, networks, and ``unix`` for the peers of a unix socket."""

    def __init__(self, text: str = "") -> None:
        """Read a list separated by commas. Raises ConfigError for an unreadable address or network."""
        names = [name for one in text.split(",") if (name := one.strip())]
        self._unix = "unix" in names
        try:
            self._networks = [ipaddress.ip_network(name) for name in names if name != "unix"]
        except ValueError as error:
            example = "127.0.0.1, 10.0.0.0/8 or unix, separated by commas"
            raise ConfigError(f"`--trusted-proxies` must be addresses such as {example}, but {error}.") from None

    def trusts(self, peer: str) -> bool:
        """Whether a peer is trusted, by its address. A peer on a unix socket has none (an empty string)."""
        address = _read_address(peer) if self._networks else None
        return any(address in network for network in self._networks) if address else self._unix and not peer


@dataclass(frozen=True, slots=True)
class Deployment:
    """What the operator set about the way to the server.

    Attributes
    ----------
    prefix
        The start of public paths, such as ``/mt``. Paths without it are answered too.
    public_url
        The server's address for clients. If empty, it follows from each request.
    proxies
        The trusted proxies.
    origins
        The web origins whose pages may read answers (CORS). None: every origin.
    access_log
        The log of requests, if any.
    """

    prefix: str = ""
    public_url: str = ""
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    origins: frozenset[str] | None = None
    access_log: AccessLog | None = None

    @classmethod
    def from_flags(
        cls, url_prefix: str, public_url: str, trusted_proxies: str, cors: str, access_log: str
    ) -> "Deployment":
        """Read the flags of ``dragoman serve``. Raises ConfigError for the first value that cannot be used."""
        prefix = f"/{url_prefix.strip('/')}".rstrip("/")
        if not _PREFIX.fullmatch(prefix):
            raise ConfigError(f"`--url-prefix` must be a path such as /mt, but is {url_prefix}.")
        origins = None if cors == "*" else frozenset(map(_read_origin, cors.split(",") if cors != "none" else ()))
        proxies = TrustedProxies(trusted_proxies)
        log = AccessLog(access_log) if access_log else None
        return cls(prefix, _read_public_url(public_url, prefix), proxies, origins, log)

    def describe(self, scope: Scope) -> Scope:
        """The parts of a scope that would differ if the client had connected without a proxy.

        They are the client's address, the scheme, the path without prefix, the server's public address, and the
        request's id.
        """
        headers = dict(scope["headers"])
        peer, port = scope.get("client") or ("", 0)
        peer = peer.removeprefix("::ffff:")  # an IPv4 client of a socket for both versions
        is_trusted = self.proxies.trusts(peer)
        values = _read_forwarded(scope) if is_trusted else {}
        last = {name: texts[-1] for name, texts in values.items() if texts}
        client = self._client(peer, values.get("for", []))
        scheme = proto if (proto := last.get("proto", "").lower()) in ("http", "https") else scope["scheme"]
        prefix = last.get("prefix", "").rstrip("/")
        prefix = prefix if prefix and _PREFIX.fullmatch(prefix) else self.prefix
        hosts = (last.get("host", ""), headers.get(b"host", b"").decode("latin-1"), _server_name(scope))
        host = next(filter(_HOST.fullmatch, hosts), "localhost")
        sent_id = headers.get(b"x-request-id", b"").decode("latin-1") if is_trusted else ""
        path = str(scope["path"])
        return {
            "client": (client, port if client == peer else 0) if client else None,
            "scheme": scheme,
            "path": path.removeprefix(self.prefix) if path.startswith(f"{self.prefix}/") else path,
            BASE_URL: self.public_url or f"{scheme}://{host}{prefix}",
            REQUEST_ID: sent_id if _SANE_ID.fullmatch(sent_id) else f"{random.getrandbits(128):032x}",
        }

    def _client(self, peer: str, hops: list[str]) -> str:
        """The address of the client: the last one that is not a trusted proxy's, or the farthest that is readable."""
        for hop in reversed(hops):
            if (address := _read_address(hop)) is None:
                break
            peer = str(address)
            if not self.proxies.trusts(peer):
                break
        return peer


DIRECT = Deployment()
"""Clients connect without a proxy."""


def _read_public_url(text: str, prefix: str) -> str:
    """The public URL without a slash at its end. The prefix is added if the URL has no path."""
    url = _URL.fullmatch(text)
    if text and not url:
        raise ConfigError(f"`--public-url` must be a URL such as https://example.org/mt, but is {text}.")
    return url[1] + (url[2] or prefix) if url else ""


def _read_origin(text: str) -> str:
    """An origin as browsers send it."""
    url = _URL.fullmatch(text.strip().lower())
    if not url or url[2]:
        example = "*, none, or origins such as https://example.org, separated by commas"
        raise ConfigError(f"`--cors` must be {example}, but has {text.strip() or 'an empty name'}.")
    return url[1].removesuffix(":443" if url[1].startswith("https:") else ":80")


def _read_forwarded(scope: Scope) -> dict[str, list[str]]:
    """The values of a proxy's headers by name: for, proto, host and prefix. The last was added last."""
    found: dict[str, list[str]] = defaultdict(list)
    for header, value in scope["headers"]:
        if name := _X_HEADERS.get(header):
            found[name] += _split(value)
    for header, value in () if found else scope["headers"]:
        if header == b"forwarded":
            for name, _, text in (pair.partition("=") for one in _split(value) for pair in one.split(";")):
                found[name.strip().lower()].append(text.strip().strip('"'))
            found.pop("prefix", None)
    return found


def _split(value: bytes) -> list[str]:
    """The last values of a list, from the right: a forged quote must not hide what the proxy appended."""
    return [text for one in value.decode("latin-1").rsplit(",", _MOST_HOPS)[-_MOST_HOPS:] if (text := one.strip())]


def _read_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address with or without port, with brackets around IPv6. None if it is none."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _server_name(scope: Scope) -> str:
    """The address that the server listens on, for requests without a valid Host."""
    name, port = scope.get("server") or ("", None)
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"

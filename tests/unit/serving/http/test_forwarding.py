"""Requests through a proxy: who the client is, and the server's address in answers."""

import ipaddress
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from dragoman.errors import ConfigError
from dragoman.serving.app import make_app
from dragoman.serving.http.forwarding import Deployment, TrustedProxies
from dragoman.serving.http.keys import Keys
from dragoman.serving.service import Service

PROXY, STRANGER = "10.0.0.7", "203.0.113.9"
FLAGS = {"url_prefix": "", "public_url": "", "trusted_proxies": "10.0.0.0/8, ::1,unix", "cors": "*"}
Headers = list[tuple[str, str]]


class Seen(NamedTuple):
    """What the server found out about a request: the client's address, and its own."""

    client: str
    base_url: str


class Server:
    """An application behind a proxy; each request comes over a new connection from `peer`."""

    def __init__(self, service: Service, folder: Path, keys: Keys, **flags: str) -> None:
        self.log = folder / "access.log"
        self.app = make_app(service, keys, True, Deployment.from_flags(**(FLAGS | flags), access_log=str(self.log)))

    def client(self, peer: str = PROXY) -> TestClient:
        return TestClient(self.app, client=(peer, 4711), follow_redirects=False)

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def ask(self, headers: Headers, peer: str = PROXY, path: str = "/openapi.json") -> Seen:
        answer = self.client(peer).get(path, headers=headers)
        assert answer.status_code == 200
        return Seen(self.entries()[-1]["client"], answer.json()["servers"][0]["url"])


@pytest.fixture(scope="module")
def serve(make_service: Callable[..., Service], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Server]:
    def make(keys: Path | None = None, **flags: str) -> Server:
        return Server(make_service(), tmp_path_factory.mktemp("log"), Keys(keys, 0), **flags)

    return make


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server]) -> Server:
    return serve()


@pytest.mark.parametrize(
    ("headers", "client"),
    [
        ([], PROXY),
        ([("X-Forwarded-For", "198.51.100.4")], "198.51.100.4"),
        ([("X-Forwarded-For", "6.6.6.6, 198.51.100.4")], "198.51.100.4"),
        ([("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-For", "198.51.100.4,10.1.1.1")], "198.51.100.4"),
        ([("X-Forwarded-For", "198.51.100.4:8080")], "198.51.100.4"),
        ([("X-Forwarded-For", "2001:db8::1")], "2001:db8::1"),
        ([("X-Forwarded-For", "[2001:DB8::1]")], "2001:db8::1"),
        ([("X-Forwarded-For", "[2001:db8::1]:443, ::1")], "2001:db8::1"),
        ([("X-Forwarded-For", "::ffff:198.51.100.4")], "198.51.100.4"),
        ([("X-Forwarded-For", "10.2.2.2, 10.1.1.1")], "10.2.2.2"),
        ([("X-Forwarded-For", "6.6.6.6, unknown")], PROXY),
        ([("X-Forwarded-For", "6.6.6.6, <script>, 10.1.1.1")], "10.1.1.1"),
        ([("X-Forwarded-For", ", ,")], PROXY),
        ([("X-Forwarded-For", "999.1.1.1")], PROXY),
        ([("X-Forwarded-For", "6.6.6.6," * 6000 + "198.51.100.4")], "198.51.100.4"),
        ([("Forwarded", "for=6.6.6.6, for=198.51.100.4;proto=https")], "198.51.100.4"),
        ([("Forwarded", 'For="[2001:db8::1]:4711"; by=10.0.0.1')], "2001:db8::1"),
        ([("Forwarded", 'for="6.6.6.6, for=198.51.100.4')], "198.51.100.4"),
        ([("Forwarded", "for=_hidden")], PROXY),
        ([("Forwarded", "for=6.6.6.6"), ("X-Forwarded-For", "198.51.100.4")], "198.51.100.4"),
        ([("Forwarded", "for=6.6.6.6"), ("X-Forwarded-Proto", "https")], PROXY),
    ],
)
def test_the_client_is_the_last_address_that_is_no_proxy(server: Server, headers: Headers, client: str) -> None:
    assert server.ask(headers).client == client
    assert server.ask(headers, peer=STRANGER).client == STRANGER
    assert server.ask(headers, peer=f"::ffff:{PROXY}").client == client
    assert server.ask(headers, peer=f"::ffff:{STRANGER}").client == STRANGER


@pytest.mark.parametrize(
    ("headers", "url"),
    [
        ([], "http://testserver"),
        ([("Host", "example.org:8080")], "http://example.org:8080"),
        ([("Host", "[::1]:80")], "http://[::1]:80"),
        ([("Host", 'a"><script>')], "http://testserver:80"),
        ([("Host", "user@example.org")], "http://testserver:80"),
        ([("Host", "")], "http://testserver:80"),
        ([("X-Forwarded-Proto", "https")], "https://testserver"),
        ([("X-Forwarded-Proto", "http, HTTPS")], "https://testserver"),
        ([("X-Forwarded-Proto", "javascript")], "http://testserver"),
        ([("X-Forwarded-Host", "example.org")], "http://example.org"),
        ([("X-Forwarded-Host", "evil.example, example.org")], "http://example.org"),
        ([("X-Forwarded-Host", "example.org/evil?")], "http://testserver"),
        ([("X-Forwarded-Prefix", "/mt/")], "http://testserver/mt"),
        ([("X-Forwarded-Prefix", "//evil.example")], "http://testserver"),
        ([("X-Forwarded-Prefix", "/../x")], "http://testserver"),
        ([("Forwarded", 'for=1.2.3.4;proto=https;host="example.org:444"')], "https://example.org:444"),
        ([("Forwarded", "prefix=/evil")], "http://testserver"),
    ],
)
def test_addresses_in_answers_are_those_that_the_client_used(server: Server, headers: Headers, url: str) -> None:
    assert server.ask(headers).base_url == url
    trusting_host = [header for header in headers if header[0] == "Host"]
    assert server.ask(headers, peer=STRANGER).base_url == server.ask(trusting_host).base_url


def test_the_public_url_has_precedence(serve: Callable[..., Server]) -> None:
    server = serve(public_url="https://example.org/mt/")
    forged = [("Host", "evil.example"), ("X-Forwarded-Host", "evil.example"), ("X-Forwarded-Prefix", "/evil")]
    for peer in (PROXY, STRANGER):
        assert server.ask(forged, peer).base_url == "https://example.org/mt"
    page = server.client().get("/docs", headers=forged).text
    assert "https://example.org/mt/v1/translate</pre>" in page
    assert "evil" not in page


def test_a_file_has_its_public_address(serve: Callable[..., Server]) -> None:
    server = serve(url_prefix="mt", public_url="https://example.org")
    with server.client() as client:
        form = {"source": "en", "target": "de"}
        for prefix in ("/mt", ""):
            answer = client.post("/mt/translate_file", data=form, files={"file": ("a.txt", b"Hello")})
            url = answer.json()["translatedFileUrl"]
            assert url.startswith("https://example.org/mt/download_file/")
            assert client.get(prefix + url.removeprefix("https://example.org/mt")).text == "Hello [de]"
    routes = [entry["route"] for entry in server.entries()]
    assert routes == ["/translate_file", "/download_file"] * 2, "without the file's secret name"


@pytest.mark.parametrize("prefix", ["mt", "/mt", "/mt/", "/docs", "/translate", "/a/b.c"])
def test_paths_with_and_without_the_prefix_are_answered(serve: Callable[..., Server], prefix: str) -> None:
    server = serve(url_prefix=prefix)
    client, path = server.client(), f"/{prefix.strip('/')}"
    for one in ("", "v1/models", "docs", "page.js", "v2/languages?type=target"):
        answers = [client.get(f"{start}/{one}") for start in ("", path)]
        assert [answer.status_code for answer in answers] == [200, 200], one
        assert answers[0].text == answers[1].text
    assert client.get(f"{path}{path}/livez").status_code == client.get(f"{path}x/livez").status_code == 404
    assert client.get(f"{path}/v2/nothing").json().keys() == {"message", "detail"}, "as DeepL's clients expect"
    assert server.ask([]).base_url == f"http://testserver{path}"
    assert (
        server.ask([("X-Forwarded-Prefix", path)], path=f"{path}/openapi.json").base_url == f"http://testserver{path}"
    )
    if path != "/docs":
        assert client.get(path).headers["location"] == f"{path.rpartition('/')[2]}/"


def test_without_a_prefix_no_path_is_shortened(server: Server) -> None:
    assert server.client().get("/mt/livez").status_code == 404


HEADER = st.sampled_from(
    ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Prefix", "Forwarded", "X-Request-ID"]
)
WORDS = st.sampled_from(
    ["6.6.6.6", "[::1]", "for=", "host=evil.example", "proto=https", "https", "/evil", ",", ";", '"', "10.1.1.1", ":80"]
)
VALUE = st.lists(WORDS | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=5), max_size=8).map(
    "".join
)


@given(headers=st.lists(st.tuples(HEADER, VALUE), max_size=5), peer=st.sampled_from([PROXY, STRANGER]))
def test_whatever_the_headers_are(server: Server, headers: Headers, peer: str) -> None:
    seen = server.ask(headers, peer)
    if peer == STRANGER:
        assert seen == (STRANGER, "http://testserver")
        sent = [value for name, value in headers if name == "X-Request-ID"]
        assert server.entries()[-1]["id"] not in sent
    else:
        ipaddress.ip_address(seen.client)
        assert re.fullmatch(r"https?://[\w.:\[\]-]+(/[\w.~-]+)*", seen.base_url)


@pytest.mark.parametrize(
    ("sent", "taken"), [("9f8e.7-d:1", True), ("", False), ("two words", False), ("x" * 129, False), ("é", False)]
)
def test_request_ids_of_trusted_proxies_are_kept(server: Server, sent: str, taken: bool) -> None:
    for peer in (PROXY, STRANGER):
        answer = server.client(peer).get("/livez", headers={"X-Request-ID": sent.encode("latin-1")})
        used = answer.headers["x-request-id"]
        assert (used == sent) == (taken and peer == PROXY)
        assert re.fullmatch(r"[\w.:-]+", used)
        assert server.entries()[-1]["id"] == used


def test_clients_behind_a_proxy_are_told_apart(serve: Callable[..., Server], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("secret\n")
    server = serve(tmp_path / "keys")

    def guess(address: str, key: str) -> int:
        headers = {"X-Forwarded-For": address, "Authorization": f"Bearer {key}"}
        return server.client().get("/v2/usage", headers=headers).status_code

    assert [guess("198.51.100.4", str(number)) for number in range(31)] == [403] * 30 + [429]
    assert guess("198.51.100.5", "secret") == 200


def test_peers_of_a_unix_socket_have_no_address() -> None:
    assert TrustedProxies("unix").trusts("")
    assert not TrustedProxies("unix").trusts("127.0.0.1")
    assert not TrustedProxies("127.0.0.0/8").trusts("")
    assert TrustedProxies("127.0.0.0/8").trusts("::ffff:127.0.0.5")
    assert not TrustedProxies("").trusts("127.0.0.1")


def test_a_prefix_must_not_hide_paths_of_the_server(serve: Callable[..., Server]) -> None:
    for prefix in ("/v1", "/v2", "/download_file"):
        with pytest.raises(ConfigError, match=f"`--url-prefix` must not be {prefix}, "):
            serve(url_prefix=prefix)

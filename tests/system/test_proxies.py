"""`dragoman serve` behind nginx and Caddy, with the configurations of the page "Put a proxy in front of the server"."""

import contextlib
import getpass
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "behind-a-proxy.md"
ONE, OTHER = "127.0.0.2", "127.0.0.3"
"""Addresses of two clients. The proxy connects from 127.0.0.1."""
FORGED = {
    "X-Forwarded-For": "6.6.6.6",
    "X-Forwarded-Proto": "ftp",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Prefix": "/evil",
    "Forwarded": "for=6.6.6.6;host=evil.example;proto=ftp",
    "X-Request-ID": "forged",
}
TEXT = {"q": "one two", "source": "en", "target": "de"}


def free_port() -> int:
    """A port below those that systems give to clients, which another process could take before it is used."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("", port))
            return port
    raise AssertionError("no port is free")


@contextlib.contextmanager
def serve(*arguments: object) -> Iterator[str]:
    """Run `dragoman serve` and yield what it says when it is ready."""
    command = [sys.executable, "-m", "dragoman", "serve", *map(str, arguments)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


@dataclass
class Site:
    """An address that clients use, directly or through a proxy."""

    port: int
    log: Path
    context: ssl.SSLContext | None = None
    prefix: str = "/mt"
    upstream_port: int = 0
    said: str = ""

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, client: str = ONE
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request from a client's address. Returns status, headers and body."""
        connection = self.connect(client)
        try:
            if isinstance(body, dict):
                body, headers = json.dumps(body), {"Content-Type": "application/json", **(headers or {})}
            connection.connect()
            with contextlib.suppress(OSError):  # an early answer ends the connection before everything is sent
                connection.request(method, self.prefix + path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def connect(self, client: str = ONE) -> http.client.HTTPConnection:
        if self.context is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20, source_address=(client, 0))
        return http.client.HTTPSConnection(
            "localhost", self.port, timeout=20, source_address=(client, 0), context=self.context
        )

    def upload(self, content: bytes, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        """POST /translate_file."""
        fields = "".join(
            f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{TEXT[name]}\r\n'
            for name in ("source", "target")
        )
        file = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        body = (fields + file).encode() + content + b"\r\n--x--\r\n"
        return self.ask(
            "POST", "/translate_file", body, {"Content-Type": "multipart/form-data; boundary=x", **(headers or {})}
        )

    def entry(self, request_id: str) -> dict[str, Any]:
        """The line of a request in the access log, which is written just after the answer."""
        until = time.monotonic() + 5
        while time.monotonic() < until:
            for line in self.log.read_text().splitlines():
                if (found := json.loads(line))["id"] == request_id:
                    assert isinstance(found, dict)
                    return found
            time.sleep(0.02)
        raise AssertionError(f"{request_id} is not in the log")


@pytest.fixture(scope="module")
def direct(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server that trusts a proxy at another address than the clients of these tests."""
    site = Site(free_port(), tmp_path_factory.mktemp("direct") / "access.log")
    public = [
        "--url-prefix",
        "/mt",
        "--public-url",
        "https://example.org/mt",
        "--trusted-proxies",
        f"10.0.0.0/8,{OTHER}",
    ]
    more = ["--access-log", site.log, "--cors", "https://a.example"]
    with serve(f"en-de={model_folder}", "--port", site.port, *public, *more) as site.said:
        yield site


def test_the_server_says_where_it_listens_and_its_public_address(direct: Site) -> None:
    assert f"http://127.0.0.1:{direct.port} translates en-de; see https://example.org/mt/docs" in direct.said


def test_files_have_the_public_url_whatever_host_the_client_names(direct: Site) -> None:
    assert "translates en-de" in direct.said
    for headers in ({}, {"Host": "evil.example"}, FORGED):
        status, _, body = direct.upload(b"one", headers)
        assert status == 200
        assert json.loads(body)["translatedFileUrl"].startswith("https://example.org/mt/download_file/")


def test_only_a_trusted_proxy_says_who_the_client_is(direct: Site) -> None:
    assert "translates en-de" in direct.said
    for client, expected in ((ONE, ONE), (OTHER, "6.6.6.6")):
        _, headers, _ = direct.ask("POST", "/translate?api_key=secret", TEXT, FORGED, client)
        entry = direct.entry(headers["x-request-id"])
        assert (entry["client"], entry["route"], entry["status"]) == (expected, "/translate", 200)
        assert (entry["id"] == "forged") == (client == OTHER)
    assert not re.search("one two|secret", direct.log.read_text())


def test_only_pages_of_the_given_origin_may_read_answers(direct: Site) -> None:
    assert "translates en-de" in direct.said
    for origin, allowed in (("https://a.example", "https://a.example"), ("https://b.example", None)):
        _, headers, _ = direct.ask("GET", "/languages", headers={"Origin": origin})
        assert headers.get("access-control-allow-origin") == allowed
        assert headers["vary"] == "Origin"


@pytest.fixture(scope="module")
def plain(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server without a proxy and without an access log, but with keys."""
    keys = tmp_path_factory.mktemp("plain") / "keys"
    keys.write_text("secret  # weblate\n")
    site = Site(free_port(), keys, prefix="")
    with serve(f"en-de={model_folder}", "--port", site.port, "--api-keys", keys) as site.said:
        yield site


def test_a_host_that_is_none_is_not_written_into_addresses(plain: Site) -> None:
    assert "translates en-de" in plain.said
    for host in ("evil.example/path?", 'x"><script>', "user@evil.example"):
        status, _, body = plain.ask("GET", "/openapi.json", headers={"Host": host})
        assert (status, json.loads(body).get("servers")) == (200, [{"url": f"http://127.0.0.1:{plain.port}"}])


def test_use_per_key_and_the_process_are_in_the_metrics(plain: Site) -> None:
    for key in ("secret", "wrong"):
        status, headers, _ = plain.ask("POST", "/translate", TEXT, {"Authorization": f"Bearer {key}"})
        assert status == (200 if key == "secret" else 403)
        assert re.fullmatch("[0-9a-f]{32}", headers.get("x-request-id", ""))
    metrics = plain.ask("GET", "/metrics")[2].decode()
    assert 'dragoman_key_requests_total{key="weblate"} 1.0' in metrics
    assert f'dragoman_key_characters_total{{key="weblate"}} {len(TEXT["q"])}.0' in metrics
    assert "\nprocess_resident_memory_bytes " in metrics


# What follows runs nginx and Caddy.


def configuration(language: str) -> str:
    """The configuration on the page."""
    (found,) = re.findall(
        rf"^```{language}\n(# /etc/.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return str(found)


def replaced(text: str, changes: dict[str, str]) -> str:
    """The text with changes, each of which must apply."""
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for localhost, and key.pem beside it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(["openssl", "req", "-x509", *kind, *name, *files], check=True, capture_output=True)
    return folder / "cert.pem"


def start_nginx(folder: Path, port: int, upstream: str, certificate: Path, strips: bool) -> "subprocess.Popen[bytes]":
    changes = {
        "127.0.0.1:5000": upstream,
        "443": str(port),
        "server_name example.org": "server_name localhost",
        "/etc/ssl/certs/example.org.pem": str(certificate),
        "/etc/ssl/private/example.org.key": str(certificate.with_name("key.pem")),
    }
    if strips:
        changes["proxy_pass http://dragoman;"] = "proxy_pass http://dragoman/;"
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    page = replaced(configuration("nginx"), changes)
    main = f"pid {folder}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{page}}}\n"
    (folder / "nginx.conf").write_text(main)
    command = [
        "nginx",
        "-e",
        folder / "error.log",
        "-p",
        folder,
        "-c",
        folder / "nginx.conf",
        "-g",
        f"daemon off; user {getpass.getuser()};",
    ]
    return subprocess.Popen(command)


def start_caddy(folder: Path, port: int, upstream: str, certificate: Path, strips: bool) -> "subprocess.Popen[bytes]":
    tls = f"tls {certificate} {certificate.with_name('key.pem')}"
    changes = {
        "127.0.0.1:5000": upstream.replace("unix:", "unix/"),
        "example.org {": f"https://localhost:{port} {{\n    {tls}",
    }
    if strips:
        changes["handle /mt/*"] = "handle_path /mt/*"
    options = "{\n    admin off\n    auto_https disable_redirects\n}\n"
    (folder / "Caddyfile").write_text(options + replaced(configuration("text"), changes))
    home = {"XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}
    command = ["caddy", "run", "--config", folder / "Caddyfile", "--adapter", "caddyfile"]
    return subprocess.Popen(command, env=os.environ | home, stderr=(folder / "error.log").open("wb"))


STARTERS = {"nginx": start_nginx, "caddy": start_caddy}


@contextlib.contextmanager
def open_site(proxy: str, folder: Path, model: Path, certificate: Path, *more: str) -> Iterator[Site]:
    """A site with TLS that shows the server below /mt/. The server has a public URL, keys and more flags."""
    name, _, variant = proxy.partition(" ")
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    site = Site(free_port(), folder / "access.log", ssl.create_default_context(cafile=certificate))
    if variant == "unix":
        upstream, trusted, listens = f"unix:{folder}/socket", "unix", ["--unix-socket", f"{folder}/socket"]
    else:
        site.upstream_port = free_port()
        upstream, trusted = f"127.0.0.1:{site.upstream_port}", "127.0.0.1"
        listens = ["--port", str(site.upstream_port)]
    (folder / "keys").write_text("secret  # weblate\n")
    public = ["--url-prefix", "/mt", "--public-url", f"https://localhost:{site.port}/mt", "--trusted-proxies", trusted]
    logs = ["--access-log", site.log, "--api-keys", folder / "keys"]
    with serve(f"en-de={model}", *listens, *public, *logs, *more) as said:
        assert "translates en-de" in said
        process = STARTERS[name](folder, site.port, upstream, certificate, variant == "strips")
        try:
            wait_for(site, process)
            yield site
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="module", params=["nginx", "nginx strips", "caddy", "caddy strips", "nginx unix", "caddy unix"])
def site(
    request: pytest.FixtureRequest, model_folder: Path, certificate: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A site behind each proxy that passes on the prefix or removes it, over TCP or a unix socket."""
    with open_site(request.param, tmp_path_factory.mktemp("site"), model_folder, certificate) as opened:
        yield opened


def wait_for(site: Site, proxy: "subprocess.Popen[bytes]") -> None:
    """Wait until the site answers."""
    until = time.monotonic() + 20
    while time.monotonic() < until and proxy.poll() is None:
        with contextlib.suppress(OSError):
            if site.ask("GET", "/livez")[0] == 200:
                return
        time.sleep(0.05)
    raise AssertionError((site.log.parent / "error.log").read_text())


KEY = {"Authorization": "Bearer secret"}


@pytest.mark.slow
def test_pages_and_apis_below_the_prefix(site: Site) -> None:
    for path in ("/", "/docs", "/page.js", "/v1/models", "/look?text=one&source=en&target=de", "/v2/usage"):
        status, _, body = site.ask("GET", path, headers=KEY)
        assert (status, bool(body)) == (200, True), path
    assert f"https://localhost:{site.port}/mt/v1/translate</pre>" in site.ask("GET", "/docs")[2].decode()
    assert site.ask("POST", "/translate", TEXT, KEY)[0] == 200
    assert site.ask("GET", "/metrics")[0] == 404, "closed at the proxy"
    status, headers, _ = site.ask("GET", "")
    assert status in (301, 302, 308)
    assert headers["location"].endswith("/mt/") or headers["location"] == "mt/"


@pytest.mark.slow
def test_a_file_can_be_downloaded_at_its_address(site: Site) -> None:
    status, _, body = site.upload(b"one two", KEY | FORGED)
    url = json.loads(body)["translatedFileUrl"]
    start = f"https://localhost:{site.port}/mt"
    assert (status, url.startswith(f"{start}/download_file/")) == (200, True)
    assert site.ask("GET", url.removeprefix(start))[0] == 200


@pytest.mark.slow
def test_forged_headers_of_a_client_change_nothing(site: Site) -> None:
    for client in (ONE, OTHER):
        _, headers, body = site.ask("GET", "/openapi.json", headers=FORGED, client=client)
        assert json.loads(body)["servers"] == [{"url": f"https://localhost:{site.port}/mt"}]
        assert headers["x-request-id"] != "forged"
        assert site.entry(headers["x-request-id"])["client"] == client


@pytest.mark.slow
def test_clients_are_counted_apart(site: Site) -> None:
    wrong = [site.ask("GET", "/v2/usage", headers={"Authorization": f"Bearer {number}"})[0] for number in range(31)]
    assert set(wrong[:30]) == {403}
    assert wrong[30] == 429
    assert site.ask("GET", "/v2/usage", headers={"Authorization": "Bearer x"}, client=OTHER)[0] == 403
    assert site.ask("GET", "/v2/usage", headers=KEY, client=OTHER)[0] == 200


@pytest.mark.slow
def test_refusals_pass_through(site: Site) -> None:
    status, _, body = site.ask("POST", "/translate", {"q": "x" * (2 << 20)}, KEY)
    assert (status, list(json.loads(body))) == (413, ["error"]), "the server's answer"
    large = site.connect()
    large.putrequest("POST", "/mt/translate_file")
    headers = KEY | {"Content-Length": str(20 << 20), "Content-Type": "multipart/form-data; boundary=x"}
    for name, value in headers.items():
        large.putheader(name, value)
    large.endheaders()
    with contextlib.suppress(OSError):
        for _ in range(20):
            large.send(b"x" * 50_000)
            time.sleep(0.02)
    status = large.getresponse().status
    large.close()
    assert status == 413, "before everything is sent"
    assert site.ask("GET", "/livez", headers={"Connection": "Upgrade", "Upgrade": "websocket"})[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize("proxy", STARTERS)
def test_the_server_refuses_before_the_proxy_gives_up(
    proxy: str, model_folder: Path, certificate: Path, tmp_path: Path
) -> None:
    with open_site(proxy, tmp_path, model_folder, certificate, "--deadline-seconds", "0.2") as site:
        long = {"q": ["one two three " * 300] * 100}
        status, headers, body = site.ask("POST", "/translate", TEXT | long, KEY)
    assert status in (413, 503), "more than the server can do before its deadline"
    assert (headers["content-type"], list(json.loads(body))) == ("application/json", ["error"])
    (seconds,) = re.findall(r"proxy_read_timeout (\d+)s;", PAGE.read_text(encoding="utf-8"))
    assert int(seconds) > 60, "a file may take longer than nginx's own limit"


@pytest.mark.slow
def test_connections_to_the_server_are_used_again(site: Site) -> None:
    table = Path("/proc/net/tcp")
    if not (site.upstream_port and table.exists()):
        pytest.skip("counts TCP connections in /proc/net/tcp")
    for _ in range(20):
        assert site.ask("GET", "/livez")[0] == 200
    remote = [line.split()[2].partition(":")[2] for line in table.read_text().splitlines()[1:]]
    assert remote.count(f"{site.upstream_port:04X}") < 10, "open and recently closed connections"

"""Keys: their names, a changed file, and clients that share an address with an attacker."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from dragoman.errors import DataError
from dragoman.serving.app import make_app
from dragoman.serving.http.bodies import Fields
from dragoman.serving.http.keys import Keys
from dragoman.serving.service import Service

SENT = {"q": "a", "source": "en", "target": "de"}


def status(client: TestClient, key: str) -> int:
    """The status of a translation with this key in its header."""
    return client.post("/translate", json=SENT, headers={"Authorization": f"Bearer {key}"}).status_code


def test_an_accepted_key_is_never_refused(make_service: Callable[..., Service], tmp_path: Path) -> None:
    """Wrong keys of another client, from the same or a new address, do not lock it out."""
    (tmp_path / "keys").write_text("secret\nunused\n")
    app = make_app(make_service(), Keys(tmp_path / "keys", 0))
    with TestClient(app, client=("192.0.2.1", 1)) as home, TestClient(app, client=("192.0.2.2", 1)) as proxy:
        assert status(home, "secret") == 200
        assert [status(proxy, f"guess-{number}") for number in range(30)] == [403] * 30
        assert status(proxy, "secret") == 200, "this address did not use the key before"
        wrong, right = (
            proxy.post("/translate", json=SENT, headers={"Authorization": f"Bearer {key}"})
            for key in ("guess", "unused")
        )
        assert (wrong.status_code, wrong.content) == (right.status_code, right.content) == (429, wrong.content)
        assert wrong.headers["retry-after"] == right.headers["retry-after"], "nothing reveals the right key"
        assert (status(home, "unused"), status(proxy, "unused")) == (200, 200)


def test_a_wrong_key_in_a_header_is_refused_before_the_body_is_read(
    make_service: Callable[..., Service], tmp_path: Path
) -> None:
    (tmp_path / "keys").write_text("secret\n")
    read = []

    def body() -> Iterator[bytes]:
        for piece in (b'{"q":"a",', b'"source":"en","target":"de"}'):
            read.append(piece)
            yield piece

    headers = {"Authorization": "Bearer wrong", "Content-Type": "application/json"}
    with TestClient(make_app(make_service(), Keys(tmp_path / "keys", 0))) as client:
        malformed = client.post("/translate", content=b"{", headers=headers | {"Content-Length": "1"})
        assert (malformed.status_code, malformed.json()) == (403, {"error": "Invalid API key"})
        assert "connection" not in malformed.headers, "the connection can be used again"
        long = client.post("/v1/files", content=b"x" * 200_000, headers=headers)
        assert (long.status_code, long.headers["connection"]) == (403, "close")
        right = client.post("/translate", content=body(), headers=headers | {"Authorization": "Bearer secret"})
        assert (right.status_code, len(read)) == (200, 2)


def test_the_name_of_a_key_is_in_the_scope(make_service: Callable[..., Service], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# the team\nfirst # weblate\n\nsecond\nthird #\n")
    app = make_app(make_service(), Keys(tmp_path / "keys", 0))
    names = []

    async def recording(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)
        names.append(scope.get("dragoman.key"))

    with TestClient(recording) as client:
        names.clear()  # the lifespan has a scope too
        for key in ("first", "second", "third", "wrong"):
            status(client, key)
    assert names[:4] == ["weblate", "key-4", "key-5", None]


def test_a_changed_file_of_keys_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("stays # a\nleaves # b\n")
    keys = Keys(path, 0)

    def check(key: str) -> str:
        scope = {"type": "http", "path": "/translate", "method": "POST", "headers": [], "client": ("192.0.2.1", 1)}
        return keys.check(scope, Fields({"api_key": key}))

    assert (check("stays"), check("leaves")) == ("a", "b")
    path.write_text("")  # an editor empties the file before it writes the new one
    with pytest.raises(DataError, match="has no API keys"):
        keys.reload()
    assert check("leaves") == "b"
    path.write_text("comes # c\nstays # renamed\n")
    keys.reload()
    for number in range(30):
        with pytest.raises(Exception, match="Invalid API key"):
            check(f"guess {number}")
    assert check("stays") == "renamed", "it was accepted before the file changed"
    with pytest.raises(Exception, match="Slowdown"):
        check("leaves")

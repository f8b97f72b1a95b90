"""A small server that answers as the Hugging Face hub does, with data sets in the layouts of the real ones.

The client finds it through HF_ENDPOINT. Data sets named "gated" refuse downloads.
"""

import hashlib
import io
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

Files = dict[str, bytes]
CONVERTED = "refs/convert/parquet"


def commit_of(files: Files) -> str:
    """A commit hash for this content."""
    return hashlib.sha1(b"".join(name.encode() + content for name, content in files.items())).hexdigest()


def parquet(pairs: list[tuple[str | None, str | None]], src: str, tgt: str) -> bytes:
    """A Parquet file with a column "translation", as `datasets` writes it."""
    import pyarrow
    import pyarrow.parquet

    rows = [{src: one, tgt: other} for one, other in pairs]
    content = io.BytesIO()
    table = pyarrow.table({"id": [str(row) for row in range(len(rows))], "translation": rows})
    pyarrow.parquet.write_table(table, content)
    return content.getvalue()


def card(license_: str, configs: dict[str, list[str]]) -> bytes:
    """A card (README.md) with the splits of each configuration, as `push_to_hub` writes it."""
    lines = ["---", "license:", f"- {license_}", "configs:"]
    for config, splits in configs.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        lines += [text for split in splits for text in (f"  - split: {split}", f"    path: {config}/{split}-*")]
    return "\n".join([*lines, "---", "# A card", ""]).encode()


def multi30k(parts: dict[str, list[tuple[str, str]]]) -> Files:
    """Multi30k in the layout of bentrevett/multi30k: JSON lines, columns named "en" and "de", no configurations."""
    files = {"README.md": b"---\ntask_categories:\n- translation\n---\n"}
    for split, pairs in parts.items():
        files[f"{split}.jsonl"] = "".join(f"{json.dumps({'en': src, 'de': tgt})}\n" for src, tgt in pairs).encode()
    return files


def opus_books(pairs: list[tuple[str, str]], src: str, tgt: str) -> Files:
    """One pair of languages in the layout of Helsinki-NLP/opus_books: Parquet, a configuration for each pair."""
    content = {f"{src}-{tgt}/train-00000-of-00001.parquet": parquet([*pairs], src, tgt)}
    return {"README.md": card("other", {f"{src}-{tgt}": ["train"]}), **content}


class StandInHub(ThreadingHTTPServer):
    """Data sets by name and branch. `requests` has the path of every request so far."""

    daemon_threads = True

    def __init__(self, data_sets: dict[str, dict[str, Files]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.data_sets = data_sets
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def files_at(self, name: str, revision: str) -> Files | None:
        """The files of a branch or a commit."""
        branches = self.data_sets.get(name, {})
        return branches.get(revision) or next((each for each in branches.values() if commit_of(each) == revision), None)


@contextmanager
def running_hub(data_sets: dict[str, dict[str, Files]]) -> Iterator[StandInHub]:
    """Run the server in a thread."""
    with StandInHub(data_sets) as hub:
        thread = threading.Thread(target=hub.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: StandInHub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # it delays every answer by 40 ms

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if found := re.fullmatch(r"/datasets/([^/]+/[^/]+|[^/]+)/resolve/(refs/convert/parquet|[^/]+)/(.+)", path):
            return self._file(*found.groups())
        found = re.fullmatch(
            r"/api/datasets/([^/]+/[^/]+?|[^/]+?)(?:/(revision|tree|paths-info)/(refs/convert/parquet|[^/]+)(?:/(.*))?)?",
            path,
        )
        if not found or found[1] not in self.server.data_sets:
            return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        files = self.server.files_at(found[1], found[3] or "main")
        if files is None:
            return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        if found[2] == "tree":
            return self._json([each for each in _entries(files) if each["path"].startswith(f"{found[4] or ''}")])
        if found[2] == "paths-info":
            wanted = json.loads(body)["paths"] if body.startswith(b"{") else re.findall(r"paths=([^&]*)", body.decode())
            return self._json([each for each in _entries(files) if each["path"] in map(unquote, wanted)])
        return self._json(_info(found[1], files))

    def _file(self, name: str, revision: str, path: str) -> None:
        files = self.server.files_at(name, revision)
        if name.endswith("/gated"):
            return self._send(401, b"", {"X-Error-Code": "GatedRepo"})
        if files is None or path not in files:
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound" if files else "RepoNotFound"})
        content = files[path]
        headers = {"X-Repo-Commit": commit_of(files), "ETag": f'"{hashlib.sha1(content).hexdigest()}"'}
        if found := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or ""):
            start, end = int(found[1]), min(int(found[2] or len(content)), len(content) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
            return self._send(206, content[start : end + 1], headers)
        return self._send(200, content, headers)

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _info(name: str, files: Files) -> dict[str, Any]:
    stated = re.search(rb"^license:\n- (.*)$", files.get("README.md", b""), re.MULTILINE)
    return {
        "id": name,
        "sha": commit_of(files),
        "siblings": [{"rfilename": path} for path in files],
        "cardData": {"license": [stated[1].decode()]} if stated else None,
        "tags": [],
        "private": False,
        "gated": False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
    }


def _entries(files: Files) -> list[dict[str, Any]]:
    """Files and folders, as the hub lists them."""
    folders = sorted({"/".join(path.split("/")[:depth]) for path in files for depth in range(1, path.count("/") + 1)})
    return [
        *({"type": "directory", "path": folder, "oid": "0" * 40, "size": 0} for folder in folders),
        *(
            {"type": "file", "path": path, "oid": hashlib.sha1(content).hexdigest(), "size": len(content)}
            for path, content in files.items()
        ),
    ]

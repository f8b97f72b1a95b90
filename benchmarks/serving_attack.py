"""Attacks a server and measures what another client notices.

    python benchmarks/serving_attack.py                           every attack, on the demo model
    python benchmarks/serving_attack.py --only form_of_percent    the attacks whose names match a pattern
    python benchmarks/serving_attack.py --model runs/demo --keys  a server with keys, and attackers without one

Each attack has a server of its own. A victim sends a short text every 20 ms, first alone and then during the attack.
The attackers share one core and have an address of their own (127.0.0.2). The victim and the server may use every core.
Prints a row of a table (TSV) for each attack:

| column | meaning |
|---|---|
| answers | what the attackers received, by status; 0 is a connection without an answer |
| alone, p50, p99, max | milliseconds of the victim: the median without attackers, and three figures during the attack |
| lost | requests of the victim without an answer of 200 |
| peak | megabytes that the server needed at most (VmHWM) |
| lines | lines in the server's log |
| result | pass, or the limits that the attack broke |

The limits: p50 at most 3 times that without the attack, p99 below 100 ms, none lost, peak below 300 MB, and 20 lines.
"""

import argparse
import asyncio
import gzip
import itertools
import json
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostile_archives import BOMBS, archive
from serving import Answer, Client, for_seconds, p, question, sentences

import dragoman

MAX_RATIO, MAX_P99_MS, MAX_PEAK_MB, MAX_LINES = 3.0, 100.0, 300.0, 20
KEY = "the-key-of-the-victim"
ATTACKERS_ADDRESS = "127.0.0.2"
MEGABYTE = 1_000_000
PAUSE_SECONDS = 0.02
COLUMNS = "attack clients answers alone_ms p50_ms ratio p99_ms max_ms lost peak_mb lines result".split()


@dataclass(frozen=True)
class Attack:
    """What the attackers send.

    Attributes
    ----------
    make
        Builds the bytes of one connection, as parts with a pause after each.
    clients
        Connections at a time.
    varies
        Whether each connection has bytes of its own.
    pause_seconds
        The pause between two parts.
    holds
        Whether a connection stays open, without reading, until the attack ends.
    files
        The limit on open files of the server (`ulimit -n`), or 0.
    """

    make: Callable[[], Sequence[bytes]]
    clients: int = 4
    varies: bool = False
    pause_seconds: float = 0.0
    holds: bool = False
    files: int = 0


def request(
    path: str, body: bytes = b"", kind: str = "application/json", head: str = "", method: str = "POST"
) -> bytes:
    """Return a whole request, with its length unless `head` has one."""
    host = "" if "Host:" in head else "Host: x\r\n"
    length = "" if "-Length" in head or "-Encoding: chunked" in head else f"Content-Length: {len(body)}\r\n"
    return f"{method} {path} HTTP/1.1\r\n{host}Content-Type: {kind}\r\n{length}{head}\r\n".encode() + body


def text(value: str | list[str], path: str = "/translate", **fields: Any) -> Sequence[bytes]:
    """Return a request with one or several texts for LibreTranslate's API."""
    fields = {"q": value, "source": "en", "target": "de"} | fields
    return [request(path, json.dumps(fields, ensure_ascii=False).encode())]


def form(content: bytes, path: str = "/translate") -> Sequence[bytes]:
    """Return a request with a form."""
    return [request(path, content, "application/x-www-form-urlencoded")]


def file(name: str, content: str | bytes, path: str = "/translate_file", source: str = "en") -> Sequence[bytes]:
    """Return an upload."""
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    fields = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{one}"\r\n\r\n{value}\r\n'
        for one, value in (("source", source), ("target", "de"))
    )
    start = f'{fields}--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    return parts(start.encode() + data + b"\r\n--x--\r\n", path)


def parts(body: bytes, path: str = "/v1/files", boundary: str = "x") -> Sequence[bytes]:
    """Return a request with a body that claims to be a multipart form."""
    return [request(path, body, f"multipart/form-data; boundary={boundary}")]


def chunks(body: bytes) -> Sequence[bytes]:
    """Return a request with one chunk per byte."""
    data = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    return [request("/translate", data, head="Transfer-Encoding: chunked\r\n")]


def repeat(pattern: str, size: int = 10 * MEGABYTE) -> str:
    """Return the pattern, repeated up to this number of bytes."""
    return pattern * (size // len(pattern.encode("utf-8", "surrogatepass")))


def numbered(pattern: str, count: int, joint: str = "") -> str:
    """Return the pattern with each number up to `count`."""
    return joint.join(pattern % number for number in range(count))


_NUMBERS = itertools.count()


def _bomb(make: Callable[[], bytes]) -> Attack:
    """The upload of one of `BOMBS`."""
    return Attack(lambda: file("a.docx", make()), clients=2)


ATTACKS: dict[str, Attack] = {
    # Forms and JSON
    "form_of_percent": Attack(lambda: form(b"a=" + b"%" * (10 * MEGABYTE), "/v1/files"), clients=2),
    "json_keys": Attack(
        lambda: [request("/v1/files", b"{%s}" % numbered('"%06d":0', 900_000, ",").encode())], clients=2
    ),
    "text_of_percent": Attack(lambda: form(b"q=" + b"%" * MEGABYTE)),
    "text_of_escapes": Attack(lambda: form(b"source=en&target=de&q=" + b"%C3%A4" * 170_000)),
    "form_of_fields": Attack(lambda: form(b"&".join([b"q=a"] * 250_000))),
    "form_of_semicolons": Attack(lambda: form(b"&" * MEGABYTE)),
    "json_deep": Attack(lambda: [request("/translate", b'{"q":' + b"[" * MEGABYTE)]),
    "json_deep_objects": Attack(lambda: [request("/translate", b'{"a":' * 200_000)]),
    "json_number": Attack(lambda: [request("/translate", b'{"q":' + b"9" * MEGABYTE + b"}")]),
    "json_numbers": Attack(lambda: [request("/translate", b'{"q":[' + b"1e9," * 250_000 + b"0]}")]),
    "json_escapes": Attack(lambda: [request("/translate", b'{"q":"' + rb"\u00e4" * 170_000 + b'"}')]),
    "json_surrogates": Attack(lambda: [request("/translate", b'{"q":"' + rb"\ud800" * 170_000 + b'"}')]),
    "json_items": Attack(lambda: [request("/translate", b'{"q":[' + b'"",' * 340_000 + b'""]}')]),
    "json_byte_order_marks": Attack(lambda: [request("/translate", b"\xef\xbb\xbf" * 340_000 + b"{}")]),
    "json_spaces": Attack(lambda: [request("/translate", b" " * MEGABYTE + b"{}")]),
    # Multipart forms
    "many_parts": Attack(lambda: parts(b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * 180_000)),
    "part_headers": Attack(lambda: parts(b"--x\r\n" + b"a: b\r\n" * 1_600_000)),
    "part_header": Attack(lambda: parts(b"--x\r\n" + b"a" * (10 * MEGABYTE))),
    "part_name": Attack(lambda: parts(b'--x\r\nContent-Disposition: form-data; name="' + b"\\" * (10 * MEGABYTE))),
    "boundary_like_bytes": Attack(lambda: file("a.txt", b"\r\n--" * (2_500_000))),
    "long_boundary": Attack(lambda: parts(repeat("-" * 69 + "\r\n").encode(), boundary="-" * 70)),
    # The way of the bytes
    "gzip": Attack(
        lambda: [request("/translate", gzip.compress(b"0" * (200 * MEGABYTE)), head="Content-Encoding: gzip\r\n")]
    ),
    "byte_chunks": Attack(lambda: chunks(b'{"q":"' + b"a" * 300_000 + b'"}')),
    "slow_bytes": Attack(lambda: [b"%c" % byte for byte in text("Hello")[0]], clients=100, pause_seconds=0.05),
    "long_length": Attack(
        lambda: [request("/translate", b"{", head="Content-Length: 1000000\r\n")], clients=100, holds=True
    ),
    "short_length": Attack(lambda: [request("/translate", b"{}" + b"GET / " * 150_000, head="Content-Length: 2\r\n")]),
    "two_lengths": Attack(lambda: [request("/translate", b"{}", head="Content-Length: 2\r\nContent-Length: 3\r\n")]),
    "huge_length": Attack(lambda: [request("/v1/files", b"{}", head=f"Content-Length: {10**30}\r\n")]),
    "headers": Attack(lambda: [request("/translate", b"{}", head="a: b\r\n" * 10_000)]),
    "cookies": Attack(
        lambda: [request("/look", head=f"Cookie: {numbered('dragoman-key%d=a; ', 2500)}\r\n", method="GET")]
    ),
    "query_fields": Attack(lambda: [request(f"/look?{'a&' * 30_000}", method="GET")]),
    "query_of_percent": Attack(lambda: [request(f"/look?q={'%' * 60_000}", method="GET")]),
    "pipelined": Attack(lambda: [request("/metrics", method="GET") * 2000], holds=True),
    "hosts_of_docs": Attack(lambda: [request("/docs", head=f"Host: {time.time_ns()}\r\n", method="GET")]),
    "new_connections": Attack(lambda: [b""], clients=8),
    "idle": Attack(lambda: [b""], clients=400, holds=True, files=200),
    # Texts
    "thousand_texts": Attack(lambda: text(["a"] * 1000), clients=2),
    "detection": Attack(lambda: text([repeat("да, нет 是 ", 1000)] * 900, source="auto"), clients=2),
    "detection_of_a_long_text": Attack(lambda: text([repeat("да, нет 是 ", 5000)] * 190, "/detect"), clients=2),
    "detection_of_a_file": Attack(
        lambda: file("a.html", ("<p>" + repeat("да, нет 是 ", 99_000)) * 100, source="auto"), clients=2
    ),
    "candidates": Attack(
        lambda: [
            request(
                "/v1/translate", json.dumps({"text": ["What is that?"] * 500, "target": "de", "n_best": 6}).encode()
            )
        ],
        clients=2,
    ),
    "text_without_spaces": Attack(lambda: text("a" * 5000), clients=2),
    "text_of_emoji": Attack(lambda: text("👩‍👩‍👧‍👦🏳️‍🌈" * 400), clients=2),
    "text_of_zero_widths": Attack(lambda: text("\u200b\u2060" * 2500), clients=2),
    "text_right_to_left": Attack(lambda: text("\u202e\u2067שלום" * 800), clients=2),
    "text_of_placeholders": Attack(lambda: text(["%(a)s{{{{http://a@" * 270] * 200), clients=2),
    "text_of_tags": Attack(lambda: text(["<b>a" * 1200] * 200, format="html"), clients=2),
    "text_of_entities": Attack(lambda: text(["&x;" * 1600] * 200, format="html"), clients=2),
    "xml_of_tags": Attack(
        lambda: [
            request(
                "/v2/translate",
                json.dumps(
                    {"text": ["<b>a"], "target_lang": "DE", "tag_handling": "xml", "ignore_tags": "a," * 400_000}
                ).encode(),
            )
        ],
        clients=2,
    ),
    "inspection": Attack(lambda: text("Hello there.", "/inspect"), clients=4),
    # Files
    "html_entities": Attack(lambda: file("a.html", "&x;" * 3_400_000), clients=2),
    "html_numbers": Attack(lambda: file("a.html", "&#1;" * 2_500_000), clients=2),
    "html_unclosed_tags": Attack(lambda: file("a.html", "<b>" * 390_000), clients=2),
    "html_attributes": Attack(lambda: file("a.html", f"<a {repeat('a=b ')}>"), clients=2),
    "html_comments": Attack(lambda: file("a.html", repeat("<!--")), clients=2),
    "srt_carriage_returns": Attack(lambda: file("a.srt", b"\r" * (9 * MEGABYTE)), clients=2),
    "srt_times": Attack(lambda: file("a.srt", repeat("00:00:00,000 --> ")), clients=2),
    "srt_cues": Attack(lambda: file("a.srt", numbered("%d\n00:00:00,000 --> 00:00:01,000\na\n\n", 200_000)), clients=2),
    "short_lines": Attack(lambda: file("a.txt", "a\n" * 390_000), clients=2),
    "line_separators": Attack(lambda: file("a.txt", repeat("\u2028")), clients=2),
    "file_of_emoji": Attack(lambda: file("a.txt", repeat("👩‍👩‍👧‍👦" * 9000 + "\n")), clients=2),
    "file_of_zero_widths": Attack(lambda: file("a.txt", repeat("\u200b" * 99_000 + "\n")), clients=2),
    "file_right_to_left": Attack(lambda: file("a.txt", repeat("\u202e" * 99_000 + "\n")), clients=2),
    "file_of_placeholders": Attack(lambda: file("a.txt", repeat("%(a)s{{http://a@" * 6000 + "\n")), clients=2),
    # 1,000 or more in 90 seconds: `--only archives_damaged --seconds 90`. The others are uploaded again and again.
    "archives_damaged": Attack(lambda: file("a.docx", archive(next(_NUMBERS))), clients=2, varies=True),
    **{f"archive_{name.replace(' ', '_')}": _bomb(make) for name, make in BOMBS.items()},
    "file_of_marks": Attack(lambda: file("a.txt", repeat("." * 99_000 + "\n")), clients=2),
}


def attack(name: str, port: int, seconds: float) -> None:
    """Run the attackers on one core. Prints a line when they are ready, and the number of each status at the end."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    one = ATTACKS[name]
    made = one.make()
    print("ready", flush=True)
    until = time.monotonic() + seconds
    statuses: Counter[int] = Counter()

    def client() -> None:
        while time.monotonic() < until:
            is_new = one.varies or len(made[0]) < 1000
            statuses[connection(one, one.make() if is_new else made, port, until)] += 1

    threads = [threading.Thread(target=client, daemon=True) for _ in range(one.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until + 1 - time.monotonic()))
    print(json.dumps(sorted(dict(statuses).items())), flush=True)
    os._exit(0)  # without waiting for answers that do not come


def connection(one: Attack, data: Sequence[bytes], port: int, until: float) -> int:
    """Send the bytes on a new connection. Returns the status of the first answer, or 0."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 30, (ATTACKERS_ADDRESS, 0)) as opened:
        with suppress(OSError):  # a refusal may come while the bytes are sent
            for part in data:
                opened.sendall(part)
                time.sleep(one.pause_seconds)
        if one.holds:
            time.sleep(max(0.0, until - time.monotonic()))
            return 0
        if any(data):
            head = opened.recv(65536)
            return int(head.split()[1]) if head else 0
    return 0


@contextmanager
def running(model: str, keys: bool, files: int) -> Iterator[tuple[int, int, Path]]:
    """Run a server. Yields its process id, its port and the file of its log."""
    with tempfile.TemporaryDirectory() as folder:
        log, key_file = Path(folder, "log"), Path(folder, "keys")
        key_file.write_text(f"{KEY}\n", encoding="utf-8")
        model = model if model == "demo" else os.path.abspath(model)  # the server runs in another folder
        command = [sys.executable, "-m", "dragoman", "serve", model, "--port", "0", "--no-page"]
        command += ["--api-keys", str(key_file)] if keys else []
        limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))) if files else None
        # The server is the same version as this program, whatever the current folder holds.
        environment = os.environ | {"TMPDIR": folder, "PYTHONPATH": str(Path(dragoman.__file__).parents[1])}
        with log.open("wb") as errors:
            process = subprocess.Popen(command, stderr=errors, env=environment, cwd=folder, preexec_fn=limit)
        try:
            while "/docs" not in (said := log.read_text(encoding="utf-8")):
                if process.poll() is not None:
                    sys.exit(f"the server did not start: {said}")
                time.sleep(0.05)
            yield process.pid, int(said.split("127.0.0.1:")[1].split()[0]), log
        finally:
            process.kill()
            process.wait()


def peak_megabytes(process: int) -> float:
    """Return the most memory that a process had, since it started."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6


def measure(name: str, given: argparse.Namespace) -> list[str]:
    """Return the row of an attack."""
    one, texts = ATTACKS[name], [sentence for sentence in sentences(500) if len(sentence) < 40]

    async def word(client: Client, number: int, turn: int) -> Answer:
        await asyncio.sleep(PAUSE_SECONDS)
        if one.holds:  # the attackers take the connections, so the victim needs a new one
            client.close()
        return await client.ask("/translate", question(texts[turn % len(texts)]) | {"api_key": KEY})

    def victim(seconds: float) -> list[Answer]:
        return asyncio.run(for_seconds(seconds, 1, word, port))

    with running(given.model, given.keys, one.files) as (process, port, log):
        victim(1.0)
        before = len(log.read_bytes().splitlines())
        alone = p([answer.seconds for answer in victim(given.seconds / 3)], 0.5)
        command = [sys.executable, os.path.abspath(__file__), "--attacker", name, str(port), str(given.seconds)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attackers:
            assert attackers.stdout is not None
            attackers.stdout.readline()
            answers = victim(given.seconds)
            statuses = dict(json.loads(attackers.stdout.readline()))
        peak = peak_megabytes(process)
        lines = len(log.read_bytes().splitlines()) - before
    times = [1000 * answer.seconds for answer in answers]
    p50, p99 = p(times, 0.5), p(times, 0.99)
    lost = sum(answer.status != 200 for answer in answers)
    limits = {
        "p50": p50 > MAX_RATIO * 1000 * alone,
        "p99": p99 > MAX_P99_MS,
        "lost": lost > 0,
        "peak": peak > MAX_PEAK_MB,
        "lines": lines > MAX_LINES,
    }
    seen = " ".join(f"{status}:{count}" for status, count in statuses.items()) or "none"
    figures = [f"{1000 * alone:.1f}", f"{p50:.1f}", f"{p50 / 1000 / alone:.1f}", f"{p99:.0f}", f"{max(times):.0f}"]
    broken = " ".join(limit for limit, is_broken in limits.items() if is_broken)
    return [
        name,
        str(one.clients),
        seen,
        *figures,
        str(lost),
        f"{peak:.0f}",
        str(lines),
        f"FAIL: {broken}" if broken else "pass",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo", help="model to serve (default: demo, the model of the package)")
    parser.add_argument("--only", nargs="+", default=[""], help="only attacks whose names match one of these patterns")
    parser.add_argument("--seconds", type=float, default=6.0, help="length of an attack (default: 6)")
    parser.add_argument("--keys", action="store_true", help="serve with keys; only the victim has one")
    parser.add_argument("--attacker", nargs=3, default=[], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.attacker:
        name, port, seconds = given.attacker
        attack(name, int(port), float(seconds))
    print("\t".join(COLUMNS), flush=True)
    failed = 0
    for name in ATTACKS:
        if any(re.search(pattern, name) for pattern in given.only):
            row = measure(name, given)
            failed += row[-1] != "pass"
            print("\t".join(row), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

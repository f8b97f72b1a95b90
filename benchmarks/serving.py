"""Puts load and faults on a running server. Each command prints one row of a table.

    python benchmarks/serving.py throughput --model runs/demo
    python benchmarks/serving.py all --model runs/demo

Commands: throughput, overload, soak, fairness, drain, poison, leaving, slow, stalled. `--scale` makes each longer. The
server runs in a separate process, and the clients in this one. Both share the machine.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil

Row = tuple[str, str, str, bool]
"""A row: the experiment, the measurement, the goal, and whether it was reached."""


@dataclass(frozen=True)
class Answer:
    """Status 0: the connection broke."""

    status: int
    seconds: float
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def text(self) -> Any:
        return json.loads(self.body)["translatedText"]


class Client:
    """A connection that is kept alive."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, fields: Any = None, timeout: float = 30.0) -> Answer:
        """Send JSON with POST, or a GET without fields."""
        begun = time.perf_counter()
        body = b"" if fields is None else json.dumps(fields).encode()
        head = f"{'GET' if fields is None else 'POST'} {path} HTTP/1.1\r\nHost: x\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            async with asyncio.timeout(timeout):
                if self._streams is None:
                    self._streams = await asyncio.open_connection("127.0.0.1", self._port)
                reader, writer = self._streams
                writer.write(head.encode() + body)
                status, headers, content = await _read(reader)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError, IndexError):
            self.close()
            return Answer(0, time.perf_counter() - begun)
        if headers.get("connection") == "close":
            self.close()
        return Answer(status, time.perf_counter() - begun, headers, content)

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _read(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    content = await reader.readexactly(int(headers.get("content-length", 0)))
    return int(lines[0].split()[1]), headers, content


@dataclass
class Running:
    """A server process and its port."""

    process: asyncio.subprocess.Process
    port: int

    @property
    def facts(self) -> psutil.Process:
        return psutil.Process(self.process.pid)

    def megabytes(self) -> float:
        return float(self.facts.memory_info().rss) / 1e6

    async def stop(self) -> int:
        """Return its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), 60)


@asynccontextmanager
async def server(options: argparse.Namespace, *flags: str, fault: str = "") -> AsyncIterator[Running]:
    command = [sys.executable, os.path.abspath(__file__), "server", "--model", options.model, f"--fault={fault}"]
    process = await asyncio.create_subprocess_exec(
        *command, *(f"--flag={flag}" for flag in flags), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    said = b""
    while b"/docs" not in said:
        said = await process.stderr.readline()
        if not said:
            raise SystemExit("the server did not start")
    drained = asyncio.create_task(process.stderr.read())
    running = Running(process, int(said.split(b"127.0.0.1:")[1].split()[0]))
    try:
        yield running
    finally:
        await running.stop()
        await drained


def serve(options: argparse.Namespace) -> int:
    """Run the server, with a fault if requested: texts with POISON fail, no text is answered, or the model does
    nothing.
    """
    from dragoman.cli import serve as verb
    from dragoman.records import Candidate, Translation
    from dragoman.serving.models import ServedModel

    original = ServedModel.translate

    def faulty(self: ServedModel, texts: Sequence[Any], asked: Any) -> Any:
        if options.fault == "poison" and any("POISON" in one.text for one in texts):
            raise RuntimeError("poisoned")
        if options.fault == "echo":
            return [Translation(one.text, (Candidate(one.text, (), (), 0.0, 0.0),), 1, False) for one in texts]
        if options.fault == "stall" and any("STALL" in one.text for one in texts):
            time.sleep(3600)
        return original(self, texts, asked)

    if options.fault:
        ServedModel.translate = faulty  # type: ignore[assignment,method-assign]
    verb.run(verb.build_parser().parse([options.model, "--port", "0", "--no-page", *options.flag]))
    return 0


def sentences(count: int, seed: int = 7) -> list[str]:
    from dragoman.demo.phrasebook_file import load_phrasebook

    return [pair.src for pair in load_phrasebook().generate(seed=seed, count=count)]


def question(text: str | list[str]) -> dict[str, Any]:
    return {"q": text, "source": "en", "target": "de"}


def p(values: Sequence[float], share: float) -> float:
    """Return a percentile, or 0 for an empty list."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


async def for_seconds(
    seconds: float, clients: int, work: Callable[[Client, int, int], Awaitable[Answer]], port: int
) -> list[Answer]:
    """Each client sends a request when it has an answer; `work` gets the client, its number and the request's."""
    until = time.perf_counter() + seconds

    async def one(number: int) -> list[Answer]:
        client, answers, turn = Client(port), [], 0
        while time.perf_counter() < until:
            answers.append(await work(client, number, turn))
            turn += 1
        client.close()
        return answers

    return [answer for answers in await asyncio.gather(*map(one, range(clients))) for answer in answers]


_PATIENT = ("--deadline-seconds", "60", "--max-wait-seconds", "30")


async def throughput(options: argparse.Namespace) -> Row:
    texts = sentences(2000)
    got: dict[int, dict[str, str]] = {}
    rates, work, sizes = {}, {}, {}
    async with server(options, *_PATIENT) as running:

        async def counts() -> list[float]:
            probe = Client(running.port)
            told = await probe.ask("/metrics")
            probe.close()
            names = ("dragoman_batch_sentences_sum", "dragoman_batch_sentences_count")
            return [sum(running.facts.cpu_times()[:2]), *(_metric(told, name) for name in names)]

        for clients in (1, 64):
            before = await counts()
            found = got.setdefault(clients, {})

            async def ask(client: Client, number: int, turn: int, found: dict[str, str] = found) -> Answer:
                text = texts[(number * 31 + turn) % len(texts)]
                answer = await client.ask("/translate", question(text))
                if answer.status == 200:
                    found[text] = answer.text
                return answer

            answers = await for_seconds(5 * options.scale, clients, ask, running.port)
            good = sum(one.status == 200 for one in answers)
            used, done, batches = (new - old for new, old in zip(await counts(), before, strict=True))
            rates[clients], work[clients], sizes[clients] = (
                good / (5 * options.scale),
                1000 * used / good,
                done / batches,
            )
        alone, until = Client(running.port), time.perf_counter() + 5 * options.scale
        for text in random.Random(1).sample(sorted(got[64]), min(200, len(got[64]))):
            if text not in got[1] and time.perf_counter() < until:
                got[1][text] = (await alone.ask("/translate", question(text))).text
        both = got[1].keys() & got[64].keys()
        same = sum(got[1][text] == got[64][text] for text in both)
    ratio = rates[64] / rates[1]
    seen = (
        f"{rates[1]:.3g}/s, {rates[64]:.3g}/s: {ratio:.1f} times; {same} of {len(both)} answers equal; processor time "
        f"an answer {work[1]:.1f} ms, {work[64]:.1f} ms; {sizes[64]:.0f} sentences a batch"
    )
    return "64 clients, and one", seen, "5 times; all equal", ratio >= 5 and same == len(both)


async def overload(options: argparse.Namespace) -> Row:
    texts = sentences(2000)
    seconds = 6 * options.scale
    async with server(options) as running:

        async def ask(client: Client, number: int, turn: int) -> Answer:
            return await client.ask("/translate", question(texts[(number * 31 + turn) % len(texts)]))

        async def live(client: Client, number: int, turn: int) -> Answer:
            await asyncio.sleep(0.05)
            return await client.ask("/livez")

        await for_seconds(3, 128, ask, running.port)  # full batches, which allocate their memory once
        usual = p([one.seconds for one in await for_seconds(1, 1, ask, running.port)], 0.5)
        before = running.megabytes()
        answers, alive = await asyncio.gather(
            for_seconds(seconds, 1024, ask, running.port), for_seconds(seconds, 1, live, running.port)
        )
        await asyncio.sleep(2)
        after = p([one.seconds for one in await for_seconds(1, 1, ask, running.port)], 0.5)
        growth = running.megabytes() - before
    statuses = Counter(one.status for one in answers)
    slowest = p([one.seconds for one in answers if one.status == 200], 0.99)
    refusal = p([one.seconds for one in answers if one.status == 503], 0.99)
    life = p([one.seconds for one in alive], 0.99)
    told = all("retry-after" in one.headers for one in answers if one.status == 503)
    seen = (
        f"{dict(statuses)}; Retry-After with every 503: {told}; "
        f"p99 of 200s {slowest:.2f} s, of 503s {refusal:.2f} s, of /livez {1000 * life:.0f} ms; "
        f"{growth:+.0f} MB; one client before {1000 * usual:.0f} ms, after {1000 * after:.0f} ms"
    )
    good = set(statuses) <= {200, 503} and told and slowest <= 3 and growth <= 50 and life <= 0.2 and after <= 2 * usual
    goal = "200 and 503 with Retry-After; p99 3 s; /livez 200 ms; 50 MB; as before 2 s later"
    return "1,024 clients", seen, goal, good


async def soak(options: argparse.Namespace) -> Row:
    texts = sentences(3000)
    rounds = int(2000 * options.scale)
    marks: list[tuple[float, int, int]] = []
    bad: Counter[int] = Counter()
    async with server(options, *_PATIENT, fault=options.fault) as running:
        for part in range(4):

            async def batch(number: int, part: int = part) -> Counter[int]:
                client, statuses = Client(running.port), Counter[int]()
                for turn in range(rounds // 32):
                    start = (part * 997 + number * 131 + turn * 7) % 2900
                    count = 1 + (number + turn) % 5 * (turn % 3 == 0) * 4
                    answer = await client.ask("/translate", question(texts[start : start + count]), 90)
                    statuses[answer.status] += 1
                client.close()
                return statuses

            for statuses in await asyncio.gather(*map(batch, range(32))):
                bad += statuses
            await asyncio.sleep(0.5)
            marks.append((running.megabytes(), running.facts.num_fds(), running.facts.num_threads()))
    growth = (marks[-1][0] - marks[1][0]) / (2 * rounds) * 10_000
    count = bad.pop(200)
    sizes = ", ".join(f"{size:.0f}" for size, _, _ in marks)
    seen = f"{count} answered, otherwise {dict(bad)}; {sizes} MB: {growth:+.1f} MB per 10,000; "
    seen += f"handles, threads {marks[1][1:]}"
    good = not bad and growth <= 1 and marks[1][1:] == marks[-1][1:]
    return "soak", seen, "none failed; 1 MB; constant", good


async def fairness(options: argparse.Namespace) -> Row:
    texts = sentences(2000)
    words = ["train", "water", "Hello", "Thanks", "bread"]
    async with server(options, "--deadline-seconds", "60", "--max-wait-seconds", "30") as running:

        async def word(client: Client, number: int, turn: int) -> Answer:
            await asyncio.sleep(0.02)
            return await client.ask("/translate", question(words[turn % len(words)]))

        async def book(client: Client, number: int, turn: int) -> Answer:
            return await client.ask("/translate", question(texts[:1000]), timeout=120)

        await for_seconds(1, 1, word, running.port)
        alone = await for_seconds(3 * options.scale, 1, word, running.port)
        beside, books = await asyncio.gather(
            for_seconds(6 * options.scale, 1, word, running.port), for_seconds(6 * options.scale, 1, book, running.port)
        )
    unloaded, loaded = (p([one.seconds for one in rows if one.status == 200], 0.95) for rows in (alone, beside))
    done = Counter(one.status for one in books)
    seen = (
        f"p95 of a word {1000 * unloaded:.0f} ms alone, {1000 * loaded:.0f} ms beside: {loaded / unloaded:.1f} times; "
        f"requests of 1,000 texts: {dict(done)}, {statistics.mean(one.seconds for one in books):.1f} s each"
    )
    return "single words beside 1,000-text requests", seen, "3 times", loaded <= 3 * unloaded and set(done) == {200}


async def drain(options: argparse.Namespace) -> Row:
    texts = sentences(500)
    statuses, codes, not_ready = Counter[int](), [], []
    for _ in range(max(1, round(options.scale))):
        async with server(options, *_PATIENT) as running:
            clients = [Client(running.port) for _ in range(50)]
            probe = Client(running.port)
            await asyncio.gather(*(client.ask("/livez") for client in [*clients, probe]))
            asked = [
                asyncio.create_task(client.ask("/translate", question(texts[number : number + 9])))
                for number, client in enumerate(clients)
            ]
            await asyncio.sleep(0.02)
            running.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.1)
            not_ready.append((await probe.ask("/readyz")).status == 503)
            statuses.update(one.status for one in await asyncio.gather(*asked))
            codes.append(await running.stop())
    seen = f"{dict(statuses)}, /readyz says no: {all(not_ready)}, exit codes {sorted(set(codes))}"
    return (
        f"SIGTERM with 50 in flight, {len(codes)} times",
        seen,
        "none lost, exit 0",
        set(statuses) == {200} and set(codes) == {0} and all(not_ready),
    )


async def poison(options: argparse.Namespace) -> Row:
    texts = sentences(2000)
    right = wrong = told = 0
    async with server(options, fault="poison") as running:
        clients = [Client(running.port) for _ in range(32)]
        for turn in range(int(20 * options.scale)):
            asked = [texts[(turn * 31 + number) % len(texts)] for number in range(32)]
            asked[turn % 32] += " POISON"
            answers = await asyncio.gather(
                *(client.ask("/translate", question(text)) for client, text in zip(clients, asked, strict=True))
            )
            told += answers[turn % 32].status == 500 and b"error" in answers[turn % 32].body
            right += sum(one.status == 200 for one in answers)
            wrong += sum(one.status != 200 for one in answers) - 1
    rounds = int(20 * options.scale)
    good = (right, wrong, told) == (31 * rounds, 0, rounds)
    return f"one of 32 fails, {rounds} times", f"{right} of {31 * rounds} right, {told} 500s", "31 of 32 right", good


async def leaving(options: argparse.Namespace) -> Row:
    texts = sentences(2000)
    async with server(
        options, "--max-requests", "1000", "--max-wait-seconds", "100", "--deadline-seconds", "100"
    ) as running:
        probe = Client(running.port)

        async def tokens() -> float:
            return _metric(await probe.ask("/metrics"), "dragoman_source_tokens_total")

        async def leave(number: int) -> None:
            client = Client(running.port)
            asked = asyncio.create_task(client.ask("/translate", question(texts[number * 8 : number * 8 + 40])))
            await asyncio.sleep(0.01)
            asked.cancel()
            client.close()

        before = await tokens()
        await asyncio.gather(*map(leave, range(200)))
        begun = time.perf_counter()
        while _metric(await probe.ask("/metrics"), "dragoman_requests_waiting") and time.perf_counter() < begun + 10:
            await asyncio.sleep(0.02)
        seconds = time.perf_counter() - begun
        await asyncio.sleep(0.5)
        share = (await tokens() - before) / sum(
            4 + len(text) // 4 for number in range(200) for text in texts[number * 8 : number * 8 + 40]
        )
    seen = f"{share:.1%} of the work done, none waits after {seconds:.2f} s"
    return "200 clients leave after 10 ms", seen, "10 %; 1 s", share <= 0.1 and seconds <= 1


def _metric(answer: Answer, name: str) -> float:
    return next(float(line.split()[1]) for line in answer.body.decode().splitlines() if line.startswith(name + " "))


async def slow(options: argparse.Namespace) -> Row:
    texts = sentences(500)
    async with server(options) as running:

        async def half(head: bytes) -> float:
            begun = time.perf_counter()
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(head)
            await asyncio.wait_for(reader.read(), 60)
            writer.close()
            return time.perf_counter() - begun

        async def huge() -> tuple[int, int]:
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            reading = asyncio.create_task(_read(reader))
            sent, piece = 0, b"10000\r\n" + b"x" * 65536 + b"\r\n"
            while sent < 50 << 20 and not reading.done():
                writer.write(piece)
                sent += 65536
                try:
                    await writer.drain()
                except OSError:
                    break
                await asyncio.sleep(0)
            return (await asyncio.wait_for(reading, 20))[0], sent

        async def word(client: Client, number: int, turn: int) -> Answer:
            await asyncio.sleep(0.05)
            return await client.ask("/translate", question(texts[turn % 500]))

        await for_seconds(1, 1, word, running.port)
        usual = p([one.seconds for one in await for_seconds(3, 1, word, running.port)], 0.95)
        head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
        heads = [head if number % 2 else head[:40] for number in range(100)]
        closed, beside = await asyncio.gather(asyncio.gather(*map(half, heads)), for_seconds(8, 1, word, running.port))
        status, sent = await huge()
        loaded = p([one.seconds for one in beside], 0.95)
        many = (await Client(running.port).ask("/translate", question(["a"] * 1001))).status
    seen = (
        f"100 half-sent requests closed after {max(closed):.1f} s; 50 MB: {status} after {sent / 1e6:.1f} MB; 1,001 "
        f"texts: {many}; p95 of others {1000 * usual:.0f} ms before, {1000 * loaded:.0f} ms beside"
    )
    good = max(closed) <= 15 and status == 413 and many == 400 and loaded <= 2 * usual
    return "slow and huge requests", seen, "15 s; 413; 400; twice", good


async def stalled(options: argparse.Namespace) -> Row:
    import deepl

    async with server(options, "--drain-seconds", "1", fault="stall") as running:
        probe = Client(running.port)

        def ask() -> str:
            client = deepl.DeepLClient("key", server_url=f"http://127.0.0.1:{running.port}")
            try:
                return str(client.translate_text("STALL", source_lang="EN", target_lang="DE"))
            except deepl.DeepLException as error:
                return type(error).__name__ + f" {error}"

        begun = time.perf_counter()
        asked = asyncio.create_task(asyncio.to_thread(ask))
        said = await asked
        seconds = time.perf_counter() - begun
        requests = [
            line
            for line in (await probe.ask("/metrics")).body.decode().splitlines()
            if line.startswith("dragoman_requests_total") and "/v2/translate" in line
        ]
        health = (await probe.ask("/health")).status
        longest = _slowest((await probe.ask("/metrics")).body.decode())
        running.process.kill()
    total = sum(float(line.split()[-1]) for line in requests)
    seen = f"{total:.0f} requests in {seconds:.0f} s, each answered within {longest} s ({said[:60]}); /health {health}"
    good = 0 < total <= 6 and longest != "+Inf" and float(longest) <= 10 and health == 503
    return "DeepL's client and a stalled model", seen, "6 requests; 503 within 9 s", good


def _slowest(metrics: str) -> str:
    """Return the smallest bound in seconds within which all requests to /v2/translate were answered."""
    rows = [
        line
        for line in metrics.splitlines()
        if line.startswith("dragoman_request_seconds_bucket") and "/v2/translate" in line
    ]
    counts = [(line.split('le="')[1].split('"')[0], float(line.split()[-1])) for line in rows]
    most = max(count for _, count in counts)
    return next(bound for bound, count in counts if count == most)


COMMANDS = {one.__name__: one for one in (throughput, overload, soak, fairness, drain, poison, leaving, slow, stalled)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=[*COMMANDS, "all", "server"])
    parser.add_argument("--model", required=True)
    parser.add_argument("--scale", type=float, default=1.0, help="factor for durations and numbers of requests")
    parser.add_argument("--fault", default="", help=argparse.SUPPRESS)
    parser.add_argument("--flag", action="append", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.command == "server":
        return serve(options)
    good = True
    for name in COMMANDS if options.command == "all" else [options.command]:
        what, seen, goal, reached = asyncio.run(COMMANDS[name](options))
        print(f"| {what} | {seen} | {goal} | {'yes' if reached else 'NO'} |", flush=True)
        good &= reached
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

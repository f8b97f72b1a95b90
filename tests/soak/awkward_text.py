"""Text that often breaks programs, and a check that `dragoman translate` translates it line for line."""

import json
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from dragoman.cli.translation.output import NAMED
from dragoman.demo.phrasebook_file import load_phrasebook

NASTY = (
    "</s>", "<s> <pad> <unk>", "<0x41>", "<0x00>", "a </s> b", "\u2581", "\u2581\u2581a", " ", "   ", "a  b", " a ",
    "\t", "\r", "a\u2028b", "a\u0085b", "\x00", "a\x00b", "\ufeff", "\ufeffa", "\ufffd", "e\u0301", "é", "ﬁ", "①",
    "\u202eabc\u202c", "\u200b", "a\u200db", "👩\u200d👩\u200d👧", "🏳️\u200d🌈", "🇩🇪🇬🇧", "𝔘𝔫𝔦", "\U0010ffff",
    "क्षत्रिय", "తెలుగు", "日本語。", "٣٤", "ß" * 99, "'s 's", "İı", "Z̸̢̛͎͇̱̯͈͌̈́͒̽",
)  # fmt: skip


def random_strings(count: int, seed: int = 1) -> list[str]:
    """Strings of up to 40 characters of all Unicode planes, without lone surrogates."""
    rng = random.Random(seed)
    ranges = ((0x20, 0x7E), (0x20, 0x7E), (0, 0x2FF), (0x300, 0x36F), (0x370, 0x1FFF), (0x2000, 0x2BFF),
              (0x3000, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF))  # fmt: skip
    return ["".join(chr(rng.randint(*rng.choice(ranges))) for _ in range(rng.randint(0, 40))) for _ in range(count)]


def awkward_lines(count: int, longest: int = 100_000, seed: int = 1) -> list[bytes]:
    """Lines like those of real files. One in a hundred is not UTF-8, and the middle one has `longest` characters."""
    rng = random.Random(seed)
    plain = [pair.src for pair in load_phrasebook().generate(seed=4, count=200)]
    heads = ("", "", "\ufeff", "\r", "\x00", "</s>")
    middles = ("", "", "\u2028", "\u0085", "\x00", "\x0b\x0c\x1c", "\r", "\u202e")
    ends = ("", "", "\r", " ", "\t")

    def line() -> str:
        text = rng.choice(plain)
        whole = rng.choice(heads) + text[:7] + rng.choice(middles) + text[7:] + rng.choice(ends)
        return rng.choice((whole, whole, whole, whole, whole, whole, "", "   ", "\r", "\u2028"))

    lines = [line().encode() for _ in range(count)]
    for row in rng.sample(range(count), max(1, count // 100)):
        lines[row] = lines[row][:5] + b"\xff\xfe\xc3" + lines[row][5:]
    lines[count // 2] = " ".join(plain * 20).encode()[:longest]
    return lines


def check_lines(model: str, lines: Sequence[bytes]) -> list[str]:
    """The errors in the output of `dragoman translate`, one line each."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in"
        source.write_bytes(b"\n".join(lines) + b"\n")
        command = [sys.executable, "-m", "dragoman", "translate", model, "--input", str(source)]
        command += ["--format", "jsonl", "--inference.max-extra-tokens", "1"]  # so that some are cut
        answer = subprocess.run(command, capture_output=True, check=True)
    records = [json.loads(line) for line in answer.stdout.split(b"\n")[:-1]]
    if len(records) != len(lines):
        return [f"{len(lines)} lines in, {len(records)} out"]
    notes, wrong = answer.stderr.decode(), []
    lines_of: dict[str, list[int]] = defaultdict(list)
    for number, (line, record) in enumerate(zip(lines, records, strict=True), start=1):
        whole = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        given = whole.removesuffix(b"\r").decode("utf-8", "replace")
        facts = {
            "is not answered in its place": record["src"] != given or "\n" in record["translation"],
            "is blank, or is not": bool(given.strip()) != bool(record["segments"]),
        }
        wrong += [f"line {number} {fact}" for fact, is_so in facts.items() if is_so]
        for kind, is_so in {
            "the translation of line {} was cut": record["cut"],
            "line {} is long and": record["segments"] > 1,
            "line {} is not UTF-8": "\ufffd" in given,
        }.items():
            lines_of[kind] += [number] * is_so
    for kind, numbers in lines_of.items():  # the first errors are named, and all are counted
        named = [number for number in range(1, len(lines) + 1) if kind.format(number) in notes]
        if named != numbers[:NAMED] or (len(numbers) > NAMED) != (f"in total, {len(numbers):,} " in notes):
            wrong.append(f"`{kind}` is reported for {named} instead of {numbers}")
    return wrong

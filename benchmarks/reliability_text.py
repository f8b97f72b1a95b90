"""Whether text survives: through the tokeniser, and line for line through ``dragoman translate``.

    python benchmarks/reliability_text.py MODEL [--strings 100000] [--lines 10000]

100,000 random Unicode strings and 40 nasty ones come back from the tokeniser equal, and no control id comes out of any;
a line of a megabyte takes time linear in its length. Then 10,000 lines of all kinds go through the command: as many
come out, in the order of the input, and every cut is reported. Exit code 1 where something of this is not so.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from dragoman.bundle import load_bundle, resolve_model_folder
from dragoman.cli.translation.notes import NAMED
from dragoman.config import TokenizerSettings
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.text.tokenization.tokenizer import UNK_ID, Tokenizer, train_tokenizer

NASTY = (
    "</s>", "<s> <pad> <unk>", "<0x41>", "<0x00>", "a </s> b", "\u2581", "\u2581\u2581a", " ", "   ", "a  b", " a ",
    "\t", "\r", "a\u2028b", "a\u0085b", "\x00", "a\x00b", "\ufeff", "\ufeffa", "\ufffd", "e\u0301", "é", "ﬁ", "①",
    "\u202eabc\u202c", "\u200b", "a\u200db", "👩\u200d👩\u200d👧", "🏳️\u200d🌈", "🇩🇪🇬🇧", "𝔘𝔫𝔦", "\U0010ffff",
    "क्षत्रिय", "తెలుగు", "日本語。", "٣٤", "ß" * 99, "'s 's", "İı", "Z̸̢̛͎͇̱̯͈͌̈́͒̽",
)  # fmt: skip


def random_strings(count: int, seed: int = 1) -> list[str]:
    """Of all planes, plain letters and white space among them, up to 40 characters; no lone surrogates."""
    rng = random.Random(seed)
    ranges = ((0x20, 0x7E), (0x20, 0x7E), (0, 0x2FF), (0x300, 0x36F), (0x370, 0x1FFF), (0x2000, 0x2BFF),
              (0x3000, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF))  # fmt: skip
    return ["".join(chr(rng.randint(*rng.choice(ranges))) for _ in range(rng.randint(0, 40))) for _ in range(count)]


def lost(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[int, int]:
    """How many do not come back equal, and how many have control ids. U+2581 is a space but in byte-level ones."""
    rows = tokenizer.encode_batch(texts)
    keeps = tokenizer.kind == "byte_bpe"
    changed = sum(
        tokenizer.detokenize(row) != (text if keeps else text.replace("\u2581", " "))
        for text, row in zip(texts, rows, strict=True)
    )
    return changed, sum(min(row, default=UNK_ID + 1) <= UNK_ID for row in rows)


def seconds_for(tokenizer: Tokenizer, megabytes: float) -> float:
    """For one line of ordinary words, the fastest of seven."""
    text = ("the quick brown fox jumps over it, 42 times. " * 30_000)[: int(megabytes * 1_000_000)]
    found = []
    for _ in range(7):
        start = time.process_time()
        tokenizer.encode(text)
        found.append(time.process_time() - start)
    return min(found)


def awkward_lines(count: int, longest: int = 100_000, seed: int = 1) -> list[bytes]:
    """Lines as files have them; one in a hundred is no UTF-8, and the one in the middle has `longest` characters."""
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
    """What is wrong with the command's answer; nothing where all is well."""
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
    for kind, numbers in lines_of.items():  # the first are named, and all are counted
        named = [number for number in range(1, len(lines) + 1) if kind.format(number) in notes]
        if named != numbers[:NAMED] or (len(numbers) > NAMED) != (f"in all, {len(numbers):,} " in notes):
            wrong.append(f"`{kind}` is said of {named}, and so are {numbers}")
    print(f"{len(lines):,} lines in, {len(records):,} out; {sum(one['cut'] for one in records):,} cut, each reported")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--strings", type=int, default=100_000)
    parser.add_argument("--lines", type=int, default=10_000)
    given = parser.parse_args()
    texts = [*random_strings(given.strings), *NASTY]
    pairs = load_phrasebook().generate(seed=4, count=2000)
    tokenizers = {"the model's": load_bundle(resolve_model_folder(Path(given.model)), "cpu").tokenizers.src}
    for name, settings in (("byte fallback", {"byte_fallback": True}), ("unigram", {"kind": "unigram"})):
        chosen = TokenizerSettings(vocab_size=2000, **settings)
        tokenizers[name] = train_tokenizer(chosen, (pair.src for pair in pairs))
    wrong = []
    for name, tokenizer in tokenizers.items():
        changed, controls = lost(tokenizer, texts)
        one, two = seconds_for(tokenizer, 0.5), seconds_for(tokenizer, 1.0)
        print(f"{name}: {changed} of {len(texts):,} strings changed, {controls} with control ids; ", end="")
        print(f"a line of 1 MB {two:.2f} s, {two / one:.2f} times that of half")
        if changed or controls or two > 2.5 * one:
            wrong.append(f"the tokeniser: {name}")
    wrong += check_lines(given.model, awkward_lines(given.lines))
    print("\n".join(wrong[:20]) or "all is well")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

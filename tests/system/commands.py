"""What tests as a user share: the command in a process, aligned files, a cache of the hub, and the log of a run."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dragoman.records import SentencePair


def dragoman(*arguments: object, stdin: str = "", code: int = 0) -> "subprocess.CompletedProcess[str]":
    """Run the command and check its exit code."""
    command = [sys.executable, "-m", "dragoman", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=280)
    assert done.returncode == code, done.stderr
    return done


def write_sides(stem: Path, pairs: Iterable[SentencePair], src: str = "en", tgt: str = "de") -> None:
    """Write two aligned files, STEM.en and STEM.de."""
    pairs = list(pairs)
    for language, texts in ((src, [pair.src for pair in pairs]), (tgt, [pair.tgt for pair in pairs])):
        stem.with_name(f"{stem.name}.{language}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def write_tsv(path: Path, pairs: Iterable[SentencePair]) -> None:
    """Write one file with a source and a target on each line."""
    path.write_text("".join(f"{pair.src}\t{pair.tgt}\n" for pair in pairs), encoding="utf-8")


def store_in_hub_cache(cache: Path, model: Path, name: str) -> Path:
    """Copy a model into a cache as the hub's client lays it out, under the name OWNER/NAME. Returns the cache."""
    repository, commit = cache / f"models--{name.replace('/', '--')}", "0123456789abcdef0123456789abcdef01234567"
    shutil.copytree(model, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    return cache


def events(run: Path) -> list[dict[str, Any]]:
    """Return the entries of a run's log."""
    return [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").split("\n") if line]

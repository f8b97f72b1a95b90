"""Every script in examples/ runs, on a tiny corpus or on the stored model."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
MODELS = ROOT / "tests" / "data" / "models"
MODEL = MODELS / "format_1"
TINY = (
    "vocab_size=300",
    "preset=custom",
    "d_model=16",
    "d_ff=32",
    "num_heads=2",
    "num_encoder_layers=1",
    "num_decoder_layers=1",
    "max_steps=4",
    "train_device=cpu",
    "train_precision=float32",
    "validate_every_steps=2",
    "check_languages=false",
)


def run_example(name: str, *arguments: str | Path, folder: Path) -> list[str]:
    """Return the lines that an example prints."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_example_is_listed_and_tested() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    tested = Path(__file__).read_text(encoding="utf-8")
    assert {name for name in names if f"]({name})" in listed and f'"{name}"' in tested} == names


def test_train_and_translate(tmp_path: Path) -> None:
    numbers, german = "one two three four five six".split(), "eins zwei drei vier fünf sechs".split()
    for file, words in (("train.en", numbers), ("train.de", german)):
        pairs = (f"{a} {b} {c}\n" for a in words for b in words for c in words)
        (tmp_path / file).write_text("".join(pairs), encoding="utf-8")
    settings = [argument for setting in TINY for argument in ("--set", setting)]
    lines = run_example("train_and_translate.py", "train.en", "train.de", "one two", *settings, folder=tmp_path)
    assert lines[0].startswith("validation, beam 5: BLEU ")
    assert len(lines) == 2


def test_evaluate_and_compare(tmp_path: Path) -> None:
    other = tmp_path / "other.de"
    other.write_text((MODELS / "target.txt").read_text(encoding="utf-8").replace("Hund", "Katze"), encoding="utf-8")
    source, target = MODELS / "source.txt", MODELS / "target.txt"
    lines = run_example("evaluate_and_compare.py", MODEL, source, target, other, folder=tmp_path)
    assert lines[0].startswith("BLEU 100.00 [100.00, 100.00]")
    assert lines[-1].endswith(".")


def test_serve_and_call(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    lines = run_example("serve_and_call.py", MODEL, "one two red dog", folder=tmp_path)
    assert lines[0] == "en to de: eins zwei rot Hund"
    assert lines[1].startswith("or: ")


def test_attention_weights(tmp_path: Path) -> None:
    lines = run_example("attention_weights.py", MODEL, "six", folder=tmp_path)
    assert lines[0] == "sechs"
    sums = [sum(map(int, line.split()[1:])) for line in lines[2:]]
    assert all(abs(total - 100) <= 2 for total in sums)

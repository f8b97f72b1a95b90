"""Vocabulary sizes are maxima, one for each side, in `train`, `plan` and `summary`."""

import json
import tomllib
from pathlib import Path

import pytest

from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook

SIZES = {"d-model": 16, "d-ff": 16, "num-heads": 2, "num-encoder-layers": 1, "num-decoder-layers": 1}
FLAGS = [f"--model.{name}={size}" for name, size in SIZES.items()]
FLAGS += ["--train.device=cpu", "--train.max-steps=1", "--inference.max-extra-tokens=3", "--tokenizer.joint=false"]


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The flags of a small corpus."""
    monkeypatch.chdir(tmp_path)
    pairs = load_phrasebook().generate(seed=1, count=60)
    Path("text.en-de.tsv").write_text("".join(f"{pair.src}\t{pair.tgt}\n" for pair in pairs), encoding="utf-8")
    return ["--data", "text.en-de.tsv"]


def test_a_size_is_a_maximum_for_each_side(text: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--tokenizer.kind=word", "--tokenizer.vocab-size=8000", "--tokenizer.tgt-vocab-size=40"]
    code = run_command(["train", *text, *FLAGS, *sizes, "--out", "run"])
    said = capsys.readouterr().err
    assert code == 0, said
    card = json.loads(Path("run/checkpoints/step_0000001/card.json").read_text(encoding="utf-8"))
    size = card["src_vocab_size"]
    assert (40 < size < 200, card["tgt_vocab_size"]) == (True, 40)
    note = f"the source vocabulary has {size} entries, all that the text supports; `tokenizer.vocab_size` is a maximum"
    assert said.count(note) == said.count("entries, all that the text supports") == 1
    assert f"vocabulary {size} and 40;" in said
    settings = tomllib.loads(Path("run/config.toml").read_text(encoding="utf-8"))["tokenizer"]
    assert {name: settings[name] for name in settings if "vocab_size" in name} == {
        "vocab_size": 8000,
        "src_vocab_size": 0,
        "tgt_vocab_size": 40,
    }
    assert run_command(["train", *text, "--out", "run"]) == 0
    assert "Nothing is left to do" in capsys.readouterr().err
    assert run_command(["train", *text, "--out", "run", "--tokenizer.src-vocab-size=99"]) == 2
    assert "run is a run with `tokenizer.src_vocab_size` = 0, but now it is 99." in capsys.readouterr().err


@pytest.mark.parametrize("side", ["src", "tgt"])
def test_sizes_of_sides_are_refused_for_one_vocabulary_before_the_text_is_read(
    side: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["train", "--data", "missing.tsv", f"--tokenizer.{side}-vocab-size", "900"]) == 2
    assert capsys.readouterr().err == (
        f"dragoman: `--tokenizer.{side}-vocab-size` must be 0 if `tokenizer.joint` is true, because both languages "
        "share one vocabulary, but is 900. Set `tokenizer.joint` to false, or use `tokenizer.vocab_size`.\n"
    )


def test_a_size_that_is_too_small_is_named_with_its_side(text: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["train", *text, *FLAGS, "--tokenizer.tgt-vocab-size=20", "--out", "run"]) == 2
    assert "`tokenizer.tgt_vocab_size` must be at least 260 for this kind of tokenizer" in capsys.readouterr().err


def test_a_summary_has_the_sizes_of_both_vocabularies(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--model.preset", "tiny", "--tokenizer.joint", "false", "--tokenizer.vocab-size", "500"]
    code = run_command(["summary", *flags, "--tokenizer.src-vocab-size", "300", "--json"])
    said = capsys.readouterr()
    assert code == 0, said.err
    shapes = {row["name"]: row["shape"] for row in json.loads(said.out)["tensors"]}
    assert (shapes["src_embedding.weight"], shapes["tgt_embedding.weight"]) == ([300, 128], [500, 128])

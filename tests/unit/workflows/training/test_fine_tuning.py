"""Fine-tuning: it starts from a model's weights and tokenizer, mixes in old data, and scores both domains."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman import demo
from dragoman.bundle import Model, Weights, resolve_model_folder
from dragoman.bundle.weights import SCALE
from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.files import sha256_of

FLAGS = [
    "--train.max-steps",
    "2",
    "--train.batch-tokens",
    "200",
    "--train.device",
    "cpu",
    "--train.precision",
    "float32",
]


def write_pairs(path: Path, words: str, count: int) -> Path:
    numbers = ("one", "two", "three", "four", "five")
    rows = [f"{numbers[i % 5]} {numbers[i // 5 % 5]} {words} {i}" for i in range(count)]
    path.write_text("".join(f"{row}\t{row}.\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    new, old = (write_pairs(tmp_path / f"{name}.tsv", name, count) for name, count in (("new", 60), ("old", 90)))
    test = write_pairs(tmp_path / "old-test.tsv", "test", 4)
    with old.open("a") as file:
        file.write(test.read_text())  # cleaning must remove the test sentences from the training text
    files = {"--data": new, "--data.replay": old, "--data.replay-test": test, "--data.replay-share": 0.4}
    return [str(each) for pair in files.items() for each in pair]


def test_fine_tuning_keeps_the_tokenizer_and_records_the_lineage(
    model_folder: Path, data: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base_folder = shutil.copytree(model_folder, tmp_path / "base")
    out = tmp_path / "run"
    command = ["train", "--from", str(base_folder), *data, "--out", str(out), *FLAGS]
    assert run_command(command) == 0
    answer = capsys.readouterr()
    base, tuned = (Model.load(resolve_model_folder(folder), "cpu") for folder in (base_folder, out))
    assert tuned.tokenizers.src.library.to_str() == base.tokenizers.src.library.to_str()
    assert tuned.config.model == base.config.model
    moved = [
        (a - b).abs().max() for a, b in zip(base.transformer.parameters(), tuned.transformer.parameters(), strict=True)
    ]
    assert 0 < max(moved) < 0.01  # two small steps from the original weights
    assert len(tuned.card.lineage) == 1
    assert tuned.card.lineage[0].startswith("base (")
    assert sha256_of(base_folder / "model.safetensors")[:12] in tuned.card.lineage[0]
    assert "fine-tuned from" in tuned.card.to_markdown()
    assert "corpus read kept new.tsv 60" in " ".join(answer.err.split())
    for name in ("validation (1 sentences)", "replay test (4 sentences)"):
        assert name in answer.out
    assert "before" in answer.out
    assert "version:" in answer.out
    assert {row[0] for row in tuned.card.scores} >= {
        f"{part}, beam 2"
        for part in ("validation", "replay test", "validation, before fine-tuning", "replay test, before fine-tuning")
    }
    # The run continues if the original model has changed or is gone, and keeps the lineage.
    shutil.rmtree(base_folder)
    shutil.copytree(resolve_model_folder(out), base_folder)
    command[command.index("--train.max-steps") + 1] = "4"
    assert run_command(command) == 0
    assert "base is no longer the model that training started from" in capsys.readouterr().err
    shutil.rmtree(base_folder)
    command[command.index("--train.max-steps") + 1] = "5"
    assert run_command(command) == 0
    assert "no scores from before fine-tuning" in capsys.readouterr().err
    again = Model.load(resolve_model_folder(out), "cpu")
    assert again.card.lineage == tuned.card.lineage
    assert again.card.steps == 5
    assert torch.equal(again.transformer.src_embedding.weight, again.transformer.tgt_embedding.weight)


def tune_demo(folder: Path, flags: list[str], spoil: bool = False) -> int:
    """Fine-tune the model of the demo on 60 pairs, and validate on 12 others."""
    pairs = load_phrasebook().generate(seed=5, count=72)
    files = (("mine", pairs[:60]), ("dev", pairs[60:]))
    for name, part in files:
        rows = [(pair.src, " ".join([*pair.tgt.split()[:4], "xyz"]) if spoil else pair.tgt) for pair in part]
        (folder / f"{name}.en-de.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in rows), encoding="utf-8")
    data = ["--data", str(folder / "mine.en-de.tsv"), "--data.dev", str(folder / "dev.en-de.tsv")]
    shorter = ["--inference.beam-size", "1", "--inference.max-extra-tokens", "5", "--train.average-last", "0"]
    model = ["--from", str(write_demo_model(folder / "demo"))]
    return run_command(["train", *model, *data, "--out", str(folder / "run"), *FLAGS, *shorter, *flags])


def write_demo_model(folder: Path) -> Path:
    """The model of the demo with float32 weights, which fine-tuning needs. The demo has integers and their scales."""
    if not folder.exists():
        model = Model.load(Path(demo.__file__).parent / "model", "cpu")
        stored = model.weights.arrays
        arrays = {name: array for name, array in stored.items() if not name.endswith(SCALE)}
        for name in arrays.keys() & {name.removesuffix(SCALE) for name in stored.keys() - arrays.keys()}:
            arrays[name] = arrays[name].astype(np.float32) * stored[name + SCALE][:, None]
        replace(model, weights=Weights(model.config.model, arrays)).save(folder)
    return folder


def test_a_model_that_fine_tuning_makes_worse_is_compared_with_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ruin = ["--train.learning-rate", "0.1", "--train.warmup-steps", "1", "--validate.every-steps", "1"]
    assert tune_demo(tmp_path, ruin) == 0
    answer = capsys.readouterr()
    assert "best so far" not in answer.err
    assert "Fine-tuning made it worse: BLEU was " in answer.out
    assert "Keep the earlier model, or start again with more text or a lower `train.learning_rate`." in answer.out
    start, *others = [line for line in answer.err.split("\n") if line.startswith(("validation of", "validation after"))]
    assert start.startswith("validation of the model to fine-tune: perplexity ")
    assert [line.partition(":")[0] for line in others] == ["validation after step 1", "validation after step 2"]
    score = float(start.split("bleu ")[1].split()[0])
    assert score > max(float(line.split("bleu ")[1].split()[0]) for line in others)


def test_two_validations_do_not_show_whether_a_run_was_still_improving(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gentle = ["--train.learning-rate", "1e-9", "--validate.every-steps", "1", "--data.check-languages", "false"]
    assert tune_demo(tmp_path, gentle, spoil=True) == 0
    said = capsys.readouterr().out
    assert "Too few validations show whether it was still improving: raise `train.max_steps`" in said


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model.d-model", "64"], "`model.d_model` is 64, but "),
        (["--model.preset", "base"], '`model.preset` is "base", but '),
        (["--tokenizer.vocab-size", "500"], "`tokenizer.vocab_size` is 500, but "),
        (["--from", "nowhere"], "nowhere does not exist"),
        (["--src-lang", "fr"], "`data.src_lang` is fr, but "),
        (["--data.replay", "missing.tsv"], "missing.tsv"),
    ],
)
def test_settings_that_contradict_the_model_are_refused_before_anything_is_written(
    model_folder: Path,
    data: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    message: str,
) -> None:
    base = shutil.copytree(model_folder, tmp_path / "base")
    if "--src-lang" in flags:
        _state_languages(base)
    assert run_command(["train", "--from", str(base), *data, "--out", str(tmp_path / "run"), *FLAGS, *flags]) == 2
    error = capsys.readouterr().err
    assert message in error.split("\n")[-2]
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_replay_data_without_a_model_is_refused(
    data: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["train", *data, "--out", str(tmp_path / "run"), *FLAGS]) == 2
    assert "`train.start_from` must be set if replay data is given" in capsys.readouterr().err


def _state_languages(folder: Path) -> None:
    from dataclasses import replace

    trained = Model.load(folder, "cpu")
    data = replace(trained.config.data, src_lang="en", tgt_lang="de")
    replace(trained, config=replace(trained.config, data=data)).save(folder)


def test_a_run_that_samples_translations_is_validated_with_beam_search(model_folder: Path, tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "new.tsv", "new", 60)
    sampled = ["--inference.sample", "true", "--inference.temperature", "0.8", "--inference.top-k", "9"]
    command = ["train", "--from", str(model_folder), "--data", str(pairs), "--out", str(tmp_path / "run"), *FLAGS]
    assert run_command([*command, *sampled]) == 0
    assert Model.load(resolve_model_folder(tmp_path / "run"), "cpu").config.inference.temperature == 0.8

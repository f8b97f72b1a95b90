"""Knowledge distillation: predictions of teachers are computed once, kept in the run, and recorded in its card."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dragoman.bundle import Model, Weights, replace_card, resolve_model_folder
from dragoman.cli.main import run_command
from dragoman.data.soft_targets import SoftTargets
from dragoman.data.store import PairStore
from dragoman.files import sha256_of
from dragoman.model.transformer import Transformer
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizer

SIZE = ["--model.preset", "custom", "--model.d-model", "16", "--model.d-ff", "16", "--model.num-heads", "2"]
SIZE += ["--model.num-encoder-layers", "1", "--model.num-decoder-layers", "1"]
FLAGS = ["--train.batch-tokens", "200", "--train.device", "cpu", "--train.precision", "float32"]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path, numbers = tmp_path / "pairs.tsv", ("one", "two", "three", "four", "five")
    rows = [f"{numbers[i % 5]} {numbers[i // 5 % 5]} {i}" for i in range(60)]
    path.write_text("".join(f"{row}\t{row}.\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def teachers(model_folder: Path, other_model_folder: Path, tmp_path: Path) -> list[Path]:
    return [
        shutil.copytree(folder, tmp_path / name)
        for name, folder in (("first", model_folder), ("second", other_model_folder))
    ]


def command(pairs: Path, teachers: list[Path], out: Path, steps: int, *more: str) -> list[str]:
    named = [word for teacher in teachers for word in ("--teacher", str(teacher))]
    return ["train", "--data", str(pairs), *named, "--out", str(out), *FLAGS, "--train.max-steps", str(steps), *more]


def test_a_run_learns_from_teachers_and_continues_without_them(
    pairs: Path, teachers: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    assert run_command(command(pairs, teachers, straight, 6, *SIZE)) == 0
    assert "running 2 teachers on 59 pairs" in capsys.readouterr().err
    model = Model.load(resolve_model_folder(straight), "cpu")
    assert model.tokenizers.same_as(Model.load(teachers[0], "cpu").tokenizers)
    assert model.config.tokenizer.bpe_dropout == 0  # the recipe for a small corpus would use BPE dropout
    assert [name.split(" (")[0] for name in model.card.teachers] == ["first", "second"]
    assert sha256_of(teachers[1] / "model.safetensors")[:12] in model.card.teachers[1]
    assert "It was distilled from first (" in model.card.to_markdown()
    soft = SoftTargets(straight / "data" / "teachers", PairStore(straight / "data" / "train"))
    assert soft.teachers == model.card.teachers

    # The same run, stopped once and continued without the teachers.
    assert run_command(command(pairs, teachers, stopped, 3, *SIZE)) == 0
    for teacher in teachers:
        teacher.rename(teacher.with_name(f"{teacher.name} elsewhere"))
    assert run_command(command(pairs, teachers, stopped, 6, *SIZE)) == 0
    again = Model.load(stopped / "checkpoints" / "step_0000006", "cpu")
    straight_last = Model.load(straight / "checkpoints" / "step_0000006", "cpu")
    assert again.card.teachers == model.card.teachers
    for ours, theirs in zip(again.transformer.parameters(), straight_last.transformer.parameters(), strict=True):
        assert torch.equal(ours, theirs)

    # Fine-tuning without teachers records none.
    assert run_command(["train", "--from", str(straight / "checkpoints" / "step_0000006"), "--data", str(pairs), *FLAGS,
                 "--out", str(tmp_path / "plain"), "--train.max-steps", "1"]) == 0  # fmt: skip
    assert Model.load(resolve_model_folder(tmp_path / "plain"), "cpu").card.teachers == ()


def test_lost_soft_targets_are_computed_again_by_the_same_teachers_only(
    pairs: Path, teachers: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run_command(command(pairs, teachers, out, 2, *SIZE)) == 0
    kept = out / "data" / "teachers"
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    (kept / "probs").write_bytes(b"")
    assert run_command(command(pairs, teachers, out, 3, *SIZE)) == 0
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
    shutil.rmtree(kept)
    trained = Model.load(teachers[1], "cpu")
    with torch.no_grad():
        next(trained.transformer.parameters()).add_(1.0)
    trained.save(teachers[1])
    capsys.readouterr()
    assert run_command(command(pairs, teachers, out, 4, *SIZE)) == 2
    error = capsys.readouterr().err.strip().split("\n")[-1]
    assert "second (" in error
    assert "another model than the one that this run started with" in error
    # A new run accepts the changed teacher.
    assert run_command(command(pairs, teachers, tmp_path / "another", 1, *SIZE)) == 0


def test_a_run_without_teachers_does_not_continue_with_teachers(
    pairs: Path, teachers: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the teachers and not BPE dropout, which teachers forbid but the recipe for small corpora uses."""
    out = tmp_path / "run"
    assert run_command(command(pairs, [], out, 2, *SIZE)) == 0
    assert Model.load(resolve_model_folder(out), "cpu").config.tokenizer.bpe_dropout > 0
    capsys.readouterr()
    assert run_command(command(pairs, teachers, out, 3, *SIZE)) == 2
    assert "is a run with `train.teachers` = ''" in capsys.readouterr().err.strip().split("\n")[-1]


def test_a_run_without_an_intact_checkpoint_is_an_error(
    pairs: Path, teachers: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run_command(command(pairs, teachers, out, 2, *SIZE)) == 0
    weights = out / "checkpoints" / "step_0000002" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    store = (out / "data" / "train" / "manifest.json").read_bytes()
    capsys.readouterr()
    assert run_command(command(pairs, teachers, out, 3, *SIZE)) == 2
    assert "has no checkpoint that can be continued" in capsys.readouterr().err.strip().split("\n")[-1]
    assert (out / "data" / "train" / "manifest.json").read_bytes() == store


def test_a_run_fine_tunes_one_of_its_teachers(pairs: Path, teachers: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run_command(command(pairs, teachers, out, 2, "--from", str(teachers[0]))) == 0
    card = Model.load(resolve_model_folder(out), "cpu").card
    assert len(card.lineage) == 1
    assert len(card.teachers) == 2


def test_an_imported_model_teaches_a_smaller_model(pairs: Path, small_marian: Path, tmp_path: Path) -> None:
    imported, out = tmp_path / "opus", tmp_path / "run"
    assert run_command(["import", str(small_marian), "--out", str(imported)]) == 0
    assert run_command(command(pairs, [imported], out, 2, *SIZE)) == 0
    student, teacher = (Model.load(resolve_model_folder(folder), "cpu") for folder in (out, imported))
    assert student.config.tokenizer.kind == "sentencepiece"
    assert student.tokenizers.same_as(teacher.tokenizers)
    assert student.card.parameters < teacher.card.parameters
    assert [name.split(" (")[0] for name in student.card.teachers] == ["opus"]


def test_a_plan_runs_teachers_on_a_sample(
    pairs: Path, teachers: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.workflows.training.planning._MOST_TAUGHT_PAIRS", 31)
    named = [word for teacher in teachers for word in ("--teacher", str(teacher))]
    assert run_command(["plan", "--data", str(pairs), *named, *FLAGS, *SIZE]) == 0
    answer = capsys.readouterr()
    assert "running 2 teachers on 30 pairs" in answer.err
    assert "the whole run" in answer.out
    assert "vocabulary are the teachers'" in " ".join(answer.out.split())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--teacher", "nowhere"], "nowhere does not exist"),
        (["--teacher", "FIRST,SECOND"], "`--teacher` must be one name"),
        (["--train.teachers", "FIRST,,SECOND"], "where a name is missing. Put one comma between"),
        (["--teacher", "FIRST", "--train.teachers", "SECOND"], "`--teacher` and `--train.teachers` are one setting"),
        (["--teacher", "FIRST", "--tokenizer.vocab-size", "500"], "`tokenizer.vocab_size` is 500, but "),
        (["--teacher", "FIRST", "--tokenizer.bpe-dropout", "0.1"], "`--tokenizer.bpe-dropout` must be 0 if "),
        (["--teacher", "FIRST", "--data.augment-noise", "0.1"], "`--data.augment-noise` must be 0 if "),
        (["--teacher", "FIRST", "--src-lang", "fr"], "`data.src_lang` is fr, but "),
        (["--train.teacher-weight", "0.7"], "`--train.teacher-weight` has no effect without teachers"),
        (["--teacher", "FIRST", "--train.teacher-weight", "0"], "must be greater than 0"),
        (["--teacher", "FIRST", "--teacher", "STRANGER"], "have different tokenizers"),
        (["--teacher", "FIRST", "--from", "STRANGER"], "the student have different tokenizers"),
        (["--teacher", "SHORT"], "has positions for 15 only. Set it to 15"),
    ],
)
def test_contradictions_are_refused_before_anything_is_written(
    pairs: Path,
    teachers: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    message: str,
) -> None:
    first = Model.load(teachers[0], "cpu")
    if "--src-lang" in flags:
        data = replace(first.config.data, src_lang="en", tgt_lang="de")
        replace_card(teachers[0], first.card, replace(first.config, data=data))
    places = {"FIRST": str(teachers[0]), "SECOND": str(teachers[1])}
    for name in ("STRANGER", "SHORT"):
        if name in flags:
            places[name] = str(tmp_path / name.lower())
            (_stranger(first) if name == "STRANGER" else _short(first)).save(Path(places[name]))
    given = [re.sub("|".join(places), lambda found: places[found[0]], flag) for flag in flags]
    own = [] if "--from" in flags else SIZE
    out = tmp_path / "run"
    assert run_command(["train", "--data", str(pairs), "--out", str(out), *FLAGS, *own, *given]) == 2
    assert message in capsys.readouterr().err.strip().split("\n")[-1]
    assert not (out / "checkpoints").exists()


def _stranger(trained: Model) -> Model:
    """A model whose tokenizer was trained with the same settings on another text."""
    tokenizer = train_tokenizer(trained.config.tokenizer, ["sechs sieben acht neun zehn"] * 3)
    model = Transformer(trained.config.model, tokenizer.vocab_size, tokenizer.vocab_size)
    return replace(trained, weights=Weights.of(model), tokenizers=TokenizerPair(tokenizer, tokenizer, joint=True))


def _short(trained: Model) -> Model:
    settings = replace(trained.config.model, positions="learned", max_positions=16)
    size = trained.tokenizers.src.vocab_size
    config = replace(trained.config, model=settings, data=replace(trained.config.data, max_tokens=15))
    return replace(trained, weights=Weights.of(Transformer(settings, size, size)), config=config)

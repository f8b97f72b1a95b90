import json
import shutil
from pathlib import Path

import pytest

from dragoman.cli.main import run_command
from dragoman.engines.search.step_model import Predictions
from dragoman.engines.tensors.fast_model import FastModel
from dragoman.errors import CheckpointError
from dragoman.inference import verification
from dragoman.training.verification import ResumeReport


def test_a_model_without_validation_data_translates_random_texts(
    model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["verify", str(model_folder), "--sentences", "6"]) == 0
    answer = capsys.readouterr()
    rows = answer.out.split("\n")[1:13]
    assert [row.split()[-5] for row in rows] == ["1"] * 6 + ["2"] * 6
    assert "ok: 0 of 72 translations differ from the reference.\n" in answer.out
    assert "6 texts (random tokens of its vocabulary)" in answer.err


def test_a_difference_is_printed_with_both_outputs(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("one two three\n\nfour five. one\nfive\nnever read\n", encoding="utf-8")
    right = FastModel.step
    monkeypatch.setattr(verification, "_TIE_TRIALS", 2)
    monkeypatch.setattr(FastModel, "step", lambda *given: Predictions.of(-right(*given).log_probs()))
    command = ["verify", str(model_folder), "--src", str(tmp_path / "in.txt"), "--sentences", "4"]
    assert run_command([*command, "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert (answer["holds"], answer["texts"], len(answer["checks"])) == (False, 4, 12)
    failed = {one["way"]: one for one in answer["checks"] if one["differences"] and one["beam_size"] == 1}
    assert {"tensors, packed", "tensors, padded"} <= set(failed)
    check = failed["tensors, padded"]
    assert {one["src"] for one in check["differences"]} <= {"one two three", "four five. one", "five"}
    assert run_command(command) == 2
    page = capsys.readouterr().out
    one = check["differences"][0]
    assert f"tensors, padded, beam 1, text {one['number']}: {one['src']}\n  expected  {one['expected']}" in page
    assert "\nDIFFERENT: " in page


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--sentences", "0"], "`--sentences` must be a whole number of at least 1, but is"),
        (["--src", "gone.txt"], "gone.txt does not exist."),
        (["--src", "empty.txt"], "empty.txt is empty."),
    ],
)
def test_bad_input_is_one_line(
    model_folder: Path,
    tmp_path: Path,
    flags: list[str],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("")
    assert run_command(["verify", str(model_folder), *flags]) == 2
    answer = capsys.readouterr()
    assert (answer.out, answer.err.count("\n")) == ("", 1)
    assert answer.err.startswith(f"dragoman: {complaint}")


def test_a_run_is_resumed_and_differences_fail(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "checkpoints").mkdir()
    shutil.copytree(model_folder, tmp_path / "checkpoints" / "step_0000007")
    (tmp_path / "best").write_text("checkpoints/step_0000007\n")
    shutil.copyfile(model_folder / "config.toml", tmp_path / "config.toml")
    asked: list[tuple[Path, int]] = []

    def verify_resume(run: Path, steps: int) -> ResumeReport:
        asked.append((run, steps))
        return ResumeReport(7, 9, 11, 30, 2, ("state.json: seed",) if steps == 5 else ())

    monkeypatch.setattr("dragoman.training.verification.verify_resume", verify_resume)
    same = verification.Check("all together", 1, 2, 0, (), 0.0)
    monkeypatch.setattr("dragoman.inference.verification.verify_translations", lambda *_: iter([same]))
    command = ["verify", str(tmp_path), "--sentences", "2", "--steps"]
    assert run_command([*command, "4"]) == 0
    assert "ok: resuming, steps 8 to 11, with a kill after 9: 0 differences in\n30 tensors" in capsys.readouterr().out
    assert run_command([*command, "5"]) == 2
    assert "\nstate.json: seed\nDIFFERENT: resuming" in capsys.readouterr().out
    assert run_command([*command, "5", "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert (answer["holds"], answer["resume"]["differences"]) == (False, ["state.json: seed"])
    assert asked == [(tmp_path, 4), (tmp_path, 5), (tmp_path, 5)]
    assert run_command([*command, "0"]) == 0
    assert "resuming" not in capsys.readouterr().out


def test_a_sampling_model_is_verified_with_beam_search(
    sampling_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["verify", str(sampling_folder), "--sentences", "3"]) == 0
    assert "ok: 0 of 36 translations differ" in capsys.readouterr().out


def test_a_run_that_cannot_resume_is_an_early_error_with_exit_code_3(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(model_folder, tmp_path / "checkpoints" / "step_0000007")
    (tmp_path / "best").write_text("checkpoints/step_0000007\n")
    config = (model_folder / "config.toml").read_text()
    text = tmp_path / "text.en-de.tsv"
    (tmp_path / "config.toml").write_text(config.replace('train = ""', f'train = "{text}"', 1))
    with monkeypatch.context() as patch:
        patch.setattr(
            "dragoman.inference.verification.verify_translations", lambda *_: pytest.fail("the work has begun")
        )
        assert run_command(["verify", str(tmp_path)]) == 3
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)
        assert (
            f"could not verify resuming: {text}, which {tmp_path / 'config.toml'} records as `data.train`" in said.err
        )
        text.write_text("one\teins\n")
        (tmp_path / "data").mkdir()
        record = {"key": "k", "test": None, "files": {"text.en-de.tsv": "0" * 64}}
        (tmp_path / "data" / "corpus.json").write_text(json.dumps(record))
        assert run_command(["verify", str(tmp_path)]) == 3
        assert f"{text} has changed since {tmp_path} started" in capsys.readouterr().err
    same = verification.Check("all together", 1, 2, 0, (), 0.0)
    different = verification.Check("all together", 1, 2, 0, (verification.Difference(1, "a", "b", "c", 1.0),), 0.0)
    (tmp_path / "data" / "corpus.json").unlink()

    def fails(run: Path, steps: int) -> ResumeReport:
        raise CheckpointError("Training a copy took too long.")

    monkeypatch.setattr("dragoman.training.verification.verify_resume", fails)
    for check, code, holds in ((same, 3, None), (different, 2, False)):
        monkeypatch.setattr(
            "dragoman.inference.verification.verify_translations", lambda *_, check=check: iter([check])
        )
        assert run_command(["verify", str(tmp_path), "--json"]) == code
        said = capsys.readouterr()
        assert json.loads(said.out)["holds"] is holds
        assert "could not verify resuming: Training a copy took too long." in said.err

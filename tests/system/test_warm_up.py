"""`dragoman warm-up`: afterwards, nothing is compiled any more."""

from pathlib import Path

import pytest

from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.kernels import library
from tests.system.commands import dragoman, write_sides

pytest.importorskip("torch", reason="compiles code for training")
pytest.importorskip("numba", reason="numba compiles for the processor at hand")
pytestmark = pytest.mark.skipif(not library.is_installed("int8"), reason="needs code for this processor in the package")
INSTALLED = [f"translating in {precision}: part of the package" for precision in ("int8", "int16", "float32")]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder, which does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "dragoman" / "machine-code"


def test_training_of_all_kinds_compiles_nothing_afterwards(cache: Path, tmp_path: Path) -> None:
    *installed, training = dragoman("warm-up").stdout.splitlines()
    assert installed == INSTALLED
    assert training.startswith("training: compiled in ")
    assert dragoman("warm-up").stdout.splitlines() == [*INSTALLED, f"training: found in {cache}"]
    write_sides(tmp_path / "corpus", load_phrasebook().generate(seed=1, count=200))
    sides = "--src", tmp_path / "corpus.en", "--tgt", tmp_path / "corpus.de"
    few = "--train.max-steps", "2", "--train.batch-tokens", "256", "--inference.max-extra-tokens", "3"
    plain = "--model.preset", "tiny", "--train.precision", "float32", "--model.dropout", "0"
    rich = "--model.preset", "tiny", "--train.precision", "bfloat16", "--model.attention-dropout", "0.1"
    for name, options in (("plain", plain), ("rich", (*rich, "--model.activation-dropout", "0.1"))):
        trained = dragoman("train", *sides, *few, *options, "--train.device", "cpu", "--out", tmp_path / name)
        assert "compiling" not in trained.stderr


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    done = dragoman("warm-up", code=2)
    assert done.stdout.splitlines() == INSTALLED
    assert done.stderr.count("\n") == 1
    assert "file/dragoman/machine-code" in done.stderr
    assert "Set `XDG_CACHE_HOME`" in done.stderr


def test_without_torch_training_is_not_compiled(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dragoman.cli import warm_up

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warm_up, "has_torch", lambda: False)
        warm_up.run(warm_up.build_parser().parse([]))
    assert capsys.readouterr().out.splitlines() == [*INSTALLED, "training: not installed"]
    assert not cache.exists()

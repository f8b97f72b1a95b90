"""Advice to install names what exists: the checkout, and PyPI only once the package is there."""

import importlib.util
from pathlib import Path

import pytest

from dragoman import errors
from dragoman.cli.main import run_command

ROOT = Path(__file__).parents[2]


def test_a_command_without_its_extra_advises_to_install_it_from_the_checkout(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "uvicorn" else find_spec(name))
    assert run_command(["serve", str(model_folder)]) == 2
    advice = "Run `pip install '.[serve]'` in the checkout of Dragoman."
    assert capsys.readouterr().err == f"dragoman: `dragoman serve` needs uvicorn. {advice}\n"
    monkeypatch.setattr(errors, "REPOSITORY", "https://example.org/dragoman")
    assert run_command(["serve", str(model_folder)]) == 2
    assert capsys.readouterr().err.endswith("needs uvicorn. Run `pip install 'dragoman[serve]'`.\n")


def test_one_function_writes_the_advice() -> None:
    """Until the first upload, the name on PyPI could be registered by anyone."""
    files = [path for suffix in ("py", "html") for path in (ROOT / "dragoman").rglob(f"*.{suffix}")]
    files += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").iterdir(), ROOT / "README.md"]
    assert [path.name for path in files if path.is_file() and "dragoman[" in path.read_text(encoding="utf-8")] == []

"""Download models by name from a prepared cache, without a network."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman
from dragoman.cli.main import run_command
from dragoman.errors import ModelError
from dragoman.exchange.hub import fetch_model, is_hub_name
from tests.system.commands import store_in_hub_cache


def _import(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache)}
    command = [sys.executable, "-m", "dragoman", "import", *arguments]
    return subprocess.run(command, cwd=cache, env=environment, capture_output=True, text=True, timeout=200)


def test_by_name(small_marian: Path, tmp_path: Path) -> None:
    cache = store_in_hub_cache(tmp_path, small_marian, "Someone/opus-mt-en-de")
    done = _import(cache, "Someone/opus-mt-en-de")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "models/opus-mt-en-de\n"
    assert "downloading Someone/opus-mt-en-de" in done.stderr
    assert "Someone/opus-mt-en-de" in (cache / "models" / "opus-mt-en-de" / "card.md").read_text()


def test_loading_by_name_imports_the_model_once(
    small_marian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(
        "huggingface_hub.constants.HF_HUB_CACHE",
        str(store_in_hub_cache(tmp_path, small_marian, "Someone/opus")),
    )
    translator = dragoman.load("Someone/opus", device="cpu")
    shutil.rmtree(tmp_path / "models--Someone--opus")
    assert dragoman.load("Someone/opus", device="cpu")("Hallo") == translator("Hallo")
    with pytest.raises(ModelError, match="Someone/other is not in the local cache"):
        dragoman.load("Someone/other")
    assert [path.name for path in (tmp_path / "cache" / "dragoman" / "models").iterdir()] == ["Someone--opus"]


def test_a_name_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert run_command(["import", "Someone/no-such-model"]) == 2
    fetching, error = capsys.readouterr().err.rstrip("\n").split("\n")
    assert "downloading Someone/no-such-model" in fetching
    assert "Someone/no-such-model is not in the local cache and cannot be downloaded" in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["opus", "/a/b", "../b", "./a/b", "a/b/c", "a b/c", ""])
def test_what_is_no_name(text: str) -> None:
    assert not is_hub_name(text)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelError, match=r"`pip install .\.\[hub\].`"):
        fetch_model("Someone/model")


def test_any_error_of_the_network_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise EOFError("the answer broke off.\nDetails.")

    monkeypatch.setattr("huggingface_hub.snapshot_download", broken)
    expected = r"Someone/model cannot be downloaded \(EOFError: the answer broke off\)\. Check the connection"
    with pytest.raises(ModelError, match=expected):
        fetch_model("Someone/model")

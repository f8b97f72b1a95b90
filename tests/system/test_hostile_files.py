"""Files of a stranger: a model folder, a Marian model, or a cache folder that another user can write to."""

import os
import resource
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.bundle import Model
from dragoman.cli.main import run_command
from dragoman.cli.translation.output import json_line
from dragoman.config import InferenceSettings
from dragoman.files import MANIFEST, write_folder
from dragoman.records import Candidate, Translation


@pytest.fixture
def forged(small_bundle: Model, tmp_path: Path) -> Callable[..., Path]:
    """Returns a model folder with other settings, and with files that are changed under a new manifest."""

    def make(change: Callable[[Path], Any] = lambda folder: None, **settings: Any) -> Path:
        config = replace(small_bundle.config, inference=InferenceSettings(**settings))
        replace(small_bundle, config=config).save(tmp_path / "plain")
        with write_folder(tmp_path / "forged", {"format": 1}) as folder:
            for path in (tmp_path / "plain").iterdir():
                if path.name != MANIFEST:
                    shutil.copy(path, folder)
            change(folder)
        return tmp_path / "forged"

    return make


def _card(content: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / "card.json").write_text(content)


def refused(capfd: pytest.CaptureFixture[str], *command: object) -> str:
    """The one line with which a command is refused."""
    assert run_command([*map(str, command)]) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_card_with_a_number_that_json_has_not(
    forged: Callable[..., Path], capfd: pytest.CaptureFixture[str], number: str
) -> None:
    folder = forged(_card(f'{{"scores": [["test", "BLEU", {number}, "x"]]}}'))
    assert "card.json is not a model card: its `scores` is" in refused(capfd, "summary", folder)


def test_figures_that_are_missing_are_null_in_json() -> None:
    nan = float("nan")
    line = json_line(Translation("a", (Candidate("b", ("b",), (nan, -1.0), nan, float("-inf")),), 1, False))
    assert "NaN" not in line
    assert "Infinity" not in line
    assert '"token_log_probs": [null, -1.0]' in line


def test_text_of_a_card_never_reaches_the_terminal_raw(
    forged: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    folder = forged(_card('{"src_lang": "en\\u001b]0;title\\u0007"}'))
    assert "`src_lang`" in (said := refused(capfd, "summary", folder))
    (folder / "extra\x1b[2J").write_text("")
    assert "extra\\x1b[2J" in (said := said + refused(capfd, "summary", folder))
    assert "\x1b" not in said


def test_a_folder_cannot_make_a_translation_endless(
    forged: Callable[..., Path], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = forged(min_tokens=5000, max_extra_tokens=5000, beam_size=1)
    (tmp_path / "in").write_text("eins zwei\n")
    assert run_command(["translate", str(folder), "--input", str(tmp_path / "in"), "--format", "jsonl"]) == 0
    answer = capfd.readouterr()
    assert answer.out.count(", ") < 2300, "tokens and their log-probabilities"
    assert "`inference.max_extra_tokens`" in answer.err


def test_a_user_may_set_more_than_a_folder(
    forged: Callable[..., Path], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("eins zwei\n")
    flags = "--inference.min-tokens", "600", "--inference.max-extra-tokens", "600", "--inference.beam-size", "1"
    assert run_command(["translate", str(forged()), "--input", str(tmp_path / "in"), "--format", "jsonl", *flags]) == 0
    answer = capfd.readouterr()
    assert (answer.out.count(", ") > 2300, "more than a model folder" in answer.err) == (True, False)


@pytest.mark.parametrize("name", ["source.spm", "vocab.json", "model.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_an_import_reads_regular_files_alone(small_marian: Path, tmp_path: Path, name: str, kind: str) -> None:
    folder = Path(shutil.copytree(small_marian, tmp_path / "model"))
    (folder / name).unlink()
    os.mkfifo(folder / name) if kind == "pipe" else (folder / name).symlink_to("/dev/zero")
    command = [sys.executable, "-m", "dragoman", "import", str(folder), "--out", str(tmp_path / "out")]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=limit) as process:
        assert process.stderr is not None
        until = time.monotonic() + 15
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        hangs = process.poll() is None
        process.kill()
        said = process.stderr.read()
    assert not hangs
    assert (process.returncode, said.count("\n")) == (2, 1), said
    assert "out of memory" not in said
    assert not (tmp_path / "out").exists()


def test_settings_of_a_folder_are_a_regular_file(
    forged: Callable[..., Path], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = forged()
    (folder / "config.toml").unlink()
    (folder / "config.toml").symlink_to("/dev/zero")
    rows = (f"line {number}\tZeile {number}\n" for number in range(40))
    (tmp_path / "text.tsv").write_text("".join(rows))
    text, out = str(tmp_path / "text.tsv"), str(tmp_path / "run")
    assert run_command(["train", "--from", str(folder), "--data.train", text, "--out", out]) == 2
    assert "config.toml cannot be read: it is not a regular file." in capfd.readouterr().err


def test_weights_that_do_not_fit_into_memory(
    forged: Callable[..., Path], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(content: bytes) -> Any:
        raise MemoryError

    folder = forged()
    monkeypatch.setattr("dragoman.bundle.weights.deserialize", fill)
    said = refused(capfd, "summary", folder)
    size = (folder / "model.safetensors").stat().st_size
    assert f"model.safetensors has {size:,} bytes, which do not fit into memory. Use a smaller model." in said


class TestCodeCache:
    """Machine code in the user's cache folder can run as that user."""

    @pytest.fixture
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        pytest.importorskip("numba", reason="numba compiles for the processor at hand")
        from dragoman.kernels import compiling

        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setattr(compiling, "_compile_in_a_process", lambda *kind: b"compiled")
        return tmp_path / "dragoman" / "machine-code"

    @staticmethod
    def code() -> bytes:
        from dragoman.kernels.compiling import compile_search
        from dragoman.kernels.processor import FLOAT_TARGETS

        return compile_search("float32", FLOAT_TARGETS[0])

    @pytest.mark.parametrize("of", ["file", "folder"])
    @pytest.mark.parametrize("forge", [lambda path: path.chmod(0o777), lambda path: os.chown(path, 12345, -1)])
    def test_code_that_others_can_write_is_compiled_again(
        self, cache: Path, of: str, forge: Callable[[Path], None]
    ) -> None:
        assert self.code() == b"compiled"
        (path,) = cache.glob("*.o")
        path.write_bytes(b"forged")
        assert self.code() == b"forged", "the user's own file is loaded"
        try:
            forge(path if of == "file" else cache)
        except PermissionError:
            pytest.skip("only root can give a file to another user")
        assert self.code() == b"compiled"

    def test_links_are_not_followed(self, cache: Path, tmp_path: Path) -> None:
        assert self.code() == b"compiled"
        (path,) = cache.glob("*.o")
        (tmp_path / "letter").write_text("forged")
        for name in (path, path.with_suffix(".lock")):
            name.unlink(missing_ok=True)
            name.symlink_to(tmp_path / "letter")
        assert self.code() == b"compiled"
        assert (tmp_path / "letter").read_text() == "forged"

    def test_others_cannot_write_what_is_kept(self, cache: Path) -> None:
        mask = os.umask(0)
        try:
            self.code()
        finally:
            os.umask(mask)
        assert [path for path in (cache, *cache.glob("*.o")) if stat.S_IMODE(path.stat().st_mode) & 0o022] == []

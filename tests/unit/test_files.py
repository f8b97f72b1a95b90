"""Atomic writing: if writing fails, the old content stays and no temporary file is left."""

import errno
import gzip
import os
from pathlib import Path

import pytest

from dragoman.errors import ModelError, ResourceError
from dragoman.files import (
    free_space,
    remove_leftovers,
    require_free_space,
    sibling_path,
    stream_to_file,
    verify_folder,
    write_file,
    write_folder,
)

GONE = 1 << 22
"""Linux has no process with this id or a larger one."""


def test_a_folder_appears_complete_with_its_manifest(tmp_path: Path) -> None:
    with write_folder(tmp_path / "model", {"step": 3}) as folder:
        (folder / "a.txt").write_text("a")
        assert not (tmp_path / "model").exists()
    assert verify_folder(tmp_path / "model")["step"] == 3
    assert verify_folder(tmp_path / "model")["files"].keys() == {"a.txt"}


def test_a_failure_keeps_the_old_folder(tmp_path: Path) -> None:
    with write_folder(tmp_path / "model", {}) as folder:
        (folder / "a.txt").write_text("old")

    def interrupted() -> None:
        with write_folder(tmp_path / "model", {}) as folder:
            (folder / "a.txt").write_text("new")
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert (tmp_path / "model" / "a.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("call", ["fsync", "rename", "write_text"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    with write_folder(tmp_path / "model", {}) as folder:
        (folder / "a.txt").write_text("old")

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(os if call == "fsync" else Path, call, fail)
        with pytest.raises(ResourceError, match="model could not be written"), write_folder(tmp_path / "model", {}):
            pass
    assert (tmp_path / "model" / "a.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_file_is_replaced_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path / "f", "one")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResourceError, match="no space left"):
        write_file(tmp_path / "f", "two")
    assert (tmp_path / "f").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_large_file_comes_in_chunks(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_file(target, (b"%d\n" % number for number in range(3)))
    assert target.read_bytes() == b"0\n1\n2\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_file(pipe, "content")
        assert os.read(reader, 100) == b"content"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_files_get_the_umasks_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "f", "one")
        with write_folder(tmp_path / "model", {}) as folder:
            (folder / "a.txt").write_text("a")
    finally:
        os.umask(before)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "model" / "manifest.json").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"files": {}, "sha256": "0"}', "[" * 100_000, '{"files": []}'])
def test_an_invalid_manifest_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(ModelError, match=r"manifest\.json is damaged"):
        verify_folder(tmp_path)


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / f".writing-model-{GONE}").mkdir()
    (tmp_path / f".writing-f-{GONE}").write_text("half")
    (tmp_path / "kept").write_text("whole")
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_files_of_another_process_stay(tmp_path: Path) -> None:
    (tmp_path / f".writing-model-{os.getppid()}").mkdir()
    (tmp_path / f".writing-model-{os.getpid()}").mkdir()
    (tmp_path / ".writing-model").mkdir()
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f".writing-model-{os.getppid()}"]


def test_a_sibling_path_works_for_a_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sibling_path(Path("runs/demo"), "-corpus") == Path("runs/demo-corpus")
    assert sibling_path(Path(), "-marian") == tmp_path.with_name(f"{tmp_path.name}-marian")
    assert sibling_path(Path("below/.."), "-marian") == tmp_path.with_name(f"{tmp_path.name}-marian")


def test_missing_disk_space_is_an_error_before_writing(tmp_path: Path) -> None:
    require_free_space(tmp_path, 1)
    with pytest.raises(ResourceError, match="of disk space, but"):
        require_free_space(tmp_path, 1 << 60)


def test_errors_of_writing_name_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "nowhere" / "f", tmp_path / ("f" * 300)):
        with pytest.raises(ResourceError) as caught:
            write_file(path, "one")
        assert str(caught.value).startswith(f"{path} could not be written: ")
        assert ".writing" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_folder_moved_aside_by_a_killed_process_comes_back(tmp_path: Path) -> None:
    (tmp_path / f".writing-old-model-{GONE}").mkdir()
    (tmp_path / f".writing-old-model-{GONE}" / "a.txt").write_text("old")
    remove_leftovers(tmp_path)
    assert (tmp_path / "model" / "a.txt").read_text() == "old"
    (tmp_path / f".writing-old-model-{GONE + 1}").mkdir()
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_failed_rename_restores_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with write_folder(tmp_path / "model", {}) as folder:
        (folder / "a.txt").write_text("old")
    original = Path.rename

    def rename(path: Path, target: Path) -> Path:
        if target.name == "model" and "old" not in path.name:
            raise OSError(errno.EIO, "broken")
        return original(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(ResourceError, match="broken"), write_folder(tmp_path / "model", {}) as folder:
        (folder / "a.txt").write_text("new")
    assert (tmp_path / "model" / "a.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_private_files_of_a_library_get_the_umasks_mode(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with write_folder(tmp_path / "model", {}) as folder:
            (folder / "a").write_text("a")
            (folder / "a").chmod(0o600)
    finally:
        os.umask(before)
    assert (tmp_path / "model" / "a").stat().st_mode & 0o777 == 0o644


def test_free_space_is_known_for_a_folder_that_does_not_exist_yet(tmp_path: Path) -> None:
    assert free_space(tmp_path / "not" / "yet") == pytest.approx(free_space(tmp_path), rel=0.1)
    assert free_space(Path("not/yet")) > 0


def test_an_interrupted_packed_file_keeps_what_is_finished(tmp_path: Path) -> None:
    def interrupted(content: bytes) -> None:
        with stream_to_file(tmp_path / "out.gz") as stream:
            stream.write(content)
            raise KeyError

    with pytest.raises(KeyError):
        interrupted(b"")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyError):
        interrupted(b"one\n")
    assert [path.name for path in tmp_path.iterdir()] == ["out.gz.part"]
    assert gzip.decompress((tmp_path / "out.gz.part").read_bytes()) == b"one\n"
    with stream_to_file(tmp_path / "out.gz"):
        pass
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == b""

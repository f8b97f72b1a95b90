"""The parts of a long job: written in any order, found by a restarted job, joined into the output."""

from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.workflows.cluster import OutputParts


def test_parts_written_in_any_order_are_joined_in_order(tmp_path: Path):
    parts = OutputParts(tmp_path / "out.txt")
    assert parts.begin({"job": 1}) == 0
    parts.write(2, b"")
    parts.write(1, b"two\n")
    parts.write(0, b"one\n\n")
    parts.join(3)
    assert (tmp_path / "out.txt").read_bytes() == b"one\n\ntwo\n"
    assert not parts.folder.exists()


def test_restarted_job_finds_its_parts(tmp_path: Path):
    parts = OutputParts(tmp_path / "out.txt")
    parts.begin({"settings": {"beam_size": 5}})
    parts.write(1, b"x\n")
    (parts.folder / ".writing-part_0000002-99").write_bytes(b"half of it")
    again = OutputParts(tmp_path / "out.txt")
    assert again.begin({"settings": {"beam_size": 5}}) == 1
    assert not again.has(0)
    assert again.has(1)
    assert not again.has(2)
    assert not list(parts.folder.glob(".writing*"))


def test_parts_of_another_job_raise_and_are_kept(tmp_path: Path):
    parts = OutputParts(tmp_path / "out.txt")
    parts.begin({"settings": {"beam_size": 5}})
    parts.write(0, b"x\n")
    with pytest.raises(ConfigError, match=r"out\.txt\.parts has parts of another job.*remove that folder"):
        parts.begin({"settings": {"beam_size": 4}})
    assert parts.has(0)


def test_folder_of_the_user_is_not_mistaken_for_parts(tmp_path: Path):
    folder = tmp_path / "out.txt.parts"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="has parts of another job"):
        OutputParts(tmp_path / "out.txt").begin({"a": 1})
    assert (folder / "notes.txt").read_text() == "mine"

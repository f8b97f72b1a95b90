"""Models that earlier versions wrote are read as they were; docs/explanation/compatibility.md promises it."""

import json
import shutil
from pathlib import Path

import pytest

from dragoman.bundle import Model
from dragoman.bundle.folder import CONTROLS_FORMAT, FORMAT
from dragoman.errors import ModelError
from dragoman.files import MANIFEST, write_folder
from dragoman.inference.translator import Translator

MODELS = Path(__file__).parents[1] / "data" / "models"
SOURCE = (MODELS / "source.txt").read_text(encoding="utf-8").splitlines()
TARGET = (MODELS / "target.txt").read_text(encoding="utf-8").splitlines()


def test_each_format_has_a_stored_model() -> None:
    assert {folder.name for folder in MODELS.glob("format_*")} == {f"format_{number + 1}" for number in range(FORMAT)}


@pytest.mark.parametrize("folder", sorted(MODELS.glob("format_*")), ids=lambda folder: folder.name)
def test_a_stored_model_translates_as_when_it_was_stored(folder: Path) -> None:
    assert Translator.load(folder, device="cpu").translate(SOURCE) == TARGET


def test_the_oldest_model_was_written_by_an_earlier_version_with_names_of_settings_from_then() -> None:
    folder = MODELS / "format_1"
    assert json.loads((folder / MANIFEST).read_text())["versions"]["dragoman"] == "0.1.0"
    assert "\nalpha = 0.6\n" in (folder / "config.toml").read_text(encoding="utf-8")


def test_a_model_in_a_later_format_is_refused(tmp_path: Path) -> None:
    source = MODELS / f"format_{FORMAT}"
    later = CONTROLS_FORMAT + 1
    with write_folder(tmp_path / "model", {"format": later}) as copy:
        for path in source.iterdir():
            if path.name != MANIFEST:
                shutil.copyfile(path, copy / path.name)
    with pytest.raises(ModelError, match=f"has model format {later}, but this version of Dragoman reads {FORMAT} to"):
        Model.load(tmp_path / "model", "cpu")

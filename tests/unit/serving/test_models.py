from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.bundle import Model
from dragoman.inference.translator import Translator
from dragoman.serving.models import BatchKey, load_served_model
from dragoman.text.documents.markers import MarkedText
from dragoman.workflows.progress import Progress


class Notes(Progress):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def test_a_model_that_samples_is_served_by_beam_search(
    model_folder: Path, sampling_folder: Path, tmp_path: Path
) -> None:
    trained = Model.load(sampling_folder)
    voting = replace(trained.config.inference, sample=False, mbr_samples=4)
    replace(trained, config=replace(trained.config, inference=voting)).save(tmp_path / "voting")
    expected = Translator.load(model_folder).translate_detailed(["one two"], n_best=2)[0].candidates
    for folder in (sampling_folder, tmp_path / "voting"):
        notes = Notes()
        model = load_served_model(f"en-de={folder}", progress=notes)
        assert [" is served by beam search, " in text for text in notes.texts] == [True]
        for n_best in (1, 2):
            (answer,) = BatchKey(model, n_best).translate([MarkedText("one two", ())])
            assert len(answer.candidates) == n_best
        assert answer.candidates == expected
    notes = Notes()
    assert (
        load_served_model(f"en-de={model_folder}", {"inference.beam_size": "1"}, progress=notes).settings().beam_size
        == 1
    )
    assert notes.texts == []


def test_languages_given_with_a_folder_override_its_own(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trained = Model.load(model_folder)
    config = replace(trained.config, data=replace(trained.config.data, src_lang="en", tgt_lang="de"))
    replace(trained, config=config).save(tmp_path / "run-lr=0.001")
    assert load_served_model("run-lr=0.001").pair == "en-de"
    model = load_served_model("fr-en=run-lr=0.001")
    assert model.pair == "fr-en"
    assert model.folder == Path("run-lr=0.001")

"""The phrasebook as a corpus: its files, its record, and the errors for folders and arguments."""

from pathlib import Path

import pytest

from dragoman.corpora import phrasebook
from dragoman.errors import ConfigError, DataError


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_parts_are_disjoint_and_the_numbers_decide_the_files() -> None:
    corpus = phrasebook(pairs=300)
    assert corpus.pairs == {"train": 300, "dev": 200, "test": 200}
    assert corpus.files == {
        "src": "phrasebook/train.en",
        "tgt": "phrasebook/train.de",
        "dev_src": "phrasebook/dev.en",
        "dev_tgt": "phrasebook/dev.de",
        "test_src": "phrasebook/test.en",
        "test_tgt": "phrasebook/test.de",
        "src_lang": "en",
        "tgt_lang": "de",
    }
    lines = {part: [side.read_text().splitlines() for side in corpus.sides(part)] for part in corpus.pairs}
    assert len({pair for sides in lines.values() for pair in zip(*sides, strict=True)}) == 700
    again = phrasebook("again", pairs=300)
    assert [side.read_text().splitlines() for side in again.sides("dev")] == lines["dev"]
    other = phrasebook("other", pairs=300, seed=2)
    assert [side.read_text().splitlines() for side in other.sides("dev")] != lines["dev"]


def test_a_folder_is_verified_and_never_overwritten() -> None:
    corpus = phrasebook("words", pairs=100)
    assert phrasebook("words", pairs=100) == corpus
    with pytest.raises(
        DataError, match=r"words exists already\. It holds phrasebook, 100 pairs, seed 1, en-de\. Choose"
    ):
        phrasebook("words", pairs=200)
    Path("words/train.en").write_text("Hello.\n")
    with pytest.raises(DataError, match=r"words/train\.en is missing or was changed\. Remove words"):
        phrasebook("words", pairs=100)
    Path("mine").mkdir()
    with pytest.raises(DataError, match=r"mine exists already, and is not a corpus"):
        phrasebook("mine")


@pytest.mark.parametrize("arguments", [{"pairs": 0}, {"pairs": 2.5}, {"seed": -1}, {"seed": "a"}])
def test_numbers_out_of_range_are_refused(arguments: dict[str, int]) -> None:
    [name] = arguments
    with pytest.raises(ConfigError, match=f"`{name}` must be a whole number of at least"):
        phrasebook(**arguments)
    with pytest.raises(DataError, match=r"The phrasebook has \d+ pairs, but \d+ are requested\. Request fewer"):
        phrasebook(pairs=100_000_000)
    assert not Path("phrasebook").exists()

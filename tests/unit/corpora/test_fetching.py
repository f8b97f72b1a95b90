"""Fetch corpora from a stand-in of the hub: layouts, languages, texts, files, records, failures."""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.cli.main import run_command
from dragoman.corpora import FetchedCorpus, fetch, names
from dragoman.corpora.hub_dataset import WantedCorpus, choose_config
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.errors import ConfigError, DataError, DragomanError, ResourceError
from tests.system.stand_in_hub import CONVERTED, Files, StandInHub, card, commit_of, multi30k, parquet, running_hub

pytest.importorskip("datasets", reason="the extra hub is not installed")

PAIRS: list[tuple[str | None, str | None]] = [
    (f"{word} dogs run.", f"{word} Hunde laufen.") for word in "One Two Three".split()
]
SWAPPED = [(tgt, src) for src, tgt in PAIRS]
AWKWARD: list[tuple[str | None, str | None]] = [
    ("A\tcat\r\nsits\n", "Eine Katze\u2028sitzt"),
    ("", "leer"),
    (None, "nichts"),
    ("spaces", " \n "),
    ("last\rline", "letzte\u0085Zeile"),
]


PHRASES = [(pair.src, pair.tgt) for pair in load_phrasebook().generate(seed=1, count=90)]
MULTI30K = {"train": PHRASES[10:], "val": PHRASES[:5], "test": PHRASES[5:10]}


OPUS: Files = {
    "README.md": card("other", {"ca-de": ["train"], "de-en": ["train"]}),
    "ca-de/train-00000-of-00001.parquet": parquet(PAIRS, "ca", "de"),
    "de-en/train-00000-of-00002.parquet": parquet(SWAPPED, "de", "en"),
    "de-en/train-00001-of-00002.parquet": parquet([(tgt, src) for src, tgt in AWKWARD], "de", "en"),
}
SPLITS = ["train", "validation", "test"]
DATA_SETS = {
    "Helsinki-NLP/opus_books": {"main": OPUS},
    "wmt/wmt14": {
        "main": {"README.md": card("unknown", {"cs-en": SPLITS, "de-en": SPLITS})}
        | {
            f"{pair}/{split}-00000-of-00001.parquet": parquet(SWAPPED, pair[:2], "en")
            for pair in ("cs-en", "de-en")
            for split in SPLITS
        }
    },
    "IWSLT/iwslt2017": {  # a script, and its copy in Parquet
        "main": {"README.md": card("cc-by-nc-nd-4.0", {}), "iwslt2017.py": b"import datasets", "data/a.zip": b"PK"},
        CONVERTED: {
            f"iwslt2017-{pair}/{split}/0000.parquet": parquet(PAIRS if pair[0] == "e" else SWAPPED, *pair.split("-"))
            for pair in ("de-en", "en-de")
            for split in SPLITS
        },
    },
    "Helsinki-NLP/tatoeba": {"main": {"README.md": card("cc-by-2.0", {}), "tatoeba.py": b"import datasets"}},
    "bentrevett/multi30k": {"main": multi30k(MULTI30K)},
    "Someone/table": {"main": {"README.md": b"# A table\n", "train.csv": b"id,input,output\n1,One dog,Ein Hund\n"}},
    "Someone/gated": {"main": OPUS},
    "Someone/empty": {"main": {"README.md": b"# Nothing\n"}},
    "Someone/damaged": {"main": {"train.parquet": b"PAR1 damaged PAR1"}},
    "wmt/wmt18": {
        "main": {
            "README.md": card("unknown", {"kk-en": ["train"]}),
            "kk-en/train-0.parquet": parquet([(None, None)], "kk", "en"),
        }
    },
}


@pytest.fixture(scope="module")
def server() -> Iterator[StandInHub]:
    with running_hub(DATA_SETS) as hub:
        yield hub


@pytest.fixture
def hub(server: StandInHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandInHub:
    """The stand-in, as the hub of this process, whose working directory is empty.

    The client reads its settings from the environment when it is imported, so they are replaced there.
    """
    import datasets
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server.url)
    template = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache" / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", server.url)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache" / "datasets"))
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    server.requests.clear()
    return server


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def texts_of(corpus: FetchedCorpus, part: str) -> list[tuple[str, str]]:
    return list(zip(*map(lines_of, corpus.sides(part)), strict=True))


@pytest.mark.parametrize(
    ("name", "langs", "config", "parts", "licence"),
    [
        ("wmt14", "de-en", "de-en", ["train", "dev", "test"], "unknown"),
        ("wmt14", "en-de", "de-en", ["train", "dev", "test"], "unknown"),
        ("iwslt2017", "en-de", "iwslt2017-en-de", ["train", "dev", "test"], "cc-by-nc-nd-4.0"),
        ("iwslt2017", "de-en", "iwslt2017-de-en", ["train", "dev", "test"], "cc-by-nc-nd-4.0"),
    ],
)
def test_the_layouts_of_the_hub(
    hub: StandInHub, name: str, langs: str, config: str, parts: list[str], licence: str
) -> None:
    corpus = fetch(name, langs)
    assert corpus.path == Path("corpora") / f"{name}.{langs}"
    assert (corpus.config, corpus.license, sorted(corpus.pairs)) == (config, licence, sorted(parts))
    expected = PAIRS if langs == "en-de" else SWAPPED
    assert all(texts_of(corpus, part) == expected for part in parts)


def test_columns_with_the_languages_as_names(hub: StandInHub) -> None:
    corpus = fetch("multi30k", "de-en")
    assert (corpus.config, corpus.license, corpus.pairs) == ("default", "", {"train": 80, "dev": 5, "test": 5})
    assert texts_of(corpus, "dev") == [(tgt, src) for src, tgt in MULTI30K["val"]]


def test_texts_stay_aligned_and_the_record_tells_what_was_left_out(
    hub: StandInHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["fetch", "opus_books", "en-de"]) == 0
    out, err = capsys.readouterr()
    assert out == "corpora/opus_books.en-de\n"
    assert "left out 3 of 8 pairs of train: a side has no text" in err
    assert "downloading de-en/train-00000-of-00002.parquet" in err
    folder = Path("corpora/opus_books.en-de")
    assert lines_of(folder / "train.en")[3:] == ["A\tcat sits", "last line"]
    assert lines_of(folder / "train.de")[3:] == ["Eine Katze\u2028sitzt", "letzte\u0085Zeile"]
    record = json.loads((folder / "corpus.json").read_text())
    files = record.pop("files")
    assert (
        {path.name for path in folder.iterdir()} == {*files, "corpus.json"} == {"train.en", "train.de", "corpus.json"}
    )
    assert all(
        facts["sha256"] == hashlib.sha256((folder / name).read_bytes()).hexdigest() for name, facts in files.items()
    )
    del record["sha256"]
    assert record == {
        "data_set": "Helsinki-NLP/opus_books",
        "config": "de-en",
        "revision": commit_of(OPUS),
        "license": "other",
        "src_lang": "en",
        "tgt_lang": "de",
        "pairs": {"train": 5},
        "left_out": {"train": 3},
        "columns": [],
    }


def test_only_the_files_of_the_pair_are_downloaded(hub: StandInHub) -> None:
    fetch("opus_books", "en-de")
    downloaded = [path for path in hub.requests if path.endswith(".parquet")]
    assert downloaded
    assert all("/de-en/" in path for path in downloaded)


def test_a_second_fetch_downloads_nothing_and_verifies(hub: StandInHub) -> None:
    first = fetch("opus_books", "en-de", "books")
    hub.requests.clear()
    second = fetch("opus_books", "en-de", "books")
    assert second == first
    assert hub.requests == []
    (second.path / "train.en").write_text("other\n")
    with pytest.raises(DataError, match=r"books/train\.en is missing or was changed\. Remove books"):
        fetch("opus_books", "en-de", "books")


def test_a_folder_with_something_else_stays(hub: StandInHub) -> None:
    corpus = fetch("opus_books", "en-de", "books")
    before = (corpus.path / "corpus.json").read_bytes()
    for name, langs in (("wmt14", "en-de"), ("opus_books", "de-en")):
        with pytest.raises(DataError, match=r"books exists already\. It holds Helsinki-NLP/opus_books"):
            fetch(name, langs, "books")
    assert (corpus.path / "corpus.json").read_bytes() == before
    Path("mine").mkdir()
    with pytest.raises(DataError, match="mine exists already, and is not a corpus"):
        fetch("opus_books", "en-de", "mine")


def test_a_commit_and_columns_can_be_chosen(hub: StandInHub) -> None:
    revision = commit_of(DATA_SETS["IWSLT/iwslt2017"][CONVERTED])
    assert fetch("iwslt2017", "en-de", revision=revision).revision == revision
    corpus = fetch("Someone/table", "en-de", columns=["input", "output"])
    assert texts_of(corpus, "train") == [("One dog", "Ein Hund")]


@pytest.mark.parametrize(
    ("name", "langs", "error", "message"),
    [
        (
            "opus_gnome",
            "en-de",
            DataError,
            r"opus_gnome cannot be downloaded .* does not exist there.* Did you mean `opus_books`\?",
        ),
        ("opus_books", "en-ca", ConfigError, r"does not have en-ca\. It has ca-de, de-en\.$"),
        ("opus_books", "english", ConfigError, r"`langs` must be two languages such as en-de, but is 'english'"),
        (
            "bentrevett/multi30k",
            "en-fr",
            ConfigError,
            r"no column `translation` or columns with fr\. It has en, de",
        ),
        ("tatoeba", "en-mr", DataError, r"is a Python script \(tatoeba\.py\), .* no copy of it in Parquet"),
        (
            "Someone/table",
            "en-de",
            ConfigError,
            r"no column `translation` or columns with en and de\. It has id, input, output",
        ),
        ("Someone/gated", "en-de", DataError, r"Someone/gated cannot be downloaded without permission"),
        ("Someone/empty", "en-de", DataError, r"Someone/empty has no files that `datasets` reads"),
        ("Someone/damaged", "en-de", DataError, r"Someone/damaged cannot be read \("),
        ("wmt/wmt18", "kk-en", DataError, r"wmt/wmt18, configuration kk-en, has no sentence pair"),
    ],
)
def test_failures_are_one_line_and_leave_nothing(
    hub: StandInHub, name: str, langs: str, error: type[DragomanError], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(error, match=message) as caught:
        fetch(name, langs)
    capsys.readouterr()
    assert run_command(["fetch", name, langs]) == 2
    assert capsys.readouterr().err.split("\n")[-2] == f"dragoman: {caught.value}"
    assert "\n" not in str(caught.value)
    assert not list(Path().glob("corpora/*")) + list(Path().glob("corpora/.*"))


@pytest.mark.parametrize(
    ("name", "langs", "message"),
    [
        ("opus_book", "en-it", "opus_book is not the short name of a corpus. Did you mean `opus_books`?"),
        ("WMT14", "de-en", "Did you mean `wmt14`?"),
        ("wmt14", "en-it", "wmt/wmt14 does not have en-it. It has cs-en, de-en, fr-en, hi-en, ru-en."),
        ("multi30k", "en-fr", "bentrevett/multi30k does not have en-fr. It has en-de."),
        ("opus_books", ("en", "it"), "`langs` must be a text such as \"en-it\", but is ('en', 'it')."),
        (None, "en-it", '`name` must be a text such as "opus_books", but is None.'),
    ],
)
def test_what_the_catalogue_knows_needs_no_network(hub: StandInHub, name: Any, langs: Any, message: str) -> None:
    said = ""
    try:
        fetch(name, langs)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    assert message in said
    assert said.startswith("ConfigError: ")
    assert hub.requests == []


def test_a_full_name_a_configuration_or_a_commit_asks_the_hub(hub: StandInHub) -> None:
    for name, settings in (("wmt/wmt14", {}), ("wmt14", {"config": "it-en"}), ("wmt14", {"revision": "0" * 40})):
        hub.requests.clear()
        with pytest.raises(DragomanError):
            fetch(name, "en-it", **settings)
        assert hub.requests


def test_no_pair_of_the_catalogue_is_refused() -> None:
    for corpus in names():
        for pair in corpus.pairs:
            one, other = pair.split("-")
            for src, tgt in ((one, other), (other, one)):
                assert choose_config([*corpus.pairs], WantedCorpus(corpus.data_set, src, tgt)) == pair


def test_without_a_network(hub: StandInHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DataError, match=r"Helsinki-NLP/opus_books cannot be downloaded .*Check the connection"):
        fetch("opus_books", "en-de")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match=r"cannot be downloaded, because HF_HUB_OFFLINE is set\. Unset it"):
        fetch("opus_books", "en-de")


def test_without_the_package(hub: StandInHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"the package datasets is not installed.*pip install '\.\[hub\]'"):
        fetch("opus_books", "en-de")


def test_where_nothing_can_be_written(hub: StandInHub, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").touch()
    with pytest.raises(ResourceError, match=r"file/books could not be written: .* is not a writable folder"):
        fetch("opus_books", "en-de", "file/books")
    assert hub.requests == []

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dragoman.corpora.fetching._write_part", full)
    with pytest.raises(ResourceError, match=r"corpora/opus_books\.en-de could not be written: no space left"):
        fetch("opus_books", "en-de")
    assert list(Path("corpora").iterdir()) == []


def test_what_fetch_wrote_trains(hub: StandInHub, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = fetch("multi30k", "en-de")
    small = {
        "preset": "custom",
        "d_model": 16,
        "d_ff": 16,
        "num_heads": 2,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
    }
    quick = {
        "max_steps": 1,
        "train_device": "cpu",
        "train_precision": "float32",
        "inference_beam_size": 1,
        "max_extra_tokens": 1,
    }
    run = dragoman.train(**corpus.files, out="run", **quick, model=small, vocab_size=270, check_languages=False)
    assert run.card.steps == 1
    assert {data.partition(",")[0] for data in run.scores} == {"validation", "test"}
    capsys.readouterr()


def test_displays(hub: StandInHub) -> None:
    corpus = fetch("wmt14", "en-de")
    assert repr(corpus) == "FetchedCorpus('corpora/wmt14.en-de'): en to de, pairs: train 3, dev 3, test 3"
    assert "English to German" in corpus._repr_html_()
    assert "<td" in names()._repr_html_()


def test_short_names_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["fetch", "--list"]) == 0
    rows = capsys.readouterr().out.split("\n")
    assert [row.split()[0] for row in rows[1:-1]] == [corpus.name for corpus in names()]
    assert run_command(["fetch", "opus_books"]) == 2
    assert "LANGS is missing" in capsys.readouterr().err

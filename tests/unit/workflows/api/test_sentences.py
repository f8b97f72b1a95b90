"""Sentences in memory become files: one line each, whatever they hold, and no name of a temporary file is shown."""

import json
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError, DataError
from dragoman.text.corpus.opening import open_corpus
from dragoman.text.lines import join_lines, read_lines, replace_surrogates
from dragoman.workflows.api.sentences import SentenceFiles

TEXTS = st.lists(st.text(st.characters(codec=None) | st.sampled_from("\r\n\t\u2028\x85 ")), min_size=1, max_size=20)


def rule(text: str) -> str:
    """What readers of tables and JSON make of a text."""
    return join_lines(replace_surrogates(text.rstrip("\r\n")))


@given(TEXTS)
def test_each_sentence_is_one_line_whatever_it_holds(texts: list[str]) -> None:
    with SentenceFiles() as files:
        path = files.path("dev_src", iter(texts))
        content = path.read_bytes().decode("utf-8")
    assert content.split("\n")[:-1] == [rule(text) for text in texts]
    assert "\r" not in content
    assert not path.exists()


@given(TEXTS)
def test_pairs_read_back_as_the_texts_by_the_rule_for_json(texts: list[str]) -> None:
    pairs = [{"id": 7, "en": text, "de": f"-{text}", "date": object()} for text in ["One.", *texts]]
    with SentenceFiles() as files:
        read = [(pair.src, pair.tgt) for pair in open_corpus(files.path("data", pairs)).pairs()]
    assert read == [tuple(join_lines(replace_surrogates(pair[side])) for side in ("en", "de")) for pair in pairs]


def test_sentences_are_streamed_to_disk() -> None:
    texts = (f"This is sentence number {number}." for number in range(30_000))
    tracemalloc.start()
    with SentenceFiles() as files:
        path = files.path("src", texts)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert sum(1 for _ in read_lines(path)) == 30_000
    assert peak < 3 << 20


def test_errors_and_notes_name_the_argument(capsys: pytest.CaptureFixture[str]) -> None:
    failure = DataError()
    with suppress(DataError), SentenceFiles() as files:
        one, other = files.path("a", ["x"]), files.path("dev", [("x", "y")])
        files.progress.note(f"reading {one} and train.en, as `--data.dev-src` says")
        failure.args = (f"{one}, line 3, and {other} differ.",)
        raise failure
    assert str(failure) == "`a`, line 3, and `dev` differ."
    assert capsys.readouterr().err == "dragoman: reading `a` and train.en, as `dev_src` says\n"


def test_one_list_of_sentences_in_place_of_several_is_refused(tmp_path: Path) -> None:
    (tmp_path / "here.txt").touch()
    here = str(tmp_path / "here.txt")
    with SentenceFiles() as files:
        with pytest.raises(ConfigError, match=r"list of 3 texts, and 'One\.' is no file\. Write `train=\[SENTENCES\]`"):
            files.paths("train", ["One.", "Two.", "Three."])
        assert files.paths("train", [here, "missing", here]) == (here, "missing", here)


def test_a_run_gets_paths_in_its_folder_and_where_the_files_are_now() -> None:
    with SentenceFiles(Path("run/corpus")) as files:
        assert files.path("src", "train.en") == Path("train.en")
        assert files.path("data", [{"en": "a", "de": "b"}]) == Path("run/corpus/data.jsonl")
        [(kept, now)] = files.sources.items()
        assert kept == "run/corpus/data.jsonl"
        assert json.loads(now.read_text()) == {"en": "a", "de": "b"}


def test_names_of_files_are_not_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here.txt").touch()
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path)
    with SentenceFiles() as files:
        with pytest.raises(ConfigError, match="but is a list of files, such as 'here"):
            files.path("src", ["here.txt", "here.txt"])
        assert files.path("tgt", ["here.txt", "Hello."]).read_text() == "here.txt\nHello.\n"
        assert files.path("ref", ["run"]).read_text() == "run\n", "a word that is also the name of a folder"

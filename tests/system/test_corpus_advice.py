"""What owners of text give to `check` and `train`: what is wrong is found, and the advice helps if it is followed."""

import json
import re
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.text.corpus.layout import Layout
from dragoman.text.corpus.opening import open_corpus

NUM_PAIRS = 120
Pairs = list[tuple[str, str]]


@pytest.fixture(scope="module")
def phrases() -> Pairs:
    return list({pair.src: pair.tgt for pair in load_phrasebook().generate(seed=3, count=1500)}.items())[:NUM_PAIRS]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_table(name: str, rows: Sequence[Sequence[str]], delimiter: str = "\t") -> str:
    Path(name).write_text("".join(f"{delimiter.join(row)}\n" for row in rows), encoding="utf-8")
    return name


def write_records(name: str, records: Sequence[object]) -> str:
    Path(name).write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return name


def write_tmx(name: str, rows: Sequence[Sequence[str]], languages: Sequence[str] = ("en", "de")) -> str:
    units = (
        "".join(f'<tuv xml:lang="{lang}"><seg>{text}</seg></tuv>' for lang, text in zip(languages, row, strict=True))
        for row in rows
    )
    body = "".join(f"<tu>{unit}</tu>\n" for unit in units)
    Path(name).write_text(f'<tmx><header srclang="{languages[0]}"/><body>{body}</body></tmx>', encoding="utf-8")
    return name


def reverse(pairs: Pairs, every: int) -> Pairs:
    return [pair[::-1] if number % every == 1 else pair for number, pair in enumerate(pairs)]


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code and the output of `check`, on one stream."""
    code = run_command(["check", *arguments])
    answer = capsys.readouterr()
    return code, answer.out + answer.err


class TestDirections:
    @pytest.mark.parametrize("every", [2, 4])
    def test_reversed_pairs_stop_check_and_train(
        self, phrases: Pairs, every: int, capsys: pytest.CaptureFixture[str]
    ) -> None:
        pairs = reverse(phrases, every)
        table = write_table("a.tsv", pairs)
        records = write_records("a.jsonl", [{"source": src, "target": tgt} for src, tgt in pairs])
        for name in (table, records):
            code, said = check(capsys, "--data", name)
            assert code == 2
            assert "sampled pairs have source and target swapped: they run from" in said
            assert run_command(["train", "--data", name, "--out", "run"]) == 2
            error = capsys.readouterr().err.splitlines()[-1]
            assert f"{name}: {100 // every}% of the sampled pairs have source and target swapped" in error
            assert not Path("run").exists()

    def test_a_few_are_a_note_and_none_is_said_of_intact_text(
        self, phrases: Pairs, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, said = check(capsys, "--data", write_table("a.tsv", reverse(phrases, 10)))
        assert (code, "note   swapped languages: 12 (10.0%)" in said) == (0, True)
        code, said = check(capsys, "--data", write_table("b.tsv", phrases))
        assert (code, "swapped" in said) == (0, False)

    def test_untranslated_text_and_names_run_in_no_direction(
        self, phrases: Pairs, capsys: pytest.CaptureFixture[str]
    ) -> None:
        names = [(f"Anna Schmidt {n}", f"Schmidt, Anna {n}") for n in range(40)]
        same = [(src, src) for src, _ in phrases[:40]]
        _, said = check(capsys, "--data", write_table("a.tsv", [*phrases, *names, *same]))
        assert "swapped" not in said


class TestLeaks:
    @pytest.fixture(autouse=True)
    def train(self, phrases: Pairs) -> None:
        write_table("train.tsv", phrases)

    def test_a_swapped_test(self, phrases: Pairs, capsys: pytest.CaptureFixture[str]) -> None:
        for number, side in enumerate("ba"):
            Path(side).write_text("".join(f"{pair[number]}\n" for pair in phrases[50:90]), encoding="utf-8")
        code, said = check(capsys, "--data", "train.tsv", "--test", "a", "b")
        assert code == 2
        assert "WRONG  leak: 40 (100.0%)  targets of the test set are in training sources" in said
        assert "swap its files" in said
        code, said = check(capsys, "--data", "train.tsv", "--test", "b", "a")
        assert "WRONG  leak: 40 (100.0%)  sources of the test set are in the training text" in said

    @pytest.mark.parametrize(("shared", "code"), [(0, 0), (1, 0), (2, 2)])
    def test_from_one_percent_on_a_leak_is_serious(
        self, phrases: Pairs, shared: int, code: int, capsys: pytest.CaptureFixture[str]
    ) -> None:
        new = [(f"Nobody has said {n} of these things.", f"Niemand hat {n} davon gesagt.") for n in range(150)]
        found, said = check(
            capsys, "--data", "train.tsv", "--test", write_table("t.tsv", [*phrases[:shared], *new[shared:]])
        )
        assert found == code
        assert ("leak: " in said) == bool(shared)


class TestTables:
    @pytest.mark.parametrize(
        "header",
        [
            ("en-US", "de-DE"),
            ("EN", "DE"),
            ("Ausgangstext", "Zieltext"),
            ("Quelle", "Ziel"),
            ("Quellsprache", "Zielsprache"),
            ("Source segment", "Target segment"),
            ("English_United_States", "German_Germany"),
            ("English (United States)", "German (Germany)"),
            ("Source (en-US)", "Target [de-DE]"),
            ("x-mine", "German"),
        ],
    )
    def test_headers_of_tools(
        self, phrases: Pairs, header: tuple[str, str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        name = write_table("a.csv", [header, *phrases[:60]], ";")
        code, said = check(capsys, "--data", name)
        assert (code, "a.csv seems to start with a header" in said) == (2, True)
        for flag, count in (("yes", 60), ("no", 61)):
            assert open_corpus(name, layout=Layout(header=flag)).count() == count

    @pytest.mark.parametrize("first", [("source", "Quelle"), ("English", "Englisch"), ("No.", "Am")])
    def test_the_first_pair_of_a_dictionary_is_no_header(
        self, phrases: Pairs, first: tuple[str, str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        name = write_table("a.tsv", [first, *phrases[:30]])
        assert "31 pairs" in check(capsys, "--data", name)[1]

    @pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (0, 2, 1)])
    def test_comments_are_no_side(
        self, phrases: Pairs, order: tuple[int, ...], capsys: pytest.CaptureFixture[str]
    ) -> None:
        comments = [f"See ticket {n} of the client" if n % 3 == 0 else "" for n in range(len(phrases))]
        rows = [(src, note, tgt) for (src, tgt), note in zip(phrases, comments, strict=True)]
        name = write_table("a.tsv", [[row[place] for place in order] for row in rows])
        code, said = check(capsys, "--data", name)
        if order[2] == 1:
            assert (code, f"{NUM_PAIRS} pairs" in said) == (0, True)
        else:
            advice = f"--columns {order.index(0) + 1},{order.index(2) + 1}"
            assert (code, f"`{advice}`" in said) == (2, True)
            assert f"column {order.index(1) + 1} holds comments, not text" in said
            assert f"{NUM_PAIRS} pairs" in check(capsys, "--data", name, *advice.split())[1]

    def test_a_full_column_in_the_language_of_the_source(
        self, phrases: Pairs, capsys: pytest.CaptureFixture[str]
    ) -> None:
        rows = [(src, f"Anna says about it: {phrases[-n][0].lower()}", tgt) for n, (src, tgt) in enumerate(phrases)]
        code, said = check(capsys, "--data", write_table("a.tsv", rows))
        assert (code, "column 2 holds comments" in said, "`--columns 1,3`" in said) == (2, True, True)

    def test_similar_languages_beside_a_note_are_sides(self, phrases: Pairs) -> None:
        rows = [(src, f"{src} Now.", f"Quelle: {phrases[-n][1]}") for n, (src, _) in enumerate(phrases)]
        assert open_corpus(write_table("a.tsv", rows)).count() == NUM_PAIRS

    def test_a_header_tells_the_sides(self, phrases: Pairs, capsys: pytest.CaptureFixture[str]) -> None:
        rows = [(f"menu {src[:4]}", src, tgt) for src, tgt in phrases]
        name = write_table("a.csv", [("Key", "English", "German"), *rows], ";")
        code, said = check(capsys, "--data", name, "--header")
        assert (code, "`--columns 2,3 --header`" in said) == (2, True)

    def test_two_tables_are_not_two_sides(self, phrases: Pairs, capsys: pytest.CaptureFixture[str]) -> None:
        files = [write_table("a.tsv", phrases), write_records("b.jsonl", [list(pair) for pair in phrases])]
        for command in (["check", *files], ["train", "--src", files[0], "--tgt", files[1], "--out", "run"]):
            assert run_command(command) == 2
            said = capsys.readouterr().err
            assert "a.tsv has both sides, but is given as one of two aligned files. Give it alone, as `--data" in said
        sides = [write_table(f"{side}.tsv", [[pair[side == "de"]] for pair in phrases]) for side in ("en", "de")]
        assert f"{NUM_PAIRS} pairs" in check(capsys, *sides)[1]  # tables of one column are sides


class TestAdvice:
    def test_two_files_are_two_corpora(self, phrases: Pairs, capsys: pytest.CaptureFixture[str]) -> None:
        for name, part in (("a 1.tsv", phrases[:50]), ("b.tsv", phrases[50:])):
            Path(name).write_text("\n".join(map("\t".join, part)), encoding="utf-8")  # no line feed at the end
        code, said = check(capsys, "--data", "a 1.tsv", "--data", "b.tsv")
        assert code == 0
        assert "50 pairs" in said
        assert f"{NUM_PAIRS - 50} pairs" in said

    def test_a_memory_with_languages_the_wrong_way_round(
        self, phrases: Pairs, capsys: pytest.CaptureFixture[str]
    ) -> None:
        name = write_tmx("a.tmx", phrases, ("de", "en"))
        code, said = check(capsys, "--data", name)
        assert (code, "they are swapped" in said, "--columns" in said) == (2, True, False)
        assert "Exchange de and en in the `xml:lang` attributes of the file" in said
        write_tmx("a.tmx", phrases, ("en", "de"))
        assert check(capsys, "--data", name)[0] == 0

    @pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
    def test_swapped_columns_and_keys(self, name: str, phrases: Pairs, capsys: pytest.CaptureFixture[str]) -> None:
        write_table("a.tsv", phrases)
        write_records("a.jsonl", [{"de": src, "en": tgt} for src, tgt in phrases])
        data = ["--data", name, "--src-lang", "de", "--tgt-lang", "en"]
        said = check(capsys, *data)[1]
        advice = re.search(r"`(--columns .*)`", said)
        assert advice is not None
        assert "they are swapped" in said
        assert check(capsys, "--data", name, *advice[1].split())[0] == 0

    @pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
    def test_utf16(self, name: str, phrases: Pairs, capsys: pytest.CaptureFixture[str]) -> None:
        write_table("a.csv", phrases, ";")
        write_table("a.tsv", phrases)
        write_records("a.jsonl", [list(pair) for pair in phrases])
        Path(name).write_text(Path(name).read_text("utf-8"), encoding="utf-16")
        code, said = check(capsys, "--data", name)
        assert (code, f"{name} is UTF-16" in said) == (2, True)
        advice = re.search(r"`(--encoding .*?)`", said)
        assert advice is not None
        assert f"{NUM_PAIRS} pairs" in check(capsys, "--data", name, *advice[1].split())[1]

    def test_untranslated_records_are_skipped_and_counted(
        self, phrases: Pairs, capsys: pytest.CaptureFixture[str]
    ) -> None:
        records: list[object] = [{"en": src, "de": tgt} for src, tgt in phrases]
        name = write_records("a.jsonl", [{"en": "Hi.", "de": None}, {"en": "Hi."}, *records, {"de": "Hallo."}])
        code, said = check(capsys, "--data", name)
        assert (code, f"{NUM_PAIRS} pairs" in said) == (0, True)
        assert "one language only: 3 (2.4%)  records lack a text in en or de" in said
        records = [{"en": "Hi.", "de": None, "fr": "Salut."}] * 2
        code, said = check(capsys, "--data", write_records("b.jsonl", records), "--columns", "en,de")
        assert (code, 'b.jsonl has no record with both "en" and "de"' in said) == (2, True)

    def test_documents(self, phrases: Pairs, capsys: pytest.CaptureFixture[str]) -> None:
        for name in ("a.docx", "b.tsv"):
            Path(name).write_bytes(b"PK\x03\x04 and more")
            code, said = check(capsys, "--data", name)
            assert code == 2
            assert "TMX" in said or ".tmx" in said
            assert ".csv" in said

    def test_src_and_tgt_are_flags_too(self, phrases: Pairs, capsys: pytest.CaptureFixture[str]) -> None:
        write_table("a.en", [pair[:1] for pair in phrases])
        write_table("a.de", [pair[1:] for pair in phrases])
        code, said = check(capsys, "--src", "a.en", "--tgt", "a.de")
        assert (code, said) == check(capsys, "a.en", "a.de")
        assert f"{NUM_PAIRS} pairs" in said
        assert "must be given" in check(capsys, "--src", "a.en")[1]

    def test_a_limit_on_the_size_of_files(self, phrases: Pairs) -> None:
        write_table("a.tsv", phrases)
        done = subprocess.run(
            [sys.executable, "-m", "dragoman", "check", "--data", "a.tsv"],
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16)),
        )
        assert done.returncode == 2
        assert "py3langid could not be written" in done.stderr
        assert "`ulimit -f unlimited`" in done.stderr

    def test_tabs_in_samples(self, phrases: Pairs, capsys: pytest.CaptureFixture[str]) -> None:
        Path("a.tsv").write_text("".join(f"{src}\t{tgt} ä\n" for src, tgt in phrases), encoding="latin-1")
        code, said = check(capsys, "--data", "a.tsv")
        assert (code, "�" in said) == (2, False)
        assert f"{phrases[0][0][:8]}" in said


class TestLanguages:
    def test_names_match_exactly(self, phrases: Pairs, capsys: pytest.CaptureFixture[str]) -> None:
        code, said = check(capsys, "--data", write_table("a.tsv", phrases), "--tgt-lang", "klingonish")
        assert (code, "Did you mean Klingoni (tlh)?" in said) == (2, True)
        assert check(capsys, "--data", "a.tsv", "--tgt-lang", "deutsch")[0] == 0

    def test_private_codes(self, phrases: Pairs, capsys: pytest.CaptureFixture[str]) -> None:
        files = {
            "data.x-mine-de.tsv": [],
            "a.tmx": ["--src-lang", "x-mine", "--tgt-lang", "de"],
            "a.jsonl": ["--src-lang", "x-mine", "--tgt-lang", "de"],
        }
        write_table("data.x-mine-de.tsv", phrases)
        rows = [(src, src.upper(), tgt) for src, tgt in phrases]
        write_tmx("a.tmx", rows, ("x-mine", "x-other", "de"))
        write_records("a.jsonl", [dict(zip(("x-mine", "x-other", "de"), row, strict=True)) for row in rows])
        for name, flags in files.items():
            code, said = check(capsys, "--data", name, *flags)
            assert (code, "languages ? and de" in said) == (0, True)
        two = ["--data", "a.tmx", "--src-lang", "x-mine", "--tgt-lang", "x-other"]
        assert check(capsys, *two)[0] == 0
        assert check(capsys, "--data", "a.tmx")[1].count("a.tmx has x-mine, x-other, de") == 1


def test_a_header_is_no_term(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write_table("terms.tsv", [("source", "target"), ("house", "Haus")])
    assert run_command(["translate", "nowhere", "--text", "A house.", "--terms", "terms.tsv"]) == 2
    said = capsys.readouterr().err
    assert "terms.tsv seems to start with a header: source, target. Start this line with `#`" in said
    write_table("terms.tsv", [("#source", "target"), ("source", "Quelle"), ("house", "Haus")])
    assert run_command(["translate", "nowhere", "--text", "A house.", "--terms", "terms.tsv"]) == 2
    assert "nowhere" in capsys.readouterr().err

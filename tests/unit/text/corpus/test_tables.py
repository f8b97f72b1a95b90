import pytest

from dragoman.errors import ConfigError, DataError
from dragoman.records import SentencePair
from dragoman.text.corpus.layout import Layout, layout_of
from dragoman.text.corpus.opening import open_corpus

ROWS = [("1276", "Let us try it.", "7", "Zkusme to."), ("1277", "I have to go.", "8", "Musím jít.")]


def table(path, rows, delimiter="\t", encoding="utf-8"):
    path.write_bytes("".join(f"{delimiter.join(row)}\n" for row in rows).encode(encoding))
    return path


def pairs(path, **layout):
    return list(open_corpus(path, layout=Layout(**layout)).pairs())


def refused(path, match, error=ConfigError, **layout):
    with pytest.raises(error, match=match) as caught:
        pairs(path, **layout)
    assert "\n" not in str(caught.value)


def test_columns_that_are_not_text_are_refused_and_all_are_named(tmp_path):
    path = table(tmp_path / "a.tsv", ROWS)
    refused(
        path,
        r"a\.tsv: column 1 holds numbers, not text\. Its columns: 1 numbers \(1277\); 2 text \(I have to go\.\); "
        r"3 numbers \(8\); 4 text \(Musím jít\.\)\. Name the two with text, source first: `--columns 2,4`\.",
    )
    expected = [SentencePair(row[1], row[3]) for row in ROWS]
    assert pairs(path, columns=("2", "4")) == expected
    assert pairs(path, columns=("4", "2")) == [SentencePair(pair.tgt, pair.src) for pair in expected]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ([str(n) for n in range(60)], "numbers"),
        ([f"doc-{n}" for n in range(60)], "ids"),
        ([f"https://example.org/{n}" for n in range(60)], "links"),
        (["train", "dev"] * 30, "labels"),
        ([""] * 60, "nothing"),
        ([f"2024-01-{n:02}" for n in range(60)], "numbers"),
    ],
)
def test_kinds_of_columns(tmp_path, column, kind):
    rows = [(cell, f"word {n}", f"Wort {n}") for n, cell in enumerate(column)]
    refused(table(tmp_path / "a.tsv", rows), rf"column 1 holds {kind}, not text.*`--columns 2,3`")


def test_a_table_of_numbers_and_one_of_the_same_line_are_left_to_others(tmp_path):
    assert len(pairs(table(tmp_path / "a.tsv", [(str(n), str(n)[::-1]) for n in range(60)]))) == 60
    assert len(pairs(table(tmp_path / "b.tsv", [("yes", "ja")] * 60))) == 60
    assert len(pairs(table(tmp_path / "c.tsv", [("a house", "ein Haus", "CC BY")] * 60))) == 60


@pytest.mark.parametrize(
    ("header", "languages"),
    [
        (("en", "cs"), ("en", "cs")),
        (("English", "Czech"), ("en", "cs")),
        (("source", "target"), ("", "")),
        (("English words/sentences", "French words/sentences"), ("en", "fr")),
        (("source_text", "translation"), ("", "")),
    ],
)
def test_a_header_is_refused_until_it_is_told_what_it_is(tmp_path, header, languages):
    path = table(tmp_path / "a.tsv", [header, *(row[1::2] for row in ROWS)])
    refused(path, "a.tsv seems to start with a header: .* Skip this row with `--header`, or keep it")
    assert len(pairs(path, header="no")) == 3
    corpus = open_corpus(path, layout=Layout(header="yes"))
    assert list(corpus.pairs()) == [SentencePair(row[1], row[3]) for row in ROWS]
    assert (corpus.src_lang, corpus.tgt_lang) == languages


def test_columns_by_the_names_of_the_header(tmp_path):
    path = table(tmp_path / "a.tsv", [("id", "en", "n", "cs"), *ROWS])
    refused(path, r"1 id: numbers \(1276\); 2 en: text .*`--columns 2,4 --header`")
    corpus = open_corpus(path, layout=Layout(columns=("CS", "en")))
    assert list(corpus.pairs()) == [SentencePair(row[3], row[1]) for row in ROWS]
    assert (corpus.src_lang, corpus.tgt_lang) == ("cs", "en")
    refused(path, "`--columns` names de, but .*a.tsv has the columns id, en, n, cs", columns=("de", "en"))
    refused(path, "`--columns` names 9, but .*a.tsv has 4 columns", columns=("2", "9"))


def test_a_first_pair_of_words_is_no_header(tmp_path):
    numbered = table(tmp_path / "c.tsv", [("0", "English", "anglicky"), ("1", "German", "německy"), ("2", "a", "b")])
    assert len(pairs(numbered, columns=("2", "3"))) == 3
    assert len(pairs(table(tmp_path / "a.tsv", [("no", "nein"), ("cat", "Katze")]))) == 2
    assert len(pairs(table(tmp_path / "b.tsv", [("en", "cs")]))) == 1  # a table of one row


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv(tmp_path, delimiter):
    quoted = [("en", "de"), (f'"a{delimiter} b"', '"say ""so"""'), ('"two\nlines"', "c")]
    path = table(tmp_path / "a.csv", quoted, delimiter)
    assert pairs(path, header="yes") == [SentencePair(f"a{delimiter} b", 'say "so"'), SentencePair("two lines", "c")]


def test_csv_in_another_encoding(tmp_path):
    path = table(tmp_path / "a.csv", [("Let us try.", "Zkusme to žlutě."), ("a", "ř")], ";", "windows-1250")
    assert pairs(path, encoding="windows-1250")[0].tgt == "Zkusme to žlutě."


def test_bad_rows_are_named(tmp_path):
    (tmp_path / "a.csv").write_text('en,de\na,b\n"open,c\nd,e\n')
    refused(tmp_path / "a.csv", r"a\.csv, line 3 is not CSV: .* Close its quotation marks", DataError, header="yes")
    (tmp_path / "b.tsv").write_text("1\ta\tb\n2\tc\n")
    refused(tmp_path / "b.tsv", "line 2 has 2 columns, but column 3 is needed: '2.tc'", DataError, columns=("2", "3"))
    (tmp_path / "c.csv").write_text("one column\nalone\n")
    refused(tmp_path / "c.csv", "c.csv, line 1 has no ',' between source and target", DataError)


@pytest.mark.parametrize("columns", ["2", "2,3,4", "2,2", "a,", ","])
def test_two_columns_must_be_named(columns):
    with pytest.raises(
        ConfigError, match="`--columns` must name two columns, source and target, for example 2,3, but is"
    ):
        layout_of("", columns, "auto")


def test_the_languages_of_columns_are_named_where_they_are_clear(tmp_path):
    english = "The old house near the river has been empty for a number of years now, they say."
    czech = "Ten starý dům u řeky je už několik let prázdný, říkají sousedé, a nikdo v něm nebydlí."
    rows = [(str(n), f"{n} {english}", f"{n} {czech}") for n in range(20)]
    refused(table(tmp_path / "a.tsv", rows), r"1 numbers \(1\); 2 English \(1 The old .*\); 3 Czech \(1 Ten starý .*\)")


def test_what_excel_writes(tmp_path):
    (tmp_path / "a.csv").write_text("sep=;\nEnglish;German\nHi there;Hallo\n", encoding="utf-8-sig")
    assert pairs(tmp_path / "a.csv", header="yes") == [SentencePair("Hi there", "Hallo")]
    assert pairs(tmp_path / "a.csv", columns=("German", "English")) == [SentencePair("Hallo", "Hi there")]
    (tmp_path / "b.csv").write_text('sep=,\na,b\n"open,c\n')
    refused(tmp_path / "b.csv", r"b\.csv, line 3 is not CSV", DataError)
    quoted = table(tmp_path / "c.tsv", [(f'"word {n}"', f'"Wort ""{n}"""') for n in range(9)])
    refused(quoted, r"c\.tsv has cells in quotation marks, .* Rename the file to end in \.csv")
    quoted.rename(tmp_path / "c.csv")
    assert pairs(tmp_path / "c.csv")[3] == SentencePair("word 3", 'Wort "3"')
    spoken = table(tmp_path / "d.tsv", [(f'"Hi {n}", she said.', f"„Hallo {n}“, sagte sie.") for n in range(9)])
    assert len(pairs(spoken)) == 9

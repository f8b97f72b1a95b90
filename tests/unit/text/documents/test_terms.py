from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.text.documents.terms import Term, Terms, missing_terms, occurrences

TERMS = Terms(
    (("bike", "Rad"), ("mountain bike", "MTB"), ("New York", "Neuyork"), ("C++", "C++"), ("Polish", "polnisch"))
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A bike and a mountain  bike.", ["bike", "mountain  bike"]),
        ("Bike bikes motorbike BIKE", ["Bike"]),
        ("new york, New York", ["New York"]),
        ("Polish the C++ code, polish it", ["Polish", "C++"]),
        ("", []),
    ],
)
def test_terms_are_whole_words(text, found):
    terms = TERMS.find(text)
    assert [text[term.start : term.stop] for term in terms] == found


def test_the_longest_term_wins_however_its_first_word_is_written():
    terms = Terms((("Apple", "APFEL"), ("apple pie", "Apfelkuchen"), ("apple", "Apfel")))
    assert terms.find("Apple pie, Apple, apple") == [
        Term(0, 9, "Apfelkuchen"), Term(11, 16, "APFEL"), Term(18, 23, "Apfel")
    ]  # fmt: skip


def test_where_a_target_stands():
    assert occurrences("das Rad", "Das Rad und das Rad, das Radio") == [(0, 7), (12, 19)]
    assert occurrences("C++", "C++, C") == [(0, 3)]
    assert missing_terms([Term(0, 1, "Rad"), Term(2, 3, "Rad")], "Ein Rad") == ["Rad"]
    assert missing_terms([Term(0, 1, "Rad")], "Ein Fahrrad") == ["Rad"]


def test_a_file(tmp_path: Path):
    path = tmp_path / "terms.tsv"
    path.write_text("# mine\n\nbike \t Rad\nNew York\tNeuyork\nbike\tRad\n", encoding="utf-8")
    assert Terms.load(path).pairs == (("bike", "Rad"), ("New York", "Neuyork"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\nno tab\n", "line 2"),
        ("a\tb\tc\n", "line 1"),
        ("a\t \n", "line 1"),
        ("a\tb\n\na\tc\n", "translates `a` as 'c', but line 1 as 'b'"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, content, message):
    path = tmp_path / "terms.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message) as caught:
        Terms.load(path)
    assert str(path) in str(caught.value)

import pytest

from dragoman.records import SentencePair
from dragoman.text.doctor.findings import MAX_CHARACTERS, Tallies

GOOD = [SentencePair(f"the house number {n} is old", f"das Haus Nummer {n} ist älter") for n in range(200)]


def findings(*pairs, chunks=1):
    tallies, rows = Tallies(), [*GOOD, *(SentencePair(*pair) for pair in pairs)]
    size = -(-len(rows) // chunks)
    for start in range(0, len(rows), size):
        tallies.add(rows[start : start + size])
    return {finding.kind: finding for finding in tallies.findings()}


def test_nothing_is_said_of_good_pairs():
    assert findings(("„Größe“ – naïve café…”", "Ð and Ã, don’t: «l’été»…")) == {}


@pytest.mark.parametrize(
    ("pair", "kind"),
    [
        (("", "x"), "empty side"),
        (("x", " \u3000"), "empty side"),
        (("New York", "New York"), "identical sides"),
        (("short", "a very long sentence " * 5), "length ratio"),
        (("Grüße", "GrÃ¼ÃŸe"), "wrong encoding"),
        (("Привет", "ÐŸÑ€Ð¸Ð²ÐµÑ‚"), "wrong encoding"),
        (("das “Haus”", "das â€œHausâ€\x9d"), "wrong encoding"),
        (("日本", "日本語".encode().decode("latin-1")), "wrong encoding"),
        (("x \ufffd", "y"), "lost characters"),
        (("a\u200bb", "ab"), "control characters"),
        (("a", "b\x00"), "control characters"),
        (("a &amp; b", "a und b"), "markup"),
        (("a <b>b</b>", "a b"), "markup"),
    ],
)
@pytest.mark.parametrize("chunks", [1, 3])
def test_what_is_odd(pair, kind, chunks):
    finding = findings(pair, chunks=chunks)[kind]
    assert (finding.count, finding.lines, finding.serious) == (1, (201,), False)
    assert finding.share == pytest.approx(1 / 201)


def test_examples_are_the_first_three():
    finding = findings(*[("", "x")] * 5)["empty side"]
    assert (finding.count, finding.lines) == (5, (201, 202, 203))


@pytest.mark.parametrize(
    ("pairs", "kind"),
    [
        ([("Grüße", "GrÃ¼ÃŸe")] * 10, "wrong encoding"),
        ([("a", "x" * (MAX_CHARACTERS + 1))], "long line"),
        ([(f"{n}", f"{n}") for n in range(2000)], "identical sides"),
    ],
)
def test_what_cannot_be_right(pairs, kind):
    assert findings(*pairs)[kind].serious


@pytest.mark.parametrize("chunk", [50, 7])
def test_all_the_same(chunk):
    tallies, pairs = Tallies(), [SentencePair("always", f"other {n}") for n in range(50)]
    for start in range(0, 50, chunk):
        tallies.add(pairs[start : start + chunk])
    assert [(finding.message, finding.serious) for finding in tallies.findings() if finding.serious] == [
        ("every source is the same line", True)
    ]


def test_languages_of_different_lengths_are_no_outliers():
    tallies = Tallies()
    tallies.add([SentencePair("it is a house near a river in the old town of the north" * 2, "川の家" * 3)] * 500)
    assert "length ratio" not in {finding.kind for finding in tallies.findings()}


@pytest.mark.parametrize("chunks", [1, 3])
def test_what_one_line_or_empty_sides_are_like_is_not_what_is_usual(chunks):
    assert findings(("x" * (MAX_CHARACTERS + 1), "y"), chunks=chunks)["length ratio"].lines == (201,)
    assert "length ratio" not in findings(*[("a source that has no translation yet", "")] * 2_000, chunks=chunks)

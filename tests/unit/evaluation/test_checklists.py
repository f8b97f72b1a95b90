"""Each check passes correct outputs, fails wrong ones, and counts only sentences that have the phenomenon."""

from collections.abc import Sequence

import pytest

from dragoman.evaluation.checklists import MOST_PROBES, PhenomenonCount, check_phenomena
from dragoman.evaluation.metrics import chrf, sentence_chrf

PAIRS = [
    ("The train leaves at 8:45 am.", "Der Zug fährt um 8:45 Uhr ab."),
    ("She lives in Frankfurt.", "Sie wohnt in Frankfurt."),
    ("I do not know.", "Ich weiß nicht."),
    ("Where is the station?", "Wo ist der Bahnhof?"),
    ("Hello!", "Hallo!"),
    (
        "He didn't buy the very old and very heavy wooden table.",
        "Er hat den sehr alten und schweren Tisch nicht gekauft.",
    ),
]
SOURCES, REFERENCES = zip(*PAIRS, strict=True)


def perfect(texts: Sequence[str]) -> list[str]:
    """Translates every source in any case, with or without its full stop."""
    known = {src.casefold().rstrip("."): tgt for src, tgt in PAIRS}
    return [known.get(text.casefold().rstrip("."), "") for text in texts]


def findings(outputs: Sequence[str], translate=perfect, **languages: str) -> dict[str, PhenomenonCount]:
    found = check_phenomena(
        SOURCES, REFERENCES, outputs, translate, **{"src_lang": "en", "tgt_lang": "de", **languages}
    )
    return {finding.name: finding for finding in found}


def test_a_perfect_translator_passes_everything() -> None:
    found = findings(REFERENCES)
    assert list(found) == [
        "numbers", "names", "negation", "questions", "long", "short", "ALL CAPS", "no final dot", "empty"
    ]  # fmt: skip
    counts = {name: (finding.passed, finding.asked) for name, finding in found.items()}
    assert counts == {
        "numbers": (1, 1), "names": (1, 1), "negation": (2, 2), "questions": (1, 1), "long": (1, 1), "short": (1, 1),
        "ALL CAPS": (6, 6), "no final dot": (4, 4), "empty": (1, 1),
    }  # fmt: skip
    assert all(not finding.failures and not finding.note for finding in found.values())
    assert found["numbers"].chrf == pytest.approx(100)
    assert found["empty"].chrf is None


@pytest.mark.parametrize(
    ("row", "output", "name"),
    [
        (0, "Der Zug fährt um 9:45 Uhr ab.", "numbers"),
        (0, "Der Zug fährt um 8:45 45 Uhr ab.", "numbers"),
        (1, "Sie wohnt in Frankreich.", "names"),
        (2, "Ich weiß.", "negation"),
        (3, "Wo ist der Bahnhof.", "questions"),
        (3, "Wo ist der Bahnhof;", "questions"),
        (4, "", "short"),
        (4, "Hallo hallo hallo hallo hallo!", "short"),
        (5, "Er hat nicht", "long"),
    ],
)
def test_each_check_fails_what_is_wrong_and_shows_it(row: int, output: str, name: str) -> None:
    outputs = [*REFERENCES[:row], output, *REFERENCES[row + 1 :]]
    found = findings(outputs)
    assert found[name].passed == found[name].asked - 1
    (failure,) = found[name].failures
    assert (failure.src, failure.expected, failure.output) == (SOURCES[row], REFERENCES[row], output)
    natural = ("numbers", "names", "negation", "questions")
    assert all(found[other].passed == found[other].asked for other in natural if other != name)


def test_probes_find_a_translator_that_leans_on_case_dots_and_habits() -> None:
    found = findings(REFERENCES, translate=lambda texts: ["Hallo!"] * len(texts))
    assert (found["ALL CAPS"].passed, found["ALL CAPS"].asked) == (1, 6)
    assert found["ALL CAPS"].failures[0].src == SOURCES[0].upper()
    assert found["no final dot"].passed == 0
    assert found["empty"].failures[0].output == "Hallo!"
    dotless = findings(REFERENCES, translate=lambda texts: [text.rstrip(".") for text in perfect(texts)])
    assert dotless["no final dot"].passed == 4, "a missing dot may be missing in the answer too"


def test_without_a_list_of_negations_it_says_so() -> None:
    found = findings(REFERENCES, tgt_lang="te")["negation"]
    assert (found.asked, found.note) == (0, "no list of negations for te")
    assert findings(REFERENCES, src_lang="")["negation"].note == "no list of negations for ?"
    assert findings(REFERENCES, src_lang="en_US", tgt_lang="DE")["negation"].asked == 2


def test_an_empty_test_and_empty_lines_do_no_harm() -> None:
    nothing = check_phenomena([], [], [], lambda texts: [""] * len(texts))
    assert [(finding.asked, finding.passed) for finding in nothing[:-1]] == [(0, 0)] * 8
    assert nothing[-1].passed == 1
    blank = check_phenomena(["", " "], ["", ""], ["", ""], lambda texts: [""] * len(texts))
    assert sum(finding.asked for finding in blank) == 1


def test_the_probes_ask_for_few_sentences_of_a_large_test() -> None:
    asked: list[str] = []

    def translate(texts: Sequence[str]) -> list[str]:
        asked.extend(texts)
        return ["ja"] * len(texts)

    sources = [f"Sentence {number} is here." for number in range(1001)]
    check_phenomena(sources, sources, sources, translate)
    assert MOST_PROBES < len(asked) <= 2 * MOST_PROBES + 1
    assert asked[0] == "SENTENCE 0 IS HERE."
    assert asked[MOST_PROBES - 3].startswith("SENTENCE 9")


def test_sentence_scores_are_those_of_sacrebleu() -> None:
    assert sentence_chrf(["Hallo Welt"], ["Hallo Welt"]) == pytest.approx([100.0])
    one = sentence_chrf(["Hallo Wald", ""], ["Hallo Welt", "x"])
    assert one[0] == pytest.approx(chrf(["Hallo Wald"], ["Hallo Welt"]).value)
    assert one[1] == 0


def test_thousands_may_be_written_in_several_ways_and_languages_in_three_letters() -> None:
    found = check_phenomena(
        ["1,000 people do not sing."],
        ["1.000 Leute singen nicht."],
        ["1000 Leute singen nicht."],
        perfect,
        "eng",
        "deu",
    )
    counts = {one.name: (one.passed, one.asked) for one in found}
    assert counts["numbers"] == counts["negation"] == (1, 1)

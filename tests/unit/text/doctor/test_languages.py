import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import pytest

from dragoman.records import SentencePair
from dragoman.text.doctor import languages
from dragoman.text.doctor.languages import script_of
from dragoman.text.doctor.side_findings import language_findings

ENGLISH = [f"This is the old house near the river, number {n}, and it is empty." for n in range(60)]
GERMAN = [f"Das ist das alte Haus in der Nähe des Flusses, Nummer {n}, und es ist leer." for n in range(60)]
GREEK = ["Αυτό είναι το παλιό σπίτι κοντά στο ποτάμι και είναι άδειο."]


def looked_at(src, tgt, declared=("en", "de")):
    sample = [(number, SentencePair(*pair)) for number, pair in enumerate(zip(src, tgt, strict=True), start=1)]
    return language_findings(sample, declared)


def test_what_is_as_declared_gives_no_findings():
    assert looked_at(ENGLISH, GERMAN) == (("en", "de"), ("latin", "latin"), [])
    assert looked_at(ENGLISH, GERMAN, ("", ""))[0] == ("en", "de")
    assert looked_at(ENGLISH, GERMAN, ("eng", "de-AT"))[2] == []


def test_swapped_sides_cannot_be_right():
    (finding,) = looked_at(GERMAN, ENGLISH)[2]
    assert (finding.kind, finding.serious) == ("swapped languages", True)


def test_a_side_that_was_never_translated():
    (finding,) = looked_at(ENGLISH, ENGLISH)[2]
    assert (finding.kind, finding.serious) == ("other language", True)
    assert finding.message == "the target looks like English (en), not like German (de)"


def test_lines_in_another_language_and_script():
    found = {finding.kind: finding for finding in looked_at(ENGLISH, [*GERMAN[:55], *ENGLISH[:4], *GREEK])[2]}
    assert (found["other language"].count, found["other language"].lines) == (4, (56, 57, 58))
    assert found["other language"].message == "sampled target sides are in English (en), not in German"
    assert not found["other language"].serious
    assert (found["other script"].count, found["other script"].lines) == (1, (60,))


def test_half_of_a_side_that_was_never_translated():
    half = [line for pair in zip(ENGLISH[:30], GERMAN[:30], strict=True) for line in pair]
    (finding,) = looked_at(ENGLISH, half)[2]
    assert (finding.kind, finding.serious, finding.share) == ("other language", True, 0.5)
    assert finding.advice == "Remove the untranslated pairs."


def test_pairs_in_the_other_direction():
    (finding,) = looked_at([*ENGLISH[:40], *GERMAN[40:]], [*GERMAN[:40], *ENGLISH[40:]])[2]
    assert (finding.kind, finding.serious, finding.lines) == ("swapped languages", True, (41, 42, 43))
    message = "sampled pairs have source and target swapped: they run from German to English, unlike the others"
    assert finding.message == message


def test_an_unknown_language_is_not_judged():
    assert looked_at(ENGLISH, GERMAN, ("en", "yy")) == (("en", ""), ("latin", "latin"), [])


def test_few_or_short_lines_say_nothing():
    assert looked_at(ENGLISH[:5], ENGLISH[:5]) == (("", ""), ("", ""), [])
    assert looked_at(["ok"] * 50, ["ok"] * 50)[0] == ("", "")


@pytest.mark.parametrize(
    ("text", "script"),
    [("abc где", "latin"), ("где a", "cyrillic"), ("これは家だ", "cjk"), ("ＡＢＣ", "latin"), ("12 !", ""), ("", "")],
)
def test_scripts(text, script):
    assert script_of(text) == script


def test_threads_load_the_detector_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []

    class Slow:
        labels = ("de", "en")

        @classmethod
        def from_model_file(cls, file: str) -> "Slow":
            loads.append(file)
            time.sleep(0.05)
            return cls()

    monkeypatch.setattr("py3langid.langid.LanguageIdentifier", Slow)
    monkeypatch.setattr(languages, "_load_detector", lru_cache(languages._load_detector.__wrapped__))
    with ThreadPoolExecutor(8) as executor:
        found = list(executor.map(lambda _: languages.known_languages(), range(8)))
    assert len(loads) == 1
    assert set(found) == {frozenset({"de", "en"})}

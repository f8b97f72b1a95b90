import numpy as np

from dragoman.config import Config, DataSettings
from dragoman.text.tokenization.words import words_of
from dragoman.visualization.inspection.inspection import Note, Side
from dragoman.visualization.inspection.inspector import find_notes, length_notes


def side(text: str) -> Side:
    tokens = tuple(f"▁{word}" for word in text.split())
    return Side(text, tokens, words_of(tokens))


def found(src: str, tgt: str, **given: object) -> dict[str, Note]:
    one, other = side(src), side(tgt)
    links = given.get("links", np.full((len(other.tokens), len(one.tokens)), 1 / len(one.tokens)))
    sure = given.get("log_probs", [-0.1] * len(other.tokens))
    alone = given.get("alone", [-9.0] * len(other.tokens))
    return {note.kind: note for note in find_notes(one, other, links, sure, alone)}


def test_a_good_translation_has_no_notes() -> None:
    assert found("the red house", "das rote Haus") == {}


def test_words_with_less_than_a_fifth_of_their_share_are_noted() -> None:
    links = np.array([[0.6, 0.05, 0.35], [0.5, 0.05, 0.45]])
    note = found("the red house", "das Haus", links=links)["uncovered"]
    assert (note.src_words, note.tgt_words) == ((1,), ())


def test_words_independent_of_the_source_are_noted() -> None:
    note = found("the red house", "das rote Haus", alone=[-5.0, -0.7, -0.9])["prefix"]
    assert note.tgt_words == (1,), "half as likely is noted, less is not"


def test_repetitions_are_noted_unless_the_source_has_them() -> None:
    assert found("the red house", "das rote das rote Haus")["repeated"].tgt_words == (0, 1, 2, 3)
    assert "repeated" not in found("very very red", "sehr sehr rot")
    assert found("very very red", "sehr sehr sehr sehr rot")["repeated"].tgt_words == (0, 1, 2, 3)
    assert found("very very red", "sehr sehr rot das rote das rote")["repeated"].tgt_words == (3, 4, 5, 6)
    assert "repeated" not in found("no . . .", "nein . . . .")


def test_improbable_words_are_noted() -> None:
    note = found("the red house", "das rote Haus", log_probs=[-0.6, -0.8, -0.1])["improbable"]
    assert note.tgt_words == (1,), "e to the power of -0.8 is 0.45"


def test_a_translation_of_a_third_of_the_length_is_noted() -> None:
    assert "length" in found("a b c d e f g h i", "x y z")
    assert "length" in found("x y z", "a b c d e f g h i")
    assert "length" not in found("a b c d e f g h", "x y z")
    assert "length" not in found("a b c", "x")


def test_copied_words_are_noted() -> None:
    note = found("Vienna is a city", "Vienna ist a Stadt")["copied"]
    assert (note.src_words, note.tgt_words) == ((0,), (0,)), "a single letter does not count as a copy"


def test_unknown_words_are_noted() -> None:
    one = Side("x", ("▁a", "<unk>", "▁b"), words_of(("▁a", "▁?", "▁b")))
    notes = find_notes(one, side("c"), np.full((1, 3), 1 / 3), [-0.1], [-9.0])
    assert [(note.kind, note.src_words) for note in notes] == [("unknown", (1,))]


def test_length_limits_are_noted() -> None:
    config = Config(data=DataSettings(max_tokens=24))
    long, short = side("a " * 30), side("a " * 24)
    assert [note.kind for note in length_notes(long, short, config, finished=False)] == ["long", "cut"]
    assert list(length_notes(short, long, config, finished=True)) == []

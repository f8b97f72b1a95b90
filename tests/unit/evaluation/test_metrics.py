import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.evaluation.metrics import bleu, chrf, score_outputs, tokenizer_for

WORDS = "the a cat dog house is was in on under green old sees sleeps . , Ärger 東京 क्या 3.5".split()


def _noisy_test(num_sentences: int) -> tuple[list[str], list[str]]:
    draw = random.Random(7)
    references = [" ".join(draw.choices(WORDS, k=draw.randint(1, 20))) + "!" for _ in range(num_sentences)]
    hypotheses = [" ".join(w for w in line.split() if draw.random() > 0.2) for line in references]
    return hypotheses, references


def test_scores_and_signatures_are_those_of_sacrebleus_own_command(tmp_path: Path) -> None:
    hypotheses, references = _noisy_test(120)
    for name, lines in (("hyp", hypotheses), ("ref", references)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-m", "bleu", "chrf", "ter", "-w", "6"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, encoding="utf-8")
    oracle = json.loads(answer.stdout)
    evaluation = score_outputs(hypotheses, references)
    assert [(score.name, round(score.value, 6)) for score in evaluation.scores] == [
        (entry["name"], entry["score"]) for entry in oracle
    ]
    assert [_signature(score.signature) for score in evaluation.scores] == [
        _signature(entry["signature"]) for entry in oracle
    ]
    assert evaluation.num_sentences == 120


def _signature(text: str) -> dict[str, str]:
    return dict(part.split(":", 1) for part in text.split("|"))


def test_intervals_are_those_of_sacrebleus_own_command(tmp_path: Path) -> None:
    hypotheses, references = _noisy_test(120)
    for name, lines in (("hyp", hypotheses), ("ref", references)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "sacrebleu",
        "ref",
        "-i",
        "hyp",
        "-m",
        "bleu",
        "chrf",
        "ter",
        "-w",
        "6",
        "--confidence",
    ]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, encoding="utf-8")
    plain, found = score_outputs(hypotheses, references), score_outputs(hypotheses, references, intervals=True)
    for score, bare, entry in zip(found.scores, plain.scores, json.loads(answer.stdout), strict=True):
        assert score.interval is not None
        assert (score.interval[1] - score.interval[0]) / 2 == pytest.approx(entry["confidence_var"], abs=1e-3)
        assert _signature(score.signature) == _signature(entry["signature"])
        assert (score.value, None) == (bare.value, bare.interval)
        assert f"{score.value:.2f} [{score.interval[0]:.2f}, " in str(score)


def test_single_metrics_are_those_of_the_evaluation() -> None:
    hypotheses, references = _noisy_test(20)
    scores = score_outputs(hypotheses, references).scores
    assert scores[:2] == (bleu(hypotheses, references), chrf(hypotheses, references))
    assert [score.name for score in scores] == ["BLEU", "chrF2", "TER"]


@given(st.lists(st.text(max_size=30), min_size=1, max_size=8))
@settings(deadline=None)
def test_any_text_can_be_scored(lines: list[str]) -> None:
    evaluation = score_outputs(lines, lines[::-1])
    assert all(score.signature and score.value >= 0 for score in evaluation.scores)


def test_different_counts_name_both() -> None:
    with pytest.raises(DataError, match=r"2 translations but 3 references"):
        score_outputs(["a", "b"], ["a", "b", "c"])


def test_nothing_to_score_is_refused() -> None:
    with pytest.raises(DataError, match="no translations"):
        score_outputs([], [])


def test_small_test_is_warned_about() -> None:
    line = "there are at least four words here"
    assert any("only 99 sentences" in warning for warning in score_outputs([line] * 99, [line] * 99).warnings)
    assert score_outputs([line] * 100, [line] * 100).warnings == ()


def test_bleu_without_four_words_is_warned_about() -> None:
    assert any("BLEU is not defined" in warning for warning in score_outputs(["a b c"] * 100, ["a b c"] * 100).warnings)
    wrong = score_outputs(["a b x y z"] * 100, ["a b c d e"] * 100)
    assert any("only its smoothing" in warning for warning in wrong.warnings)


def test_tokenised_text_and_empty_lines_are_warned_about() -> None:
    plain, tokenised = ["This is a good sentence."] * 100, ["This is a good sentence ."] * 100
    assert score_outputs(tokenised, plain).warnings == (
        "the translations look tokenized (a space before the full stop): scores need detokenized text.",
    )
    assert any("references look tokenized" in warning for warning in score_outputs(plain, tokenised).warnings)
    assert any("1 of the 101 references are empty" in w for w in score_outputs([*plain, "x"], [*plain, " "]).warnings)


def test_a_model_that_always_says_the_same_is_told() -> None:
    references = [f"number {n} is here" for n in range(100)]
    same = [*["a man ."] * 30, *references[30:]]
    assert any(
        "30 of the 100 translations are the same, 'a man .'" in each
        for each in score_outputs(same, references).warnings
    )
    greetings = [*["hello"] * 30, *references[30:]]
    for told in (
        score_outputs(greetings, greetings),
        score_outputs(same[15:], references[15:]),
        score_outputs(references, references),
    ):
        assert not any("are the same" in warning for warning in told.warnings)


def test_languages_without_spaces_get_their_own_tokenizer() -> None:
    assert [tokenizer_for(lang) for lang in ("zh", "zh-TW", "ja", "ja_JP", "de", "")] == [
        "zh", "zh", "char", "char", "13a", "13a",
    ]  # fmt: skip
    assert [tokenizer_for(lang) for lang in ("jpn", "zho", "cmn-Hant", "tha", "deu")] == [
        "char", "zh", "zh", "char", "13a",
    ]  # fmt: skip
    assert "tok:zh" in score_outputs(["我爱你们大家"], ["我爱你们大家"], tokenizer_for("zh")).scores[0].signature


def test_edits_of_text_without_spaces_are_counted_by_character() -> None:
    score = score_outputs(["我爱你们大家吗"], ["我爱你们大家"], "zh").scores[2]
    assert score.value == pytest.approx(100 / 6)
    assert "asian" in score.signature
    assert score_outputs(["a b c d e"], ["a b c d"]).scores[2].value == pytest.approx(25)


def test_ter_of_very_long_lines_is_left_out_with_a_warning() -> None:
    line = " ".join(map(str, range(201)))
    for tokenize, long in (("13a", line), ("char", "我" * 201)):
        found = score_outputs(["a", long, long], ["a", long, long], tokenize)
        assert [score.name for score in found.scores] == ["BLEU", "chrF2"]
        assert found.warnings[0].startswith("line 2 has more than 200 ")
    assert len(score_outputs(["a", line], ["a", "b"]).scores) == 3

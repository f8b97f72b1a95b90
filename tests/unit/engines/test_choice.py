"""Log-probabilities of given translations, and the reason for an engine."""

from pathlib import Path

import pytest

from dragoman.bundle import Model
from dragoman.cli.main import run_command
from dragoman.engines.tensors.engine import StepSearch
from dragoman.engines.tensors.fast_model import FastModel
from dragoman.errors import ConfigError
from dragoman.inference.translator import Translator
from dragoman.kernels import library

TEXTS = ["one two three", "four", "five four three two one"]


@pytest.mark.parametrize("num_models", [1, 2])
@pytest.mark.parametrize("compiles", [True, False])
def test_scores_of_its_own_translations_are_those_of_the_search(
    small_bundle: Model, num_models: int, compiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiles:
        monkeypatch.setattr(library, "is_available", lambda: False)
    translator = Translator.from_models([small_bundle] * num_models, "float32")
    found = [one.candidates[0] for one in translator.translate_detailed(TEXTS, max_extra_tokens=40)]
    scores = translator.score(TEXTS, [one.text for one in found])
    compared = 0
    for candidate, score in zip(found, scores, strict=True):
        if score.tokens == candidate.tokens:  # a text may be encoded in other tokens than those that were found
            compared += 1
            assert score.token_log_probs[:-1] == pytest.approx(candidate.token_log_probs, abs=1e-4)
        assert len(score.token_log_probs) == len(score.tokens) + 1
        assert score.log_prob == pytest.approx(sum(score.token_log_probs))
    assert compared


def test_machine_code_and_torch_score_alike(small_bundle: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    translator, targets = Translator.from_models([small_bundle], "float32"), ["five one", "", "two"]
    found = translator.score([*TEXTS[:2], ""], targets)
    monkeypatch.setattr(library, "is_available", lambda: False)
    expected = translator.score([*TEXTS[:2], ""], targets)
    for one, other in zip(found, expected, strict=True):
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)
    assert [(one.src, one.tgt) for one in found] == list(zip([*TEXTS[:2], ""], targets, strict=True))


def test_wrong_arguments_raise_with_one_line(small_bundle: Model) -> None:
    translator = Translator.from_models([small_bundle])
    with pytest.raises(ConfigError, match=r"^`targets` must have one text per source \(1\), but has 2\.$"):
        translator.score(["one"], ["two", "three"])
    with pytest.raises(ConfigError, match=r"^`sources` must be a list of texts"):
        translator.score("one", ["two"])


@pytest.mark.skipif(not library.is_available(), reason="needs a processor that machine code supports")
def test_a_translator_tells_what_keeps_it_from_machine_code(small_bundle: Model) -> None:
    translator = Translator.from_models([small_bundle], "float32")
    assert translator.engine_reason() == ""
    assert translator.engine_reason(sample=True) == "`inference.sample`"
    assert translator.engine_reason(precision="bfloat16") in ("`inference.precision` bfloat16", "")
    assert Translator.from_models([small_bundle] * 2, "float32").engine_reason() == "an ensemble of models"
    other = Translator.from_models([small_bundle], search=StepSearch(FastModel(small_bundle.transformer)))
    assert other.engine_reason() == ""


def test_the_command_prints_sums_that_agree(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    src, tgt = tmp_path / "a.en", tmp_path / "a.de"
    src.write_text("one two\nthree\n")
    tgt.write_text("five\n\n")
    assert run_command(["score", str(model_folder), "--src", str(src), "--tgt", str(tgt)]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 2
    for total, tokens in lines:
        assert float(total) == pytest.approx(sum(map(float, tokens.split())), abs=1e-3)

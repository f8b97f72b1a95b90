"""A run from Python alone: everything works without importing the command line, and nothing is printed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.bundle.card import read_card
from dragoman.demo.phrasebook_file import load_phrasebook
from tests.system.commands import dragoman

PROGRAM = """
import json, sys
from dataclasses import replace
from pathlib import Path
from dragoman.bundle.card import read_card
from dragoman.training.run.run_folder import RunFolder
from dragoman.workflows.comparison import ComparisonRequest, compare_systems
from dragoman.workflows.corpus import check_files
from dragoman.workflows.evaluation import EvaluationRequest, evaluate_test
from dragoman.workflows.models import ModelRequest, load_model
from dragoman.workflows.runs import average_run
from dragoman.workflows.training.planning import plan_run
from dragoman.workflows.training.settings import RunRequest, resolve_run
from dragoman.workflows.training.training import train_run

settings = json.loads(sys.argv[1])
request = RunRequest(overrides=settings | {"data.train_src": "train.en", "data.train_tgt": "train.de"})
plan = plan_run(request)
more = RunRequest(overrides={"train.max_steps": "12"}, out=Path("run"))
folders, steps = [], []
for each in (replace(request, out=Path("run")), more, more):
    folders.append(train_run(resolve_run(each)))
    steps.append(RunFolder(Path("run")).steps()[-1])
model = ModelRequest(("run",), {"inference.beam_size": "1"}, device="cpu")
report = evaluate_test(EvaluationRequest(src="test.en", ref="test.de", model=model))
models = replace(model, paths=())
compared = compare_systems(ComparisonRequest(a="run", b="test.de", src="test.en", ref="test.de", models=models))
translation = load_model(replace(model, overrides={})).translator.translate(["Where is the station?"])
print(json.dumps({
    "planned": [plan.size.pairs, plan.forecast.steps, plan.forecast.ends_by, plan.measured.parameters],
    "steps": steps,
    "models": [str(folder) for folder in folders],
    "scores": read_card(folders[-1]).scores,
    "evaluated": [[score.name, score.value, score.signature] for score in report.whole.scores],
    "compared": [compared.num_sentences, compared.metrics[0].b.value],
    "checked": check_files([["train.en", "train.de"]])[0].pairs,
    "averaged": read_card(average_run(Path("run"), last=2, out=Path("mean"))).averaged_steps,
    "translation": translation,
    "imported": [name for name in sys.modules if name.startswith("dragoman.cli")],
}))
"""
SETTINGS = {
    "tokenizer.vocab_size": "400",
    "model.preset": "custom",
    "model.d_model": "16",
    "model.d_ff": "32",
    "model.num_heads": "2",
    "model.num_encoder_layers": "1",
    "model.num_decoder_layers": "1",
    "train.max_steps": "8",
    "train.batch_tokens": "500",
    "train.device": "cpu",
    "train.precision": "float32",
    "validate.every_steps": "4",
    "inference.beam_size": "2",
    "inference.max_extra_tokens": "3",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("python")
    pairs = load_phrasebook().generate(seed=5, count=360)
    for name, part in (("train", pairs[:300]), ("test", pairs[300:])):
        for side in ("src", "tgt"):
            lines = "".join(f"{getattr(pair, side)}\n" for pair in part)
            (folder / f"{name}.{'en' if side == 'src' else 'de'}").write_text(lines, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def answer(folder: Path) -> dict[str, Any]:
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", PROGRAM, json.dumps(SETTINGS)]
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_run_is_planned_trained_and_continued(answer: dict[str, Any]) -> None:
    assert answer["imported"] == []
    assert answer["planned"][:3] == [300, 8, "train.max_steps"]
    assert answer["steps"] == [8, 12, 12]


def test_the_result_has_the_best_model_and_the_scores_of_its_card(answer: dict[str, Any], folder: Path) -> None:
    assert len(set(answer["models"])) == 1, "a finished run returns its model too"
    card = read_card(folder / answer["models"][0])
    assert card.parameters == answer["planned"][3]
    assert answer["scores"] == list(map(list, card.scores))
    assert [row[:2] for row in answer["scores"]] == [["validation, beam 2", name] for name in ("BLEU", "chrF2", "TER")]


def test_evaluation_comparison_average_and_translation_equal_the_command_line(
    answer: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    test = ("--src", "test.en", "--ref", "test.de")
    done = dragoman("evaluate", "run", *test, "--json", "--inference.beam-size", 1, "--device", "cpu")
    scores = json.loads(done.stdout)["scores"]
    assert answer["evaluated"] == [[score["name"], score["value"], score["signature"]] for score in scores]
    assert answer["compared"] == [60, pytest.approx(100)]
    assert answer["checked"] == 300
    assert answer["averaged"] == list(read_card(folder / "mean").averaged_steps) == [8, 12]
    done = dragoman("translate", "run", "--device", "cpu", stdin="Where is the station?\n")
    assert answer["translation"] == [done.stdout.removesuffix("\n")]

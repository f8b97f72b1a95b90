"""The same seed gives the same run, and scores in training equal those of the commands afterwards."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.evaluation.metrics import bleu
from dragoman.training.trainer import fit
from dragoman.training.verification import _compare
from tests.soak.conftest import Report
from tests.soak.runs import events_of, make_session, override_train, phrasebook_texts
from tests.system.commands import write_tsv

SETTINGS = """
    --model.preset=custom --model.d-model=64 --model.d-ff=128 --tokenizer.vocab-size=600
    --train.max-steps=150 --train.warmup-steps=50 --train.learning-rate=0.005 --train.average-last=0 --train.patience=0
    --validate.every-steps=150 --validate.every-epochs=0 --validate.beam-size=4 --inference.beam-size=4
"""


def test_the_same_seed_gives_the_same_run(tmp_path: Path, scaled: Callable[[int], int], report: Report) -> None:
    steps, folders = scaled(200), []
    for name in ("one", "two"):
        config = override_train(max_steps=steps, checkpoint_every_steps=50)
        session = make_session(tmp_path / name, phrasebook_texts(), config)
        fit(session)
        folders.append(session.run.step_folder(steps))
    tensors, differences = _compare(*folders)
    report(f"the same seed twice, {steps} steps", 1, differences[:1], f"{tensors} tensors bit-equal")


def test_bleu_in_training_equals_that_of_translate(tmp_path: Path, report: Report) -> None:
    pairs = list(load_phrasebook().generate(seed=5, count=700))
    for name, part in (("train", pairs[:600]), ("dev", pairs[600:])):
        write_tsv(tmp_path / f"{name}.en-de.tsv", part)
    data = ["--data", str(tmp_path / "train.en-de.tsv"), f"--data.dev={tmp_path / 'dev.en-de.tsv'}"]
    program, run = [sys.executable, "-m", "dragoman"], str(tmp_path / "run")
    subprocess.run([*program, "train", *data, "--out", run, *SETTINGS.split()], check=True, capture_output=True)
    inside = events_of(tmp_path / "run", "validation")[-1]["bleu"]
    sources = "".join(f"{pair.src}\n" for pair in pairs[600:])
    done = subprocess.run([*program, "translate", run], input=sources, capture_output=True, text=True, check=True)
    outside = bleu(done.stdout.split("\n")[:-1], [pair.tgt for pair in pairs[600:]], "13a").value
    report("BLEU in training and of `translate`", 1, [outside] * (inside != outside), f"{inside} and {outside}")

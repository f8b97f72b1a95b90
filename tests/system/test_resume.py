"""`verify_resume` on a run as a user makes one: exact as it is, and not where resuming is broken on purpose."""

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.errors import CheckpointError
from dragoman.text.phrasebook_file import load_phrasebook
from dragoman.train.verification import verify_resume

DRAGOMAN = (sys.executable, "-m", "dragoman")
SETTINGS = (
    "--model.preset=custom --model.d-model=16 --model.d-ff=16 --model.num-heads=2 --model.num-encoder-layers=1 "
    "--model.num-decoder-layers=1 --tokenizer.vocab-size=400 --train.batch-tokens=300 --train.max-steps=6 "
    "--train.workers=1 --train.average-last=0 --validate.metric=loss --validate.max-sentences=5"
)
BUGS = {
    "the position in the data is lost": (
        "from dragoman.train.state import TrainState as S; f = S.from_json; "
        "S.from_json = lambda text: (s := f(text), setattr(s, 'step_in_epoch', 0))[0]"
    ),
    "what dropout draws is not restored": (
        "import os; from dragoman.model.dropout import Randomness as R; f = R.seed; "
        "R.seed = lambda self, *n: f(self, *n, os.getpid())"
    ),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume")
    pairs = load_phrasebook().generate(seed=1, count=400)
    corpus = folder / "pairs.en-de.tsv"
    corpus.write_text("".join(f"{pair.src}\t{pair.tgt}\n" for pair in pairs), encoding="utf-8")
    command = [*DRAGOMAN, "train", "--data", str(corpus), "--out", str(folder / "run"), *SETTINGS.split()]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "run"


def test_a_run_continues_bit_for_bit_and_stays_as_it_is(run: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*"))
    report = verify_resume(run, steps=6)
    assert report.exact, report.differences
    assert report.first_step < report.killed_after < report.last_step == report.first_step + 6
    assert report.tensors > 50
    assert report.log_lines >= 6
    assert sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*")) == before
    assert not list(run.parent.glob(".verify-*"))


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS.keys())
def test_a_planted_bug_is_found(run: Path, bug: str) -> None:
    program = f"import sys; {bug}; from dragoman.cli.main import main; sys.exit(main(sys.argv[1:]))"
    report = verify_resume(run, steps=4, command=(sys.executable, "-c", program))
    assert not report.exact
    assert any(line.startswith("model.safetensors: ") for line in report.differences)


def test_what_cannot_be_verified_says_why(run: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint"):
        verify_resume(tmp_path)
    with pytest.raises(CheckpointError, match=r"ended early\. It said last: no such data"):
        verify_resume(run, command=(sys.executable, "-c", "import sys; sys.exit('no such data')"))

"""Training and translation on an NVIDIA GPU, compared with the CPU. Without such a GPU these tests are skipped."""

import base64
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.training.verification import verify_resume
from tests.system.commands import dragoman as run_command
from tests.system.commands import events, write_sides

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
DEVICE = "cuda"
SIZES: dict[str, Any] = {"preset": "custom", "d_model": 128, "d_ff": 256, "num_heads": 4, "vocab_size": 800}
SETTINGS: dict[str, Any] = SIZES | {
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "train_batch_tokens": 4000,
    "max_steps": 800,
    "dropout": 0.1,
    "average_last": 0,
    "warmup_steps": 100,
    "learning_rate": 0.002,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu")
    pairs = load_phrasebook().generate(seed=1, count=6200)
    write_sides(folder / "text", pairs[:6000])
    write_sides(folder / "test", pairs[6000:])
    return folder


def train(folder: Path, name: str, **settings: Any) -> dragoman.Run:
    return dragoman.train(folder / "text.en", folder / "text.de", folder / name, **(SETTINGS | settings))


def losses(run: dragoman.Run) -> list[float]:
    return [event["loss"] for event in events(Path(run.path)) if event["event"] == "train"]


@pytest.fixture(scope="module")
def run(folder: Path) -> dragoman.Run:
    """A run whose device and precision are chosen by themselves."""
    return train(folder, "run")


@pytest.fixture(scope="module")
def sentences(folder: Path) -> list[str]:
    return (folder / "test.en").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def on_cpu(run: dragoman.Run) -> dragoman.Translator:
    return dragoman.load(run, device="cpu")


@pytest.fixture(scope="module")
def on_gpu(run: dragoman.Run) -> dragoman.Translator:
    return dragoman.load(run, device=DEVICE)


def bleu(translator: dragoman.Translator, folder: Path, **settings: Any) -> float:
    return dragoman.evaluate(translator, folder / "test.en", folder / "test.de", **settings).scores["BLEU"]


def test_a_model_learns_by_the_default_settings(folder: Path, on_gpu: dragoman.Translator) -> None:
    assert bleu(on_gpu, folder) > 50


def test_float32_and_bfloat16_reach_the_same_loss(folder: Path, run: dragoman.Run) -> None:
    full = losses(train(folder, "float32", train_precision="float32"))
    assert losses(run)[-1] == pytest.approx(full[-1], rel=0.05)


def test_the_first_steps_are_those_of_the_cpu(folder: Path) -> None:
    """Without dropout, whose random numbers differ."""
    same: dict[str, Any] = {"dropout": 0.0, "train_precision": "float32", "max_steps": 10, "log_every_steps": 1}
    on_gpu = losses(train(folder, "ten", device=DEVICE, **same))
    on_cpu = losses(train(folder, "ten.cpu", device="cpu", **same))
    assert on_gpu == pytest.approx(on_cpu, rel=1e-4)


def test_a_killed_run_continues(run: dragoman.Run) -> None:
    report = verify_resume(Path(run.path), steps=20)
    assert report.exact, report.differences[:5]


@pytest.mark.parametrize(("first", "second"), [(DEVICE, "cpu"), ("cpu", DEVICE)])
def test_a_run_may_change_its_device(folder: Path, first: str, second: str) -> None:
    train(folder, f"to.{second}", device=first, max_steps=20)
    continued = train(folder, f"to.{second}", device=second, max_steps=40)
    assert all(math.isfinite(loss) for loss in losses(continued))
    assert max(event.get("step", 0) for event in events(Path(continued.path))) == 40


@pytest.mark.parametrize("beam_size", [1, 5])
def test_translations_are_those_of_the_cpu(
    on_cpu: dragoman.Translator, on_gpu: dragoman.Translator, sentences: list[str], beam_size: int
) -> None:
    """Except where two hypotheses have nearly equal scores."""
    few = on_gpu(sentences[:30], beam_size=beam_size, batch_tokens=60)
    found, expected = (each(sentences, beam_size=beam_size) for each in (on_gpu, on_cpu))
    assert sum(one == other for one, other in zip(found, expected, strict=True)) >= 0.98 * len(expected)
    assert few == found[:30]


def test_bfloat16_translates_as_well(
    folder: Path, on_cpu: dragoman.Translator, on_gpu: dragoman.Translator, sentences: list[str]
) -> None:
    assert bleu(on_gpu, folder, precision="auto") == pytest.approx(bleu(on_cpu, folder), abs=2.0)


def test_scores_alignments_and_attention_are_those_of_the_cpu(
    on_cpu: dragoman.Translator, on_gpu: dragoman.Translator, sentences: list[str]
) -> None:
    expected = on_cpu(sentences[:50])
    gpu, cpu = ([pair.log_prob for pair in each.score(sentences[:50], expected)] for each in (on_gpu, on_cpu))
    assert gpu == pytest.approx(cpu, rel=1e-3, abs=1e-3)
    details = dragoman.Details(alignment=True)
    records = [each.translate_detailed(sentences[:50], details=details) for each in (on_gpu, on_cpu)]
    alignments = [[translation.alignment for translation in translations] for translations in records]
    assert sum(one == other for one, other in zip(*alignments, strict=True)) >= 48
    pictures = [dragoman.inspect(each, sentences[0]) for each in (on_gpu, on_cpu)]
    assert [picture.tgt for picture in pictures] == [pictures[0].tgt] * 2
    weights = (base64.b64decode(picture.of_kind("cross").data) for picture in pictures)
    assert max(abs(one - other) for one, other in zip(*weights, strict=True)) <= 1


def test_sampling_and_ensembles(folder: Path, run: dragoman.Run, on_gpu: dragoman.Translator) -> None:
    assert len(on_gpu(["Where is the station?"] * 20, beam_size=1, sample=True)) == 20
    assert bleu(dragoman.load(run, run, device=DEVICE), folder) > 30


@pytest.mark.parametrize("sharding", ["none", "full"])
def test_torchrun_with_nccl(folder: Path, sharding: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "1", "--standalone", "-m", "dragoman"]
    command += ["train", "--src", str(folder / "text.en"), "--tgt", str(folder / "text.de")]
    command += ["--out", str(folder / f"nccl.{sharding}"), "--train.sharding", sharding, "--train.max-steps", "20"]
    command += ["--model.preset", "tiny", "--tokenizer.vocab-size", "800"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert events(folder / f"nccl.{sharding}")[-1]["step"] == 20


@pytest.mark.parametrize(
    "flags", [["--alignment"], ["--inference.precision", "bfloat16"], ["--flags", "--no-split"], ["--stream"]]
)
def test_the_command_line(run: dragoman.Run, sentences: list[str], flags: list[str]) -> None:
    stream = flags == ["--stream"]
    text = sentences[:1] if stream else sentences[:5]
    done = run_command("translate", run.path, "--device", DEVICE, *flags, stdin="".join(f"{line}\n" for line in text))
    assert len(done.stdout.splitlines()) == len(text)


def test_plan_runs_on_the_gpu(folder: Path) -> None:
    done = run_command("plan", "--src", folder / "text.en", "--tgt", folder / "text.de", "--train.device", DEVICE)
    assert "suggested size" in done.stdout

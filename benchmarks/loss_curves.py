"""Does the fast path learn as the float32 reference does? Loss curves of the same steps, side by side.

    python benchmarks/loss_curves.py [--steps 500] [--batch-tokens 2048] [--folder .bench] [--out results/loss_curves]

Trains the tiny shape on Multi30k through the product's trainer: in float32 with two seeds of dropout (their distance
is the noise), and in bfloat16 with the same two. Prints the mean loss of each tenth of the run and the distances; with
--out it writes them as OUT.json and the curves as OUT.svg.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from side_by_side.corpus import Corpus, prepare
from side_by_side.shapes import SIZES
from side_by_side.train_dragoman import Enough, model_settings, store_of, train

from dragoman.config import TrainSettings
from dragoman.model.transformer import Transformer
from dragoman.training.run.checkpoint import RunFolder
from dragoman.training.run.log import RunLog

RUNS = (("float32", 1), ("float32", 2), ("bfloat16", 1), ("bfloat16", 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / ".bench")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    corpus = prepare(given.folder / "corpus")
    curves = {}
    for precision, seed in RUNS:
        curves[f"{precision}, seed {seed}"] = curve(corpus, precision, seed, given.steps, given.batch_tokens)
        print(
            f"{precision}, seed {seed}:",
            " ".join(f"{loss:.3f}" for loss in tenths(curves[f"{precision}, seed {seed}"])),
        )
    noise = distance(curves, "float32, seed 1", "float32, seed 2")
    same = [distance(curves, f"float32, seed {seed}", f"bfloat16, seed {seed}") for seed in (1, 2)]
    print(f"mean |difference| over the last half: two float32 seeds {noise:.4f}; bfloat16 and float32 of a seed {same}")
    if given.out:
        given.out.with_suffix(".json").write_text(json.dumps(curves) + "\n", encoding="utf-8")
        plot(curves, given.out.with_suffix(".svg"))


class Curve(RunLog):
    """A run's log that keeps the losses, and ends the training after so many steps, before anything is saved."""

    def __init__(self, folder: Path, steps: int) -> None:
        super().__init__(folder)
        self._steps = steps
        self.losses: list[float] = []

    def progress(self, event: dict[str, Any], seconds_left: float | None) -> None:
        """Called by the trainer every so many steps."""
        self.losses.append(event["loss"])
        if event["step"] >= self._steps:
            raise Enough


def curve(corpus: Corpus, precision: str, seed: int, steps: int, batch_tokens: int) -> list[float]:
    """The loss of every tenth step's window."""
    settings = TrainSettings(
        batch_tokens=batch_tokens, learning_rate=0.003, warmup_steps=200, precision=precision, device="cpu", patience=0,
        log_every_steps=10, seed=seed,
    )  # fmt: skip
    torch.manual_seed(1)  # the weights are the same in all runs
    size = SIZES["tiny"]
    model = Transformer(model_settings(size, 0.0, 0.0), corpus.vocab_size, corpus.vocab_size)
    with tempfile.TemporaryDirectory() as folder:
        log = Curve(Path(folder), steps)
        train(model, store_of(corpus), settings, RunFolder(Path(folder)), log)
    return log.losses


def tenths(losses: list[float]) -> list[float]:
    size = max(1, len(losses) // 10)
    return [sum(part) / len(part) for part in (losses[i : i + size] for i in range(0, len(losses), size))]


def distance(curves: dict[str, list[float]], one: str, other: str) -> float:
    """Mean absolute difference over the last half."""
    pairs = list(zip(curves[one], curves[other], strict=True))
    pairs = pairs[len(pairs) // 2 :]
    return sum(abs(a - b) for a, b in pairs) / len(pairs)


def plot(curves: dict[str, list[float]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for name, losses in curves.items():
        axes.plot([10 * (i + 1) for i in range(len(losses))], losses, label=name, linewidth=1)
    axes.set(xlabel="step", ylabel="smoothed loss (nats a token)")
    axes.legend()
    figure.savefig(path, bbox_inches="tight")


if __name__ == "__main__":
    main()

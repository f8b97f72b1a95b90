"""BLEU of a run that trains a fifth of the steps and continues, compared with a run that takes all steps at once.

    python benchmarks/longer_limits.py [--seeds 5] [--steps 300]

Trains tiny models of the phrasebook in three ways per seed: all steps at once, a fifth of the steps and then the rest,
and all steps with the warm-up of a fifth, as if the warm-up were not fitted again. Prints BLEU on held-out sentences.
"""

import argparse
import tempfile
import tomllib
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import dragoman
from dragoman.demo.phrasebook_file import load_phrasebook

SETTINGS: dict[str, Any] = {
    "tokenizer_vocab_size": 1000,
    "d_model": 64,
    "d_ff": 128,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "model_dropout": 0.0,
    "train_batch_tokens": 768,
    "learning_rate": 0.01,
    "train_threads": 1,
    "patience": 0,
    "average_last": 0,
    "train_device": "cpu",
    "train_precision": "float32",
    "every_steps": 100,
    "validate_max_sentences": 50,
    "inference_beam_size": 1,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    given = parser.parse_args()
    print("seed  at once  continued  without a longer warm-up  warm-ups", flush=True)
    rows = [bleu_of(seed, given.steps) for seed in range(1, given.seeds + 1)]
    for name, values in zip(("at once", "continued", "without"), zip(*rows, strict=True), strict=True):
        spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
        print(f"{name}: BLEU {mean(values):.1f}{spread}")


def bleu_of(seed: int, steps: int) -> tuple[float, float, float]:
    """Train three models with a seed, and return BLEU of each."""
    split = load_phrasebook().split(1, 6000, 300)
    with tempfile.TemporaryDirectory() as folder:
        files = {part: Path(folder) / f"{part}.en-de.tsv" for part in ("train", "dev", "test")}
        for part, path in files.items():
            path.write_text("".join(f"{pair.src}\t{pair.tgt}\n" for pair in getattr(split, part)), encoding="utf-8")
        names = {"data": files["train"], "dev": files["dev"], "test": files["test"]}

        def train(name: str, **limits: Any) -> float:
            run = dragoman.train(out=Path(folder) / name, train_seed=seed, **names, **SETTINGS, **limits)
            return run.scores["test, beam 1"]["BLEU"]

        def warmup(name: str) -> int:
            return int(tomllib.loads((Path(folder) / name / "config.toml").read_text())["train"]["warmup_steps"])

        at_once = train("at_once", max_steps=steps)
        train("continued", max_steps=steps // 5)
        short = warmup("continued")
        continued = train("continued", max_steps=steps)
        without = train("without", max_steps=steps, warmup_steps=short)
        warmups = f"{warmup('at_once')}, {short} then {warmup('continued')}, {warmup('without')}"
    print(f"{seed:4}  {at_once:7.1f}  {continued:9.1f}  {without:24.1f}  {warmups}", flush=True)
    return at_once, continued, without


if __name__ == "__main__":
    main()

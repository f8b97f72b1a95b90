"""Trains one model for each lever, all for the same number of steps, and compares their validation scores.

    export DRAGOMAN_DATA=...                               the folder that holds multi30k/
    python benchmarks/levers.py --list
    python benchmarks/levers.py                            all of them: hours
    python benchmarks/levers.py --only post-norm muon --steps 300

Each differs from configs/multi30k_en_de.toml in what its name says, and in nothing else; `baseline` differs in nothing.
The schedule is that of the recipe, so a lever that pays late may look worse here than in a full run. As many run at a
time as there are cores, each on its own (the minutes are therefore of one core). Scores are of the validation set with
the recipe's beam; the test is not looked at. p is of a difference in BLEU from the baseline, by approximate
randomisation (Riezler & Maxwell 2005), and knows nothing of seeds: see the rows `seed 2` and `seed 3`.

What is done stays in FOLDER/levers and is not done again; benchmarks/results/levers_STEPS.* has a row for each.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from multi30k import read_lines, tokenised, write_lines
from quality import CONFIGS, HERE, RECIPES, Pairs, data_flags, facts_of_run, prepared, say, write_results
from side_by_side.machine import facts

RECIPE = "multi30k_en_de"
BASELINE = "baseline"
LEVERS = {
    BASELINE: "",
    "seed 2": "--train.seed 2",
    "seed 3": "--train.seed 3",
    "post-norm": "--model.norm-first false",
    "BPE dropout 0.1": "--tokenizer.bpe-dropout 0.1",
    "vocabulary 4,000": "--tokenizer.vocab-size 4000",
    "vocabulary 6,000": "--tokenizer.vocab-size 6000",
    "unigram vocabulary": "--tokenizer.kind unigram",
    "separate vocabularies of 5,000": "--tokenizer.joint false --tokenizer.vocab-size 5000 --model.tie decoder",
    "dropout 0.2": "--model.dropout 0.2",
    "attention dropout 0.1": "--model.attention-dropout 0.1",
    "activation dropout 0.1": "--model.activation-dropout 0.1",
    "label smoothing 0.2": "--train.label-smoothing 0.2",
    "running mean 0.999": "--train.ema-decay 0.999",
    "rate 0.003": "--train.learning-rate 0.003",
    "rate 0.008": "--train.learning-rate 0.008",
    "cosine": "--train.schedule cosine",
    "linear": "--train.schedule linear",
    "weight decay 0.01": "--train.weight-decay 0.01",
    "Muon": "--train.optimizer muon",
    "augmentation 0.1": "--data.augment-case 0.1 --data.augment-punctuation 0.1 --data.augment-noise 0.1",
    "swish": "--model.activation swish",
    "6 + 2 layers": "--model.preset custom --model.d-model 128 --model.d-ff 256 --model.num-heads 4 "
    "--model.num-encoder-layers 6 --model.num-decoder-layers 2 --model.dropout 0.3 --model.tie all",
    "vocabulary 4,000, d_ff 768": "--tokenizer.vocab-size 4000 --model.preset custom --model.d-model 128 "
    "--model.d-ff 768 --model.num-heads 4 --model.num-encoder-layers 4 --model.num-decoder-layers 4 "
    "--model.dropout 0.3 --model.tie all",
}
"""By expected gain and cost; the more they cost the later."""


@dataclass(frozen=True, slots=True)
class Row:
    """Scores on the validation set: of one translation at a time while training, and of the final model's beam."""

    lever: str
    flags: str
    date: str
    steps: int
    parameters: int
    minutes: float
    best_loss: float
    best_greedy_bleu: float
    bleu: float
    chrf: float
    tokenised_bleu: float
    difference: float
    p: float
    averaged: int


def main() -> None:
    given = arguments()
    if given.list:
        for name, flags in LEVERS.items():
            print(f"{name:<32} {flags}")
        return
    if unknown := [name for name in given.only if name not in LEVERS]:
        sys.exit(f"`{unknown[0]}` is not a lever. There are: {', '.join(LEVERS)}.")
    folder = given.folder / "levers" / f"{given.steps}"
    parts = prepared(RECIPES[RECIPE].corpus, folder / "text")
    names = [BASELINE, *(name for name in given.only or LEVERS if name != BASELINE)]
    with ThreadPoolExecutor(given.at_once) as pool:
        list(pool.map(lambda name: train(folder, name, given), names))
    write(given, [scored(folder, name, parts["validation"]) for name in names])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", nargs="+", default=[], metavar="LEVER", help="these and the baseline")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument(
        "--at-once", type=int, default=len(os.sched_getaffinity(0)), help="runs at once (default: cores)"
    )
    parser.add_argument("--folder", type=Path, default=HERE.parent / ".bench" / "quality", help="for text and runs")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder of the tables")
    return parser.parse_args()


def train(folder: Path, name: str, given: argparse.Namespace) -> None:
    """On its share of the cores; a run that was cut off goes on, one that is complete ends at once."""
    place = folder_of(folder, name)
    if (place / "validation.output").exists():
        return
    place.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    flags = data_flags(RECIPES[RECIPE].corpus, folder / "text")
    flags += ["--train.max-steps", f"{given.steps}", "--train.max-minutes", "0", "--train.patience", "0"]
    command = [sys.executable, "-m", "dragoman", "train", str(CONFIGS / f"{RECIPE}.toml"), *flags]
    command += [*LEVERS[name].split(), "--out", str(place / "run")]
    threads = max(1, len(os.sched_getaffinity(0)) // given.at_once)
    with (place / "train.log").open("a") as log:
        done = subprocess.run(
            command, check=False, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": f"{threads}"}
        )
    if done.returncode:
        sys.exit(f"`{name}` ended with {done.returncode}: see {place / 'train.log'}")
    say(f"{name}: {(time.monotonic() - began) / 60:.0f} minutes")


def scored(folder: Path, name: str, pairs: Pairs) -> Row:
    from dragoman.evaluation.comparison import compare
    from dragoman.evaluation.metrics import bleu, chrf
    from dragoman.inference.translator import Translator

    place = folder_of(folder, name)
    references = [tgt for _, tgt in pairs]
    if not (place / "validation.output").exists():
        write_lines(place / "validation.output", Translator.load(place / "run").translate([src for src, _ in pairs]))
    outputs = read_lines(place / "validation.output")
    known = facts_of_run(place / "run", folder)
    seen = [json.loads(line) for line in (place / "run" / "log.jsonl").read_text().splitlines()]
    validations = [event for event in seen if event["event"] == "validation"]
    baseline = read_lines(folder_of(folder, BASELINE) / "validation.output")
    found = compare([src for src, _ in pairs], references, baseline, outputs).metrics[0].significance
    return Row(
        lever=name,
        flags=LEVERS[name],
        date=time.strftime("%Y-%m-%d", time.localtime((place / "validation.output").stat().st_mtime)),
        steps=known["steps"],
        parameters=known["parameters"],
        minutes=round(known["minutes"], 1),
        best_loss=round(min(event["loss"] for event in validations), 4),
        best_greedy_bleu=round(max(event["bleu"] for event in validations), 2),
        bleu=round(bleu(outputs, references).value, 2),
        chrf=round(chrf(outputs, references).value, 2),
        tokenised_bleu=round(bleu(tokenised(outputs, "de"), tokenised(references, "de"), "none").value, 2),
        difference=round(found.difference, 2),
        p=round(found.p_randomisation, 4),
        averaged=len(known["averaged_steps"]),
    )


def folder_of(folder: Path, name: str) -> Path:
    return folder / name.replace(" ", "_").replace(",", "").replace("+", "and")


def write(given: argparse.Namespace, rows: Sequence[Row]) -> None:
    """Rows of levers that were not asked for now stay as they were."""
    path = given.results / f"levers_{given.steps}.json"
    kept = {one["lever"]: one for one in json.loads(path.read_text())["rows"]} if path.exists() else {}
    kept |= {row.lever: asdict(row) for row in rows}
    ordered = [kept[name] for name in LEVERS if name in kept]
    machine = facts(len(os.sched_getaffinity(0)))
    text = table([Row(**row) for row in ordered], given.steps)
    write_results(path, {"steps": given.steps, "machine": machine, "rows": ordered}, text)
    print(text)


def table(rows: Sequence[Row], steps: int) -> str:
    """Best first, so that what helps stands above the baseline."""
    lines = [
        "# Levers",
        "",
        f"Made by `python benchmarks/levers.py --steps {steps}`, whose text says how; the json beside it has",
        f"the flags. Multi30k, English to German, validation set, {steps:,} steps of 4,096 tokens each. A row is",
        "compared with the baseline of its own session and precision, whose BLEU it has.",
        "",
    ]
    names = ["lever", "parameters", "minutes", "loss", "greedy BLEU", "BLEU", "chrF2", "lower-cased tokens"]
    names += ["baseline", "difference", "p"]
    lines += [f"| {' | '.join(names)} |", "| --- |" + " ---: |" * (len(names) - 1)]
    for row in sorted(rows, key=lambda row: -row.bleu):
        cells = [
            row.lever,
            f"{row.parameters:,}",
            f"{row.minutes:.0f}",
            f"{row.best_loss:.3f}",
            f"{row.best_greedy_bleu:.2f}",
        ]
        cells += [f"{row.bleu:.2f}", f"{row.chrf:.2f}", f"{row.tokenised_bleu:.2f}"]
        if row.lever == BASELINE:
            cells += [""] * 3
        else:
            cells += [f"{row.bleu - row.difference:.2f}", f"{row.difference:+.2f}", f"{row.p:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

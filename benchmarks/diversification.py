"""Data diversification (Nguyen et al. 2020): the training text once more as models of both directions translate it.

    export DRAGOMAN_DATA=...                               the folder that holds multi30k/
    python benchmarks/diversification.py --forward RUN [RUN ...] [--backward-steps 3000] [--steps 6000]

No text is added but what models of the same text make of it. Models that are there (--forward, trained by quality.py
for the recipe) translate the sources; one of the other direction, trained here for --backward-steps, the targets. The
pairs that give, and the real ones, are what a model is trained on for --steps, both with Muon and 4,096 tokens a step;
the last one's rate falls by the inverse square root, so that the mean of its checkpoints is worth something. Then it
goes on with the real pairs alone for --last-steps and a smaller rate that falls to 0. All translate with the recipe's
beam. Runs that were cut off go on; each is on one core where OMP_NUM_THREADS=1 says so.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from multi30k import read_lines, write_lines
from quality import (
    CONFIGS,
    HERE,
    RECIPES,
    Corpus,
    Parts,
    data_flags,
    facts_of_run,
    judged,
    machine,
    prepared,
    shown,
    train_once,
    write_results,
)

MUON = "--train.optimizer muon --train.batch-tokens 4096 --train.precision bfloat16 --train.patience 0".split()
MUON += ["--validate.metric", "bleu"]
BACKWARD = "--train.schedule cosine --train.warmup-steps 1000".split()
DIVERSIFIED = "--train.schedule inverse_sqrt --train.warmup-steps 1000 --train.average-last 5".split()
LAST = "--train.schedule cosine --train.warmup-steps 50 --train.learning-rate 0.0015 --train.average-last 1".split()


def main() -> None:
    given = arguments()
    if given.recipe not in RECIPES:
        sys.exit(f"`{given.recipe}` is not a recipe. There are {', '.join(RECIPES)}.")
    corpus = RECIPES[given.recipe].corpus
    folder = given.folder / "diversification" / given.recipe
    parts = prepared(corpus, folder / "real")
    backward = replace(corpus, src=corpus.tgt, tgt=corpus.src)
    commands = {
        "backward": train_command(folder, "backward", "real", backward, given.backward_steps, BACKWARD, given),
        "diversified": train_command(folder, "diversified", "text", corpus, given.steps, DIVERSIFIED, given),
    }
    train_once(folder / "backward", commands["backward"])
    write_text(folder, corpus, given)
    train_once(folder / "diversified", commands["diversified"])
    diversified = folder / "diversified" / "run"
    commands["last"] = train_command(folder, "last", "real", corpus, given.last_steps, LAST, given)
    commands["last"] += ["--from", str(diversified)]
    train_once(folder / "last", commands["last"])
    names = [f"forward {number}" for number in range(1, len(given.forward) + 1)]
    runs = dict(zip(names, given.forward, strict=True)) | {
        "diversified": diversified,
        "real pairs last": folder / "last" / "run",
    }
    rows = [{"name": name, **row(run, corpus, parts, given.folder)} for name, run in runs.items()]
    listed = [shown(command, given.folder) for command in commands.values()]
    found = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "commands": listed, "rows": rows}
    write_results(given.results / f"diversification_{given.recipe}_{given.steps}", found, markdown(found, given))
    print(markdown(found, given))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forward", type=Path, nargs="+", required=True, metavar="RUN")
    parser.add_argument("--recipe", default="wu2021_multi30k_en_de", help="whose text it is (quality.py --list)")
    parser.add_argument("--backward-steps", type=int, default=3000)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--last-steps", type=int, default=600)
    parser.add_argument("--folder", type=Path, default=HERE.parent / ".bench" / "quality", help="for text and runs")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder of the tables")
    return parser.parse_args()


def train_command(
    folder: Path, name: str, text: str, corpus: Corpus, steps: int, flags: Sequence[str], given: argparse.Namespace
) -> list[str]:
    """By the recipe's configuration, but with Muon."""
    config = str(CONFIGS / f"{RECIPES[given.recipe].config}")
    command = [sys.executable, "-m", "dragoman", "train", config, *data_flags(corpus, folder / text)]
    command += ["--data.test", "", *MUON, *flags, "--train.max-steps", f"{steps}"]
    return [*command, "--out", str(folder / name / "run")]


def write_text(folder: Path, corpus: Corpus, given: argparse.Namespace) -> None:
    """The folder `text`: real pairs, and for each model those it makes of them. The validation data stay real."""
    sides = (corpus.src, corpus.tgt)
    text = {lang: read_lines(folder / "real" / f"train.{lang}") for lang in sides}
    pairs = {lang: list(lines) for lang, lines in text.items()}
    for number, run in enumerate(given.forward, 1):
        pairs[corpus.src] += text[corpus.src]
        pairs[corpus.tgt] += translated(run, folder / "real" / f"train.{corpus.src}", folder / f"forward_{number}")
    made = translated(folder / "backward" / "run", folder / "real" / f"train.{corpus.tgt}", folder / "backward.made")
    pairs[corpus.src] += made
    pairs[corpus.tgt] += text[corpus.tgt]
    (folder / "text").mkdir(exist_ok=True)
    for lang, lines in pairs.items():
        write_lines(folder / "text" / f"train.{lang}", lines)
        write_lines(folder / "text" / f"validation.{lang}", read_lines(folder / "real" / f"validation.{lang}"))


def translated(run: Path, source: Path, made: Path) -> list[str]:
    if not made.exists():
        command = [sys.executable, "-m", "dragoman", "translate", str(run)]
        subprocess.run([*command, "--input", str(source), "--output", str(made)], check=True)
    return list(read_lines(made))


def row(run: Path, corpus: Corpus, parts: Parts, folder: Path) -> dict[str, Any]:
    from dragoman.inference.translator import Translator

    translator, scores = Translator.load(run), {}
    for part in ("validation", "test"):
        sources, references = ([pair[side] for pair in parts[part]] for side in (0, 1))
        scores[part] = judged(corpus, translator.translate(sources), references)
    return {**facts_of_run(run, folder), "scores": scores}


def markdown(found: dict[str, Any], given: argparse.Namespace) -> str:
    called = f"--recipe {given.recipe} --backward-steps {given.backward_steps} --steps {given.steps}"
    called += f" --last-steps {given.last_steps} --forward ..."
    where = f"{found['machine']['cores']} cores of {found['machine']['processor']}"
    lines = [f"# Training text translated both ways, {given.recipe}", ""]
    lines += [f"`python benchmarks/diversification.py {called}`, {where}.", ""]
    lines += ["| model | pairs | parameters | steps | minutes | data | tokenised lower-cased BLEU | BLEU | chrF2 |"]
    lines += ["| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |", *cells(found["rows"])]
    return "\n".join([*lines, "", *(f"- `{command}`" for command in found["commands"])]) + "\n"


def cells(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    for each in rows:
        facts = [each["name"], *(f"{each[key]:,}" for key in ("train_pairs", "parameters", "steps"))]
        facts.append(f"{each['minutes']:.0f}")
        for part, scores in each["scores"].items():
            values = [f"{score['value']:.2f} ± {score['interval']:.2f}" for score in scores]
            yield f"| {' | '.join([*facts, part, *values])} |"


if __name__ == "__main__":
    main()

"""Some thousand pairs, and much text of the target language alone: what the recipes for that give, on Multi30k.

    export DRAGOMAN_DATA=...                               the folder that holds multi30k/
    python benchmarks/small_data.py                        hours
    python benchmarks/small_data.py --steps 200 --only low_resource

Of Multi30k's English-German training pairs, PAIRS are kept as pairs, and of all others the German side alone. Then

- low_resource: configs/low_resource.toml on the pairs;
- by_the_rule: no configuration at all, on the pairs;
- back_translation: a model of the other direction, from the pairs by configs/low_resource.toml, searches for an English
  sentence for each German one, and configs/back_translation.toml is trained on both, with 2,048 tokens a step; then
  `real_pairs_last` goes on with the real pairs alone, as that file says;
- drawn, drawn_last: the same with sentences that are drawn instead of searched for;
- all_pairs: no configuration, on all pairs as if nothing lacked, for comparison.

All take the same number of steps but the last stage of back-translation, which ends by itself. Runs that were cut off
go on with the same command; each is on one core where OMP_NUM_THREADS=1 says so.
"""

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from multi30k import read_lines, write_lines
from quality import (
    CONFIGS,
    HERE,
    RECIPES,
    Pairs,
    data_flags,
    facts_of_run,
    machine,
    prepared,
    scores,
    shown,
    train_once,
    write_results,
)

CORPUS = RECIPES["multi30k_en_de"].corpus
SEED = 1


@dataclass(frozen=True, slots=True)
class Stage:
    """One training run: the folder of its text, what it begins with, and what `dragoman train` is given besides."""

    text: str
    flags: Sequence[str]
    made: Callable[[Path, argparse.Namespace], None] | None = None
    limited: bool = True


def back_translated(folder: Path, given: argparse.Namespace, name: str = "searched", flags: Sequence[str] = ()) -> None:
    """The text of `back_translation`: the pairs, and each German sentence with the English that `reverse` gives."""
    text = folder / name
    text.mkdir(exist_ok=True)
    if not (text / "made.en").exists():
        train(folder, "reverse", given)
        command = [sys.executable, "-m", "dragoman", "translate", str(folder / "reverse" / "run"), *flags]
        command += ["--input", str(folder / "real" / "alone.de"), "--output", str(text / "made.en")]
        subprocess.run(command, check=True)
    for lang, made in (("en", text / "made.en"), ("de", folder / "real" / "alone.de")):
        write_lines(text / f"train.{lang}", read_lines(folder / "real" / f"train.{lang}") + read_lines(made))
        write_lines(text / f"validation.{lang}", read_lines(folder / "real" / f"validation.{lang}"))


def drawn(folder: Path, given: argparse.Namespace) -> None:
    back_translated(folder, given, "drawn_text", ["--inference.sample", "true"])


def begun_with(name: str) -> Callable[[Path, argparse.Namespace], None]:
    return lambda folder, given: train(folder, name, given)


REVERSED = replace(CORPUS, src="de", tgt="en")
LOW_RESOURCE = str(CONFIGS / "low_resource.toml")
BACK_TRANSLATION = [str(CONFIGS / "back_translation.toml"), "--train.batch-tokens", "2048"]
STAGES = {
    "low_resource": Stage("real", [LOW_RESOURCE, "--data.tgt-lang", "de"]),
    "by_the_rule": Stage("real", []),
    "reverse": Stage("real", [LOW_RESOURCE, "--data.src-lang", "de", "--data.tgt-lang", "en"]),
    "back_translation": Stage("searched", BACK_TRANSLATION, back_translated),
    "real_pairs_last": Stage(
        "real", ["--from", "FOLDER/back_translation/run"], begun_with("back_translation"), limited=False
    ),
    "drawn": Stage("drawn_text", BACK_TRANSLATION, drawn),
    "drawn_last": Stage("real", ["--from", "FOLDER/drawn/run"], begun_with("drawn"), limited=False),
    "all_pairs": Stage("all", ["--train.batch-tokens", "2048"]),
}


def main() -> None:
    given = arguments()
    if unknown := [name for name in given.only if name not in STAGES]:
        sys.exit(f"`{unknown[0]}` is not a stage. There are: {', '.join(STAGES)}.")
    folder = given.folder / "small_data" / f"{given.pairs}_{given.steps}"
    parts = write_texts(folder, given.pairs)
    rows = []
    for name in given.only or STAGES:
        train(folder, name, given)
        rows.append(row(folder, name, parts, given))
    table = markdown(rows, given)
    write_results(given.results / f"small_data_{given.pairs}_{given.steps}", rows, table)
    print(table)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--only", nargs="+", default=[], metavar="STAGE", help="these, and what they begin with")
    parser.add_argument("--folder", type=Path, default=HERE.parent / ".bench" / "quality", help="for text and runs")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder of the tables")
    return parser.parse_args()


def write_texts(folder: Path, pairs: int) -> dict[str, Pairs]:
    """The folders `all` and `real`; `real/alone.de` has the German sides that lost their English."""
    parts = prepared(CORPUS, folder / "all")
    shuffled = random.Random(SEED).sample(parts["train"], len(parts["train"]))
    kept = {"train": shuffled[:pairs], "validation": parts["validation"]}
    (folder / "real").mkdir(parents=True, exist_ok=True)
    for part, chosen in kept.items():
        for side, lang in enumerate(("en", "de")):
            write_lines(folder / "real" / f"{part}.{lang}", (pair[side] for pair in chosen))
    write_lines(folder / "real" / "alone.de", (german for _, german in shuffled[pairs:]))
    return parts


def train(folder: Path, name: str, given: argparse.Namespace) -> None:
    """With what it begins with; what is complete is not done again."""
    if (made := STAGES[name].made) is not None:
        made(folder, given)
    train_once(folder / name, train_command(folder, name, given))


def train_command(folder: Path, name: str, given: argparse.Namespace) -> list[str]:
    stage = STAGES[name]
    files = [*data_flags(REVERSED if name == "reverse" else CORPUS, folder / stage.text), "--data.test", ""]
    limits = ["--train.max-steps", f"{given.steps}", "--train.max-epochs", "0", "--train.patience", "0"]
    flags = [each.replace("FOLDER", str(folder)) for each in stage.flags]
    command = [sys.executable, "-m", "dragoman", "train", *flags, *files]
    return [*command, *(limits if stage.limited else []), "--out", str(folder / name / "run")]


def row(folder: Path, name: str, parts: dict[str, Pairs], given: argparse.Namespace) -> dict[str, Any]:
    """Facts and scores; those of `reverse` are of English, which no other stage's are."""
    known = facts_of_run(folder / name / "run", folder)
    judged = {} if name == "reverse" else {part: parts[part] for part in ("validation", "test")}
    return {
        "name": name,
        "date": time.strftime("%Y-%m-%d"),
        "command": shown(train_command(folder, name, given), folder),
        "machine": machine(),
        **known,
        "scores": {part: scores(CORPUS, folder / name, part, pairs) for part, pairs in judged.items()},
    }


def markdown(rows: Sequence[dict[str, Any]], given: argparse.Namespace) -> str:
    lines = [f"# {given.pairs:,} pairs of Multi30k, English to German, and the other German sentences alone", ""]
    lines += [f"Made by `python benchmarks/small_data.py --pairs {given.pairs} --steps {given.steps}`.", ""]
    lines += ["| stage | pairs | parameters | steps | minutes | data | BLEU | chrF2 |"]
    lines += ["| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |"]
    for each in rows:
        facts_of = [each["name"], f"{each['train_pairs']:,}", f"{each['parameters']:,}", f"{each['steps']:,}"]
        facts_of.append(f"{each['minutes']:.0f}")
        for part, found in each["scores"].items():
            values = [f"{score['value']:.2f} ± {score['interval']:.2f}" for score in found[1:]]
            lines.append(f"| {' | '.join([*facts_of, part, *values])} |")
    signatures = {f"{s['metric']}: `{s['signature']}`" for each in rows for p in each["scores"].values() for s in p[1:]}
    lines += ["", *(f"- {each}" for each in sorted(signatures)), ""]
    for each in rows:
        where = f"{each['machine']['cores']} cores of {each['machine']['processor']}, {each['precision']}"
        lines.append(f"- {each['name']}: {where}, `{each['command']}`")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

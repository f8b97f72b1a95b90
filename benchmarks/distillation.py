"""A student with one decoder layer beside its teacher, on Multi30k: BLEU, chrF and sentences a second.

    export DRAGOMAN_DATA=...                               the folder that holds multi30k/
    python benchmarks/distillation.py --teacher RUN [RUN ...] [--layers 6] [--steps 2000] [--recipe multi30k_en_fr]

The teacher, or the ensemble of several, translates the training text by beam search. Students of the tiny model's
width, with --layers encoder layers and one decoder layer, are trained by configs/distilled_12_1.toml for as many
steps: `distilled` on what the teacher wrote (Kim & Rush 2016, section 3.2), `taught` on the real text and what the
teacher says of every token of it (section 3.1: `train --teacher`), `both` on what it wrote and says of that, `plain`
on the real text alone. Where the text is real, labels are smoothed. Each translates greedily and with a beam of 5.
--recipe names the one of quality.py whose corpus the teacher was trained on. Speeds are of the test set, after the
validation set, on the cores OMP_NUM_THREADS says; runs that were cut off go on.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quality import (
    CONFIGS,
    HERE,
    RECIPES,
    Corpus,
    Parts,
    data_flags,
    judged,
    machine,
    prepared,
    shown,
    train_once,
    write_results,
)

WAYS = {"greedy": 1, "beam 5": 5}
STUDENTS = {"distilled": "distilled", "taught": "plain", "both": "distilled", "plain": "plain"}
"""Each with the folder of the text that it is trained on."""


def main() -> None:
    given = arguments()
    if given.recipe not in RECIPES:
        sys.exit(f"`{given.recipe}` is not a recipe. There are {', '.join(RECIPES)}.")
    corpus = RECIPES[given.recipe].corpus
    folder = given.folder / "distillation" / f"{given.recipe}_{given.layers}_1_{given.steps}"
    parts = prepared(corpus, folder / "plain")
    teach(folder, corpus, given)
    for student in given.students:
        train_once(folder / student, train_command(folder, corpus, student, given))
    models = {"teacher": given.teacher} | {name: [folder / name / "run"] for name in given.students}
    measured = {name: measure(runs, corpus, parts) for name, runs in models.items()}
    commands = [shown(train_command(folder, corpus, student, given), given.folder) for student in given.students]
    found = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "commands": commands, "models": measured}
    table = markdown(found, given)
    some = [] if given.students == list(STUDENTS) else given.students
    name = "_".join(["distillation", given.recipe, f"{given.layers}_1_{given.steps}", *some])
    write_results(given.results / name, found, table)
    print(table)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", type=Path, nargs="+", required=True, metavar="RUN")
    parser.add_argument("--recipe", default="multi30k_en_de", help="whose text is translated (quality.py --list)")
    parser.add_argument("--students", nargs="+", choices=STUDENTS, default=list(STUDENTS), help="(default: all)")
    parser.add_argument("--layers", type=int, default=6, help="of the students' encoders (default 6)")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--folder", type=Path, default=HERE.parent / ".bench" / "quality", help="for text and runs")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder of the tables")
    return parser.parse_args()


def teach(folder: Path, corpus: Corpus, given: argparse.Namespace) -> None:
    """The text of `distilled`: real sources, the teacher's targets; the validation data stay real."""
    text = folder / "distilled"
    text.mkdir(parents=True, exist_ok=True)
    for name in (f"train.{corpus.src}", f"validation.{corpus.src}", f"validation.{corpus.tgt}"):
        (text / name).write_bytes((folder / "plain" / name).read_bytes())
    if not (made := text / f"train.{corpus.tgt}").exists():
        command = [sys.executable, "-m", "dragoman", "translate", *map(str, given.teacher)]
        subprocess.run([*command, "--input", str(text / f"train.{corpus.src}"), "--output", str(made)], check=True)


def train_command(folder: Path, corpus: Corpus, student: str, given: argparse.Namespace) -> list[str]:
    """The configuration is for much more text: width, dropout and batch are those of Multi30k's own recipe."""
    flags = ["--model.preset", "tiny", "--model.num-encoder-layers", f"{given.layers}", "--model.dropout", "0.3"]
    flags += ["--tokenizer.vocab-size", "10000", "--train.batch-tokens", "4096", "--train.learning-rate", "0.005"]
    flags += ["--train.warmup-steps", "1000", "--train.max-epochs", "0", "--train.patience", "0"]
    flags += ["--train.max-steps", f"{given.steps}", "--validate.max-sentences", "1014"]
    if STUDENTS[student] == "plain":
        flags += ["--train.label-smoothing", "0.1"]
    if student in ("taught", "both"):
        flags += [flag for run in given.teacher for flag in ("--teacher", str(run))]
    command = [sys.executable, "-m", "dragoman", "train", str(CONFIGS / "distilled_12_1.toml"), *flags]
    return [*command, *data_flags(corpus, folder / STUDENTS[student]), "--out", str(folder / student / "run")]


def measure(runs: Sequence[Path], corpus: Corpus, parts: Parts) -> dict[str, Any]:
    """For each way of decoding the validation and test scores, and sentences a second of the test set."""
    from dragoman.bundle import load_bundle, resolve_model_folder
    from dragoman.inference.translator import Translator

    bundles = [load_bundle(resolve_model_folder(run), "cpu") for run in runs]
    translator = Translator.from_bundles(bundles)
    found: dict[str, Any] = {"parameters": sum(bundle.card.parameters or 0 for bundle in bundles)}
    for way, beam in WAYS.items():
        by_part = {}
        for part in ("validation", "test"):
            sources, references = ([pair[side] for pair in parts[part]] for side in (0, 1))
            began = time.perf_counter()
            outputs = translator.translate(sources, beam_size=beam)
            seconds = time.perf_counter() - began
            by_part[part] = judged(corpus, outputs, references)[1:]
        found[way] = {"scores": by_part, "sentences_per_second": len(outputs) / seconds}
    return found


def markdown(found: dict[str, Any], given: argparse.Namespace) -> str:
    called = f"--recipe {given.recipe} --layers {given.layers} --steps {given.steps} --teacher ..."
    called += "" if given.students == list(STUDENTS) else f" --students {' '.join(given.students)}"
    where = f"{found['machine']['cores']} cores of {found['machine']['processor']}, {found['date']}"
    lines = [f"# A student of one decoder layer, with the text of {given.recipe}", ""]
    lines += [f"`python benchmarks/distillation.py {called}` ({len(given.teacher)} of them), {where}."]
    lines += ["", "| model | parameters | decoding | validation BLEU | chrF2 | test BLEU | chrF2 | sentences/s |"]
    lines += ["| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, model in found["models"].items():
        for way in WAYS:
            judged = model[way]["scores"]
            values = [
                f"{s['value']:.2f} ± {s['interval']:.2f}" for part in ("validation", "test") for s in judged[part]
            ]
            cells = [name, f"{model['parameters']:,}", way, *values, f"{model[way]['sentences_per_second']:.0f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(f"- `{command}`" for command in found["commands"])]) + "\n"


if __name__ == "__main__":
    main()

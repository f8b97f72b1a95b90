"""A student with one decoder layer beside its teacher, on Multi30k: BLEU, chrF and sentences a second.

    export DRAGOMAN_DATA=...                               the folder that holds multi30k/
    python benchmarks/distillation.py --teacher RUN [RUN ...] [--layers 6] [--steps 2000]

The teacher, or the ensemble of several, translates the training text by beam search. Two students of the tiny model's
width, with --layers encoder layers and one decoder layer, are trained by configs/distilled_12_1.toml for as many steps:
`distilled` on what the teacher wrote, `plain` on the real text. Each translates greedily and with a beam of 5. Speeds
are of the test set, after the validation set, on the cores OMP_NUM_THREADS says; runs that were cut off go on.
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
    Pairs,
    data_flags,
    machine,
    prepared,
    scored,
    shown,
    train_once,
    write_results,
)

CORPUS = RECIPES["multi30k_en_de"].corpus
WAYS = {"greedy": 1, "beam 5": 5}
STUDENTS = ("distilled", "plain")


def main() -> None:
    given = arguments()
    folder = given.folder / "distillation" / f"{given.layers}_1_{given.steps}"
    parts = prepared(CORPUS, folder / "plain")
    teach(folder, given)
    for student in STUDENTS:
        train_once(folder / student, train_command(folder, student, given))
    models = {"teacher": given.teacher} | {name: [folder / name / "run"] for name in STUDENTS}
    measured = {name: measure(runs, parts) for name, runs in models.items()}
    commands = [shown(train_command(folder, student, given), folder) for student in STUDENTS]
    found = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "commands": commands, "models": measured}
    table = markdown(found, given)
    write_results(given.results / f"distillation_{given.layers}_1_{given.steps}", found, table)
    print(table)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", type=Path, nargs="+", required=True, metavar="RUN")
    parser.add_argument("--layers", type=int, default=6, help="of the students' encoders (default 6)")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--folder", type=Path, default=HERE.parent / ".bench" / "quality", help="for text and runs")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder of the tables")
    return parser.parse_args()


def teach(folder: Path, given: argparse.Namespace) -> None:
    """The text of `distilled`: real sources, the teacher's targets; the validation data stay real."""
    text = folder / "distilled"
    text.mkdir(parents=True, exist_ok=True)
    for name in ("train.en", "validation.en", "validation.de"):
        (text / name).write_bytes((folder / "plain" / name).read_bytes())
    if not (text / "train.de").exists():
        command = [sys.executable, "-m", "dragoman", "translate", *map(str, given.teacher)]
        subprocess.run([*command, "--input", str(text / "train.en"), "--output", str(text / "train.de")], check=True)


def train_command(folder: Path, student: str, given: argparse.Namespace) -> list[str]:
    """The configuration is for much more text: width, dropout and batch are those of Multi30k's own recipe."""
    flags = ["--model.preset", "tiny", "--model.num-encoder-layers", f"{given.layers}", "--model.dropout", "0.3"]
    flags += ["--tokenizer.vocab-size", "10000", "--train.batch-tokens", "4096", "--train.learning-rate", "0.005"]
    flags += ["--train.warmup-steps", "1000", "--train.max-epochs", "0", "--train.patience", "0"]
    flags += ["--train.max-steps", f"{given.steps}", "--validate.max-sentences", "1014"]
    command = [sys.executable, "-m", "dragoman", "train", str(CONFIGS / "distilled_12_1.toml"), *flags]
    return [*command, *data_flags(CORPUS, folder / student), "--out", str(folder / student / "run")]


def measure(runs: Sequence[Path], parts: dict[str, Pairs]) -> dict[str, Any]:
    """For each way of decoding the validation and test scores, and sentences a second of the test set."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    from dragoman.bundle import load_bundle, resolve_model_folder
    from dragoman.inference.translator import Translator

    bundles = [load_bundle(resolve_model_folder(run), "cpu") for run in runs]
    translator = Translator.from_bundles(bundles)
    found: dict[str, Any] = {"parameters": sum(bundle.card.parameters or 0 for bundle in bundles)}
    for way, beam in WAYS.items():
        judged = {}
        for part in ("validation", "test"):
            sources, references = ([pair[side] for pair in parts[part]] for side in (0, 1))
            began = time.perf_counter()
            outputs = translator.translate(sources, beam_size=beam)
            seconds = time.perf_counter() - began
            judged[part] = [scored("BLEU", BLEU(), outputs, references), scored("chrF2", CHRF(), outputs, references)]
        found[way] = {"scores": judged, "sentences_per_second": len(outputs) / seconds}
    return found


def markdown(found: dict[str, Any], given: argparse.Namespace) -> str:
    lines = ["# A student of one decoder layer, Multi30k English to German", ""]
    lines += [f"`python benchmarks/distillation.py --layers {given.layers} --steps {given.steps} --teacher ...` "]
    lines[-1] += (
        f"({len(given.teacher)} of them), {found['machine']['cores']} cores of {found['machine']['processor']}."
    )
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

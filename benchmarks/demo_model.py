"""Makes the model of `dragoman translate demo` from a trained run, and measures what a newcomer sees of it.

    export DRAGOMAN_DATA=...
    python benchmarks/quality.py demo_en_de                  trains (configs/demo_en_de.toml)
    python benchmarks/demo_model.py --run .bench/quality/demo_en_de/run     replaces the model of the package
    python benchmarks/demo_model.py                          measures the model of the package

`results/demo_model.tsv` has 200 sentences that people type who try a translator. They were chosen before the model was
trained, and not by what it can translate. A person judges each output, from source and output alone: "right" (it says
the same, without an error that disturbs), "wrong", or "absurd" (it is about something else). A judgement stays as long
as its output does. `results/demo_model.json` has the size, the scores on the test set and the counts.
"""

import argparse
import csv
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

from quality import HERE, machine, tatoeba
from recording import say, write_json

from dragoman.bundle import replace_card
from dragoman.bundle.card import read_card
from dragoman.bundle.folder import read_settings
from dragoman.evaluation.metrics import score_outputs
from dragoman.inference.translator import Translator
from dragoman.records import Preserve
from dragoman.workflows.models import ModelRequest, export_model

RESULTS = HERE / "results" / "demo_model"
MODEL = HERE.parent / "dragoman" / "demo" / "model"
CREDIT = (
    "The training text is from [Tatoeba](https://tatoeba.org), selected by "
    "[manythings.org](https://www.manythings.org/anki/) and licensed under "
    "[CC BY 2.0](https://creativecommons.org/licenses/by/2.0/), with changed names, and from Dragoman's phrasebook."
)
PATHS = ("train_src", "train_tgt", "dev_src", "dev_tgt")
COLUMNS = ("source", "in Tatoeba", "output", "flags", "judgement")
Row = dict[str, str]


def main() -> None:
    given = arguments()
    test = tatoeba(Path(os.environ["DRAGOMAN_DATA"]), "en", "de")["test"]
    if given.run:
        rmtree(MODEL, ignore_errors=True)
        export_model(ModelRequest((str(given.run),), device="cpu"), "int8", MODEL, embeddings="int8")
        config = read_settings(MODEL)
        # Without the folders of this machine.
        names: dict[str, Any] = {name: Path(getattr(config.data, name)).name for name in PATHS}
        config = replace(config, data=replace(config.data, **names))
        replace_card(MODEL, replace(read_card(MODEL), credit=CREDIT, test_pairs=len(test)), config)
    translator = Translator.load(MODEL)
    say(f"translating {len(test):,} test sentences")
    outputs = translator.translate([src for src, _ in test])
    scores = list(score_outputs(outputs, [tgt for _, tgt in test]).scores)
    beam_size = translator.settings.beam_size
    replace_card(MODEL, read_card(MODEL).with_scores(f"test (Tatoeba), beam {beam_size}, int8", scores))
    rows = translated(translator, read_rows())
    write_rows(rows)
    counts = Counter(row["judgement"] or "not judged" for row in rows)
    write_json(RESULTS.with_suffix(".json"), facts(scores, rows) | {"judged": dict(counts)})
    print(*(f"{score.name} {score.value:.2f}" for score in scores), dict(counts), sep="\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="export the model of this run into the package first")
    return parser.parse_args()


def read_rows() -> list[Row]:
    with RESULTS.with_suffix(".tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def write_rows(rows: list[Row]) -> None:
    lines = ["\t".join(COLUMNS), *("\t".join(row[column] for column in COLUMNS) for row in rows)]
    RESULTS.with_suffix(".tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def translated(translator: Translator, rows: list[Row]) -> list[Row]:
    """Translate the sentences as `dragoman translate demo` does, and keep the judgements of equal outputs."""
    preserve = Preserve(by_sentence=True)
    found = translator.translate_detailed([row["source"] for row in rows], preserve)
    return [
        {
            **row,
            "output": one.text,
            "flags": ",".join(one.flags),
            "judgement": (row.get("judgement") or "") if row.get("output") == one.text else "",
        }
        for row, one in zip(rows, found, strict=True)
    ]


def facts(scores: list[Any], rows: list[Row]) -> dict[str, Any]:
    """The size of the model, its scores, and how many sentences of each judgement are in Tatoeba."""
    parts = Counter((row["in Tatoeba"], row["judgement"]) for row in rows)
    return {
        "machine": machine(),
        "bytes": sum(path.stat().st_size for path in MODEL.iterdir()),
        "parameters": read_card(MODEL).parameters,
        "test": [{"metric": one.name, "value": round(one.value, 2), "signature": one.signature} for one in scores],
        "sentences": len(rows),
        "judged, not in Tatoeba": {judgement: count for (known, judgement), count in parts.items() if known == "no"},
        "judged, in Tatoeba": {judgement: count for (known, judgement), count in parts.items() if known == "yes"},
        "absurd without a flag": sum(row["judgement"] == "absurd" and not row["flags"] for row in rows),
    }


if __name__ == "__main__":
    main()

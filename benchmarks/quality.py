"""Trains a named recipe, scores validation and test data once, and adds a row to benchmarks/results/quality.*.

    export DRAGOMAN_DATA=...                               the folder that holds multi30k/, tatoeba_en_de/ ...
    python benchmarks/quality.py --list
    python benchmarks/quality.py multi30k_en_de            as long as the recipe runs
    python benchmarks/quality.py multi30k_en_de --minutes 3 --name trial --train --train.ema-decay 0.999

Arguments after --train go to `dragoman train`. The same command continues an interrupted run. Each row contains:

- tokenized lower-cased BLEU as in Wu et al. 2021: Moses tokens, lower case, BLEU of four orders over the corpus, which
  is `sacrebleu --tokenize none -lc` of tokenized text. A corpus of tokens is scored as it is.
- BLEU (13a, mixed case) and chrF of plain text, with signatures. A corpus of tokens is scored on tokens.

All scores have 95 % intervals from 1,000 bootstrap samples (Koehn 2004, by sacreBLEU).
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from multi30k import tokenised
from recording import read_lines, say, write_json, write_lines
from side_by_side.machine import facts

HERE = Path(__file__).parent
CONFIGS = HERE.parent / "configs"
BOOTSTRAP = 1000
MEN = """
    Adam Alexander Andrew Ben Brian Carlos Charles Chris Daniel David Eric Felix Frank George Henry Jack Jacob
    James Jan John Jonas Kevin Leo Lukas Mark Martin Max Michael Nick Oliver Oscar Paul Peter Robert Sam Simon
    Stefan Steve Thomas William
    """.split()
WOMEN = """
    Alice Amy Anna Barbara Carol Clara Claire Diana Elena Ellen Emily Emma Eva Grace Hannah Helen Ingrid Jane
    Jessica Julia Karen Kate Laura Lena Linda Lisa Lucy Maria Nadia Nina Olivia Rachel Rosa Ruth Sandra Sarah
    Sofia Sophie Susan Vera
    """.split()
Pairs = list[tuple[str, str]]
Parts = dict[str, Pairs]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The sources of the parts "train", "validation" and "test"; `tokens` is true if the text is already tokenized."""

    src: str
    tgt: str
    read: Callable[[Path, str, str], Parts]
    tokens: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """A configuration, or the default recipe without one, and its corpus."""

    corpus: Corpus
    config: str | None = None


def multi30k(data: Path, src: str, tgt: str) -> Parts:
    names = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
    return {part: aligned(data / "multi30k", f"{name}.{{}}.gz", src, tgt) for part, name in names.items()}


def multi30k_tokens(data: Path, src: str, tgt: str) -> Parts:
    parts = {}
    for part, pairs in multi30k(data, src, tgt).items():
        sides = (tokenised([pair[side] for pair in pairs], lang) for side, lang in enumerate((src, tgt)))
        parts[part] = list(zip(*sides, strict=True))
    return parts


def tatoeba(data: Path, src: str, tgt: str) -> Parts:
    """Split by English sentence: the smallest thousand hashes are the test set, the next ones the validation set."""
    pairs = columns(data / "tatoeba_en_de" / "deu.txt.gz")
    keys = {
        english.strip().lower(): hashlib.sha256(english.strip().lower().encode()).hexdigest() for english, _ in pairs
    }
    ordered = sorted(keys, key=lambda key: keys[key])
    held_out = {"test": ordered[:1000], "validation": ordered[1000:2000]}
    first: dict[str, tuple[str, str]] = {}
    for pair in pairs:
        first.setdefault(pair[0].strip().lower(), pair)
    taken = {key for keys_of_part in held_out.values() for key in keys_of_part}
    train = [pair for pair in pairs if pair[0].strip().lower() not in taken]
    return {"train": train} | {part: [first[key] for key in chosen] for part, chosen in held_out.items()}


def tatoeba_and_phrasebook(data: Path, src: str, tgt: str) -> Parts:
    """The text of the demo model: `tatoeba` with more names in the training part, and the phrasebook of the package.

    About half of the sentences with Tom or Mary, whom most of Tatoeba is about, get another name.
    """
    from dragoman.demo.phrasebook_file import load_phrasebook

    parts, rng = tatoeba(data, src, tgt), Random(1)
    train = [rename(*pair, rng) for pair in parts["train"]]
    phrases = load_phrasebook().split(1, 30_000, 500).train
    return parts | {"train": train + [(pair.src, pair.tgt) for pair in phrases]}


def rename(english: str, german: str, rng: Random) -> tuple[str, str]:
    """The pair, or with a chance of one half, the same pair with another name on both sides."""
    for here, there, names in (("Tom", "Tom", MEN), ("Mary", "Maria", WOMEN)):
        sides = [re.findall(rf"\b{name}\b", text) for name, text in ((here, english), (there, german))]
        if rng.random() < 0.5 and [len(found) for found in sides] == [1, 1]:
            name = rng.choice(names)
            english, german = re.sub(rf"\b{here}\b", name, english), re.sub(rf"\b{there}\b", name, german)
    return english, german


def small_enja(data: Path, src: str, tgt: str) -> Parts:
    folder = data / "small_enja"
    files = {"train": "train.{}.gz", "validation": "dev.{}", "test": "test.{}"}
    return {part: aligned(folder, name, src, tgt) for part, name in files.items()}


def english_telugu(data: Path, src: str, tgt: str) -> Parts:
    """Drop training sources that are in the test. `dragoman train` drops those of the validation set."""
    folder = data / "english_telugu"
    files = {"train": "trainp.tsv.gz", "validation": "devp.tsv", "test": "testp.tsv"}
    parts = {part: columns(folder / name) for part, name in files.items()}
    asked = {pair[0] for pair in parts["test"]}
    return parts | {"train": [pair for pair in parts["train"] if pair[0] not in asked]}


def aligned(folder: Path, name: str, src: str, tgt: str) -> Pairs:
    return list(zip(*(read_lines(folder / name.format(lang)) for lang in (src, tgt)), strict=True))


def columns(path: Path) -> Pairs:
    rows = (line.split("\t") for line in read_lines(path) if line)
    return [(row[0], row[1]) for row in rows if len(row) > 1]


RECIPES = {
    "multi30k_en_de": Recipe(Corpus("en", "de", multi30k), "multi30k_en_de.toml"),
    "multi30k_en_fr": Recipe(Corpus("en", "fr", multi30k), "multi30k_en_fr.toml"),
    "wu2021_multi30k_en_de": Recipe(Corpus("en", "de", multi30k_tokens, tokens=True), "wu2021_multi30k_en_de.toml"),
    "wu2021_multi30k_en_fr": Recipe(Corpus("en", "fr", multi30k_tokens, tokens=True), "wu2021_multi30k_en_fr.toml"),
    "tatoeba_en_de": Recipe(Corpus("en", "de", tatoeba)),
    "demo_en_de": Recipe(Corpus("en", "de", tatoeba_and_phrasebook), "demo_en_de.toml"),
    "small_enja": Recipe(Corpus("en", "ja", small_enja, tokens=True)),
    "english_telugu": Recipe(Corpus("en", "te", english_telugu), "low_resource.toml"),
    "multi30k_en_de_by_the_rule": Recipe(Corpus("en", "de", multi30k)),
    "english_telugu_by_the_rule": Recipe(Corpus("en", "te", english_telugu)),
}


def main() -> None:
    given = arguments()
    if given.list:
        for name, recipe in RECIPES.items():
            print(f"{name:<24} {recipe.config or 'the default rule for its size'}")
        return
    if given.recipe not in RECIPES:
        sys.exit(f"`{given.recipe}` is not a recipe. There are {', '.join(RECIPES)}.")
    recipe, name = RECIPES[given.recipe], given.name or given.recipe
    folder = given.folder / name
    parts = prepared(recipe.corpus, folder / "text")
    command = train_command(recipe, folder, given)
    say(" ".join(command))
    if done := subprocess.run(command, check=False).returncode:
        sys.exit(done)
    row = {
        "recipe": given.recipe,
        "name": name,
        "date": time.strftime("%Y-%m-%d"),
        "config": recipe.config,
        "command": shown(command, given.folder),
        "machine": machine(),
        **facts_of_run(folder / "run", given.folder),
        "scores": {part: scores(recipe.corpus, folder, part, parts[part]) for part in ("validation", "test")},
    }
    rows = [other for other in read_rows(given.results) if (other["name"], other["date"]) != (name, row["date"])] + [
        row
    ]
    write_json(given.results.with_suffix(".json"), rows)
    given.results.with_suffix(".md").write_text(markdown(rows), encoding="utf-8")
    print(markdown([row]))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", help="one of --list")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--minutes", type=float, help="end training after this many minutes")
    parser.add_argument("--name", help="of the row and of its folder (default: the recipe's)")
    parser.add_argument("--folder", type=Path, default=HERE.parent / ".bench" / "quality", help="for text and runs")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "quality", help="without ending")
    parser.add_argument("--train", nargs=argparse.REMAINDER, default=[], help="the rest goes to `dragoman train`")
    return parser.parse_args()


def prepared(corpus: Corpus, folder: Path) -> Parts:
    if "DRAGOMAN_DATA" not in os.environ:
        sys.exit("DRAGOMAN_DATA is not set. Set it to the folder that holds the corpora.")
    parts = corpus.read(Path(os.environ["DRAGOMAN_DATA"]), corpus.src, corpus.tgt)
    folder.mkdir(parents=True, exist_ok=True)
    for part, pairs in parts.items():
        for side, lang in enumerate((corpus.src, corpus.tgt)):
            write_lines(folder / f"{part}.{lang}", (pair[side] for pair in pairs))
    return parts


def train_command(recipe: Recipe, folder: Path, given: argparse.Namespace) -> list[str]:
    """Train with the prepared files instead of the configuration's data, and without the test, which is scored here."""
    corpus, text = recipe.corpus, folder / "text"
    files = {"--data.train-src": f"train.{corpus.src}", "--data.train-tgt": f"train.{corpus.tgt}"}
    files |= {"--data.dev-src": f"validation.{corpus.src}", "--data.dev-tgt": f"validation.{corpus.tgt}"}
    flags = [each for flag, file in files.items() for each in (flag, str(text / file))]
    flags += ["--data.train", "", "--data.dev", "", "--data.test", ""]
    flags += ["--train.max-minutes", str(given.minutes)] if given.minutes else []
    config = [str(CONFIGS / recipe.config)] if recipe.config else []
    return [sys.executable, "-m", "dragoman", "train", *config, *flags, "--out", str(folder / "run"), *given.train]


def facts_of_run(run: Path, folder: Path) -> dict[str, Any]:
    """Read the facts of a run from its card, and its settings without those of the machine."""
    from dragoman.bundle import Model, resolve_model_folder
    from dragoman.config import dump_config

    trained = Model.load(resolve_model_folder(run), "cpu")
    card = trained.card
    known = {
        key: getattr(card, key) for key in ("parameters", "train_pairs", "steps", "epochs", "minutes", "precision")
    }
    return known | {
        "averaged_steps": card.averaged_steps,
        "settings": dump_config(trained.config).replace(str(folder), "FOLDER"),
    }


def scores(corpus: Corpus, folder: Path, part: str, pairs: Pairs) -> list[dict[str, Any]]:
    from dragoman.inference.translator import Translator

    outputs = Translator.load(folder / "run").translate([src for src, _ in pairs])
    write_lines(folder / f"{part}.output", outputs)
    return judged(corpus, outputs, [tgt for _, tgt in pairs])


def judged(corpus: Corpus, outputs: Sequence[str], references: Sequence[str]) -> list[dict[str, Any]]:
    """Return tokenized lower-cased BLEU, BLEU and chrF2, in this order, as defined at the top of this file."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    tokens = [outputs, references] if corpus.tokens else [tokenised(each, corpus.tgt) for each in (outputs, references)]
    plain = BLEU(tokenize="none", force=True) if corpus.tokens else BLEU()
    return [
        scored("tokenised lower-cased BLEU", BLEU(tokenize="none", lowercase=True, force=True), *tokens),
        scored("BLEU", plain, outputs, references),
        scored("chrF2", CHRF(), outputs, references),
    ]


def scored(name: str, metric: Any, outputs: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    found = metric.corpus_score(outputs, [references], n_bootstrap=BOOTSTRAP)
    return {
        "metric": name,
        "value": round(float(found.score), 2),
        "interval": round(float(found._ci), 2),
        "sentences": len(outputs),
        "signature": str(metric.get_signature()),
    }


def machine() -> dict[str, Any]:
    """Describe the machine, with the number of usable cores."""
    return facts(int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0)))))


def machine_of(row: dict[str, Any]) -> str:
    """Name the machine of a row by its cores and processor."""
    cores = row["machine"]["cores"]
    return f"{cores} core{'s' if cores > 1 else ''} of {row['machine']['processor']}"


def read_rows(results: Path) -> list[dict[str, Any]]:
    path = results.with_suffix(".json")
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table with a line per row and part, and the signatures below it."""
    lines = ["# Quality", "", "Made by `python benchmarks/quality.py RECIPE`; all facts are in quality.json.", ""]
    lines += [
        "| recipe | date | parameters | steps | minutes | data | tokenised lower-cased BLEU | BLEU | chrF2 |",
        "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: | ---: |",
    ]
    for row in rows:
        for part, found in row["scores"].items():
            cells = [row["name"], row["date"], f"{row['parameters']:,}", f"{row['steps']:,}", f"{row['minutes']:.0f}"]
            cells += [f"{part} ({found[0]['sentences']:,})"]
            cells += [f"{score['value']:.2f} ± {score['interval']:.2f}" for score in found]
            lines.append(f"| {' | '.join(cells)} |")
    signatures = {
        f"{score['metric']}: `{score['signature']}`"
        for row in rows
        for each in row["scores"].values()
        for score in each
    }
    lines += [
        "",
        "± is half of the 95 % interval of 1,000 bootstrap samples.",
        "",
        *(f"- {each}" for each in sorted(signatures)),
    ]
    machines = {
        f"{row['name']} ({row['date']}): {machine_of(row)}, {row['precision']}, `{row['command']}`" for row in rows
    }
    return "\n".join([*lines, "", *(f"- {each}" for each in sorted(machines))]) + "\n"


def shown(command: Sequence[str], folder: Path) -> str:
    """Return the command without the paths of this machine."""
    words = [word.replace(str(folder), "FOLDER").replace(str(CONFIGS), "configs") or '""' for word in command[3:]]
    return " ".join(["dragoman", *words])


if __name__ == "__main__":
    main()

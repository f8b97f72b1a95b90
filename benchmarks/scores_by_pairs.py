"""Measures test BLEU and chrF of the default recipe against the number of sentence pairs: how much text is needed.

    export DRAGOMAN_DATA=...               the folder that holds multi30k/ and tatoeba_en_de/
    python benchmarks/scores_by_pairs.py --minutes 20

A size is the beginning of one shuffled training set without repeated pairs, so it contains all smaller ones. All sizes
of a corpus have the same validation and test sets, and beam search with the recipe's beam. The same command continues
an interrupted measurement. Commands for other sizes can run beside it, each bound to cores of its own:

    taskset -c 0 python benchmarks/scores_by_pairs.py --corpus multi30k

The report is benchmarks/results/scores_by_pairs.{json,md,svg}, with 95 % intervals from
1,000 bootstrap samples of the test set.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from quality import (
    RECIPES,
    Corpus,
    Parts,
    Recipe,
    facts_of_run,
    machine,
    machine_of,
    prepared,
    read_rows,
    scores,
    train_command,
)
from recording import say, write_json

HERE = Path(__file__).parent
CORPORA = {"multi30k": "multi30k_en_de_by_the_rule", "tatoeba": "tatoeba_en_de"}
"""The recipes of `quality.py`, both without a configuration, whose corpora are measured."""

TITLES = {"multi30k": "Multi30k, English to German", "tatoeba": "Tatoeba, English to German"}
SIZES = (2_500, 5_000, 10_000, 20_000, 40_000, 80_000, 135_000)
METRICS = ("BLEU", "chrF2")


def main() -> None:
    given = arguments()
    for corpus in given.corpus:
        for pairs in given.pairs:
            measure(corpus, pairs, given)
    rows = read_rows(given.results)
    if not rows:
        sys.exit("Nothing has been measured.")
    given.results.with_suffix(".md").write_text(markdown(rows), encoding="utf-8")
    draw(rows, given.results.with_suffix(".svg"))
    print(markdown(rows))


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs="*", choices=list(CORPORA), default=list(CORPORA))
    parser.add_argument("--pairs", nargs="*", type=int, default=list(SIZES), help="nothing: only the report")
    parser.add_argument("--minutes", type=float, default=20.0, help="of training, validations included")
    parser.add_argument("--folder", type=Path, default=HERE.parent / ".bench" / "scores_by_pairs", help="for the runs")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "scores_by_pairs", help="without ending")
    parser.add_argument("--train", nargs=argparse.REMAINDER, default=[], help="the rest goes to `dragoman train`")
    return parser.parse_args(words)


def measure(name: str, pairs: int, given: argparse.Namespace) -> None:
    """Train and score one model, unless the results contain it. A size above that of the corpus is the whole corpus."""
    whole = RECIPES[CORPORA[name]].corpus
    corpus = Corpus(whole.src, whole.tgt, first_pairs(whole.read, pairs))
    folder = given.folder / f"{name}-{pairs}-{given.minutes:g}"
    parts = prepared(corpus, folder / "text")
    key = {"corpus": name, "pairs": len(parts["train"]), "limit": given.minutes}
    if any(key.items() <= row.items() for row in read_rows(given.results)):
        return
    say(f"{TITLES[name]}, {key['pairs']:,} pairs: {given.minutes:g} minutes")
    if code := subprocess.run(train_command(Recipe(corpus), folder, given), check=False).returncode:
        sys.exit(code)
    facts = facts_of_run(folder / "run", given.folder)
    found = {score["metric"]: score for score in scores(corpus, folder, "test", parts["test"])}
    row = key | {"date": time.strftime("%Y-%m-%d"), "machine": machine(), **facts}
    row |= {metric: found[metric] for metric in METRICS}
    given.results.parent.mkdir(parents=True, exist_ok=True)
    rows = [*read_rows(given.results), row]  # read again: a process on another core may have added a row
    write_json(given.results.with_suffix(".json"), sorted(rows, key=lambda each: (each["corpus"], each["pairs"])))


def first_pairs(read: Callable[[Path, str, str], Parts], pairs: int) -> Callable[[Path, str, str], Parts]:
    """Return a reader whose training set is the beginning of that of `read`, without repeated pairs and shuffled."""

    def reader(data: Path, src: str, tgt: str) -> Parts:
        parts = read(data, src, tgt)
        distinct = list(dict.fromkeys(parts["train"]))
        Random(1).shuffle(distinct)
        return parts | {"train": distinct[:pairs]}

    return reader


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return a table with a line per model."""
    lines = ["# Scores by the number of sentence pairs", ""]
    lines += ["Made by `python benchmarks/scores_by_pairs.py`; all facts are in scores_by_pairs.json.", ""]
    lines += ["| corpus | pairs | test BLEU | test chrF2 | steps | epochs | minutes | parameters |"]
    lines += ["| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for row in rows:
        cells = [TITLES[row["corpus"]], f"{row['pairs']:,}"]
        cells += [f"{row[metric]['value']:.2f} ± {row[metric]['interval']:.2f}" for metric in METRICS]
        cells += [f"{row['steps']:,}", f"{row['epochs']:.0f}", f"{row['minutes']:.0f}", f"{row['parameters']:,}"]
        lines.append(f"| {' | '.join(cells)} |")
    signatures = sorted({f"{metric}: `{row[metric]['signature']}`" for row in rows for metric in METRICS})
    machines = {f"{machine_of(row)}, {row['precision']}" for row in rows}
    limits = " or ".join(f"{limit:g}" for limit in sorted({row["limit"] for row in rows}))
    lines += ["", f"Each run had {limits} minutes. Steps, epochs and minutes are those of its best checkpoint."]
    lines += ["± is half of the 95 % interval of 1,000 bootstrap samples.", ""]
    lines += [f"- {each}" for each in (*signatures, *sorted(machines))]
    return "\n".join(lines) + "\n"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw a panel per metric with a curve per corpus against the pairs, on a logarithmic axis."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    mpl.rcParams["svg.hashsalt"] = "dragoman"  # the same numbers give the same file
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for panel, metric in zip(figure.subplots(1, len(METRICS)), METRICS, strict=True):
        for colour, marker, corpus in zip(("#0b6e4f", "#c8553d"), "os", CORPORA, strict=True):
            found = [row for row in rows if row["corpus"] == corpus]
            values, intervals = ([row[metric][each] for row in found] for each in ("value", "interval"))
            style = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.3, "capsize": 2}
            panel.errorbar([row["pairs"] for row in found], values, yerr=intervals, label=TITLES[corpus], **style)
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(FixedLocator(sorted({row["pairs"] for row in rows} & set(SIZES))))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(FuncFormatter(lambda pairs, _: f"{pairs:,.0f}"))
        panel.tick_params(axis="x", labelrotation=45, labelsize=8)
        panel.set_xlabel("sentence pairs in the training text")
        panel.set_ylabel(f"{metric}, test, with 95 % interval")
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(fontsize=8, loc="lower right")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()

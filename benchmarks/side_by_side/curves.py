"""Turns the curves of `benchmarks/time_to_quality.py` into a table of minutes, files and a plot."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recording import write_json

from side_by_side.journal import Journal, Record
from side_by_side.learning import Point
from side_by_side.quality_corpora import QUALITY_CORPORA
from side_by_side.tries import TRIES

NAMES = {
    "dragoman": "Dragoman",
    "eole": "Eole",
    "opennmt": "OpenNMT-py",
    "joeynmt": "JoeyNMT",
    "marian": "transformers Marian",
    "torch": "torch.nn.Transformer",
}
METRICS = {"bleu": "BLEU", "chrf": "chrF"}
COLOURS = dict(zip(NAMES, ("#0b6e4f", "#c8553d", "#8f6c9f", "#d9a441", "#3a6ea5", "#7a7f87"), strict=True))
STYLES = ("-", "--", ":")


@dataclass(frozen=True, slots=True)
class CurveRow:
    """The curves of one contender with one try on one corpus, as medians over the seeds.

    `minutes` has a value per target. It is None if the median seed does not reach the target.
    """

    corpus: str
    contender: str
    number: int
    seeds: tuple[int, ...]
    minutes: Mapping[str, float | None]
    best: float
    steps: int
    tokens_per_second: int
    parameters: int
    precision: str
    versions: Mapping[str, str]
    others: float

    @property
    def label(self) -> str:
        """The name of the contender and of its try."""
        return f"{NAMES[self.contender]}, {TRIES[self.contender][self.number].name}"


def minutes_to(curve: Sequence[Point], target: float) -> float | None:
    """Return the first minute with this score, linearly interpolated between points. None if it is never reached."""
    before: Point | None = None
    for point in curve:
        if point[2] >= target:
            if before is None:
                return point[0]
            share = (target - before[2]) / (point[2] - before[2])
            return before[0] + share * (point[0] - before[0])
        before = point
    return None


def median_minutes(curves: Sequence[Sequence[Point]], target: float) -> float | None:
    """Return the median over the curves, of which one that never reaches the target counts as infinite."""
    found = [minutes_to(curve, target) for curve in curves]
    median = statistics.median(math.inf if each is None else each for each in found)
    return None if math.isinf(median) else round(median, 2)


def finished(journal: Journal, minutes: float) -> dict[tuple[str, str, int], list[Record]]:
    """Return the records of each corpus, contender and try with this budget, in the order of the seeds."""
    groups: dict[tuple[str, str, int], list[Record]] = {}
    order = list(NAMES)
    for record in journal.records:
        corpus, contender, number, budget = record["key"]
        if record["accepted"] and budget == f"{minutes:g}" and record["curve"]:
            groups.setdefault((corpus, contender, number), []).append(record)
    keys = sorted(groups, key=lambda key: (list(QUALITY_CORPORA).index(key[0]), order.index(key[1]), key[2]))
    return {key: sorted(groups[key], key=lambda record: int(record["round"])) for key in keys}


def rows_of(journal: Journal, minutes: float) -> list[CurveRow]:
    """Return a row per corpus, contender and try."""
    rows = []
    for (corpus, contender, number), records in finished(journal, minutes).items():
        curves, last = [record["curve"] for record in records], records[-1]
        rows.append(
            CurveRow(
                corpus=corpus,
                contender=contender,
                number=number,
                seeds=tuple(int(record["round"]) for record in records),
                minutes={f"{each:g}": median_minutes(curves, each) for each in QUALITY_CORPORA[corpus].targets},
                best=round(statistics.median(max(point[2] for point in curve) for curve in curves), 2),
                steps=round(statistics.median(record["steps"] for record in records)),
                tokens_per_second=round(statistics.median(record["tokens_per_second"] for record in records)),
                parameters=last["parameters"],
                precision=last["precision"],
                versions=last["versions"],
                others=max(record["others"] or 0.0 for record in records),
            )
        )
    return rows


def curves_markdown(rows: Sequence[CurveRow], about: Mapping[str, Any], name: str) -> str:
    """Return the tables, the settings of each row and the versions. `name` is that of the other files."""
    machine, budget = about["machine"], about["minutes"]
    lines = [
        f"# Minutes to quality, {about['date']}",
        "",
        f"Made by `python benchmarks/time_to_quality.py`; all curves are in {name}.json and in",
        f"[{name}.svg]({name}.svg).",
        "",
        f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads, {machine['memory_gb']} GiB; "
        f"torch {machine['torch']}, Python {machine['python']}.",
        "",
        "- All models are tiny: 4+4 layers, width 128, feed-forward 256, 4 heads, a joint vocabulary of 8,000, tied.",
        "- Minutes count from the start of the program to the score, with linear interpolation between validations.",
        "  They do not include validations. Dragoman's minutes include learning its tokenizer. Peers read prepared "
        "pieces.",
        "- Scores are those of the whole validation set, translated greedily: sacreBLEU of detokenized text.",
        "- Each value is the median of the seeds.",
    ]
    for corpus in dict.fromkeys(row.corpus for row in rows):
        found = QUALITY_CORPORA[corpus]
        metric = METRICS[found.metric]
        targets = [f"{target:g}" for target in found.targets]
        heads = ["", *(f"minutes to {metric} {target}" for target in targets), f"best {metric}", "steps"]
        heads += ["target tokens/s", "parameters", "precision", "seeds"]
        lines += ["", f"## {found.title}", "", _line(heads), _line(["---", *["---:"] * (len(heads) - 1)])]
        for row in (row for row in rows if row.corpus == corpus):
            cells = [row.label, *(_minutes(row.minutes[target], budget) for target in targets), f"{row.best:.2f}"]
            cells += [f"{row.steps:,}", f"{row.tokens_per_second:,}", f"{row.parameters:,}", row.precision]
            lines.append(_line([*cells, ", ".join(map(str, row.seeds))]))
    lines += ["", "## Settings", "", _line(["", "settings", "source"]), _line(["---"] * 3)]
    for contender, number in dict.fromkeys((row.contender, row.number) for row in rows):
        each = TRIES[contender][number]
        settings = ", ".join(f"{key} {' '.join(str(value).split())}" for key, value in each.settings.items())
        lines.append(_line([f"{NAMES[contender]}, {each.name}", settings, each.source]))
    versions = {name: number for row in rows for name, number in row.versions.items()}
    busiest = max(row.others for row in rows)
    lines += ["", "Versions: " + ", ".join(f"{name} {number}" for name, number in sorted(versions.items())) + ".", ""]
    lines += [f"Other programs used at most {busiest:.0%} of a core during a curve.", ""]
    return "\n".join(lines)


def write_curves(results: Path, journal: Journal, about: Mapping[str, Any]) -> list[Path]:
    """Write `results` with the endings .json, .md and .svg, and return the paths. Exit if nothing is measured."""
    rows = rows_of(journal, about["minutes"])
    if not rows:
        raise SystemExit(f"No curve of {about['minutes']:g} minutes has been measured.")
    results.parent.mkdir(parents=True, exist_ok=True)
    groups = finished(journal, about["minutes"])
    curves = [record for records in groups.values() for record in records]
    paths = [results.with_suffix(ending) for ending in (".json", ".md", ".svg")]
    write_json(paths[0], {**about, "rows": [asdict(row) for row in rows], "curves": curves})
    paths[1].write_text(curves_markdown(rows, about, results.name), encoding="utf-8")
    draw_curves(groups, paths[2])
    return paths


def draw_curves(groups: Mapping[tuple[str, str, int], Sequence[Record]], path: Path) -> None:
    """Draw all curves: a panel per corpus, a colour per contender, and a line style per try."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "dragoman"  # the same numbers give the same file
    corpora = list(dict.fromkeys(corpus for corpus, _, _ in groups))
    figure = Figure(figsize=(8, 4.5 * len(corpora)), layout="constrained")
    panels = figure.subplots(len(corpora), squeeze=False).flatten()
    for panel, corpus in zip(panels, corpora, strict=True):
        for (of, contender, number), records in groups.items():
            for record in records if of == corpus else ():
                minutes, _, scores = zip(*record["curve"], strict=True)
                name = f"{NAMES[contender]}, {TRIES[contender][number].name}"
                label = name if record is records[0] else None
                style = {"color": COLOURS[contender], "linestyle": STYLES[number], "linewidth": 1.3}
                panel.plot(minutes, scores, label=label, marker="." if len(minutes) == 1 else "", **style)
        panel.set_title(QUALITY_CORPORA[corpus].title, fontsize=10)
        panel.set_xlabel("minutes of training")
        panel.set_ylabel(f"{METRICS[QUALITY_CORPORA[corpus].metric]}, validation, greedy")
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0.0, -0.14), frameon=False)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def _minutes(value: float | None, budget: float) -> str:
    return f"not within {budget:g} minutes" if value is None else f"{value:.1f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

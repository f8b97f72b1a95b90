"""Draws BLEU of the validation set, translated greedily, against minutes of training.

    python benchmarks/learning_curve.py [RUN ...]

It adds finished runs, named after their folders, to benchmarks/results/learning_curve.json, one run per line. It draws
all curves of that file in learning_curve.svg.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "learning_curve"
Curve = list[tuple[float, float]]


def main() -> None:
    results, curves = add_runs(__doc__, RESULTS, read_curve)
    draw(curves, results.with_suffix(".svg"))
    for name, points in curves.items():
        best = max(points, key=lambda point: point[1])
        print(f"{name}: {best[1]:.2f} after {best[0]:.0f} of {points[-1][0]:.0f} minutes")


def add_runs(description: str, results: Path, read: Callable[[Path], Curve]) -> tuple[Path, dict[str, Curve]]:
    """Add the curves of the runs on the command line to the results. Return the results' path and all curves."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN", help="folder of a run")
    parser.add_argument("--results", type=Path, default=results, help="without ending")
    given = parser.parse_args()
    data = given.results.with_suffix(".json")
    curves: dict[str, Curve] = json.loads(data.read_text(encoding="utf-8")) if data.exists() else {}
    for run in given.runs:
        curves[run.resolve().name] = read(run) or sys.exit(f"{run} has no validation with BLEU in its log.")
    lines = (f"{json.dumps(name)}: {json.dumps(points)}" for name, points in curves.items())
    data.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return given.results, curves


def read_curve(run: Path) -> Curve:
    """Return minutes and BLEU of each validation."""
    events = map(json.loads, (run / "log.jsonl").read_text(encoding="utf-8").splitlines())
    found = [event for event in events if event["event"] == "validation" and "bleu" in event]
    return [(round(event["seconds"] / 60, 2), round(event["bleu"], 2)) for event in found]


def draw(curves: dict[str, Curve], path: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "dragoman"  # the same numbers give the same file
    figure = Figure(figsize=(7, 4), layout="constrained")
    panel = figure.subplots()
    for name, points in curves.items():
        panel.plot(*zip(*points, strict=True), label=name, linewidth=1.3)
    panel.set_xlabel("minutes of training")
    panel.set_ylabel("BLEU, validation, greedy")
    panel.set_xlim(left=0)
    panel.set_ylim(bottom=0)
    panel.grid(alpha=0.3)
    panel.legend(fontsize=8, loc="lower right")
    panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()

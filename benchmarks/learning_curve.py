"""BLEU of the validation set, translated greedily, against minutes of training: from the logs of finished runs.

python benchmarks/learning_curve.py benchmarks/results/*.log.jsonl --out benchmarks/results/learning_curve.svg
"""

import argparse
import json
import sys
from pathlib import Path

ENDING = ".log.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "logs", type=Path, nargs="+", metavar="LOG", help="log.jsonl of a run, or a copy NAME.log.jsonl"
    )
    parser.add_argument("--out", type=Path, required=True, help="the picture")
    given = parser.parse_args()
    curves = {name_of(path): curve(path) for path in given.logs}
    if empty := [name for name, points in curves.items() if not points]:
        sys.exit(f"{empty[0]} has no validation with BLEU in its log. Leave it out.")
    draw(curves, given.out)
    for name, points in curves.items():
        best = max(points, key=lambda point: point[1])
        print(f"{name}: {best[1]:.2f} after {best[0]:.0f} of {points[-1][0]:.0f} minutes")


def name_of(path: Path) -> str:
    return path.name.removesuffix(ENDING) if path.name.endswith(ENDING) else path.parent.name


def curve(path: Path) -> list[tuple[float, float]]:
    """Minutes and BLEU."""
    events = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [(event["seconds"] / 60, event["bleu"]) for event in events if event["event"] == "validation"]


def draw(curves: dict[str, list[tuple[float, float]]], path: Path) -> None:
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
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    main()

"""Compares forecasts of BLEU at the end of a run, made during the run, with what came.

    python benchmarks/learning_forecast.py [RUN ...]

It adds finished runs, named after their folders, to benchmarks/results/learning_forecast.json, and writes the table
of all runs of that file to learning_forecast.md. The end is the mean of the last three validations.
"""

import json
from pathlib import Path
from statistics import fmean

from learning_curve import Curve, add_runs

from dragoman.bundle.folder import read_settings
from dragoman.evaluation.learning_curve import LEAST_BLEU, forecast_bleu
from dragoman.training.run.run_folder import RunFolder

RESULTS = Path(__file__).parent / "results" / "learning_forecast"
SHARES = 1 / 3, 1 / 2, 3 / 4


def main() -> None:
    results, curves = add_runs(__doc__, RESULTS, read_curve)
    table = "\n".join(rows_of(curves))
    results.with_suffix(".md").write_text(f"# BLEU at the end of a run, as forecast during it\n\n{table}\n")
    print(table)


def read_curve(run: Path) -> Curve:
    """Return target tokens and BLEU of each validation after the warm-up."""
    folder = RunFolder(run)
    newest = folder.step_folder(folder.steps()[-1])
    state = json.loads((newest / "state.json").read_text(encoding="utf-8"))
    warmup, tokens = read_settings(newest).train.warmup_steps, state["tgt_tokens"] / state["step"]
    events = map(json.loads, (run / "log.jsonl").read_text(encoding="utf-8").splitlines())
    found = [event for event in events if event["event"] == "validation" and event["step"] > warmup]
    return [(round(event["step"] * tokens), round(event["bleu"], 2)) for event in found if event["bleu"] >= LEAST_BLEU]


def rows_of(curves: dict[str, Curve]) -> list[str]:
    """Return the lines of the table, and one with the share of intervals that have the end."""
    rows = [
        "| run | million tokens | BLEU at the end | after a third | after half | after three quarters "
        "| 90 % of it after |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    inside = []
    for name, points in curves.items():
        last, end = points[-1][0], fmean(bleu for _, bleu in points[-3:])
        cells = []
        for share in SHARES:
            seen = [point for point in points if point[0] <= share * last]
            if len(seen) < 2:
                cells.append("")
                continue
            found = forecast_bleu(seen, last)
            inside.append(found.low <= end <= found.high)
            cells.append(f"{found.low:.0f} to {found.high:.0f} ({found.median - end:+.1f})")
        good = next(tokens for tokens, bleu in points if bleu >= 0.9 * end)
        rows.append(f"| {name} | {last / 1e6:.1f} | {end:.1f} | {' | '.join(cells)} | {good / 1e6:.1f} |")
    rows += ["", f"{sum(inside)} of {len(inside)} intervals have the end. In brackets: the median less the end."]
    return rows


if __name__ == "__main__":
    main()

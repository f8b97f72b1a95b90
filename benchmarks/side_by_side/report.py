"""Writes tables in Markdown for people, and JSON for programs."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from recording import write_json

from side_by_side.journal import Journal
from side_by_side.results import Row, Spread, Table
from side_by_side.shapes import BATCH_TOKENS, FORCED_TOKENS

EQUAL_BLEU = 0.1
TITLES = {
    "training": "Training",
    "translation": "Translation, the same weights everywhere",
    "latency": "One sentence alone, the same weights everywhere",
    "forced": f"Translation at a forced length of {FORCED_TOKENS} tokens",
}


def markdown(tables: Sequence[Table], facts: dict[str, Any]) -> str:
    """Return all tables under one heading, with the machine."""
    machine = facts["machine"]
    lines = [
        f"# Side by side, {facts['date']}",
        "",
        f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads, {machine['memory_gb']} GiB; "
        f"torch {machine['torch']}, Python {machine['python']}. Data: {facts['data']}. Medians of the rounds, least "
        "and most in brackets. 'Dragoman is' compares measurements of the same round. 'Of the ceiling' is the "
        "arithmetic of the model without padding, against square matrix products in the same precision, measured just "
        "before and after.",
        "",
        f"Matrix products: {_gflops(facts['probe'])}.",
    ]
    for table in tables:
        beam = f", beam {table.beam}" if table.beam else ""
        lines += ["", f"## {TITLES[table.part]}: {table.size}{beam}", "", *_table(table), *_bleu_note(table)]
    lines += ["", "## Versions", "", _versions(tables), ""]
    return "\n".join(lines)


def write(folder: Path, name: str, tables: Sequence[Table], journal: Journal, facts: dict[str, Any]) -> list[Path]:
    """Write `<date>-<name>.json` and `.md`, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    base = f"{facts['date']}-{name}"
    content = {**facts, "tables": [asdict(table) for table in tables], "measurements": journal.records}
    paths = [folder / f"{base}.json", folder / f"{base}.md"]
    write_json(paths[0], content)
    paths[1].write_text(markdown(tables, facts), encoding="utf-8")
    return paths


def median_probe(journal: Journal) -> dict[str, dict[str, float]]:
    """Return the spread of the probes of all accepted measurements."""
    probes = [record["probe"] for record in journal.records if record["accepted"]]
    return {name: asdict(Spread.of([one[name] for one in probes])) for name in (probes[0] if probes else ())}


def _gflops(probes: dict[str, dict[str, float]]) -> str:
    return ", ".join(
        f"{name} {one['median']:.0f} ({one['least']:.0f} to {one['most']:.0f}) GFLOP/s" if one["most"] else f"no {name}"
        for name, one in probes.items()
    )


def _table(table: Table) -> list[str]:
    columns = _columns(table)
    rows = [[text(row) for text in columns.values()] for row in table.rows]
    rule = ["---", *["---:"] * (len(columns) - 1)]
    return ["| " + " | ".join(cells) + " |" for cells in ([*columns], rule, *rows)]


def _bleu_note(table: Table) -> list[str]:
    """Return a warning if the BLEU scores of the engines differ too much."""
    scores = [row.details["bleu"] for row in table.rows if "bleu" in row.details]
    if not scores or max(scores) - min(scores) <= EQUAL_BLEU:
        return []
    return [
        "",
        f"BLEU differs by {max(scores) - min(scores):.2f}, more than {EQUAL_BLEU}: these speeds do not compare.",
    ]


def _columns(table: Table) -> dict[str, Any]:
    """Return a function from a row to the text of its cell, for each heading of the part."""
    unit = table.rows[0].unit
    columns = {
        "": lambda row: f"**{row.contender}**" if row.contender == "Dragoman" else row.contender,
        unit: lambda row: spread_text(row.speed, 0 if row.speed.median >= 100 else 1),
        "Dragoman is": lambda row: f"{spread_text(row.ratio, 2)}x" if row.ratio else "",
        "precision": lambda row: row.precision,
        "peak MB": lambda row: f"{row.peak_rss_mb:,}",
    }
    if any(row.share_of_ceiling for row in table.rows):
        columns["of the ceiling"] = lambda row: f"{row.share_of_ceiling:.0%}" if row.share_of_ceiling else ""
    if table.part == "training":
        columns[f"target tokens a step (at most {BATCH_TOKENS} padded)"] = lambda row: (
            f"{row.details['tokens_per_step']:.0f}"
        )
    if table.part in ("translation", "forced"):
        columns["batch"] = _batch
        columns["output tokens"] = lambda row: f"{row.details['output_tokens']:.1f}"
    if table.part == "translation":
        columns["BLEU"] = lambda row: f"{row.details['bleu']:.2f}"
    columns["rounds"] = lambda row: str(row.rounds)
    return columns


def _batch(row: Row) -> str:
    return f"{row.details['batch']} {row.details.get('batch_type', '')}".strip()


def spread_text(spread: Spread, digits: int) -> str:
    """Return the median, with least and most in brackets."""
    median, least, most = (f"{value:,.{digits}f}" for value in (spread.median, spread.least, spread.most))
    return f"{median} ({least} to {most})" if least != most else median


def _versions(tables: Sequence[Table]) -> str:
    found: dict[str, str] = {}
    for table in tables:
        for row in table.rows:
            found |= row.details.get("versions", {})
    return ", ".join(f"{name} {number}" for name, number in sorted(found.items())) + "."

"""Turns measurements into rows: medians, same-round ratios with their spread, and the share of the ceiling."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from side_by_side.contenders import OURS
from side_by_side.corpus import SRC_LANG, TGT_LANG, Corpus
from side_by_side.journal import Journal, Key, Record
from side_by_side.shapes import SIZES


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, least and most of the values of some rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of at least one value."""
        return cls(*(round(value, 4) for value in (statistics.median(values), min(values), max(values))))


@dataclass(frozen=True, slots=True)
class Row:
    """One contender in one table. `ratio` is how many times as fast Dragoman was in the same round."""

    contender: str
    rounds: int
    unit: str
    speed: Spread
    ratio: Spread | None
    precision: str
    share_of_ceiling: float | None
    peak_rss_mb: int
    details: dict[str, Any]
    """Batch, lengths and BLEU of the last round, and versions."""


@dataclass(frozen=True, slots=True)
class Table:
    """All measurements of one part, size and beam, the fastest first."""

    part: str
    size: str
    beam: int
    rows: tuple[Row, ...]


def tables(journal: Journal, parts: Sequence[str], corpus: Corpus) -> list[Table]:
    """Return the tables of these parts from the journal."""
    groups: dict[Key, list[Key]] = {}
    for key in journal.keys(parts):
        groups.setdefault(key[:3], []).append(key)
    result = []
    for (part, size, beam), keys in sorted(groups.items(), key=lambda group: (parts.index(str(group[0][0])), group[0])):
        ours = {record["round"]: record for record in journal.accepted((part, size, beam, OURS))}
        rows = [_row(key, journal.accepted(key), ours, _flops(key, corpus)) for key in keys]
        rows.sort(key=lambda row: row.speed.median if row.unit == "ms" else -row.speed.median)
        result.append(Table(str(part), str(size), int(beam), tuple(rows)))
    return result


def _row(key: Key, records: list[Record], ours: dict[int, Record], flops: "Callable[[Record], float] | None") -> Row:
    last = records[-1]
    ratios = [_ratio(ours[record["round"]], record) for record in records if record["round"] in ours]
    shares = [
        flops(record) * record["speed"] / (record["probe"][record["precision"]] * 1e9)
        for record in records
        if flops and record["probe"].get(record["precision"])
    ]
    wanted = ("tokens_per_step", "batch", "batch_type", "output_tokens", "bleu", "signature", "slowest", "versions")
    return Row(
        contender=str(key[3]),
        rounds=len(records),
        unit=last["unit"],
        speed=Spread.of([record["speed"] for record in records]),
        ratio=Spread.of(ratios) if ratios and key[3] != OURS else None,
        precision=last["precision"],
        share_of_ceiling=round(statistics.median(shares), 3) if shares else None,
        peak_rss_mb=round(statistics.median(record["peak_rss_mb"] for record in records)),
        details={name: last[name] for name in wanted if name in last},
    )


def _ratio(ours: Record, theirs: Record) -> float:
    """Return how many times as fast Dragoman is; a smaller latency is better."""
    quotient: float = ours["speed"] / theirs["speed"]
    return 1 / quotient if ours["unit"] == "ms" else quotient


def _flops(key: Key, corpus: Corpus) -> "Callable[[Record], float] | None":
    """Return a function for the operations per unit of speed (a token, a sentence); None for latencies."""
    part, size, beam = str(key[0]), SIZES[str(key[1])], int(key[2])
    meta, vocab_size = corpus.meta, corpus.vocab_size
    if part == "training":
        src, tgt = (float(meta[f"train_{lang}_tokens"]) for lang in (SRC_LANG, TGT_LANG))
        return lambda record: size.training_flops(vocab_size, src, tgt)
    if part == "latency":
        return None
    src, end = float(meta[f"val_{SRC_LANG}_tokens"]), 0 if part == "forced" else 1
    return lambda record: size.forward_flops(vocab_size, src, record["output_tokens"] + end, beam)

"""Shared by the adapters: arguments, timed loops, and the line RESULT {json} at the end of each."""

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from recording import peak_bytes

from side_by_side.shapes import SIZES, Size

MARK = "RESULT "
LATENCY_SENTENCES = 30

Sentence = TypeVar("Sentence")
Output = TypeVar("Output")


def training_arguments(description: str | None) -> argparse.ArgumentParser:
    """Return the arguments of every training adapter."""
    return _arguments(description)


def translation_arguments(description: str | None) -> argparse.ArgumentParser:
    """Return the arguments of every translation adapter."""
    parser = _arguments(description)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64, help="sentences, or what fits as many of average length")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--forced", type=int, default=0, help="tokens of every output; 0: no fixed number")
    parser.add_argument("--latency", action="store_true", help="sentences one by one instead of batches")
    return parser


def _arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that `side_by_side.corpus` prepared")
    parser.add_argument("--size", type=SIZES.__getitem__, default=SIZES["tiny"], help=", ".join(SIZES))
    parser.add_argument("--seconds", type=float, default=10.0, help="measure at least so long")
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", "1")))
    return parser


def timed_training(steps: Iterable[Callable[[], int]], size: Size, seconds: float) -> dict[str, Any]:
    """Take training steps until `seconds` have passed since the first ones; each step returns its target tokens."""
    tokens = taken = 0
    began = time.perf_counter()
    passed = 0.0
    for number, step in enumerate(steps):
        if number == size.dropped_steps:
            began = time.perf_counter()
        count = step()
        if number < size.dropped_steps:
            continue
        tokens, taken, passed = tokens + count, taken + 1, time.perf_counter() - began
        if passed >= seconds and taken >= 3:
            break
    return training_result(tokens, taken, passed)


def training_result(tokens: float, steps: int, seconds: float) -> dict[str, Any]:
    """The numbers of a training measurement. Target tokens exclude padding and include the end of the sentence."""
    return {
        "speed": round(tokens / seconds, 1),
        "unit": "target tokens/s",
        "tokens_per_step": round(tokens / steps, 1),
        "steps": steps,
        "seconds": round(seconds, 2),
    }


def timed_translation(
    translate: Callable[[Sequence[Sentence]], list[Output]], sentences: Sequence[Sentence], seconds: float
) -> tuple[dict[str, Any], list[Output]]:
    """Translate all sentences repeatedly until `seconds` have passed, after warming up with some of them."""
    translate(sentences[:: max(1, len(sentences) // 64)])
    outputs: list[Output] = []
    passes = 0
    began = time.perf_counter()
    passed = 0.0
    while not passes or passed < seconds:
        outputs = translate(sentences)
        passes, passed = passes + 1, time.perf_counter() - began
    result = {
        "speed": round(passes * len(sentences) / passed, 2),
        "unit": "sentences/s",
        "sentences": len(sentences),
        "passes": passes,
        "seconds": round(passed, 2),
    }
    return result, outputs


def timed_latency(
    translate: Callable[[Sequence[Sentence]], list[Output]],
    sentences: Sequence[Sentence],
    length: Callable[[Sentence], int],
) -> dict[str, Any]:
    """Return the median time of single sentences of all lengths, after translating each once to warm up."""
    ordered = sorted(sentences, key=length)
    chosen = [ordered[int(place * len(ordered) / LATENCY_SENTENCES)] for place in range(LATENCY_SENTENCES)]
    for sentence in chosen:
        translate([sentence])
    times = []
    for sentence in chosen:
        began = time.perf_counter()
        translate([sentence])
        times.append(1000 * (time.perf_counter() - began))
    return {
        "speed": round(statistics.median(times), 2),
        "unit": "ms",
        "sentences": len(chosen),
        "slowest": round(max(times), 2),
    }


def scored(texts: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Return BLEU with its signature, by sacreBLEU."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    score = metric.corpus_score(list(texts), [list(references)])
    return {"bleu": round(score.score, 2), "signature": str(metric.get_signature())}


def print_result(result: dict[str, Any], precision: str, packages: Sequence[str], **more: Any) -> None:
    """Print the measurement with peak memory and versions on one line, as the end of an adapter."""
    record = {
        "precision": precision,
        "peak_rss_mb": math.ceil(peak_bytes() / 2**20),
        "versions": {name: version(name) for name in packages},
    }
    print(MARK + json.dumps(result | record | more), flush=True)

"""Measures how many times as fast as the definition in `dragoman.model` each engine is.

    python benchmarks/engines.py MODEL SOURCE TARGET [--rounds 7] [--sentences 200]

Training: the gradient of one update on the first pairs, with the modules of the definition and with the accelerated
modules. The accelerated modules are also measured with torch's operations alone, as without numba. Translation: beam 5,
by full passes of the definition, by the tensor decoder and by the compiled decoder. The engines take turns. The script
prints the median seconds of each, and how many times as fast as the definition it is.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from unittest import mock

from recording import read_lines, say

from dragoman.bundle import Model, resolve_model_folder
from dragoman.config import InferenceSettings, TrainSettings
from dragoman.data.batching import micro_batches
from dragoman.data.store import InMemoryPairs
from dragoman.data.stream import load_batch
from dragoman.engines.choice import CompiledEngine
from dragoman.engines.interface import Source
from dragoman.engines.search.step_model import FullPasses
from dragoman.engines.tensors.engine import StepSearch
from dragoman.engines.tensors.fast_model import FastModel
from dragoman.training.step import fused
from dragoman.training.step.gradients import Gradients

Way = Callable[[], object]
_TOKENS_AT_ONCE = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sentences", type=int, default=200)
    given = parser.parse_args()
    trained = Model.load(resolve_model_folder(given.model), "cpu")
    src = trained.tokenizers.src.encode_batch(read_lines(given.source)[: given.sentences])
    tgt = trained.tokenizers.tgt.encode_batch(read_lines(given.target)[: given.sentences])
    report("gradient of one update", training_ways(trained, src, tgt), given.rounds)
    report("translation, beam 5", translation_ways(trained, src), given.rounds)


def training_ways(trained: Model, src: list[list[int]], tgt: list[list[int]]) -> dict[str, Way]:
    pairs = InMemoryPairs(src, tgt)
    pieces = micro_batches(pairs.src_counts, pairs.tgt_counts, _TOKENS_AT_ONCE)
    batches = [load_batch(pairs, piece) for piece in pieces]
    num_tokens = sum(batch.num_tgt_tokens for batch in batches)

    def way(precision: str) -> Way:
        gradients = Gradients(
            trained.transformer, TrainSettings(precision=precision, device="cpu", label_smoothing=0.1)
        )
        return lambda: gradients.compute(batches, [1], num_tokens)

    def without_numba(compute: Way) -> None:
        with mock.patch.object(fused, "can_compile", return_value=False):
            compute()

    with mock.patch("dragoman.training.step.replica.accelerate"):
        ways = {"definition": way("float32")}
    for precision in ("float32", "bfloat16"):
        ways[f"accelerated, {precision}"] = compute = way(precision)
        ways[f"without numba, {precision}"] = partial(without_numba, compute)
    return ways


def translation_ways(trained: Model, src: list[list[int]]) -> dict[str, Way]:
    model, settings = trained.transformer, InferenceSettings(beam_size=5)
    searches = {"definition": StepSearch(FullPasses(model))}
    for precision in ("float32", "bfloat16", "int8"):
        searches[f"tensors, {precision}"] = StepSearch(FastModel(model, precision))
    compiled = {f"compiled, {each}": CompiledEngine(trained.weights, each) for each in ("float32", "int16", "int8")}
    return {
        name: lambda search=search: search.search(
            [Source(str(number), ids) for number, ids in enumerate(src)], settings
        )
        for name, search in {**searches, **compiled}.items()
    }


def report(what: str, ways: dict[str, Way], rounds: int) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            if number:  # the first round compiles, so it does not count
                seconds[name].append(time.perf_counter() - start)
        say(f"{what}: round {number} of {rounds}")
    plain = median(seconds["definition"])
    for name, taken in seconds.items():
        print(f"{what:24} {name:24} {median(taken):8.3f} s {plain / median(taken):8.2f} times", flush=True)


if __name__ == "__main__":
    main()

"""Measures the tensor engine against the definition with a reordered cache, behind the same beam search.

    python benchmarks/tensor_engine.py [--presets tiny base] [--sentences 1 8 64] [--rounds 9]

The definition is `dragoman.model` with its own cache. Choosing hypotheses moves the keys and values in it. Weights and
sources are random. Outputs reach their limits, which depend on the lengths of the sources, so sentences leave the batch
one after the other. Everything runs on one thread, and seconds are those of the processor, so that other processes
disturb little. The contenders take turns. The script prints a Markdown table: the median seconds of the definition, and
how many times as fast the tensor engine is in each precision (median of the ratios within a round).
"""

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from jaxtyping import Float, Int64
from recording import say
from torch import Tensor

from dragoman.config import PRESETS, InferenceSettings
from dragoman.data.batch import pad_ids
from dragoman.engines.search.beam import beam_search
from dragoman.engines.search.step_model import OfTransformer, Predictions, StepModel
from dragoman.engines.tensors.fast_model import FastModel
from dragoman.model.attention import Cache
from dragoman.model.transformer import Transformer
from dragoman.records import EOS_ID, PAD_ID

VOCAB_SIZE = 8000
PRECISIONS = ("float32", "bfloat16", "int8")
SETTINGS = InferenceSettings(beam_size=5, max_extra_tokens=4)


@dataclass(slots=True)
class CachedState:
    """Encoded sources and their lengths, one row per hypothesis, the number of sentences, and the cache."""

    memory: Float[Tensor, "N S D"]
    src_lengths: Int64[Tensor, " N"]
    num_sentences: int
    cache: Cache = field(default_factory=dict)


class CachedDefinition(OfTransformer):
    """The definition as a StepModel with a cache."""

    def start(self, src_ids: Int64[Tensor, "B S"], src_lengths: Int64[Tensor, " B"]) -> CachedState:
        return CachedState(self._model.encode(src_ids, src_lengths), src_lengths, src_lengths.numel())

    def step(self, ids: Int64[Tensor, " N"], state: CachedState) -> Predictions:
        hidden = self._model.decode(ids[:, None], state.memory, state.src_lengths, cache=state.cache)[:, 0]
        return Predictions.of(torch.log_softmax(self._model.projection(hidden).float(), dim=-1))

    def reorder(self, state: CachedState, rows: Int64[Tensor, " N2"], sentences: Int64[Tensor, " B2"]) -> None:
        """Move the keys and values of targets, and those of sources if the rows of a sentence change."""
        is_same = rows.numel() == state.src_lengths.numel() and sentences.numel() == state.num_sentences
        crosses = {layer.cross_attn for layer in self._model.decoder.layers} if is_same else set()
        for module, (keys, values) in state.cache.items():
            if module not in crosses:
                state.cache[module] = keys[rows], values[rows]
        if not is_same:
            state.memory, state.src_lengths = state.memory[rows], state.src_lengths[rows]
            state.num_sentences = sentences.numel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=["tiny", "base"], choices=list(PRESETS))
    parser.add_argument("--sentences", nargs="+", type=int, default=[1, 8, 64])
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"| preset | sentences | definition, s | {' | '.join(PRECISIONS)} |")
    print(f"|---|---:|---:|{'---:|' * len(PRECISIONS)}")
    for preset in options.presets:
        torch.manual_seed(1)
        model = Transformer(PRESETS[preset], VOCAB_SIZE, VOCAB_SIZE).eval()
        contenders: list[StepModel[Any]] = [
            CachedDefinition(model),
            *(FastModel(model, precision) for precision in PRECISIONS),
        ]
        for count in options.sentences:
            seconds = measure(contenders, random_sources(count), options.rounds)
            ratios = (median(row[0] / row[place] for row in seconds) for place in range(1, len(contenders)))
            cells = [preset, str(count), f"{median(row[0] for row in seconds):.3f}", *(f"{one:.2f}" for one in ratios)]
            print(f"| {' | '.join(cells)} |", flush=True)


def random_sources(count: int) -> list[list[int]]:
    """Sources of 4 to 24 tokens, and eos."""
    rng = random.Random(count)
    return [[*rng.choices(range(4, VOCAB_SIZE), k=rng.randint(4, 24)), EOS_ID] for _ in range(count)]


def measure(contenders: Sequence[StepModel[Any]], sources: list[list[int]], rounds: int) -> list[list[float]]:
    """Return the seconds of each contender in each round. A round before the first one converts the weights."""
    batch, seconds = pad_ids(sources, PAD_ID), []
    for number in range(rounds + 1):
        row = []
        for model in contenders:
            start = time.process_time()
            beam_search(model, *batch, SETTINGS)
            row.append(time.process_time() - start)
        seconds.append(row)
        say(f"{len(sources)} sentences: round {number} of {rounds}")
    return seconds[1:]


if __name__ == "__main__":
    main()

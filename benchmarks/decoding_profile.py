"""Times the parts of a step of the compiled search, and compares matrix products with the peak of the core.

    python benchmarks/decoding_profile.py MODEL TEXT [--precision int8] [--beam 5] [--sentences 1000]

The script searches the first sentences of TEXT on one core, and calls and times the parts of every step one by one.
Shares are relative to the rate of a large product of torch (oneDNN in int8, MKL in float32) in the same run. torch has
no products in int16. Their shares are relative to twice the rate in float32, because registers hold twice as many
numbers.
"""

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from dragoman.bundle import Model, resolve_model_folder
from dragoman.engines.choice import compile_weights
from dragoman.engines.compiled import beams, engine, layers
from dragoman.engines.compiled.layout import BeamRules, DecoderWeights, Integers, RowBuffers, SearchState, Shape
from dragoman.engines.interface import Source
from dragoman.engines.tensors.fast_model import product_function
from dragoman.inference.translator import override_settings
from dragoman.kernels.library import MachineCode, Packed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--precision", choices=["float32", "int16", "int8"], default="int8")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=1000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    trained = Model.load(resolve_model_folder(given.model), "cpu")
    settings = override_settings(trained.config.inference, {"beam_size": given.beam, "n_best": 1})
    lines = given.text.read_text(encoding="utf-8").split("\n")[: given.sentences]
    rows = trained.tokenizers.src.encode_batch(lines)
    weights = compile_weights(trained.weights, given.precision)
    parts = Parts()
    bind = MachineCode.bind

    def bind_parts(code: MachineCode, name: str, *arguments: Any) -> Any:
        """Replace `decode_steps` by its parts, which numba compiles one by one."""
        if name != "decode_steps":
            return bind(code, name, *arguments)
        return partial(parts.step, *(one.record if isinstance(one, Packed) else one for one in arguments))

    MachineCode.bind = bind_parts  # type: ignore[assignment,method-assign]
    for _ in range(2):  # the first call compiles
        parts.seconds.clear()
        parts.numbers.clear()
        waiting = engine.Waiting([Source("", row) for row in rows], settings, None, weights)
        began = time.perf_counter()
        engine.search_all(weights, waiting, settings, workers=1)
        parts.seconds["all, with encoding"] = time.perf_counter() - began
    report(parts, ceiling(given.precision))


class Parts:
    """The parts of a search step: the seconds of each, and the number of multiplications in its products.

    Work outside these parts, such as reading sentences, counts only in "all, with encoding".
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.numbers: Counter[str] = Counter()
        self.hypotheses = 0

    def timed(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        began = time.perf_counter()
        result = function(*arguments)
        self.seconds[name] += time.perf_counter() - began
        return result

    def multiply(self, name: str, linear: Any, layer: int, inputs: Any, rows: RowBuffers, num_rows: int) -> None:
        self.numbers[name] += num_rows * linear.panels[layer].size
        self.timed(name, layers.multiply_rows, inputs, rows.scales, linear, layer, num_rows, rows.outputs)

    def step(
        self,
        weights: DecoderWeights,
        shape: Shape,
        rules: BeamRules,
        rows: RowBuffers,
        search: SearchState,
        active: Integers,
        done: Integers,
        num_active: int,
        room: int,
    ) -> int:
        """Replace `decode_steps`, and return after each step."""
        num_rows = beams.place_rows(rows, search, active, num_active)
        self.seconds["hypotheses"] += num_rows
        self.timed("embedding", layers.embed_token, weights, rows, num_rows, search)
        for layer in range(weights.self_in.panels.shape[0]):
            here = num_rows, layer, shape
            self.timed("norms, sums", layers.enter_sublayer, rows, num_rows, weights.self_norm, layer, shape)
            self.multiply("products", weights.self_in, layer, rows.inputs, rows, num_rows)
            self.timed("self-attention", layers.self_attention_sublayer, rows, *here, search)
            self.multiply("products", weights.self_out, layer, rows.inputs, rows, num_rows)
            self.timed("norms, sums", layers.leave_sublayer, rows, num_rows, weights.self_norm, layer, shape)
            self.timed("norms, sums", layers.enter_sublayer, rows, num_rows, weights.cross_norm, layer, shape)
            self.multiply("products", weights.cross_query, layer, rows.inputs, rows, num_rows)
            self.timed("cross-attention", layers.cross_attention_sublayer, rows, *here, search)
            self.multiply("products", weights.cross_out, layer, rows.inputs, rows, num_rows)
            self.timed("norms, sums", layers.leave_sublayer, rows, num_rows, weights.cross_norm, layer, shape)
            self.timed("feed-forward", layers.feed_forward_sublayer, weights, rows, *here)
            self.numbers["feed-forward"] += num_rows * (
                weights.inner.panels[layer].size + weights.outer.panels[layer].size
            )
        self.timed("norms, sums", layers.finish, rows, num_rows, weights.final_norm, shape)
        self.numbers["vocabulary"] += num_rows * weights.vocabulary.panels[0].size
        self.timed("vocabulary", beams.score_vocabulary, weights.vocabulary, rules, rows, num_rows, search)
        arguments = weights.vocabulary, rules, rows, search, active, num_active, done
        return int(self.timed("choosing", beams.choose_hypotheses, *arguments))


def ceiling(precision: str) -> float:
    """Return the multiplications per second of a large product on one core."""
    rows, inner, outer = 512, 512, 2048
    known, times = ("float32", 2) if precision == "int16" else (precision, 1)
    inputs, multiply = torch.randn(rows, inner), product_function(torch.randn(outer, inner), None, known)
    best = float("inf")
    with torch.inference_mode():
        for _ in range(20):
            began = time.perf_counter()
            multiply(inputs)
            best = min(best, time.perf_counter() - began)
    return times * rows * inner * outer / best


def report(parts: Parts, rate: float) -> None:
    hypotheses = parts.seconds.pop("hypotheses")
    print(f"{hypotheses:.0f} hypotheses and steps; products of the machine: {rate / 1e9:.0f} billion a second")
    print(f"{'part':20} {'us a hypothesis and step':>25} {'share of the product rate':>26}")
    for name, seconds in sorted(parts.seconds.items(), key=lambda part: -part[1]):
        multiplied = parts.numbers[name]
        share = f"{multiplied / seconds / rate:26.0%}" if multiplied else ""
        print(f"{name:20} {1e6 * seconds / hypotheses:25.2f} {share}")


if __name__ == "__main__":
    main()

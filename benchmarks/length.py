"""What long outputs cost: time a token and memory of a beam search at several output lengths, untrained weights.

    python benchmarks/length.py [--size tiny] [--beam 5] [--rounds 3] [--lengths 16 64 256 512 1024]

Each measurement is a process of its own; every output has exactly the length asked for. The bars: a token of an output
of 512 tokens takes at most twice the time of one of 16, and memory grows in proportion to the length.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
from side_by_side.corpus import NUM_CONTROLS, VOCAB_SIZE
from side_by_side.shapes import SIZES
from side_by_side.timing import MARK, peak_rss_mb
from side_by_side.train_dragoman import model_settings

from dragoman.config import InferenceSettings
from dragoman.inference.searches import CompiledSearch
from dragoman.inference.segments import Source
from dragoman.model.transformer import Transformer

SRC_TOKENS = 16
SHORT, LONG, BAR = 16, 512, 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="tiny")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=8)
    parser.add_argument("--precision", choices=["float32", "int8"], default="float32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lengths", type=int, nargs="+", default=[SHORT, 64, 256, LONG, 1024])
    parser.add_argument("--inside", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside is not None:
        print(MARK + json.dumps(measured(given, given.inside)))
        return
    rounds = [{length: in_a_process(length) for length in (0, *given.lengths)} for _ in range(given.rounds)]
    base = statistics.median(one[0]["peak_rss_mb"] for one in rounds)
    for length in given.lengths:
        times = [one[length]["ms_per_token"] for one in rounds]
        grown = statistics.median(one[length]["peak_rss_mb"] for one in rounds) - base
        print(
            f"{length:5} tokens: {statistics.median(times):7.3f} ms a token ({min(times):.3f} to {max(times):.3f}), "
            f"{grown:5.0f} MB above the model, {1000 * grown / length:6.0f} kB a token"
        )
    if {SHORT, LONG} <= set(given.lengths):
        ratios = [one[LONG]["ms_per_token"] / one[SHORT]["ms_per_token"] for one in rounds]
        print(
            f"a token at {LONG} against {SHORT}: {statistics.median(ratios):.2f} times "
            f"({min(ratios):.2f} to {max(ratios):.2f}); the bar is {BAR:g}"
        )


def in_a_process(length: int) -> dict[str, float]:
    """One measurement; length 0 is the model alone."""
    command = [sys.executable, *sys.argv, "--inside", str(length)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, float] = json.loads(output.removeprefix(MARK))
    return result


def measured(given: argparse.Namespace, length: int) -> dict[str, float]:
    """Milliseconds a token of one sentence, and the peak of memory."""
    torch.manual_seed(1)
    shape = model_settings(SIZES[given.size], attention_dropout=0.0, activation_dropout=0.0)
    model = Transformer(shape, VOCAB_SIZE, VOCAB_SIZE).eval()
    rows = torch.randint(NUM_CONTROLS, VOCAB_SIZE, (given.sentences, SRC_TOKENS - 1)).tolist()

    search = CompiledSearch(model, given.precision, max(1, length))

    def searched(tokens: int) -> None:
        settings = InferenceSettings(beam_size=given.beam, min_tokens=tokens, max_extra_tokens=tokens)
        found = [Source(str(number), ids) for number, ids in enumerate(rows)]
        search(found, settings)
        assert all(len(one.hypotheses[0].token_log_probs) == tokens for one in found)

    searched(max(1, length))
    began = time.perf_counter()
    if length:
        searched(length)
    passed = time.perf_counter() - began
    return {"ms_per_token": 1000 * passed / max(1, length) / given.sentences, "peak_rss_mb": peak_rss_mb()}


if __name__ == "__main__":
    main()

"""Where plain matrix products stop beating the fused attention kernel on this machine's CPU, forward and backward.

    python benchmarks/attention_paths.py [--dtype bfloat16] [--rounds 5]

Prints the median of the per-round ratios fused / plain for several lengths, about 4,096 positions a batch, 4 heads of
width 32, a padding mask and dropout 0.1 in the weights: above 1, plain products are faster.
"""

import argparse
import statistics
import time

import torch

from dragoman.model import attention
from dragoman.model.attention import MultiHeadAttention

LENGTHS = (8, 16, 32, 64, 128, 256)


def seconds(layer: MultiHeadAttention, length: int, dtype: torch.dtype, plain: bool) -> float:
    attention.PLAIN_MAX_KEYS_ON_CPU = length if plain else 0
    rows = 4096 // length
    query, key, value = (torch.randn(rows, 4, length, 32, dtype=dtype).requires_grad_() for _ in range(3))
    mask = (torch.arange(length) < torch.randint(1, length + 1, (rows, 1)))[:, None, None, :]
    layer.attend(query, key, value, mask).sum().backward()
    began = time.perf_counter()
    for _ in range(5):
        layer.attend(query, key, value, mask).sum().backward()
    return (time.perf_counter() - began) / 5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    layer = MultiHeadAttention(128, 4, 0.1, True).train()
    for length in LENGTHS:
        rounds = []
        for _ in range(given.rounds):
            fused, plain = (seconds(layer, length, getattr(torch, given.dtype), each) for each in (False, True))
            rounds.append(fused / plain)
        print(
            f"{length:4} keys: fused / plain = {statistics.median(rounds):.2f} ({min(rounds):.2f} to {max(rounds):.2f})"
        )


if __name__ == "__main__":
    main()

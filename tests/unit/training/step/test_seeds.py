"""Dropout draws something else at every step, in every process and every worker."""

import itertools

import torch

from dragoman.training.step.dropout import Randomness
from dragoman.training.step.seeds import cpu_seeds, torch_seed

STEPS, RANKS, WORKERS = (1, 2, 3), range(4), range(4)


def test_no_two_workers_of_any_process_draw_the_same() -> None:
    found = set()
    for step, rank, worker in itertools.product(STEPS, RANKS, WORKERS):
        randomness = Randomness()
        randomness.seed(*cpu_seeds(1, step, rank), worker)
        found.add(tuple(randomness.sample_bits(8).tolist()))
    assert len(found) == len(STEPS) * len(RANKS) * len(WORKERS)


def test_torch_draws_otherwise_in_every_process() -> None:
    found = set()
    for step, rank in itertools.product(STEPS, RANKS):
        torch.manual_seed(torch_seed(1, step, rank))
        found.add(tuple(torch.rand(4).tolist()))
    assert len(found) == len(STEPS) * len(RANKS)

"""Dropout uses other random numbers in every step, process and thread."""

import itertools

import torch

from dragoman.training.step.accelerated import Randomness, cpu_seeds, torch_seed

STEPS, RANKS, WORKERS = (1, 2, 3), range(4), range(4)


def test_every_thread_of_every_process_has_another_seed() -> None:
    found = set()
    for step, rank, worker in itertools.product(STEPS, RANKS, WORKERS):
        randomness = Randomness()
        randomness.seed(*cpu_seeds(1, step, rank), worker)
        found.add(tuple(randomness.sample_bits(8).tolist()))
    assert len(found) == len(STEPS) * len(RANKS) * len(WORKERS)


def test_torch_has_another_seed_in_every_process() -> None:
    found = set()
    for step, rank in itertools.product(STEPS, RANKS):
        torch.manual_seed(torch_seed(1, step, rank))
        found.add(tuple(torch.rand(4).tolist()))
    assert len(found) == len(STEPS) * len(RANKS)

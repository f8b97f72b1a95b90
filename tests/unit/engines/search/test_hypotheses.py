"""Finished hypotheses: their ranking, and the bound that stops a beam search."""

import torch
from torch import Tensor

from dragoman.engines.search.continuations import Finished, Paths

EOS_ID = 2
CPU = torch.device("cpu")
NONE = float("-inf")


def paths(*rows: list[int]) -> Paths:
    """The hypotheses of one sentence."""
    ids = torch.tensor([rows])
    return Paths(ids, torch.full(ids.shape, -0.5))


def row(*values: float) -> Tensor:
    return torch.tensor([values])


def test_best_hypotheses_are_kept_best_first() -> None:
    finished = Finished.none(1, 2, CPU).merge(row(-3.0, -1.0), paths([5, EOS_ID], [6, EOS_ID]))
    finished = finished.merge(row(NONE, -2.0), paths([5, 5, EOS_ID], [6, 6, EOS_ID]))
    found = finished.hypotheses()[0]
    assert [(h.ids, h.score, h.log_prob) for h in found] == [
        ((6,), -1.0, -1.0),
        ((6, 6), -2.0, -1.5),
    ]


def test_cut_hypotheses_come_last_whatever_their_score() -> None:
    finished = Finished.none(1, 3, CPU).merge(row(-9.0), paths([5, EOS_ID]))
    finished = finished.merge(row(-0.1, -8.0, -0.2), paths([6, 6, 6], [7, 7, EOS_ID], [8, 8, 8]))
    found = finished.hypotheses()[0]
    assert [h.ids for h in found] == [(7, 7), (5,), (6, 6, 6)]
    assert [h.finished for h in found] == [True, True, False]


def test_earlier_of_equal_hypotheses_comes_first() -> None:
    finished = Finished.none(1, 3, CPU).merge(row(-1.0), paths([5, EOS_ID]))
    finished = finished.merge(row(-1.0, -1.0), paths([6, 6, EOS_ID], [7, 7, EOS_ID]))
    assert [h.ids for h in finished.hypotheses()[0]] == [(5,), (6, 6), (7, 7)]


def test_unbeatable_requires_all_scores_to_reach_the_attainable_one() -> None:
    finished = Finished.none(1, 2, CPU).merge(row(-1.0), paths([5, EOS_ID]))
    assert not finished.unbeatable(torch.tensor([-50.0]), 2).item()
    finished = finished.merge(row(-2.0), paths([6, 6, EOS_ID]))
    assert finished.unbeatable(torch.tensor([-2.0]), 2).item()
    assert not finished.unbeatable(torch.tensor([-1.9]), 2).item()
    assert finished.unbeatable(torch.tensor([-1.9]), 1).item()

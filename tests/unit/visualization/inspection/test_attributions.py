import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dragoman.bundle import Model
from dragoman.model.attention import padding_mask
from dragoman.records import BOS_ID, EOS_ID
from dragoman.text.tokenization.words import Word
from dragoman.visualization.inspection.attributions import (
    compute_attributions,
    gradient_times_input,
    occlude_words,
    spearman,
)

SRC, TGT = [5, 6, 7, 20], [8, 9, 30]
SRC_WORDS, TGT_WORDS = (Word("a", 0, 1), Word("b", 1, 3), Word("c", 3, 4)), (Word("x", 0, 2), Word("y", 2, 3))


def log_probs(trained: Model, embedded: torch.Tensor) -> torch.Tensor:
    model, length = trained.transformer, torch.tensor([embedded.size(1)])
    memory = model.encoder(embedded, padding_mask(length, embedded.size(1)))
    states = model.decode(torch.tensor([[BOS_ID, *TGT]]), memory, length)
    rows = model.projection(states)[0, : len(TGT)].log_softmax(-1)
    return rows[torch.arange(len(TGT)), torch.tensor(TGT)]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=30))
def test_rank_correlation_matches_scipy(pairs: list[tuple[int, int]]) -> None:
    one, other = ([float(pair[side]) for pair in pairs] for side in (0, 1))
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert spearman(one, other) is None
    else:
        assert spearman(one, other) == pytest.approx(stats.spearmanr(one, other).statistic, abs=1e-9)


def test_occlusion_is_the_score_without_the_word(trained: Model) -> None:
    found = occlude_words(trained.transformer, SRC, TGT, SRC_WORDS)
    assert found.shape == (3, 3)
    with torch.no_grad():
        full = log_probs(trained, trained.transformer.src_embedding(torch.tensor([[*SRC, EOS_ID]])))
        without = log_probs(trained, trained.transformer.src_embedding(torch.tensor([[5, 20, EOS_ID]])))
    np.testing.assert_allclose(found[:, 1], (full - without).numpy(), atol=1e-5)


def test_gradients_match_finite_differences(trained: Model) -> None:
    found = gradient_times_input(trained.transformer, SRC, TGT)
    assert found.shape == (3, 4)
    ids = torch.tensor([[*SRC, EOS_ID]])
    with torch.no_grad():
        full = trained.transformer.src_embedding(ids)
        tokens = full - trained.transformer.src_embedding.table(0, ids.size(1))
        for place in range(len(SRC)):
            step = torch.zeros_like(full)
            step[:, place] = tokens[:, place] * 1e-3
            slopes = (log_probs(trained, full + step) - log_probs(trained, full - step)) / 2e-3
            np.testing.assert_allclose(found[:, place], slopes.numpy(), atol=2e-3)


def test_gradients_of_parameters_stay_none(trained: Model) -> None:
    gradient_times_input(trained.transformer, SRC, TGT)
    assert all(parameter.grad is None for parameter in trained.transformer.parameters())


def test_attributions_are_shares_of_words(trained: Model) -> None:
    links = np.array([[0.5, 0.25, 0.1, 0.05], [0.3, 0.15, 0.1, 0.15], [0.0, 0.0, 0.3, 0.6]])
    opinions = compute_attributions(trained.transformer, SRC, TGT, (SRC_WORDS, TGT_WORDS), links)
    assert opinions.attention[1] == pytest.approx((0.0, 1 / 3, 2 / 3), abs=1e-3)
    assert opinions.attention[0] == pytest.approx((0.5, 0.375, 0.125), abs=1e-3)
    for matrix in (opinions.attention, opinions.occlusion, opinions.gradient):
        assert len(matrix) == 2
        assert all(sum(row) == pytest.approx(1, abs=1e-3) for row in matrix)
    rows = [
        stats.spearmanr(one, two).statistic for one, two in zip(opinions.attention, opinions.occlusion, strict=True)
    ]
    assert opinions.occlusion_correlation == pytest.approx(np.nanmean(rows), abs=1e-3)

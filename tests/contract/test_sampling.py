"""Sampling from a table of probabilities: frequencies by a chi-square test, and independence of the batch."""

import math
from collections import Counter
from typing import Any

import pytest
import torch
from scipy import stats

from dragoman.config import InferenceSettings
from dragoman.data.batch import pad_ids
from dragoman.engines.search.sampling import sample, sample_ids, uniforms

EOS_ID, FIRST_LETTER = 2, 4
SAMPLES = 4000


def settings(**changes: Any) -> InferenceSettings:
    return InferenceSettings(**{"sample": True, "max_extra_tokens": 1, "n_best": 1, "min_tokens": 0} | changes)


def sample_batch(model: Any, batch: list[list[int]], names: list[str], prefixes: Any = None, **changes: Any) -> Any:
    return sample(model, *pad_ids(batch, 0), settings(**changes), names, prefixes)


def assert_frequencies(counts: Counter[Any], expected: dict[Any, float]) -> None:
    assert set(counts) <= set(expected)
    keys = list(expected)
    total = sum(counts.values())
    assert stats.chisquare([counts[key] for key in keys], [total * expected[key] for key in keys]).pvalue > 1e-3


def test_frequencies_of_whole_outputs_match_the_table(table_model: Any) -> None:
    model = table_model(3, 2, sharpness=0.7)
    found = sample_batch(model, [[4, EOS_ID]], ["0"], n_best=SAMPLES)[0]
    assert len(found) == SAMPLES
    # Control ids are never written, so the probabilities at each step are normalised over the other ids.
    expected = {}
    for output in model.outputs([4, EOS_ID], 3, settings(length_penalty_alpha=0.0)):
        tokens = (*output.ids, EOS_ID) if output.finished else output.ids
        expected[output.ids, output.finished] = math.prod(
            math.exp(log_probs[token]) / sum(math.exp(log_probs[i]) for i in (EOS_ID, *range(4, model.vocab_size)))
            for t, token in enumerate(tokens)
            for log_probs in [model.log_probs([4, EOS_ID], tokens[:t])]
        )
    assert_frequencies(Counter((h.ids, h.finished) for h in found), expected)


@pytest.mark.parametrize(
    ("top_k", "top_p", "temperature"), [(0, 1.0, 0.5), (3, 1.0, 1.0), (0, 0.7, 1.0), (3, 0.6, 2.0)]
)
def test_frequencies_of_one_token_with_temperature_top_k_and_top_p(
    top_k: int, top_p: float, temperature: float
) -> None:
    probs = torch.tensor([0.1, 0.1, 0.05, 0.1, 0.3, 0.15, 0.12, 0.08])
    chosen = settings(top_k=top_k, top_p=top_p, temperature=temperature)
    sampled = sample_ids(probs.log().expand(SAMPLES, -1), uniforms("test", SAMPLES), chosen)

    weights = {token: float(probs[token]) ** (1 / temperature) for token in (2, 4, 5, 6, 7)}
    ranked = sorted(weights, key=lambda token: -weights[token])[: top_k or None]
    total, running, kept = sum(weights[token] for token in ranked), 0.0, []
    for token in ranked:
        if running < top_p:
            kept.append(token)
        running += weights[token] / total
    kept_total = sum(weights[token] for token in kept)
    assert_frequencies(Counter(sampled.tolist()), {token: weights[token] / kept_total for token in kept})


@pytest.mark.parametrize("top_p", [0.3, 0.9, 0.999])
def test_a_nucleus_is_the_smallest_set_of_best_tokens_in_a_large_vocabulary(top_p: float) -> None:
    sharpness = torch.tensor([8.0, 3.0, 1.0, 0.01])[:, None]  # at 0.9 a nucleus of 2 to 2,700 tokens
    log_probs = (sharpness * torch.randn(4, 3000, generator=torch.Generator().manual_seed(2))).log_softmax(1)
    log_probs[:, [0, 1, 3]] = float("-inf")
    numbers = (torch.arange(500, dtype=torch.float64) + 0.5) / 500
    sampled = sample_ids(log_probs.repeat_interleave(500, 0), numbers.repeat(4), settings(top_p=top_p)).view(4, 500)
    for row, found in zip(log_probs.softmax(1).double(), sampled, strict=True):
        order = row.argsort(descending=True)
        kept = order[: int((row[order].cumsum(0) < top_p).sum()) + 1].sort()[0]
        running = row[kept].cumsum(0)
        expected = kept[torch.searchsorted(running, numbers * running[-1], right=True)]
        assert (expected == found).float().mean() > 0.99  # sums in another order may round differently at the border
        assert set(found.tolist()) <= set(kept.tolist())


def test_top_k_of_one_and_a_tiny_top_p_are_greedy() -> None:
    log_probs = torch.randn(50, 12, generator=torch.Generator().manual_seed(1)).log_softmax(1)
    best = log_probs.clone()
    best[:, [0, 1, 3]] = float("-inf")
    for chosen in (settings(top_k=1), settings(top_p=1e-9)):
        assert sample_ids(log_probs, uniforms("x", 50), chosen).equal(best.argmax(1))


def test_the_largest_uniform_number_samples_a_possible_token() -> None:
    probs = torch.tensor([[0.2, 0.2, 0.0, 0.2, 0.4, 0.0]]).log()
    for chosen in (settings(), settings(top_k=4), settings(top_p=0.9)):
        for number in (0.0, 1 - 2**-48, 1.0):
            assert sample_ids(probs, torch.tensor([number], dtype=torch.float64), chosen).tolist() == [4]


def test_an_output_has_at_least_the_minimum_of_tokens(table_model: Any) -> None:
    [found] = sample_batch(table_model(2, 3), [[4, 5, EOS_ID]], ["0"], n_best=50, min_tokens=2, max_extra_tokens=3)
    assert min(len(hypothesis.ids) for hypothesis in found) == 2


def test_samples_of_a_sentence_do_not_depend_on_its_batch(table_model: Any) -> None:
    model = table_model(5, 3)
    batch = [[4, EOS_ID], [4, 5, 6, 4, EOS_ID], [EOS_ID], [5, 5, EOS_ID]]
    prefixes = [[], [4, 5], [6], []]
    together = sample_batch(model, batch, ["0", "1", "2", "3"], prefixes, n_best=5, max_extra_tokens=6)
    for index in (3, 1, 0, 2):
        alone = sample_batch(model, [batch[index]], [str(index)], [prefixes[index]], n_best=5, max_extra_tokens=6)
        assert alone == [together[index]]
        assert all(h.ids[: len(prefixes[index])] == tuple(prefixes[index]) for h in alone[0])


def test_seed_sentence_and_sample_number_each_change_the_sample(table_model: Any) -> None:
    class Endless(table_model):  # type: ignore[misc]
        def log_probs(self, source: Any, written: Any) -> list[float]:
            return [-99.0 if token == EOS_ID else -2.0 for token in range(self.vocab_size)]

    model = Endless(5, 5)
    outputs = [sample_batch(model, [[4] * 20], [name], seed=seed)[0][0].ids for name in ("0", "1") for seed in (1, 2)]
    outputs += [h.ids for h in sample_batch(model, [[4] * 20], ["0"], n_best=4)[0]]
    assert len(set(outputs)) == len(outputs) - 1  # the first sample of sentence 0 with seed 1 occurs twice


def test_log_probs_are_the_models_and_the_best_sample_comes_first(table_model: Any) -> None:
    model = table_model(8, 3)
    [found] = sample_batch(model, [[4, 5, EOS_ID]], ["0"], n_best=20, temperature=3.0, top_k=4, max_extra_tokens=3)
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    for one in found:
        expected = model.hypothesis([4, 5, EOS_ID], one.ids, settings(), finished=one.finished)
        assert one.log_prob == pytest.approx(expected.log_prob, abs=1e-5)
        assert one.score == pytest.approx(expected.score, abs=1e-5)
        assert one.token_log_probs == pytest.approx(expected.token_log_probs, abs=1e-5)


def test_the_random_stream_is_uniform_and_does_not_depend_on_its_length() -> None:
    stream = uniforms("a stream", 20000)
    assert uniforms("a stream", 7).equal(stream[:7])
    assert stats.kstest(stream.numpy(), "uniform").pvalue > 1e-3
    assert abs(float(torch.corrcoef(torch.stack((stream[:-1], stream[1:])))[0, 1])) < 0.03


def test_an_empty_batch(table_model: Any) -> None:
    empty = torch.zeros(0, 1, dtype=torch.int64)
    assert sample(table_model(0, 2), empty, empty[:, 0], settings(), []) == []

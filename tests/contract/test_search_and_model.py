"""Search on a small Transformer: its scores are the model's, and a batch changes nothing."""

from itertools import chain
from typing import Any

import pytest
import torch

from dragoman.config import InferenceSettings, ModelSettings
from dragoman.data.batch import Batch, pad_ids
from dragoman.engines.search.beam import beam_search
from dragoman.engines.search.sampling import sample
from dragoman.engines.search.step_model import Ensemble
from dragoman.engines.tensors.engine import score_tokens
from dragoman.engines.tensors.fast_model import FastModel
from dragoman.errors import ModelError
from dragoman.model.transformer import Transformer
from dragoman.records import Hypothesis
from tests.contract.random_models import BOS_ID, EOS_ID, assert_same, random_transformer

SOURCES = [[5, 9, 4, EOS_ID], [EOS_ID], [7, 7, 8, 12, 6, 6, 5, EOS_ID], [11, EOS_ID], [4, 5, 6, EOS_ID]]
SETTINGS = InferenceSettings(min_tokens=0, beam_size=4, n_best=3, max_extra_tokens=6)


@pytest.fixture(params=[{}, {"norm_first": False, "tie": "none"}, {"positions": "learned", "max_positions": 12}])
def model(request: pytest.FixtureRequest) -> Transformer:
    return random_transformer(16, **request.param)


def search(model: Any, sources: list[list[int]], settings: InferenceSettings = SETTINGS, prefixes: Any = None) -> Any:
    return beam_search(model, *pad_ids(sources, 0), settings, prefixes)


def batch_of(sources: list[list[int]], hypotheses: list[Hypothesis]) -> Batch:
    targets = [[BOS_ID, *h.ids, *([EOS_ID] if h.finished else [])] for h in hypotheses]
    tgt_ids, tgt_lengths = pad_ids(targets, 0)
    return Batch(*pad_ids(sources, 0), tgt_ids, tgt_lengths - 1)


@pytest.mark.parametrize("sampled", [False, True])
def test_the_log_prob_of_a_search_is_the_teacher_forced_score(model: Transformer, sampled: bool) -> None:
    prefixes = [[], [6, 6], [], [9], []]
    names = [str(index) for index in range(len(SOURCES))]
    rows = pad_ids(SOURCES, 0)
    found = (
        sample(FastModel(model), *rows, SETTINGS, names, prefixes)
        if sampled
        else search(FastModel(model), SOURCES, prefixes=prefixes)
    )
    sources = [source for source, hypotheses in zip(SOURCES, found, strict=True) for _ in hypotheses]
    hypotheses = list(chain(*found))
    batch = batch_of(sources, hypotheses)
    assert score_tokens(model, batch).sum(dim=1).tolist() == pytest.approx([h.log_prob for h in hypotheses], abs=1e-4)
    for scores, hypothesis in zip(score_tokens(model, batch), hypotheses, strict=True):
        length = len(hypothesis.token_log_probs)
        assert scores[:length].tolist() == pytest.approx(hypothesis.token_log_probs, abs=1e-4)
        assert not scores[length:].any()


@pytest.mark.parametrize("beam_size", [1, 4, 40])
def test_a_batch_gives_the_same_as_each_sentence_alone(model: Transformer, beam_size: int) -> None:
    chosen = InferenceSettings(
        min_tokens=0,
        beam_size=beam_size,
        n_best=min(beam_size, 3),
        length_penalty="power",
        length_penalty_alpha=1.0,
        max_extra_tokens=6,
    )
    together = search(FastModel(model), SOURCES, chosen)
    assert_same(together, [search(FastModel(model), [source], chosen)[0] for source in SOURCES])
    backwards = search(FastModel(model), SOURCES[::-1], chosen)
    assert_same(together, backwards[::-1])
    assert len({tuple(h.ids for h in one) for one in together}) > 1, (
        "the model must depend on its source for this test to mean anything"
    )


def test_learned_positions_limit_the_output() -> None:
    model = random_transformer(16, 5, positions="learned", max_positions=9)
    found = search(FastModel(model), [[4] * 8 + [EOS_ID]], InferenceSettings(min_tokens=0, beam_size=30, n_best=30))
    assert max(len(h.token_log_probs) for h in found[0]) == 9


def test_an_ensemble_of_a_model_with_itself_is_the_model(model: Transformer) -> None:
    single = FastModel(model)
    assert_same(search(Ensemble([single] * 3), SOURCES), search(single, SOURCES))


def test_an_ensemble_is_the_mean_of_probabilities() -> None:
    models = [random_transformer(16, seed) for seed in (1, 2)]
    found = search(Ensemble([FastModel(one) for one in models]), SOURCES)
    assert found != search(FastModel(models[0]), SOURCES)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        batch = batch_of([source] * len(hypotheses), hypotheses)
        mean = torch.stack([score_tokens(one, batch).exp() for one in models]).mean(0).log().sum(1)
        assert mean.tolist() == pytest.approx([h.log_prob for h in hypotheses], abs=1e-4)


def test_models_with_different_vocabularies_cannot_form_an_ensemble() -> None:
    other = Transformer(ModelSettings(preset="custom", d_model=16, num_heads=2), 20, 20)
    with pytest.raises(ModelError, match=r"share one target vocabulary, but theirs have \[16, 20\] entries"):
        Ensemble([FastModel(random_transformer(16, 1)), FastModel(other)])
    with pytest.raises(ModelError, match="at least one model"):
        Ensemble([])


@torch.no_grad()
def test_padding_changes_no_logits(model: Transformer) -> None:
    source, target = torch.randint(4, 16, (1, 5)), torch.randint(4, 16, (1, 6))
    alone = model(source, torch.tensor([5]), target)
    sources, targets = torch.randint(4, 16, (3, 11)), torch.zeros(3, 9, dtype=torch.int64)
    sources[0, :5], targets[0, :6] = source, target
    padded = model(sources, torch.tensor([5, 11, 11]), targets)
    torch.testing.assert_close(padded[:1, :6], alone, atol=1e-5, rtol=0)
    sources[0, 5:], targets[0, 6:] = 9, 7
    assert torch.equal(model(sources, torch.tensor([5, 11, 11]), targets)[:1, :6], padded[:1, :6])

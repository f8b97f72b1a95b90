"""The fast path is the plain one: the same log-probabilities at every step, the same translations, for every model.

Long outputs are compared step by step on forced tokens, because a beam may prune either of two that tie.
"""

import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import InferenceSettings, ModelSettings
from dragoman.data.batch import pad_ids
from dragoman.inference.search.beam import beam_search
from dragoman.inference.search.sampling import sample
from dragoman.inference.search.step_model import Ensemble, SingleModel
from dragoman.inference.tensors.fast_model import FastModel
from dragoman.model.transformer import Transformer
from tests.contract.random_models import EOS_ID, KINDS, assert_same, random_transformer


@pytest.fixture(autouse=True, params=[0, 2**40], ids=["plain cross-attention", "folded cross-attention"])
def both_ways_of_cross_attention(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.inference.tensors.cross_attention._MAX_FOLDED", request.param)


def transformer(kind: str, vocab_size: int, seed: int = 3) -> Transformer:
    return random_transformer(vocab_size, seed, **KINDS[kind])


def sources(vocab_size: int, seed: int, longest: int = 20) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randint(4, vocab_size - 1) for _ in range(rng.randint(0, longest))] + [EOS_ID] for _ in range(9)]


def ids_of(hypotheses: Any) -> list[tuple[int, ...]]:
    return [hypothesis.ids for hypothesis in hypotheses]


@pytest.mark.parametrize("vocab_size", [16, 3000])
@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_every_step_is_the_plain_one_far_beyond_64_keys_and_through_reorderings(kind: str, vocab_size: int) -> None:
    model = transformer(kind, vocab_size)
    rows, lengths = pad_ids(sources(vocab_size, 1), 0)
    plain, fast = SingleModel(model), FastModel(model)
    states = plain.start(rows, lengths), fast.start(rows, lengths)
    rng, num_sentences, width = random.Random(4), rows.size(0), 1
    for position in range(90):
        ids = torch.tensor([rng.randint(4, vocab_size - 1) for _ in range(num_sentences * width)])
        torch.testing.assert_close(fast.step(ids, states[1]), plain.step(ids, states[0]), atol=1e-4, rtol=0)
        keep = (
            list(range(num_sentences)) if position % 9 else rng.sample(range(num_sentences), max(1, num_sentences - 1))
        )
        wider = rng.randint(1, 4)
        chosen = torch.tensor([k * width + rng.randrange(width) for k in keep for _ in range(wider)])
        for verb, state in ((plain, states[0]), (fast, states[1])):
            verb.reorder(state, chosen, torch.tensor(keep))  # type: ignore[attr-defined]
        num_sentences, width = len(keep), wider


@pytest.mark.parametrize("vocab_size", [16, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(4, 8), marks=pytest.mark.slow)], ids=["some seeds", "other seeds"]
)
def test_searches_find_the_same(seeds: range, kind: str, vocab_size: int, assert_teacher_forced: Any) -> None:
    """Greedy always; a beam but for near ties, which random models make by writing the same few words in any order.

    Plain float32 departs from float64 there as well. Whatever is found has the plain model's own log-probabilities.
    """
    prefixes = [[5, 6], [], [7], [], [], [8, 5, 4], [], [], []]
    searched = different = 0
    for seed in seeds:
        model, rows = transformer(kind, vocab_size, seed), sources(vocab_size, seed, 9)
        for beam_size, n_best, min_tokens, begun in ((1, 1, 1, None), (4, 3, 3, None), (4, 4, 0, prefixes)):
            chosen = InferenceSettings(beam_size=beam_size, n_best=n_best, min_tokens=min_tokens, max_extra_tokens=6)
            found = beam_search(FastModel(model), *pad_ids(rows, 0), chosen, begun)
            expected = beam_search(SingleModel(model), *pad_ids(rows, 0), chosen, begun)
            assert_teacher_forced(model, rows, found)
            if beam_size == 1:
                assert_same(found, expected)
            searched += len(rows)
            different += sum(ids_of(one) != ids_of(other) for one, other in zip(found, expected, strict=True))
    assert different <= 0.03 * searched


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.permutations(range(9)), st.integers(1, 9))
def test_a_sentence_does_not_depend_on_its_company(seed: int, order: list[int], size: int) -> None:
    fast, rows = FastModel(transformer("pre-norm", 3000)), sources(3000, seed, 9)
    chosen = InferenceSettings(beam_size=4, n_best=2, max_extra_tokens=6)
    alone = [beam_search(fast, *pad_ids([row], 0), chosen)[0] for row in rows]
    for first in range(0, 9, size):
        part = order[first : first + size]
        assert_same(beam_search(fast, *pad_ids([rows[i] for i in part], 0), chosen), [alone[i] for i in part])


def test_samples_and_ensembles_are_the_plain_ones() -> None:
    model, batch = transformer("pre-norm", 30), pad_ids(sources(30, 2), 0)
    names = [str(number) for number in range(9)]
    chosen = InferenceSettings(sample=True, beam_size=2, n_best=2, max_extra_tokens=6)
    assert_same(sample(FastModel(model), *batch, chosen, names), sample(SingleModel(model), *batch, chosen, names))
    searched = InferenceSettings(beam_size=3, n_best=2, max_extra_tokens=6)
    members = [FastModel(model), FastModel(transformer("pre-norm", 30, 5))]
    plain = [SingleModel(model), SingleModel(transformer("pre-norm", 30, 5))]
    assert_same(beam_search(Ensemble(members), *batch, searched), beam_search(Ensemble(plain), *batch, searched))


def test_weights_changed_in_place_are_seen() -> None:
    model, batch = transformer("pre-norm", 30), pad_ids(sources(30, 2), 0)
    fast, chosen = FastModel(model), InferenceSettings(beam_size=2, max_extra_tokens=6)
    before = beam_search(fast, *batch, chosen)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-0.7)
    assert beam_search(fast, *batch, chosen) != before
    assert_same(beam_search(fast, *batch, chosen), beam_search(SingleModel(model), *batch, chosen))


@pytest.mark.parametrize("tie", ["decoder", "none"])
def test_vocabularies_of_two_sizes(tie: Any) -> None:
    torch.manual_seed(4)
    shape = {"d_model": 32, "d_ff": 64, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2}
    model = Transformer(ModelSettings(preset="custom", tie=tie, **shape), 70, 60).eval()  # type: ignore[arg-type]
    batch, chosen = pad_ids(sources(70, 1), 0), InferenceSettings(beam_size=4, n_best=3, max_extra_tokens=30)
    assert_same(beam_search(FastModel(model), *batch, chosen), beam_search(SingleModel(model), *batch, chosen))


@pytest.mark.parametrize(("precision", "tolerance"), [("bfloat16", 0.15), ("int8", 0.5)])
@torch.inference_mode()
def test_fewer_bits_change_log_probs_only_by_their_rounding(precision: str, tolerance: float) -> None:
    model = transformer("pre-norm", 70)
    rows, lengths = pad_ids(sources(70, 1) * 2, 0)
    models: tuple[Any, ...] = (FastModel(model, precision), SingleModel(model))
    states = [each.start(rows, lengths) for each in models]
    for step in range(8):
        ids = torch.full((rows.size(0),), 4 + step)
        ours, expected = (each.step(ids, state) for each, state in zip(models, states, strict=True))
        likely = expected > -8
        assert (ours - expected)[likely].abs().mean().item() < tolerance

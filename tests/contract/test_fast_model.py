"""The tensor decoder equals full passes for every model: log-probabilities at every step, and translations.

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
from dragoman.engines.search.beam import beam_search
from dragoman.engines.search.sampling import sample
from dragoman.engines.search.step_model import Ensemble, FullPasses
from dragoman.engines.tensors.fast_model import FastModel
from dragoman.model.transformer import Transformer
from tests.contract.random_models import EOS_ID, KINDS, assert_same, random_transformer


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
def test_every_step_equals_a_full_pass_beyond_64_keys_and_after_reordering(kind: str, vocab_size: int) -> None:
    model = transformer(kind, vocab_size)
    rows, lengths = pad_ids(sources(vocab_size, 1), 0)
    fast = FastModel(model)
    steps: list[torch.Tensor] = []
    state = fast.start(rows, lengths)
    rng, num_sentences, width = random.Random(4), rows.size(0), 1
    origins = torch.arange(num_sentences)
    written = ancestors = torch.empty(num_sentences, 0, dtype=torch.int64)

    def check() -> None:
        """Compare each hypothesis, with the log-probabilities of its ancestors, with one teacher-forced pass."""
        expected = model(rows[origins], lengths[origins], written).log_softmax(-1)
        found = torch.stack([step[ancestors[:, position]] for position, step in enumerate(steps)], dim=1)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)

    for position in range(90):
        ids = torch.tensor([rng.randint(4, vocab_size - 1) for _ in range(num_sentences * width)])
        steps.append(fast.step(ids, state).log_probs())
        written = torch.cat((written, ids[:, None]), dim=1)
        ancestors = torch.cat((ancestors, torch.arange(ids.numel())[:, None]), dim=1)
        keep = list(range(num_sentences))
        if position % 9 == 0:  # sentences leave the batch and change places
            check()
            keep = rng.sample(keep, max(1, num_sentences - 1))
        wider = rng.randint(1, 4)
        chosen = torch.tensor([k * width + rng.randrange(width) for k in keep for _ in range(wider)])
        fast.reorder(state, chosen, torch.tensor(keep))
        written, ancestors, origins = written[chosen], ancestors[chosen], origins[chosen]
        num_sentences, width = len(keep), wider
    check()


@settings(max_examples=25, deadline=None)
@given(st.data())
@torch.inference_mode()
def test_reordered_hypotheses_keep_their_past_and_source(data: st.DataObject) -> None:
    model = transformer("pre-norm", 30)
    rows, lengths = torch.randint(4, 30, (4, 6)), torch.tensor([6, 3, 1, 4])
    written, origins = torch.empty(4, 0, dtype=torch.int64), torch.arange(4)
    fast, num_sentences = FastModel(model), 4
    state = fast.start(rows, lengths)
    for _ in range(6):
        ids = torch.randint(4, 30, (written.size(0),))
        written = torch.cat((written, ids[:, None]), 1)
        expected = model(rows[origins], lengths[origins], written)[:, -1].log_softmax(-1)
        torch.testing.assert_close(fast.step(ids, state).log_probs(), expected, atol=1e-4, rtol=0)
        # Any sentences in any order, each with the same number of hypotheses, which may repeat.
        width = written.size(0) // num_sentences
        kept = data.draw(st.lists(st.integers(0, num_sentences - 1), min_size=1, max_size=4))
        beam = data.draw(st.integers(1, 3))
        chosen = [k * width + data.draw(st.integers(0, width - 1)) for k in kept for _ in range(beam)]
        fast.reorder(state, torch.tensor(chosen), torch.tensor(kept))
        written, origins, num_sentences = written[chosen], origins[chosen], len(kept)


@pytest.mark.parametrize("vocab_size", [16, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(4, 8), marks=pytest.mark.slow)], ids=["some seeds", "other seeds"]
)
def test_searches_find_the_same(seeds: range, kind: str, vocab_size: int, assert_teacher_forced: Any) -> None:
    """Beams differ only in near ties, which random models produce because they write the same few words in any order.

    In a near tie, full passes find the other output if their log-probabilities move by 2e-6. Every output has the
    log-probabilities of the full pass.
    """
    prefixes = [[5, 6], [], [7], [], [], [8, 5, 4], [], [], []]
    for seed in seeds:
        model, rows = transformer(kind, vocab_size, seed), sources(vocab_size, seed, 9)
        for beam_size, n_best, min_tokens, forced in ((1, 1, 1, None), (4, 3, 3, None), (4, 4, 0, prefixes)):
            chosen = InferenceSettings(beam_size=beam_size, n_best=n_best, min_tokens=min_tokens, max_extra_tokens=6)
            found = beam_search(FastModel(model), *pad_ids(rows, 0), chosen, forced)
            expected = beam_search(FullPasses(model), *pad_ids(rows, 0), chosen, forced)
            assert_teacher_forced(model, rows, found)
            if beam_size == 1:
                assert_same(found, expected)
            for row, prefix, one, other in zip(rows, forced or [[]] * len(rows), found, expected, strict=True):
                moved = (
                    beam_search(FullPasses(model, noise=2e-6, seed=trial), *pad_ids([row], 0), chosen, [prefix])[0]
                    for trial in range(40)
                )
                assert ids_of(one) == ids_of(other) or any(ids_of(one) == ids_of(each) for each in moved)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.permutations(range(9)), st.integers(1, 9))
def test_a_sentence_does_not_depend_on_its_batch(seed: int, order: list[int], size: int) -> None:
    fast, rows = FastModel(transformer("pre-norm", 3000)), sources(3000, seed, 9)
    chosen = InferenceSettings(beam_size=4, n_best=2, max_extra_tokens=6)
    alone = [beam_search(fast, *pad_ids([row], 0), chosen)[0] for row in rows]
    for first in range(0, 9, size):
        part = order[first : first + size]
        assert_same(beam_search(fast, *pad_ids([rows[i] for i in part], 0), chosen), [alone[i] for i in part])


def test_samples_and_ensembles_equal_those_of_full_passes() -> None:
    model, batch = transformer("pre-norm", 30), pad_ids(sources(30, 2), 0)
    names = [str(number) for number in range(9)]
    chosen = InferenceSettings(sample=True, beam_size=2, n_best=2, max_extra_tokens=6)
    assert_same(sample(FastModel(model), *batch, chosen, names), sample(FullPasses(model), *batch, chosen, names))
    searched = InferenceSettings(beam_size=3, n_best=2, max_extra_tokens=6)
    members = [FastModel(model), FastModel(transformer("pre-norm", 30, 5))]
    plain = [FullPasses(model), FullPasses(transformer("pre-norm", 30, 5))]
    assert_same(beam_search(Ensemble(members), *batch, searched), beam_search(Ensemble(plain), *batch, searched))


def test_weights_changed_in_place_take_effect() -> None:
    model, batch = transformer("pre-norm", 30), pad_ids(sources(30, 2), 0)
    fast, chosen = FastModel(model), InferenceSettings(beam_size=2, max_extra_tokens=6)
    before = beam_search(fast, *batch, chosen)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-0.7)
    assert beam_search(fast, *batch, chosen) != before
    assert_same(beam_search(fast, *batch, chosen), beam_search(FullPasses(model), *batch, chosen))


@pytest.mark.parametrize("tie", ["decoder", "none"])
def test_vocabularies_of_two_sizes(tie: Any) -> None:
    torch.manual_seed(4)
    shape = {"d_model": 32, "d_ff": 64, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2}
    model = Transformer(ModelSettings(preset="custom", tie=tie, **shape), 70, 60).eval()  # type: ignore[arg-type]
    batch, chosen = pad_ids(sources(70, 1), 0), InferenceSettings(beam_size=4, n_best=3, max_extra_tokens=30)
    assert_same(beam_search(FastModel(model), *batch, chosen), beam_search(FullPasses(model), *batch, chosen))


@pytest.mark.parametrize(("precision", "tolerance"), [("bfloat16", 0.15), ("int8", 0.5)])
@torch.inference_mode()
def test_fewer_bits_change_log_probs_only_by_their_rounding(precision: str, tolerance: float) -> None:
    model = transformer("pre-norm", 70)
    rows, lengths = pad_ids(sources(70, 1) * 2, 0)
    models: tuple[Any, ...] = (FastModel(model, precision), FullPasses(model))
    states = [each.start(rows, lengths) for each in models]
    for step in range(8):
        ids = torch.full((rows.size(0),), 4 + step)
        ours, expected = (each.step(ids, state).log_probs() for each, state in zip(models, states, strict=True))
        likely = expected > -8
        assert (ours - expected)[likely].abs().mean().item() < tolerance


@torch.inference_mode()
def test_int8_becomes_float32_where_torch_sums_bytes_inexactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    model, ids = random_transformer(60, d_model=256, d_ff=512), torch.tensor([[5, 6, EOS_ID]])
    found, expected = (
        one.step(torch.tensor([1]), one.start(ids, torch.tensor([3]))).log_probs()
        for one in (FastModel(model, "int8"), FastModel(model, "float32"))
    )
    assert torch.equal(found, expected)

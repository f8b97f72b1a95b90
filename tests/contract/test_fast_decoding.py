"""The fast way to decode equals the plain one: packed weights, a tree of the past, only the best continuations."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from dragoman.config import InferenceSettings, ModelSettings
from dragoman.data.batch import pad_rows
from dragoman.inference.beam import beam_search
from dragoman.inference.fast_model import FastModel
from dragoman.inference.step_model import SingleModel, StepModel
from dragoman.model.transformer import Transformer
from dragoman.records import Hypothesis
from dragoman.text.tokenizer import EOS_ID, PAD_ID

BASE = ModelSettings(
    preset="custom", d_model=32, d_ff=64, num_heads=4, num_encoder_layers=2, num_decoder_layers=2, dropout=0.1
)
SHAPES: dict[str, dict[str, object]] = {
    "default": {},
    "post-norm": {"norm_first": False, "activation": "swish", "positions": "marian"},
    "learned positions": {"positions": "learned", "max_positions": 160, "activation": "gelu"},
    "no biases": {"attention_bias": False, "projection_bias": False, "tie": "none"},
    "target tied": {"tie": "decoder"},
}


def _model(vocab_sizes: tuple[int, int] = (70, 70), **changes: object) -> Transformer:
    """Weights larger than they start, so that outputs differ and end."""
    torch.manual_seed(4)
    settings = replace(BASE, **changes)  # type: ignore[arg-type]
    model = Transformer(settings, *vocab_sizes).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.6)
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def _sources(lengths: list[int], vocab_size: int = 70) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(len(lengths))
    rows = [[*torch.randint(4, vocab_size, (n,), generator=random).tolist(), EOS_ID] for n in lengths]
    return pad_rows(rows, PAD_ID)


def _assert_same(ours: list[list[Hypothesis]], plain: list[list[Hypothesis]], tolerance: float = 1e-4) -> None:
    assert len(ours) == len(plain)
    for found, expected in zip(ours, plain, strict=True):
        assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=tolerance)
        assert [one.ids for one in found] == [one.ids for one in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=10 * tolerance)
            assert one.finished == other.finished


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("beam_size", [1, 4])
def test_in_float32_a_search_finds_the_same(name: str, beam_size: int) -> None:
    sizes = (70, 60) if SHAPES[name].get("tie") in ("none", "decoder") else (70, 70)
    model = _model(sizes, **SHAPES[name])
    src_ids, src_lengths = _sources([1, 3, 9, 20, 5, 5, 12])
    settings = InferenceSettings(beam_size=beam_size, n_best=min(3, beam_size), max_extra_tokens=30)
    ours = beam_search(FastModel(model), src_ids, src_lengths, settings)
    _assert_same(ours, beam_search(SingleModel(model), src_ids, src_lengths, settings))


def test_more_than_a_registers_keys_and_long_outputs() -> None:
    model = _model()
    src_ids, src_lengths = _sources([90, 70, 2])
    settings = InferenceSettings(beam_size=3, min_tokens=100, max_extra_tokens=110)
    ours = beam_search(FastModel(model), src_ids, src_lengths, settings)
    _assert_same(ours, beam_search(SingleModel(model), src_ids, src_lengths, settings), tolerance=1e-3)
    assert min(len(found[0].ids) for found in ours) >= 99


def test_a_large_vocabulary_is_searched_by_blocks() -> None:
    model = _model((3001, 3001))
    src_ids, src_lengths = _sources([4, 8, 15, 16], 3001)
    for beam_size in (1, 5):
        settings = InferenceSettings(beam_size=beam_size, n_best=beam_size, max_extra_tokens=10)
        ours = beam_search(FastModel(model), src_ids, src_lengths, settings)
        _assert_same(ours, beam_search(SingleModel(model), src_ids, src_lengths, settings))


def test_prefixes_and_least_lengths_hold() -> None:
    model = _model()
    src_ids, src_lengths = _sources([4, 8, 15])
    settings = InferenceSettings(beam_size=4, n_best=2, min_tokens=6, max_extra_tokens=10)
    prefixes = [[], [11, 12, 13], [9]]
    ours = beam_search(FastModel(model), src_ids, src_lengths, settings, prefixes)
    _assert_same(ours, beam_search(SingleModel(model), src_ids, src_lengths, settings, prefixes))


def test_steps_give_the_same_log_probs_after_any_reordering() -> None:
    model = _model()
    src_ids, src_lengths = _sources([6, 2, 9])
    models: tuple[StepModel[Any], ...] = (FastModel(model), SingleModel(model))
    random = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        states = [each.start(src_ids, src_lengths) for each in models]
        width, sentences = 1, 3
        for _ in range(40):
            ids = torch.randint(4, 70, (sentences * width,), generator=random)
            ours, expected = (each.step(ids, state) for each, state in zip(models, states, strict=True))
            torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)
            keep = torch.randperm(sentences, generator=random)[: max(1, sentences - int(torch.rand(()) < 0.05))]
            wider = int(torch.randint(1, 5, (), generator=random))
            parents = torch.randint(0, width, (len(keep), wider), generator=random)
            for each, state in zip(models, states, strict=True):
                each.reorder(state, (keep[:, None] * width + parents).flatten(), keep)
            width, sentences = wider, len(keep)


def test_weights_changed_in_place_are_converted_anew() -> None:
    model = _model()
    fast = FastModel(model)
    src_ids, src_lengths = _sources([6, 3])
    settings = InferenceSettings(beam_size=2, max_extra_tokens=10)
    beam_search(fast, src_ids, src_lengths, settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.7)
    ours = beam_search(fast, src_ids, src_lengths, settings)
    _assert_same(ours, beam_search(SingleModel(model), src_ids, src_lengths, settings))


@pytest.mark.parametrize("batch_size", [1, 2, 9])
def test_in_float32_company_changes_nothing(batch_size: int) -> None:
    model = _model()
    lengths = [3, 17, 8, 8, 1, 25, 11, 6, 30]
    src_ids, src_lengths = _sources(lengths)
    settings = InferenceSettings(beam_size=4, max_extra_tokens=20)
    together = beam_search(FastModel(model), src_ids, src_lengths, settings)
    apart: list[list[Hypothesis]] = []
    for first in range(0, len(lengths), batch_size):
        rows = slice(first, first + batch_size)
        longest = int(src_lengths[rows].max())
        apart += beam_search(FastModel(model), src_ids[rows, :longest], src_lengths[rows], settings)
    _assert_same(apart, together)


@pytest.mark.parametrize(("precision", "tolerance"), [("bfloat16", 0.15), ("int8", 0.5)])
def test_fewer_bits_change_log_probs_only_by_their_rounding(precision: str, tolerance: float) -> None:
    model = _model()
    src_ids, src_lengths = _sources([6, 2, 9] * 4)
    models: tuple[StepModel[Any], ...] = (FastModel(model, precision), SingleModel(model))
    with torch.inference_mode():
        states = [each.start(src_ids, src_lengths) for each in models]
        for step in range(8):
            ids = torch.full((12,), 4 + step)
            ours, expected = (each.step(ids, state) for each, state in zip(models, states, strict=True))
            likely = expected > -8
            assert (ours - expected)[likely].abs().mean().item() < tolerance

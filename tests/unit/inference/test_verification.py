"""`verify` passes a correct model and finds every planted bug in masks, padding and caches."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.bundle import Model
from dragoman.engines.choice import Engines
from dragoman.engines.search.step_model import FullPasses, Predictions
from dragoman.engines.tensors import fast_model
from dragoman.engines.tensors.fast_model import FastModel
from dragoman.inference import verification
from dragoman.inference.verification import Check, verify_translations
from dragoman.model import transformer
from dragoman.model.attention import padding_mask
from dragoman.records import EOS_ID

WORD = 270
TENSORS = {"tensors, packed", "tensors, padded"}
WORDS = "one two three four five Bahnhof".split()
TEXTS = ["", *(" ".join(WORDS[(n * k) % 6] for k in range(1, 2 + n % 5)) for n in range(1, 8)), "one two. " * 5]


def checked(trained: Model, *beam_sizes: int) -> dict[tuple[str, int], Check]:
    return {(check.way, check.beam_size): check for check in verify_translations(trained, TEXTS, beam_sizes or (1, 3))}


def failed(trained: Model) -> set[str]:
    return {way for (way, _), check in checked(trained, 3).items() if check.differences}


def test_correct_model_passes_every_check(small_bundle: Model) -> None:
    found = checked(small_bundle)
    assert len(found) == 12
    for check in found.values():
        assert (check.same + check.ties, check.differences) == (len(TEXTS), ())
        assert check.ties <= 2
        assert 0 < check.largest_log_prob_difference < 1e-4


def test_attention_to_padding_fails(small_bundle: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def leaking(lengths: Tensor, size: int) -> Tensor:
        return torch.ones(lengths.numel(), 1, 1, size, dtype=torch.bool)

    monkeypatch.setattr(fast_model, "padding_mask", leaking)
    assert failed(small_bundle) >= TENSORS


@pytest.mark.parametrize("off_by", [pytest.param(-1, marks=pytest.mark.slow), 1])
def test_wrong_mask_fails(small_bundle: Model, monkeypatch: pytest.MonkeyPatch, off_by: int) -> None:
    def shifted(lengths: Tensor, size: int) -> Tensor:
        return padding_mask((lengths + off_by).clamp(min=1), size)

    monkeypatch.setattr(fast_model, "padding_mask", shifted)
    assert "tensors, padded" in failed(small_bundle)


@pytest.mark.slow
def test_reference_that_sees_the_future_fails(small_bundle: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def causal_mask(size: int, device: torch.device) -> Tensor:
        return torch.ones(size, size, dtype=torch.bool, device=device).tril(1)

    monkeypatch.setattr(transformer, "causal_mask", causal_mask)
    assert len(failed(small_bundle)) == 6


@pytest.mark.slow
def test_wrongly_reordered_cache_fails(small_bundle: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    right = FastModel.reorder

    def first_rows(self: FastModel, state: Any, rows: Tensor, sentences: Tensor) -> None:
        width = rows.numel() // sentences.numel()
        right(self, state, rows.view(-1, width)[:, :1].expand(-1, width).flatten(), sentences)

    def backwards(self: FastModel, state: Any, rows: Tensor, sentences: Tensor) -> None:
        right(self, state, rows.flip(0), sentences)

    for wrong in (first_rows, backwards):
        monkeypatch.setattr(FastModel, "reorder", wrong)
        assert failed(small_bundle) >= TENSORS


@pytest.mark.slow
def test_search_that_depends_on_its_batch_fails(small_bundle: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Engines.search

    def greedier_in_large_batches(self: Engines, sources: Any, settings: Any) -> Any:
        return right(self, sources, replace(settings, beam_size=1) if len(sources) > 6 else settings)

    monkeypatch.setattr(Engines, "search", greedier_in_large_batches)
    ways = failed(small_bundle)
    assert {"all together", "in another order"} <= ways
    assert not ways & {"one by one", *TENSORS}


def test_difference_has_both_outputs(small_bundle: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    right = FastModel.step
    monkeypatch.setattr(FastModel, "step", lambda *given: Predictions.of(-right(*given).log_probs()))
    check = checked(small_bundle, 1)["tensors, padded", 1]
    assert check.same + len(check.differences) + check.ties == len(TEXTS)
    one = check.differences[0]
    assert one.src == TEXTS[one.number - 1]
    assert one.expected != one.found


def test_difference_within_rounding_is_a_tie(small_bundle: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tensor decoder slightly prefers to end after two tokens. The reference may too, if changed by 1e-5."""

    def nearly_equal(preferred: int) -> Any:
        def step(self: Any, ids: Tensor, state: Any) -> Predictions:
            log_probs = torch.full((ids.numel(), self.vocab_size), -9.0)
            log_probs[:, [EOS_ID, WORD]] = -0.7
            log_probs[:, preferred] += 1e-6
            if getattr(self, "_noise", 0):
                log_probs += verification.TIE * (2 * torch.rand(log_probs.shape, generator=self._generator) - 1)
            return Predictions.of(log_probs)

        return step

    monkeypatch.setattr(verification, "_MANY", len(TEXTS))
    monkeypatch.setattr(verification, "_TIE_TRIALS", 16)
    monkeypatch.setattr(FullPasses, "step", nearly_equal(WORD))
    monkeypatch.setattr(FastModel, "step", nearly_equal(EOS_ID))
    check = checked(small_bundle, 1)["tensors, padded", 1]
    assert check.ties == len(TEXTS) - 1
    assert check.same == 1, "the empty text"

"""The promise between model and search: a cached step is the full pass, for any order and selection of hypotheses."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import ModelSettings
from dragoman.model.transformer import Transformer


def _model(norm_first: bool, positions: str = "sinusoidal") -> Transformer:
    torch.manual_seed(3)
    shape = ModelSettings(
        preset="custom",
        d_model=16,
        d_ff=24,
        num_heads=2,
        num_encoder_layers=2,
        num_decoder_layers=2,
        dropout=0.0,
        norm_first=norm_first,
        positions=positions,
        tie="all",
    )
    return Transformer(shape, 30, 30).eval()


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@torch.no_grad()
def test_steps_equal_the_full_pass(norm_first: bool, positions: str) -> None:
    model = _model(norm_first, positions)
    src, lengths, tgt = torch.randint(4, 30, (3, 7)), torch.tensor([7, 2, 5]), torch.randint(4, 30, (3, 70))
    full = model(src, lengths, tgt)
    cache = model.start(model.encode(src, lengths), lengths)
    for position in range(tgt.size(1)):  # more positions than the cache first has room for
        torch.testing.assert_close(model.step(tgt[:, position], cache), full[:, position], atol=1e-4, rtol=0)
        assert cache.length == position + 1


@settings(max_examples=25, deadline=None)
@given(st.data())
@torch.no_grad()
def test_reordered_hypotheses_keep_their_own_past_and_source(data: st.DataObject) -> None:
    model = _model(True)
    src, lengths = torch.randint(4, 30, (4, 6)), torch.tensor([6, 3, 1, 4])
    histories = torch.empty(4, 0, dtype=torch.int64)
    sources = torch.arange(4)
    cache = model.start(model.encode(src, lengths), lengths)
    for _ in range(6):
        ids = torch.randint(4, 30, (histories.size(0),))
        histories = torch.cat((histories, ids[:, None]), 1)
        logits = model.step(ids, cache)
        expected = model(src[sources], lengths[sources], histories)[:, -1]
        torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)
        # Any sentences, in any order, each with as many of its own hypotheses as the others, repeated or not.
        num_sentences = cache.num_sentences
        per_sentence = histories.size(0) // num_sentences
        kept = data.draw(st.lists(st.integers(0, num_sentences - 1), min_size=1, max_size=4))
        beam = data.draw(st.integers(1, 3))
        rows = [k * per_sentence + data.draw(st.integers(0, per_sentence - 1)) for k in kept for _ in range(beam)]
        cache.reorder(torch.tensor(rows), torch.tensor(kept))
        histories, sources = histories[rows], sources[rows]


@torch.no_grad()
def test_padding_and_company_change_nothing() -> None:
    model = _model(True)
    src, tgt = torch.randint(4, 30, (1, 5)), torch.randint(4, 30, (1, 6))
    alone = model(src, torch.tensor([5]), tgt)
    padded_src = torch.zeros(3, 11, dtype=torch.int64)
    padded_src[0, :5], padded_src[1:, :] = src, torch.randint(4, 30, (2, 11))
    padded_tgt = torch.zeros(3, 9, dtype=torch.int64)
    padded_tgt[0, :6] = tgt
    padded = model(padded_src, torch.tensor([5, 11, 11]), padded_tgt)
    torch.testing.assert_close(padded[:1, :6], alone, atol=1e-5, rtol=0)
    # What stands in the padding does not matter either.
    padded_src[0, 5:], padded_tgt[0, 6:] = 29, 17
    assert torch.equal(model(padded_src, torch.tensor([5, 11, 11]), padded_tgt)[:1, :6], padded[:1, :6])

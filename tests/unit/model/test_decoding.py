"""Greedy decoding as a user writes it, with and without a cache, against each other and the translator's search."""

from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.bundle import Weights
from dragoman.config import InferenceSettings
from dragoman.data.batch import Batch
from dragoman.engines.choice import Engines
from dragoman.engines.interface import Source
from dragoman.model.attention import Cache
from dragoman.model.transformer import Transformer
from tests.contract.random_models import KINDS, random_transformer

EOS_ID, VOCAB_SIZE, MORE_TOKENS = 2, 40, 12
SOURCES = [[5, 6, 7, 8, 9, 10, 11], [12], [13, 14, 15], [16, 17, 18, 19, 20]]


def decode_again_and_again(model: Transformer, batch: Batch, num_tokens: int) -> Tensor:
    memory = model.encode(batch.src_ids, batch.src_lengths)
    ids = batch.decoder_input
    for _ in range(num_tokens):
        states = model.decode(ids, memory, batch.src_lengths)
        ids = torch.cat([ids, model.projection(states[:, -1:]).argmax(-1)], dim=1)
    return ids


def decode_with_cache(model: Transformer, batch: Batch, num_tokens: int) -> Tensor:
    memory, cache = model.encode(batch.src_ids, batch.src_lengths), Cache()
    ids = batch.decoder_input
    for _ in range(num_tokens):
        states = model.decode(ids[:, -1:], memory, batch.src_lengths, cache=cache)
        ids = torch.cat([ids, model.projection(states[:, -1:]).argmax(-1)], dim=1)
    return ids


def random_model(**shape: Any) -> Transformer:
    """A model that never prefers a token that searches do not write: pad, bos and unk."""
    model = random_transformer(VOCAB_SIZE, **{"projection_bias": True, **shape})
    model.projection.bias.data[[0, 1, 3]] = -1e9
    return model


@torch.no_grad()
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_both_loops_and_the_search_write_the_same_tokens(kind: str, norm_first: bool) -> None:
    model = random_model(**{**KINDS[kind], "norm_first": norm_first, "projection_bias": True})
    batch = Batch.from_ids(SOURCES)
    ids = decode_again_and_again(model, batch, MORE_TOKENS)
    assert torch.equal(decode_with_cache(model, batch, MORE_TOKENS), ids)
    rows = [row[1:].tolist() for row in ids]
    written = [row[: row.index(EOS_ID)] if EOS_ID in row else row for row in rows]
    sources = [Source(str(number), ids, ()) for number, ids in enumerate(SOURCES)]
    found = Engines([Weights.of(model)]).search(sources, InferenceSettings(beam_size=1, max_extra_tokens=MORE_TOKENS))
    searched = [hypotheses[0].ids for hypotheses in found]
    # A search may write more tokens than the loops. What both write is the same.
    assert [list(one[:MORE_TOKENS]) for one in searched] == written


@torch.no_grad()
def test_a_cache_accepts_several_tokens_and_records_weights() -> None:
    model, batch = random_model(), Batch.from_ids(SOURCES, [[5, 6, 7], [8], [9, 10, 11], [12, 13]])
    memory = model.encode(batch.src_ids, batch.src_lengths)
    whole: tuple[list[Tensor], list[Tensor]] = ([], [])
    parts: tuple[list[Tensor], list[Tensor]] = ([], [])
    expected = model.decode(batch.decoder_input, memory, batch.src_lengths, *whole)
    cache: Cache = {}
    first = model.decode(batch.decoder_input[:, :2], memory, batch.src_lengths, cache=cache)
    rest = model.decode(batch.decoder_input[:, 2:], memory, batch.src_lengths, *parts, cache)
    torch.testing.assert_close(torch.cat([first, rest], dim=1), expected, atol=1e-5, rtol=0)
    for one, part in zip([*whole[0], *whole[1]], [*parts[0], *parts[1]], strict=True):
        torch.testing.assert_close(part, one[:, :, 2:], atol=1e-6, rtol=0)
    layer: Any
    for layer in model.decoder.layers:
        assert cache[layer.self_attn][0].shape == (4, 2, 4, 8)  # sentences, heads, tokens so far, width of a head
        assert cache[layer.cross_attn][0].shape == (4, 2, 8, 8)


@torch.no_grad()
def test_rows_of_a_cache_can_be_chosen_as_beam_search_does() -> None:
    model, batch, rows = random_model(), Batch.from_ids(SOURCES), [2, 2, 0]
    memory, cache = model.encode(batch.src_ids, batch.src_lengths), Cache()
    model.decode(batch.decoder_input, memory, batch.src_lengths, cache=cache)
    chosen = {module: (keys[rows], values[rows]) for module, (keys, values) in cache.items()}
    ids = torch.tensor([[1, 7], [1, 8], [1, 9]])
    states = model.decode(ids[:, 1:], memory[rows], batch.src_lengths[rows], cache=chosen)
    expected = model.decode(ids, memory[rows], batch.src_lengths[rows])[:, 1:]
    torch.testing.assert_close(states, expected, atol=1e-5, rtol=0)

"""Forced passes of the compiled decoder, compared with the definition and with the compiled search."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba", reason="numba compiles what is tested here")

from dragoman.bundle import Weights
from dragoman.config import InferenceSettings
from dragoman.data.batch import Batch, pad_ids
from dragoman.engines.choice import CompiledEngine, compile_weights
from dragoman.engines.compiled.engine import force_targets
from dragoman.engines.compiled.weights import CompiledWeights, position_tables
from dragoman.engines.interface import IdPair, Source
from dragoman.engines.tensors.engine import score_tokens
from dragoman.errors import DataError
from dragoman.inference.alignment import Aligner
from dragoman.kernels import library
from dragoman.model.transformer import Transformer
from dragoman.records import BOS_ID, EOS_ID, PAD_ID
from tests.contract.random_models import KINDS, random_transformer

VOCAB_SIZE = 150
KINDS_AND_HEADS = {**KINDS, "narrow heads": {"d_model": 60, "num_heads": 3}}


def model_of(kind: str) -> Transformer:
    return random_transformer(VOCAB_SIZE, **({"d_model": 32, "d_ff": 64} | KINDS_AND_HEADS[kind]))


def random_pairs(count: int, longest: int = 25) -> list[IdPair]:
    rng = random.Random(7)
    sides = [[rng.randint(3, VOCAB_SIZE - 1) for _ in range(rng.randint(0, longest))] for _ in range(2 * count)]
    return list(zip(sides[:count], sides[count:], strict=True))


def padded(pairs: Sequence[IdPair]) -> Batch:
    src = pad_ids([[*src, EOS_ID] for src, _ in pairs], PAD_ID)
    tgt, tgt_lengths = pad_ids([[BOS_ID, *tgt, EOS_ID] for _, tgt in pairs], PAD_ID)
    return Batch(*src, tgt, tgt_lengths - 1)


@torch.inference_mode()
@pytest.mark.parametrize("kind", KINDS_AND_HEADS)
def test_a_forced_pass_equals_the_definition(kind: str) -> None:
    model, pairs = model_of(kind), random_pairs(60)
    batch, weights = padded(pairs), compile_weights(Weights.of(model), "float32")
    log_probs = score_tokens(model, batch).numpy()
    cross = model.attention(batch.src_ids, batch.src_lengths, batch.decoder_input).cross
    for layer in range(weights.num_layers):
        found = force_targets(weights, pairs, layer=layer)
        for row, ((src, tgt), one) in enumerate(zip(pairs, found, strict=True)):
            expected = cross[layer][row, :, : len(tgt) + 1, : len(src) + 1]
            np.testing.assert_allclose(one.attention, expected, atol=1e-5)
            np.testing.assert_allclose(one.log_probs, log_probs[row, : len(tgt) + 1], atol=3e-5)
    weights_only = force_targets(weights, pairs, layer=layer, with_log_probs=False)
    assert all((one.attention == other.attention).all() for one, other in zip(weights_only, found, strict=True))


def test_an_aligner_reads_the_same_attention_without_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    model, pairs = model_of("post-norm, separate"), random_pairs(9)
    found = Aligner([Weights.of(model)], None).weights(pairs)  # type: ignore[arg-type]
    monkeypatch.setattr(library, "is_available", lambda: False)
    expected = Aligner([Weights.of(model)], None).weights(pairs)  # type: ignore[arg-type]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert any((one != other).any() for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("precision", ["float32", "int16", "int8"])
def test_log_probabilities_are_those_of_the_search_to_the_last_bit(precision: str) -> None:
    model, rows = model_of("narrow heads"), [src for src, _ in random_pairs(12) if src]
    chosen = InferenceSettings(beam_size=3, n_best=3, max_extra_tokens=20)
    found = CompiledEngine(Weights.of(model), precision).search(
        [Source(str(n), row) for n, row in enumerate(rows)], chosen
    )
    pairs = [(row, h.ids) for row, hypotheses in zip(rows, found, strict=True) for h in hypotheses]
    forced = iter(force_targets(compile_weights(Weights.of(model), precision), pairs))
    for hypotheses in found:
        for h in hypotheses:
            assert tuple(next(forced).log_probs.tolist())[: len(h.token_log_probs)] == h.token_log_probs


def test_a_pair_does_not_depend_on_the_other_pairs() -> None:
    weights, pairs = compile_weights(Weights.of(model_of("marian")), "float32"), random_pairs(300)
    for pair, together in zip(pairs[:4], force_targets(weights, pairs, layer=0), strict=False):
        (alone,) = force_targets(weights, [pair], layer=0)
        assert (alone.log_probs == together.log_probs).all()
        assert (alone.attention == together.attention).all()


@pytest.mark.parametrize(
    ("pair", "options", "error"),
    [
        (([VOCAB_SIZE], [4]), {}, r"^the ids of side 0 of a pair must be below 150$"),
        (([4], [-1]), {}, r"^the ids of side 1 of a pair must be below 150$"),
        (([4], [4]), {"layer": 2}, r"^`layer` must be from 0 to 1, but is 2$"),
    ],
)
def test_wrong_ids_and_layers_are_refused(pair: IdPair, options: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        force_targets(compile_weights(Weights.of(model_of("pre-norm")), "float32"), [pair], **options)


@pytest.mark.parametrize("kind", ["pre-norm", "marian", "learned positions, gelu"])
def test_positions_equal_those_of_the_definition_to_the_last_bit(kind: str) -> None:
    model = random_transformer(VOCAB_SIZE, **(KINDS[kind] | {"d_model": 512, "d_ff": 16}))
    for table, embedding in zip(
        position_tables(model.settings, model.arrays()), (model.src_embedding, model.tgt_embedding), strict=True
    ):
        length = 90 if model.max_positions else 2000
        np.testing.assert_array_equal(table(3, length), embedding.table(3, length).detach())


def test_tokens_beyond_the_learned_positions_are_refused() -> None:
    model = model_of("learned positions, gelu")
    weights = CompiledWeights(model.settings, model.arrays(), "float32")
    assert len(force_targets(weights, [([5] * 99, [6] * 99)])[0].log_probs) == 100
    with pytest.raises(
        DataError, match=r"^`tgt_ids` must have at most 100 tokens, the learned positions .* has 101\.$"
    ):
        force_targets(weights, [([5], [6] * 100)])

"""The validation loss: which pairs count, and when the loss with wrong sources is measured."""

import math

import numpy as np
import pytest
import torch

from dragoman.config import ModelSettings
from dragoman.data.store import InMemoryPairs
from dragoman.model.transformer import Transformer
from dragoman.training.session import count_labels, dev_losses, fitting, guessing_loss, initialize_bias

SHAPE = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}


def _model(**settings) -> Transformer:
    torch.manual_seed(0)
    return Transformer(ModelSettings(**SHAPE, **settings), 50, 50).eval()


def _pairs(*lengths: int) -> InMemoryPairs:
    rngs = np.random.default_rng(1), np.random.default_rng(2)
    return InMemoryPairs(*([rng.integers(4, 50, length).tolist() for length in lengths] for rng in rngs))


def test_pairs_that_training_leaves_out_do_not_count() -> None:
    model, short = _model(), (3, 7, 12)
    expected = pytest.approx(dev_losses(model, _pairs(*short), 12)["loss"])
    assert dev_losses(model, _pairs(*short, 400), 12)["loss"] == expected
    assert dev_losses(model, _pairs(*short, 400), 400)["loss"] != expected
    learned = _model(positions="learned", max_positions=8)
    assert fitting(learned, _pairs(*short, 8), np.arange(4), 250).tolist() == [True, True, False, False]
    assert fitting(model, _pairs(*short, 8), np.arange(4), 7).tolist() == [True, True, False, False]


def test_losses_by_source_are_missing_for_a_few_pairs() -> None:
    assert dev_losses(_model(), _pairs(*[5] * 9), 250).keys() == {"loss"}
    enough = dev_losses(_model(), _pairs(*[5] * 10), 250)
    assert enough["own_source_loss"] == pytest.approx(enough["loss"])
    assert enough["other_source_loss"] != pytest.approx(enough["own_source_loss"])


def test_the_loss_of_guessing_is_the_entropy_of_the_targets() -> None:
    pairs = InMemoryPairs([[5], [5]], [[6, 7], [6, 8]])
    assert count_labels(pairs, 10).tolist() == [0, 0, 2, 0, 0, 0, 2, 1, 1, 0]
    assert guessing_loss(count_labels(pairs, 10)) == pytest.approx(-(4 / 6 * math.log(2 / 6) + 2 / 6 * math.log(1 / 6)))
    many = InMemoryPairs([[5]] * 60_000, [[6]] * 30_000 + [[7]] * 30_000)
    assert guessing_loss(count_labels(many, 10)) == pytest.approx(-(0.5 * math.log(0.5) + 0.5 * math.log(0.25)))


def test_a_model_that_knows_the_frequencies_starts_with_the_loss_of_guessing() -> None:
    pairs, model = InMemoryPairs([[5]] * 40, [[6, 7, 6, 8]] * 40), _model()
    assert dev_losses(model, pairs, 250)["loss"] > 2
    counts = count_labels(pairs, model.tgt_vocab_size)
    initialize_bias(model, counts)
    with torch.no_grad():
        model.projection.weight.zero_()
    # Each of the other tokens counts half a label, beside 5 labels in each of 40 pairs.
    unseen = 0.5 * (model.tgt_vocab_size - 4)
    expected = guessing_loss(counts) + math.log((200 + unseen) / 200)
    assert dev_losses(model, pairs, 250)["loss"] == pytest.approx(expected, abs=1e-4)

"""The validation loss: which pairs count, and when the loss with wrong sources is measured."""

import math

import numpy as np
import pytest
import torch

from dragoman.config import ModelSettings
from dragoman.data.store import InMemoryPairs
from dragoman.model.transformer import Transformer
from dragoman.training.session import dev_losses, fitting, guessing_loss

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
    assert guessing_loss(pairs) == pytest.approx(-(4 / 6 * math.log(2 / 6) + 2 / 6 * math.log(1 / 6)))
    many = InMemoryPairs([[5]] * 6000, [[6]] * 3000 + [[7]] * 3000)
    assert guessing_loss(many) == pytest.approx(-(0.5 * math.log(0.5) + 0.5 * math.log(0.25)))

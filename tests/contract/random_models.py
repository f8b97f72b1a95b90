"""Small random Transformers of every kind, and a comparison of the outputs of two searches."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from dragoman.config import ModelSettings
from dragoman.model.transformer import Transformer
from dragoman.records import Hypothesis

BOS_ID, EOS_ID = 1, 2
KINDS: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "post-norm, separate": {"norm_first": False, "tie": "none"},
    "learned positions, gelu": {"positions": "learned", "max_positions": 100, "activation": "gelu"},
    "no attention bias, swish": {"attention_bias": False, "projection_bias": True, "activation": "swish"},
    "marian": {"positions": "marian", "norm_first": False, "projection_bias": True, "activation": "swish"},
    "more decoder layers": {"num_encoder_layers": 1, "num_decoder_layers": 3, "num_heads": 1, "d_ff": 70},
}
SHAPE = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 2}


def random_transformer(vocab_size: int, seed: int = 3, deviation: float = 0.4, **shape: Any) -> Transformer:
    """Return a model with sharp distributions that depend on the source. An untrained model's are nearly uniform."""
    torch.manual_seed(seed)
    model = Transformer(ModelSettings(preset="custom", **SHAPE | shape), vocab_size, vocab_size)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=deviation)
    return model.eval()


def assert_same(found: Sequence[Sequence[Hypothesis]], expected: Sequence[Sequence[Hypothesis]]) -> None:
    """Check that two searches found the same outputs, with scores within 1e-4."""
    assert [[h.ids for h in one] for one in found] == [[h.ids for h in one] for one in expected]
    for one, other in zip(found, expected, strict=True):
        for h, g in zip(one, other, strict=True):
            assert h.finished == g.finished
            assert h.score == pytest.approx(g.score, abs=1e-4)
            assert h.log_prob == pytest.approx(g.log_prob, abs=1e-4)
            assert h.token_log_probs == pytest.approx(g.token_log_probs, abs=1e-4)

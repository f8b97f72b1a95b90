import numpy as np
import pytest
import torch
from scipy import stats

from dragoman.bundle import Model
from dragoman.model.transformer import AttentionWeights
from dragoman.visualization.inspection.attributions import collect_weights, decode_weights
from dragoman.visualization.inspection.inspection import Inspection
from dragoman.visualization.inspection.inspector import inspect_text

SRC, TGT = ("a", "b", "c"), ("x", "y")


@pytest.fixture
def attention() -> AttentionWeights:
    torch.manual_seed(0)

    def layers(count: int, queries: int, keys: int) -> tuple[torch.Tensor, ...]:
        return tuple(torch.rand(1, 2, queries, keys).softmax(-1) for _ in range(count))

    return AttentionWeights(layers(3, 4, 4), layers(2, 3, 3), layers(2, 3, 4))


def test_bytes_match_the_weights_within_a_five_hundredth(attention: AttentionWeights) -> None:
    found = collect_weights(attention, SRC, TGT)
    assert [one.kind for one in found] == ["cross", "encoder_self", "decoder_self"]
    assert (found[0].queries, found[0].keys) == (("<s>", "x", "y"), ("a", "b", "c", "</s>"))
    for one in found:
        exact = torch.stack([layer[0] for layer in getattr(attention, one.kind)]).numpy()
        assert decode_weights(one).shape == exact.shape
        assert np.abs(decode_weights(one) - exact).max() <= 0.002


def test_facts_of_a_head(attention: AttentionWeights) -> None:
    cross, encoder, decoder = collect_weights(attention, SRC, TGT)
    weights = attention.encoder_self[1][0, 1].numpy()
    facts = encoder.heads[1][1]
    assert facts.entropy_bits == pytest.approx(stats.entropy(weights, base=2, axis=1).mean(), abs=1e-3)
    distances = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    assert facts.distance == pytest.approx((weights * distances).sum(1).mean(), abs=1e-3)
    assert facts.end_share == pytest.approx(weights[:, 3].mean(), abs=1e-3)
    assert decoder.heads[0][0].end_share == pytest.approx(attention.decoder_self[0][0, 0, :, 0].mean().item(), abs=1e-3)
    diagonal = np.abs(np.arange(4)[None] - np.arange(3)[:, None] * 4 / 3)
    expected = (attention.cross[0][0, 0].numpy() * diagonal).sum(1).mean()
    assert cross.heads[0][0].distance == pytest.approx(expected, abs=1e-3)


def test_a_head_with_one_hot_weights_has_no_entropy() -> None:
    sure = (torch.eye(3)[None, None],)
    facts = collect_weights(AttentionWeights(sure, sure, sure), ("a", "b"), ("x", "y"))[1].heads[0][0]
    assert (facts.entropy_bits, facts.distance) == (0.0, 0.0)


def test_long_sides_keep_the_mean_only() -> None:
    layer = (torch.rand(1, 2, 201, 201).softmax(-1),)
    assert not collect_weights(AttentionWeights(layer, layer, layer), ["a"] * 200, ["b"] * 200)[0].mean_only
    layer = (torch.rand(1, 2, 202, 202).softmax(-1),)
    one = collect_weights(AttentionWeights(layer, layer, layer), ["a"] * 201, ["b"] * 201)[0]
    assert one.mean_only
    assert np.abs(decode_weights(one)[0, 0] - layer[0][0].mean(0).numpy()).max() <= 0.002


def test_an_inspection_labels_every_token(trained: Model) -> None:
    inspection: Inspection = inspect_text(trained, "one two")
    cross = inspection.of_kind("cross")
    assert cross.queries == ("<s>", *inspection.tgt.tokens)
    assert cross.keys == (*inspection.src.tokens, "</s>")

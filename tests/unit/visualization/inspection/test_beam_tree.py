from dataclasses import replace

import pytest
import torch

from dragoman.bundle import Model
from dragoman.config import InferenceSettings
from dragoman.engines.search.beam import beam_search
from dragoman.engines.tensors.fast_model import FastModel
from dragoman.records import EOS_ID
from dragoman.visualization.inspection.beam_tree import trace_search

SOURCES = [[5, 6, 7], [8], [4, 9, 10, 11, 12]]


@pytest.mark.parametrize("src", SOURCES)
@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("min_tokens", [0, 3])
def test_tracing_keeps_the_result_and_the_tree_contains_the_best(
    trained: Model, src: list[int], beam_size: int, min_tokens: int
) -> None:
    settings = InferenceSettings(beam_size=beam_size, n_best=beam_size, max_extra_tokens=4, min_tokens=min_tokens)
    model, tokenizer = FastModel(trained.transformer), trained.tokenizers.tgt
    hypotheses, nodes = trace_search(trained, src, settings)
    ids = torch.tensor([[*src, EOS_ID]])
    assert hypotheses == beam_search(model, ids, torch.tensor([ids.size(1)]), settings)[0]
    best = [node for node in nodes if node.best]
    expected = [*hypotheses[0].ids, *([EOS_ID] if hypotheses[0].finished else [])]
    assert [node.token for node in best] == tokenizer.tokens(expected)
    assert [node.position for node in best] == list(range(len(expected)))
    assert best[-1].log_prob == pytest.approx(hypotheses[0].log_prob, abs=1e-3)


def test_parents_were_kept_and_pruned_nodes_are_less_likely(trained: Model) -> None:
    settings = InferenceSettings(beam_size=3, n_best=3, max_extra_tokens=6)
    _, nodes = trace_search(trained, SOURCES[2], settings)
    for node in nodes:
        if node.parent >= 0:
            parent = nodes[node.parent]
            assert parent.state == "kept"
            assert parent.position == node.position - 1
            assert parent.log_prob >= node.log_prob
        else:
            assert node.position == 0
    for position in range(max(node.position for node in nodes)):
        level = [node for node in nodes if node.position == position]
        kept = [node.log_prob for node in level if node.state == "kept"]
        pruned = [node.log_prob for node in level if node.state == "pruned" and node.token != "</s>"]
        assert 1 <= len(kept) <= 3
        assert len(level) <= 6
        assert max(pruned) <= min(kept)
    assert {node.state for node in nodes} >= {"kept", "pruned"}


def test_nodes_in_the_final_beam_are_open(trained: Model) -> None:
    settings = InferenceSettings(beam_size=3, n_best=3, max_extra_tokens=1, min_tokens=8)
    hypotheses, nodes = trace_search(trained, SOURCES[2], settings)
    assert not hypotheses[0].finished
    last = max(node.position for node in nodes)
    assert [node.state for node in nodes if node.position == last][:3] == ["open"] * 3
    assert {node.state for node in nodes if node.best} == {"kept", "open"}
    assert all(node.position == last for node in nodes if node.state == "open")


def test_a_beam_of_one_keeps_one_node_per_step(trained: Model) -> None:
    settings = replace(trained.config.inference, beam_size=1, n_best=1)
    _, nodes = trace_search(trained, [5, 6], settings)
    assert all(node.best for node in nodes if node.state == "kept")


@pytest.mark.parametrize("prefix", [[9], [9, 30, 12], [9, 30, EOS_ID]])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_forced_tokens_are_in_the_tree_beside_the_best_tokens(
    trained: Model, prefix: list[int], beam_size: int
) -> None:
    settings = InferenceSettings(beam_size=beam_size, n_best=beam_size, max_extra_tokens=4)
    model, tokenizer = FastModel(trained.transformer), trained.tokenizers.tgt
    hypotheses, nodes = trace_search(trained, SOURCES[0], settings, prefix)
    ids = torch.tensor([[*SOURCES[0], EOS_ID]])
    assert hypotheses == beam_search(model, ids, torch.tensor([ids.size(1)]), settings, [prefix])[0]
    _, free = trace_search(trained, SOURCES[0], settings)
    best = [node for node in nodes if node.best]
    expected = [*hypotheses[0].ids, *([EOS_ID] if hypotheses[0].finished else [])]
    assert [node.token for node in best] == tokenizer.tokens(expected)
    assert best[-1].log_prob == pytest.approx(hypotheses[0].log_prob, abs=1e-3)
    for position in range(len(prefix)):
        level = [node for node in nodes if node.position == position]
        assert [node.token for node in level if node.state in ("kept", "ended")] == tokenizer.tokens([prefix[position]])
    first = {node.token: node.log_prob for node in nodes if node.position == 0}
    assert {node.token: node.log_prob for node in free if node.position == 0}.items() <= first.items()

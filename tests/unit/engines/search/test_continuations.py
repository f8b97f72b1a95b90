"""The best continuations equal those of a full sort, with and without blocks."""

import pytest
import torch

from dragoman.engines.search import continuations
from dragoman.engines.search.continuations import Constraints, best_continuations
from dragoman.engines.search.step_model import Predictions
from dragoman.records import EOS_ID, NEVER_WRITTEN

NONE = float("-inf")


@pytest.mark.parametrize("vocab_size", [30, 2400, 2401, 2599])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("count", [2, 10, 300])
@pytest.mark.parametrize("as_logits", [False, True])
def test_best_continuations_equal_a_full_sort(
    vocab_size: int, width: int, count: int, as_logits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(vocab_size)
    monkeypatch.setattr(continuations, "_LOGITS_AT_ONCE", {"cpu": 2 * width * vocab_size})  # three groups
    monkeypatch.setattr(continuations, "_FEW", 50)
    before, logits = -torch.rand(5, width), torch.randn(5 * width, vocab_size)
    before[3, 1:] = NONE  # one hypothesis only
    prefixes = torch.tensor([[-1], [7], [EOS_ID], [9], [-1]])
    constraints = Constraints(torch.full((5,), 9), prefixes, min_tokens=1)
    allowed = torch.ones(5, width, vocab_size, dtype=torch.bool)
    allowed[:, :, [*NEVER_WRITTEN, EOS_ID]] = False
    for sentence, (token,) in enumerate(prefixes.tolist()):
        if token >= 0:
            allowed[sentence] = False
            allowed[sentence, :, token] = True
    log_probs = logits.log_softmax(1).view(5, width, vocab_size)
    totals = (before[:, :, None] + log_probs).masked_fill(~allowed, NONE).flatten(1)
    expected = totals.sort(dim=1, descending=True)
    scale = torch.tensor(2.0).log()
    predictions = (
        Predictions(logits / scale, vocab_size, torch.clone)
        if as_logits
        else Predictions.of(log_probs.flatten(0, 1).clone())
    )
    found = best_continuations(predictions, before, constraints, 0, count)
    size = min(count, width * vocab_size)
    torch.testing.assert_close(found.log_probs, expected.values[:, :size], atol=1e-5, rtol=0)
    places = found.parents * vocab_size + found.ids
    exist = found.log_probs > NONE
    assert torch.equal(places[exist], expected.indices[:, :size][exist])
    torch.testing.assert_close(found.token_log_probs[exist], log_probs.flatten(1).gather(1, places)[exist])

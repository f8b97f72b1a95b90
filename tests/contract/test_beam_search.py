"""Beam search against enumeration and against a plain search of one sentence, on tables of probabilities."""

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.config import InferenceSettings
from dragoman.data.batch import pad_ids
from dragoman.engines.search.beam import beam_search
from dragoman.records import Hypothesis

EOS_ID, FIRST_LETTER = 2, 4
quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
alphas = st.sampled_from([0.0, 0.6, 1.0])
penalties = st.sampled_from(["paper", "power"])
sharpnesses = st.sampled_from([0.5, 2.0, 5.0])
sources = st.lists(st.integers(4, 6), max_size=2).map(lambda letters: [*letters, EOS_ID])
source_batches = st.lists(sources, min_size=1, max_size=4)


def search(model: Any, batch: list[list[int]], settings: InferenceSettings, prefixes: Any = None) -> Any:
    return beam_search(model, *pad_ids(batch, 0), settings, prefixes)


def assert_best(found: list[Hypothesis], possible: list[Hypothesis], n_best: int) -> None:
    """Check that `found` are the first `n_best` of all `possible` outputs, with their scores and without duplicates.

    The search computes in float32, so outputs with almost equal scores may change places.
    """
    expected = possible[:n_best]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], rel=1e-5, abs=1e-5)
    assert [h.finished for h in found] == [h.finished for h in expected]
    by_ids = {(h.ids, h.finished): h for h in possible}
    assert len({(h.ids, h.finished) for h in found}) == len(found)
    for one in found:
        other = by_ids[one.ids, one.finished]
        assert one.token_log_probs == pytest.approx(other.token_log_probs, rel=1e-5, abs=1e-5)
        assert one.log_prob == pytest.approx(other.log_prob, rel=1e-5, abs=1e-5)
        assert one.score == pytest.approx(other.score, rel=1e-5, abs=1e-5)


def plain_beam_search(model: Any, source: list[int], limit: int, settings: InferenceSettings) -> list[Hypothesis]:
    """The same search for one sentence, with lists, and without the bound that stops early."""
    live: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    done: list[Hypothesis] = []
    size = settings.beam_size
    for position in range(limit):
        continued = [
            ((*ids, token), total + log_prob)
            for ids, total in live
            for token, log_prob in enumerate(model.log_probs(source, ids))
            if token == EOS_ID or token >= FIRST_LETTER
        ]
        ranked = sorted(continued, key=lambda item: -item[1])
        ended = [ids[:-1] for ids, _ in ranked[:size] if ids[-1] == EOS_ID]
        done += [model.hypothesis(source, ids, settings, finished=True) for ids in ended]
        if position + 1 == limit:
            cut = [ids for ids, _ in ranked[:size] if ids[-1] != EOS_ID]
            done += [model.hypothesis(source, ids, settings, finished=False) for ids in cut]
        live = [item for item in ranked if item[0][-1] != EOS_ID][:size]
        scores = sorted((one.score for one in done), reverse=True)[:size]
        if len(scores) == size and live:
            base = (6 + position) / 6 if settings.length_penalty == "paper" else position + 1
            if scores[-1] >= live[0][1] / base**settings.length_penalty_alpha:
                break
    return sorted(done, key=lambda h: (not h.finished, -h.score))[: settings.n_best]


@quick
@given(
    st.integers(0, 10**6),
    st.integers(1, 3),
    source_batches,
    alphas,
    penalties,
    sharpnesses,
    st.integers(1, 9),
    st.integers(0, 2),
)
def test_a_beam_as_wide_as_the_space_equals_exhaustive_search(
    table_model: Any,
    seed: int,
    letters: int,
    batch: Any,
    alpha: float,
    penalty: Any,
    sharpness: float,
    n_best: int,
    min_tokens: int,
) -> None:
    model = table_model(seed, letters, sharpness)
    wide = InferenceSettings(
        min_tokens=min_tokens,
        beam_size=200,
        n_best=n_best,
        length_penalty_alpha=alpha,
        length_penalty=penalty,
        max_extra_tokens=1,
    )
    for source, found in zip(batch, search(model, batch, wide), strict=True):
        assert_best(found, model.outputs(source, len(source) + 1, wide), n_best)


@quick
@given(st.integers(0, 10**6), source_batches, alphas, penalties)
def test_a_search_for_all_outputs_returns_all(
    table_model: Any, seed: int, batch: Any, alpha: float, penalty: Any
) -> None:
    model = table_model(seed, 2)
    everything = InferenceSettings(
        min_tokens=0, beam_size=200, n_best=200, length_penalty_alpha=alpha, length_penalty=penalty, max_extra_tokens=1
    )
    for source, found in zip(batch, search(model, batch, everything), strict=True):
        assert_best(found, model.outputs(source, len(source) + 1, everything), 200)


@quick
@given(
    st.integers(0, 10**6), st.integers(1, 5), source_batches, alphas, penalties, sharpnesses, st.integers(1, 7),
    st.integers(1, 12), st.data(),
)  # fmt: skip
def test_stopping_early_and_batching_do_not_change_the_result(
    table_model: Any, seed: int, letters: int, batch: Any, alpha: float, penalty: Any, sharpness: float, beam_size: int,
    extra: int, data: Any,
) -> None:  # fmt: skip
    n_best = data.draw(st.integers(1, beam_size))
    chosen = InferenceSettings(
        min_tokens=0,
        beam_size=beam_size,
        n_best=n_best,
        length_penalty_alpha=alpha,
        length_penalty=penalty,
        max_extra_tokens=extra,
    )
    model = table_model(seed, letters, sharpness)
    for source, found in zip(batch, search(model, batch, chosen), strict=True):
        assert_best(found, plain_beam_search(model, source, len(source) + extra, chosen), n_best)
        finished = [h.score for h in found if h.finished]
        assert finished == sorted(finished, reverse=True)
        assert len({h.ids for h in found}) == len(found)
        assert [found] == search(model, [source], chosen)


def test_a_worse_start_can_win_by_its_length(table_model: Any) -> None:
    class LongIsSure(table_model):  # type: ignore[misc]
        def log_probs(self, source: Any, written: Any) -> list[float]:
            if not written:
                return [-9.0, -9.0, -1.0, -9.0, -1.2, -9.0, -9.0]
            sure = EOS_ID if len(written) == 7 else FIRST_LETTER
            return [0.0 if token == sure else -20.0 if token == EOS_ID else -9.0 for token in range(self.vocab_size)]

    model = LongIsSure(0, 3)
    for penalty, score in (("power", -1.2 / 8), ("paper", -1.2 / (13 / 6))):
        chosen = InferenceSettings(min_tokens=0, beam_size=2, length_penalty_alpha=1.0, length_penalty=penalty)  # type: ignore[arg-type]
        [[found]] = search(model, [[4, EOS_ID]], chosen)
        assert len(found.ids) == 7
        assert found.score == pytest.approx(score)
    [[found]] = search(model, [[4, EOS_ID]], InferenceSettings(min_tokens=0, beam_size=2, length_penalty_alpha=0.0))
    assert found.ids == ()


def test_a_search_ends_when_no_live_hypothesis_can_win(table_model: Any) -> None:
    class EndsAtOnce(table_model):  # type: ignore[misc]
        def log_probs(self, source: Any, written: Any) -> list[float]:
            return [-0.01 if token == EOS_ID else -9.0 for token in range(self.vocab_size)]

    model = EndsAtOnce(0, 9)
    search(model, [[4, EOS_ID]], InferenceSettings(min_tokens=0, beam_size=8))
    assert len(model.rows_seen) == 1


@quick
@given(st.integers(0, 10**6), st.integers(1, 5), source_batches, alphas)
def test_a_beam_of_one_is_greedy(table_model: Any, seed: int, letters: int, batch: Any, alpha: float) -> None:
    model = table_model(seed, letters)
    for source, [found] in zip(
        batch,
        search(
            model, batch, InferenceSettings(min_tokens=0, beam_size=1, length_penalty_alpha=alpha, max_extra_tokens=9)
        ),
        strict=True,
    ):
        ids: list[int] = []
        while len(ids) < len(source) + 9 and EOS_ID not in ids:
            log_probs = model.log_probs(source, ids)
            ids.append(max([EOS_ID, *range(FIRST_LETTER, model.vocab_size)], key=lambda token: log_probs[token]))
        assert found.finished == (ids[-1] == EOS_ID)
        assert list(found.ids) == [token for token in ids if token != EOS_ID]


@quick
@given(
    st.integers(0, 10**6),
    st.lists(st.tuples(sources, st.lists(st.integers(3, 6), max_size=5)), min_size=1, max_size=4),
    alphas,
)
def test_a_prefix_is_kept_exactly_and_counts_in_the_score(
    table_model: Any, seed: int, pairs: Any, alpha: float
) -> None:
    model = table_model(seed, 3)
    wide = InferenceSettings(min_tokens=0, beam_size=150, n_best=3, length_penalty_alpha=alpha, max_extra_tokens=2)
    batch, prefixes = [source for source, _ in pairs], [prefix for _, prefix in pairs]
    for source, prefix, found in zip(batch, prefixes, search(model, batch, wide, prefixes), strict=True):
        limit = max(len(source) + 2, len(prefix) + 1)
        assert_best(found, model.outputs(source, limit, wide, tuple(prefix)), 3)
        assert all(h.ids[: len(prefix)] == tuple(prefix) for h in found)


def test_equal_scores_give_the_same_result_in_every_batch(table_model: Any) -> None:
    class Level(table_model):  # type: ignore[misc]
        def log_probs(self, source: Any, written: Any) -> list[float]:
            return [-2.0] * self.vocab_size

    model = Level(0, 3)
    chosen = InferenceSettings(min_tokens=0, beam_size=4, n_best=4, max_extra_tokens=3)
    alone = search(model, [[4, EOS_ID]], chosen)
    assert search(model, [[4, 5, 5, EOS_ID], [4, EOS_ID], [EOS_ID]], chosen)[1:2] == alone


def test_finished_sentences_leave_the_batch(table_model: Any) -> None:
    class Early(table_model):  # type: ignore[misc]
        def log_probs(self, source: Any, written: Any) -> list[float]:
            end = len(written) >= len(source) - 1
            return [-9.0 if (token == EOS_ID) != end else -1.0 for token in range(self.vocab_size)]

    model = Early(0, 1)
    found = search(model, [[4] * n + [EOS_ID] for n in (1, 5, 3)], InferenceSettings(min_tokens=0, beam_size=1))
    assert [len(h.ids) for [h] in found] == [1, 5, 3]
    assert model.rows_seen == [3, 3, 2, 2, 1, 1]


def test_the_length_limit_of_the_model_is_kept(table_model: Any) -> None:
    model = table_model(1, 2, max_length=3)
    everything = InferenceSettings(min_tokens=0, beam_size=100, n_best=100, max_extra_tokens=50)
    [found] = search(model, [[4, EOS_ID]], everything)
    assert_best(found, model.outputs([4, EOS_ID], 3, everything), 100)


def test_an_empty_batch_is_empty_and_a_wrong_number_of_prefixes_is_an_error(table_model: Any) -> None:
    empty = torch.zeros(0, 1, dtype=torch.int64)
    assert beam_search(table_model(0, 2), empty, empty[:, 0], InferenceSettings()) == []
    with pytest.raises(ValueError, match="2 prefixes do not fit 1 sentences"):
        search(table_model(0, 2), [[EOS_ID]], InferenceSettings(), [[4], [5]])


def test_a_model_that_has_diverged_finds_nothing(table_model: Any) -> None:
    class Diverged(table_model):  # type: ignore[misc]
        def log_probs(self, source: Any, written: Any) -> list[float]:
            return [float("nan")] * self.vocab_size

    assert search(Diverged(0, 2), [[4, EOS_ID], [EOS_ID]], InferenceSettings()) == [[], []]

"""The compiled search agrees with a search by full passes: the same translations and scores, in any batch.

A beam may differ where two hypotheses tie except for rounding, as they do in random models. What it finds then has the
log-probabilities of the full pass.
"""

import os
import platform
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="needs numba")

from dragoman.bundle import Weights
from dragoman.config import InferenceSettings, ModelSettings
from dragoman.data.batch import pad_ids
from dragoman.engines.choice import CompiledEngine, Engines, compile_weights
from dragoman.engines.compiled.weights import unsupported_reason
from dragoman.engines.interface import Search, Source
from dragoman.engines.search.beam import beam_search
from dragoman.engines.search.step_model import FullPasses
from dragoman.errors import ModelError
from dragoman.kernels import library
from dragoman.kernels.compiling import can_compile
from dragoman.kernels.processor import BYTE_TARGETS, FEATURES
from dragoman.model.transformer import Transformer
from dragoman.records import Hypothesis
from tests.contract.random_models import EOS_ID, KINDS, assert_same, random_transformer

PREFIXES = [[5, 6], [], [7], [], [], [8, 5, 4], [], [], [2]]
PRECISIONS = ["float32", "int8", "int16"]


def transformer(kind: str, vocab_size: int, seed: int = 3, deviation: float = 0.3) -> Transformer:
    shape = {"d_model": 32, "d_ff": 64} | KINDS[kind]
    return random_transformer(vocab_size, seed, deviation, **shape)


def sources(vocab_size: int, seed: int, longest: int = 20, count: int = 9) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randint(4, vocab_size - 1) for _ in range(rng.randint(1, longest))] for _ in range(count)]


def searched(
    search: Search, rows: list[list[int]], chosen: InferenceSettings, prefixes: list[list[int]] | None = None
) -> list[list[Hypothesis]]:
    given_prefixes = prefixes or [[]] * len(rows)
    found = [
        Source(str(number), row, prefix) for number, (row, prefix) in enumerate(zip(rows, given_prefixes, strict=True))
    ]
    return search.search(found, chosen)


def by_full_passes(
    model: Transformer, rows: list[list[int]], chosen: InferenceSettings, prefixes: list[list[int]] | None = None
) -> list[list[Hypothesis]]:
    return beam_search(FullPasses(model), *pad_ids([[*row, EOS_ID] for row in rows], 0), chosen, prefixes)


@pytest.mark.parametrize("vocab_size", [pytest.param(16, marks=pytest.mark.slow), 3001])
@pytest.mark.parametrize("kind", KINDS)
def test_it_finds_the_same_as_full_passes(kind: str, vocab_size: int, assert_teacher_forced: Any) -> None:
    compared = different = 0
    for seed in range(6):
        model, rows = transformer(kind, vocab_size, seed), sources(vocab_size, seed)
        for beam_size, n_best, min_tokens, prefixes in ((1, 1, 1, None), (4, 3, 3, None), (4, 4, 0, PREFIXES)):
            chosen = InferenceSettings(
                beam_size=beam_size, n_best=n_best, min_tokens=min_tokens, max_extra_tokens=6, batch_tokens=300
            )
            found = searched(CompiledEngine(Weights.of(model), "float32"), rows, chosen, prefixes)
            expected = by_full_passes(model, rows, chosen, prefixes)
            assert all(found)
            assert_teacher_forced(model, [[*row, EOS_ID] for row in rows], found)
            if beam_size == 1:
                assert_same(found, expected)
            compared += len(rows)
            different += sum(
                [h.ids for h in one] != [h.ids for h in other] for one, other in zip(found, expected, strict=True)
            )
    assert different <= 0.03 * compared


@pytest.mark.parametrize("penalty", ["paper", "power"])
def test_searches_end_as_with_full_passes(penalty: Any) -> None:
    """Models with flatter distributions, whose hypotheses end at many lengths."""
    for seed in range(12):
        model, rows = transformer("pre-norm", 40, seed, deviation=0.15), sources(40, seed, 6)
        for alpha, n_best in ((0.0, 1), (1.0, 3), (2.5, 1)):
            chosen = InferenceSettings(
                beam_size=3, n_best=n_best, length_penalty_alpha=alpha, length_penalty=penalty, max_extra_tokens=12
            )
            assert_same(
                searched(CompiledEngine(Weights.of(model), "float32"), rows, chosen),
                by_full_passes(model, rows, chosen),
            )


@pytest.mark.parametrize("tie", ["decoder", "none"])
def test_vocabularies_of_two_sizes(tie: Any) -> None:
    torch.manual_seed(4)
    shape = {"d_model": 32, "d_ff": 64, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 2}
    model = Transformer(ModelSettings(preset="custom", tie=tie, **shape), 70, 130).eval()
    rows, chosen = sources(70, 1), InferenceSettings(beam_size=4, n_best=3, max_extra_tokens=30)
    assert_same(
        searched(CompiledEngine(Weights.of(model), "float32"), rows, chosen), by_full_passes(model, rows, chosen)
    )


@torch.inference_mode()
def test_long_sources_and_outputs_in_batches_that_fill_up_again() -> None:
    model = transformer("learned positions, gelu", 200)
    rows = sources(200, 5, longest=90, count=40)
    rows[3] = [5] * 99
    chosen = InferenceSettings(beam_size=1, max_extra_tokens=60, batch_tokens=350)
    assert_same(
        searched(CompiledEngine(Weights.of(model), "float32"), rows, chosen), by_full_passes(model, rows, chosen)
    )
    short = CompiledEngine(Weights.of(model), "float32", max_length=7)
    assert {len(one[0].token_log_probs) for one in searched(short, rows, chosen)} <= set(range(1, 8))


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from(["pre-norm", "more decoder layers"]),
    st.integers(0, 10**6),
    st.permutations(range(9)),
    st.integers(20, 2000),
    st.integers(1, 6),
    st.integers(1, 3),
)
def test_a_sentence_is_the_same_bit_for_bit_in_every_batch(
    computing_on: Any,
    precision: str,
    kind: str,
    seed: int,
    order: list[int],
    batch_tokens: int,
    beam_size: int,
    threads: int,
) -> None:
    search, rows = CompiledEngine(Weights.of(transformer(kind, 3001)), precision), sources(3001, seed)
    chosen = InferenceSettings(
        beam_size=beam_size, n_best=min(2, beam_size), max_extra_tokens=6, batch_tokens=batch_tokens
    )
    alone = [searched(search, [row], chosen)[0] for row in rows]
    with computing_on(threads):
        together = searched(search, [rows[number] for number in order], chosen)
    assert together == [alone[number] for number in order]


@pytest.mark.parametrize(("precision", "most"), [("int8", 0.15), ("int16", 0.005)])
def test_integer_products_are_close_to_float32(precision: str, most: float) -> None:
    """Where both find the same output, the log-probability of each token differs by at most `most`."""
    both = 0
    for seed in range(8):
        model, rows = transformer("pre-norm", 3001, seed, deviation=0.15), sources(3001, seed)
        chosen = InferenceSettings(beam_size=4, max_extra_tokens=4)
        for one, other in zip(
            searched(CompiledEngine(Weights.of(model), precision), rows, chosen),
            by_full_passes(model, rows, chosen),
            strict=True,
        ):
            if one[0].ids == other[0].ids:
                both += 1
                assert one[0].token_log_probs == pytest.approx(other[0].token_log_probs, abs=most)
    assert both > 36


def test_weights_changed_in_place_take_effect() -> None:
    model, rows = transformer("pre-norm", 30), sources(30, 2)
    search, chosen = Engines([Weights.of(model)]), InferenceSettings(beam_size=2, max_extra_tokens=6)
    before = searched(search, rows, chosen)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-0.7)
    after = searched(search, rows, chosen)
    assert after != before
    assert_same(after, by_full_passes(model, rows, chosen))


def test_unsupported_models_and_settings_use_another_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Precisions without compiled code, samples and ensembles. Without numba, everything."""
    rows, chosen = sources(30, 2), InferenceSettings(beam_size=2, max_extra_tokens=6)
    model = transformer("pre-norm", 30)
    assert [unsupported_reason(precision) for precision in ("float32", "int16", "int8")] == [""] * 3
    assert unsupported_reason("bfloat16") == "`inference.precision` bfloat16"
    monkeypatch.setattr("dragoman.kernels.processor.HAS_FMA", False)
    assert unsupported_reason("float32") == "a processor without FMA instructions"
    assert_same(
        searched(Engines([Weights.of(model), Weights.of(model)]), rows, chosen),
        by_full_passes(model, rows, chosen),
    )
    monkeypatch.setattr(library, "is_available", lambda: False)
    monkeypatch.setattr("dragoman.engines.choice.CompiledEngine", None)
    assert_same(searched(Engines([Weights.of(model)]), rows, chosen), by_full_passes(model, rows, chosen))


@pytest.mark.parametrize(("d_model", "num_heads"), [(16, 2), (60, 3), (32, 4)])
def test_heads_whose_width_is_no_multiple_of_16(d_model: int, num_heads: int) -> None:
    model, rows = random_transformer(600, d_model=d_model, num_heads=num_heads), sources(600, 4)
    search, chosen = (
        CompiledEngine(Weights.of(model), "float32"),
        InferenceSettings(beam_size=4, n_best=3, max_extra_tokens=6),
    )
    found = searched(search, rows, chosen, PREFIXES)
    assert_same(found, by_full_passes(model, rows, chosen, PREFIXES))
    assert list(final_results(search, rows, chosen)) == found


def test_wide_beams(assert_teacher_forced: Any) -> None:
    """Among 150 candidates, close ones may change places."""
    model, rows = transformer("pre-norm", 600, deviation=0.15), sources(600, 4, longest=8)
    search, chosen = (
        CompiledEngine(Weights.of(model), "float32"),
        InferenceSettings(beam_size=150, n_best=150, max_extra_tokens=2),
    )
    found, expected = searched(search, rows, chosen, PREFIXES), by_full_passes(model, rows, chosen, PREFIXES)
    for one, other in zip(found, expected, strict=True):
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)
    assert_teacher_forced(model, [[*row, EOS_ID] for row in rows], found)
    assert list(final_results(search, rows, chosen)) == found


def final_results(search: CompiledEngine, rows: list[list[int]], chosen: InferenceSettings) -> Iterator[Any]:
    """The results of streaming each row with its prefix."""
    for number, (row, prefix) in enumerate(zip(rows, PREFIXES, strict=True)):
        stream = search.stream(Source(str(number), row, prefix), chosen)
        while True:
            try:
                next(stream)
            except StopIteration as end:
                yield end.value
                break


def test_a_limit_that_no_output_reaches_takes_no_memory() -> None:
    model, rows = transformer("marian", 40), sources(40, 1)
    with torch.no_grad():
        model.projection.bias[EOS_ID] = 8.0  # outputs end
    chosen = InferenceSettings(beam_size=3, max_extra_tokens=10**7)
    expected = by_full_passes(model, rows, InferenceSettings(beam_size=3, max_extra_tokens=50))
    assert all(one[0].finished for one in expected)
    assert_same(searched(CompiledEngine(Weights.of(model), "float32"), rows, chosen), expected)


def test_ids_outside_the_vocabulary_are_refused() -> None:
    search, chosen = CompiledEngine(Weights.of(transformer("pre-norm", 30)), "float32"), InferenceSettings()
    with pytest.raises(ValueError, match=r"^a source's ids must be below 30$"):
        searched(search, [[5], [30]], chosen)
    with pytest.raises(ValueError, match=r"^a source's prefix must be below 30$"):
        searched(search, [[5], [6]], chosen, [[], [-1]])


def test_weights_that_are_not_finite_find_the_same_as_full_passes() -> None:
    model, rows, chosen = transformer("pre-norm", 30), sources(30, 2), InferenceSettings(beam_size=2)
    with torch.no_grad():
        model.projection.weight[7, 3] = float("nan")
    assert searched(CompiledEngine(Weights.of(model), "float32"), rows, chosen) == [[]] * len(rows)
    assert by_full_passes(model, rows, chosen) == [[]] * len(rows)


def test_giving_up_does_not_wait_for_a_sentence() -> None:
    from dragoman.engines.compiled.engine import Waiting, search_all

    weights, chosen = (
        compile_weights(Weights.of(transformer("pre-norm", 30)), "float32"),
        InferenceSettings(min_tokens=10**6),
    )
    found = [Source(str(number), row) for number, row in enumerate(sources(30, 2))]
    waiting = Waiting(found, InferenceSettings(max_extra_tokens=10**6), None, weights)
    timer = threading.Timer(0.5, waiting.give_up)
    timer.start()
    search_all(weights, waiting, chosen, workers=1)
    assert not any(waiting.found)


def test_a_broken_numba_is_noted_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    can_compile.cache_clear()
    monkeypatch.setitem(sys.modules, "dragoman.kernels", None)
    with pytest.warns(RuntimeWarning, match="numba cannot be used, so that training and translating are slower: "):
        assert not can_compile()
    can_compile.cache_clear()


def test_when_one_worker_fails_the_others_stop(monkeypatch: pytest.MonkeyPatch, computing_on: Any) -> None:
    from dragoman.engines.compiled import engine

    calls, given_up, give_up = count(), threading.Event(), engine.Waiting.give_up
    decode = engine._Batch._decode

    def failing_first(batch: Any, *arguments: Any) -> None:
        if next(calls) == 0:
            raise ModelError("it fails. Fix it.")
        given_up.wait(60)  # otherwise they would finish before it fails
        decode(batch, *arguments)

    seen: list[engine.Waiting] = []

    def noted(waiting: engine.Waiting) -> None:
        give_up(waiting)
        seen.append(waiting)
        given_up.set()

    monkeypatch.setattr(engine._Batch, "_decode", failing_first)
    monkeypatch.setattr(engine.Waiting, "give_up", noted)
    search = CompiledEngine(Weights.of(transformer("pre-norm", 30)), "float32")
    found = [Source(str(number), row) for number, row in enumerate(sources(30, 2, count=40))]
    with computing_on(3), pytest.raises(ModelError, match=r"^it fails\. Fix it\.$"):
        search.search(found, InferenceSettings(batch_tokens=20, max_extra_tokens=6))
    assert next(calls) <= 3
    assert sum(map(bool, seen[0].found)) <= 2


# Name and instruction sets of processors that this one can run code for, and what the products use. The last one has no
# code that is compiled ahead of time.
PROCESSORS = {
    target.name: (target.cpu, ",".join(f"+{name}" for name in target.features), products)
    for target, products in zip(
        BYTE_TARGETS, [(64, True, True), (64, False, True), (16, True, True), (16, False, True)], strict=True
    )
} | {"AVX": ("sandybridge", "+avx,+fma,+f16c,+sse4.2,+popcnt", (16, False, False))}
ON_ANOTHER_PROCESSOR = """
from dragoman.kernels.processor import PRODUCT_COLUMNS, HAS_BYTE_PRODUCTS, HAS_SHORT_PRODUCTS
from tests.contract.test_compiled_search import *
print((PRODUCT_COLUMNS, HAS_BYTE_PRODUCTS, HAS_SHORT_PRODUCTS))
for precision in ("float32", "int16", "int8"):
    print(on_this_processor(precision))
"""


def on_this_processor(precision: str) -> str:
    """Outputs and scores of a model with narrow heads."""
    model, rows = random_transformer(100, d_model=60, num_heads=3, d_ff=70), sources(100, 1)
    chosen = InferenceSettings(beam_size=3, n_best=2, max_extra_tokens=6)
    return str(searched(CompiledEngine(Weights.of(model), precision), rows, chosen))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="needs an x86")
@pytest.mark.slow
@pytest.mark.parametrize("processor", PROCESSORS)
def test_other_processors_find_the_same_to_the_last_bit(processor: str, tmp_path: Any) -> None:
    """Code for fewer instruction sets, compiled and run on this processor."""
    name, features, products = PROCESSORS[processor]
    if not {feature[1:] for feature in features.split(",")} <= FEATURES:
        pytest.skip("this processor cannot run it")
    emulated = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features, "XDG_CACHE_HOME": str(tmp_path)}
    command, root = [sys.executable, "-c", ON_ANOTHER_PROCESSOR], Path(__file__).parents[2]
    run = subprocess.run(command, env={**os.environ, **emulated}, cwd=root, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    expected = [str(products), *map(on_this_processor, ("float32", "int16", "int8"))]
    assert run.stdout.splitlines() == expected

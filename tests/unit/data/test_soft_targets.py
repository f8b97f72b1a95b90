"""Soft targets stay with their labels through files, steps, micro-batches and parts of batches."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.data.batch import Batch
from dragoman.data.soft_targets import SoftTargets, write_soft_targets
from dragoman.data.store import PairStore, write_store
from dragoman.data.stream import BatchStream, StepPlan
from dragoman.errors import DataError
from dragoman.text.tokenization.control_ids import EOS_ID, PAD_ID
from dragoman.training.step.gradients import first_rows, shares

VOCAB_SIZE = 300
ragged = st.lists(st.lists(st.integers(4, VOCAB_SIZE - 1), max_size=12), min_size=1, max_size=30)


def stored(folder: Path, targets: list[list[int]], key: str = "key") -> PairStore:
    with write_store(folder, key, VOCAB_SIZE, VOCAB_SIZE) as writer:
        writer.append([[5] * (len(ids) % 7 + 1) for ids in targets], targets)
    return PairStore(folder)


def taught(folder: Path, store: PairStore) -> SoftTargets:
    """Each label with a probability that depends on its place, and another token with the rest."""
    with write_soft_targets(folder, store, ["a teacher"], VOCAB_SIZE, kept=2) as writer:
        for index in range(len(store)):
            labels = np.append(store.tgt_ids(index), EOS_ID)
            ids, probs = np.full((len(labels), 2), PAD_ID), np.zeros((len(labels), 2))
            ids[:, 0], probs[:, 0] = labels, 1 / (1 + np.arange(len(labels)) % 3)
            ids[:, 1], probs[:, 1] = 4 + (labels == 4), 1 - probs[:, 0]
            writer.append(ids, probs)
    return SoftTargets(folder, store)


def check(batch: Batch) -> None:
    assert batch.soft_ids is not None
    assert batch.soft_probs is not None
    assert batch.soft_ids.shape == batch.soft_probs.shape == (*batch.labels.shape, 2)
    assert torch.equal(batch.soft_ids[..., 0], batch.labels)
    # Probabilities depend on the place; rounded ones sum to 1 again, and to 0 at padding.
    places = 1 / (1 + torch.arange(batch.labels.size(1)) % 3)
    counted = batch.labels != PAD_ID
    expected = places.expand(batch.labels.shape).masked_fill(~counted, 0.0)
    torch.testing.assert_close(batch.soft_probs[..., 0], expected, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(batch.soft_probs.sum(-1), counted.float(), atol=1e-6, rtol=0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(targets=ragged, workers=st.integers(1, 3), cut=st.integers(0, 10))
def test_they_stay_with_their_labels_wherever_these_go(
    tmp_path: Path, targets: list[list[int]], workers: int, cut: int
) -> None:
    store = stored(tmp_path / "train", targets)
    soft = taught(tmp_path / "teachers", store)
    assert soft.teachers == ("a teacher",)
    with BatchStream(store, StepPlan(batch_tokens=60, micro_batch_tokens=40, seed=1), soft=soft) as stream:
        batches = [batch for _ in range(4) for batch in next(stream).batches]
    for batch in batches:
        check(batch)
        check(batch.part(0, 1 + cut % len(batch.src_lengths)))
        check(first_rows(batch, 3))
    for share in shares(batches, workers):
        for batch in share:
            check(batch.to(torch.device("cpu")))


def test_pairs_beyond_the_numbers_of_32_bits_have_their_own_labels(tmp_path: Path) -> None:
    """Indices are 32-bit integers, as in steps."""
    store = stored(tmp_path / "train", [[7], [8, 9], [7, 7, 7]])
    store._tgt_offsets = store._tgt_offsets + (1 << 31)
    rows = [store.label_rows(np.int32(index)) for index in range(3)]  # type: ignore[arg-type]
    assert rows == [slice((1 << 31) + start, (1 << 31) + stop) for start, stop in ((0, 2), (2, 5), (5, 9))]


def test_without_teachers_batches_have_none(tmp_path: Path) -> None:
    with BatchStream(stored(tmp_path / "train", [[7], [8, 9]]), StepPlan(60, 40, seed=1)) as stream:
        batch = next(stream).batches[0]
    assert batch.soft_ids is batch.soft_probs is None
    assert batch.part(0, 1).soft_ids is None


def test_they_do_not_go_with_other_ids_than_those_they_were_said_of(tmp_path: Path) -> None:
    store = stored(tmp_path / "train", [[7], [8, 9]])
    soft = taught(tmp_path / "teachers", store)
    with pytest.raises(ValueError, match="stored ids"):
        BatchStream(store, StepPlan(60, 40, seed=1), encode=lambda index, epoch: ([7], [7]), soft=soft)
    with pytest.raises(DataError, match="was made from other pairs"):
        SoftTargets(tmp_path / "teachers", stored(tmp_path / "other", [[7], [9, 8]], "other"))


@pytest.mark.parametrize("file", ["ids", "probs", "manifest.json"])
def test_what_is_damaged_is_not_read(tmp_path: Path, file: str) -> None:
    store = stored(tmp_path / "train", [[7], [8, 9]])
    taught(tmp_path / "teachers", store)
    content = bytearray((tmp_path / "teachers" / file).read_bytes())
    content[-3] ^= 1
    (tmp_path / "teachers" / file).write_bytes(content)
    with pytest.raises(DataError, match="is incomplete"):
        SoftTargets(tmp_path / "teachers", store)

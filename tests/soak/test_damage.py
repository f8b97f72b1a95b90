"""Damaged checkpoints and models: the error names the file before anything is computed."""

import random
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from dragoman.bundle import Model
from dragoman.errors import DragomanError
from dragoman.model.transformer import Transformer
from dragoman.training.run.checkpoint import restore_checkpoint
from dragoman.training.session import TrainingSession
from dragoman.training.step.optimizer import build_optimizer
from dragoman.training.trainer import fit
from tests.soak.conftest import Report
from tests.soak.runs import make_session, override_train, phrasebook_texts


def flip_bit(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def zero_block(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(max(1, len(content) - 4096))
    block = content[start : start + 4096]
    return content[:start] + bytes(len(block)) + content[start + 4096 :]


KINDS = {"bit flipped": (flip_bit, 1000), "truncated": (truncate, 200), "4,096 bytes zeroed": (zero_block, 100)}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> TrainingSession:
    session = make_session(tmp_path_factory.mktemp("run"), phrasebook_texts(), override_train(max_steps=3))
    fit(session)
    return session


@pytest.fixture(params=["checkpoint", "model"])
def target(
    request: pytest.FixtureRequest, session: TrainingSession, tmp_path: Path
) -> tuple[str, Path, Callable[[], object]]:
    """A name, a folder, and a function that loads it."""
    if request.param == "model":
        session.model.save(tmp_path / "model")
        return "model", tmp_path / "model", lambda: Model.load(tmp_path / "model", "cpu")
    step = session.run.step_folder(3)
    optimizer = build_optimizer(session.transformer, session.settings)
    return "checkpoint", step, lambda: restore_checkpoint(step, session.transformer, optimizer)


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_found_and_its_file_named(
    kind: str, target: tuple[str, Path, Callable[[], object]], scaled: Callable[[int], int], report: Report
) -> None:
    name, folder, load = target
    damage, full = KINDS[kind]
    rng, files = random.Random(f"{name} {kind}"), sorted(folder.iterdir())
    planted, harmless, broken = scaled(full), 0, []
    for index in range(planted):
        path = files[index % len(files)]
        before = path.read_bytes()
        after = damage(before, rng)
        harmless += after == before
        path.write_bytes(after)
        with mock.patch.object(Transformer, "encode", side_effect=AssertionError):
            try:
                load()
                found = after == before
            except DragomanError as error:
                found = path.name in str(error) and "\n" not in str(error)
        if not found:
            broken.append(path.name)
        path.write_bytes(before)
    load()
    notes = f", {harmless} blocks were zero before" if harmless else ""
    report(f"{name}: {kind}", planted, broken, f"{len(files)} files{notes}")

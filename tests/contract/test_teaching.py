"""Soft targets are the probabilities of the teachers' ensemble, and a model that learns them predicts the same."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from dragoman.config import ModelSettings, TrainSettings
from dragoman.data.soft_targets import TOP_TOKENS
from dragoman.data.store import PairStore, write_store
from dragoman.data.stream import BatchStream, StepPlan, load_batch
from dragoman.inference.search.full_passes import FullPasses
from dragoman.inference.search.step_model import Ensemble
from dragoman.model.transformer import Transformer
from dragoman.text.tokenization.control_ids import BOS_ID, EOS_ID, PAD_ID
from dragoman.training.step.gradients import Gradients
from dragoman.training.teaching import ask_teachers, most_probable

VOCAB_SIZE = 60
MODEL = ModelSettings(
    preset="custom", d_model=32, d_ff=48, num_heads=4, num_encoder_layers=1, num_decoder_layers=1, dropout=0.3
)


def model(seed: int, sharp: float = 3.0) -> Transformer:
    """Return an untrained model with sharper distributions than usual."""
    torch.manual_seed(seed)
    made = Transformer(MODEL, VOCAB_SIZE, VOCAB_SIZE)
    with torch.no_grad():
        made.projection.weight.mul_(sharp)
    return made


def store(folder: Path, count: int = 40) -> PairStore:
    random = np.random.default_rng(3)
    sides = [[random.integers(4, VOCAB_SIZE, random.integers(0, 9)).tolist() for _ in range(count)] for _ in range(2)]
    with write_store(folder, "key", VOCAB_SIZE, VOCAB_SIZE) as writer:
        writer.append(*sides)
    return PairStore(folder)


def test_soft_targets_equal_the_steps_of_the_ensemble(tmp_path: Path) -> None:
    teachers, pairs = [model(1), model(2)], store(tmp_path / "train")
    soft = ask_teachers(teachers, ["one", "two"], pairs, tmp_path / "teachers")
    ensemble = Ensemble([FullPasses(teacher.eval()) for teacher in teachers])
    for index in range(len(pairs)):
        batch = load_batch(pairs, np.array([index]))
        state = ensemble.start(batch.src_ids, batch.src_lengths)
        written = torch.tensor([BOS_ID, *pairs.tgt_ids(index).tolist()])
        with torch.no_grad():
            probs = torch.stack([ensemble.step(each[None], state).log_probs()[0].exp() for each in written])
        probs[:, PAD_ID] = 0
        best = probs.topk(TOP_TOKENS)
        row = soft.row(index)
        assert row.ids.tolist() == best.indices.tolist()
        expected = best.values / best.values.sum(1, keepdim=True)
        torch.testing.assert_close(torch.from_numpy(row.probs.astype(np.float32)), expected, atol=1e-3, rtol=1e-3)


def test_soft_targets_in_chunks_equal_those_computed_at_once(tmp_path: Path) -> None:
    teachers, pairs = [model(1)], store(tmp_path / "train")
    soft = ask_teachers(teachers, ["one"], pairs, tmp_path / "teachers")
    ids, probs = most_probable(teachers, load_batch(pairs, np.arange(len(pairs))), TOP_TOKENS)
    rows = [soft.row(index) for index in range(len(pairs))]
    assert np.array_equal(np.concatenate([row.ids for row in rows]), ids.numpy())
    np.testing.assert_allclose(np.concatenate([row.probs for row in rows]), probs.numpy(), atol=1e-3)
    assert sum(len(row.ids) for row in rows) == int(pairs.tgt_lengths.sum()) + len(pairs)
    assert all(row.probs.sum(1).min() > 0.99 for row in rows)


def test_a_student_learns_the_predictions_of_its_teacher_and_not_the_text(tmp_path: Path) -> None:
    teacher, pairs = model(1), store(tmp_path / "train", 12)
    soft = ask_teachers([teacher], ["one"], pairs, tmp_path / "teachers")
    settings = TrainSettings(precision="float32", device="cpu", teacher_weight=1.0, label_smoothing=0.0)
    agreed = {}
    for weight in (1.0, 0.0):
        torch.manual_seed(9)
        student = Transformer(replace(MODEL, dropout=0.0), VOCAB_SIZE, VOCAB_SIZE)
        optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
        taught = soft if weight else None
        with (
            Gradients(student, replace(settings, teacher_weight=weight or 0.5)) as gradients,
            BatchStream(pairs, StepPlan(200, 200, seed=1), soft=taught) as stream,
        ):
            for number in range(150):
                step = next(stream)
                gradients.compute(step.batches, (1, number), step.num_tgt_tokens)
                optimizer.step()
                optimizer.zero_grad()
        batch = load_batch(pairs, np.arange(len(pairs)))
        with torch.no_grad():
            logits = [each.eval()(batch.src_ids, batch.src_lengths, batch.decoder_input) for each in (student, teacher)]
        counted = batch.labels != PAD_ID
        said, wanted = (each[counted].argmax(1) for each in logits)
        agreed[weight] = (said == wanted).float().mean().item()
        assert (said == batch.labels[counted]).float().mean().item() > 0.9 or weight
    assert agreed[1.0] > 0.9
    assert agreed[0.0] < 0.3
    assert EOS_ID in batch.labels

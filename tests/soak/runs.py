"""Tiny runs for planted faults: seconds each, on one thread, with sentences of the phrasebook."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from dragoman.bundle import Card, Model, Weights
from dragoman.config import PRESETS, Config, TokenizerSettings, TrainSettings, ValidateSettings
from dragoman.data.store import InMemoryPairs
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.errors import DragomanError
from dragoman.files import verify_folder
from dragoman.model.transformer import Transformer
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizer
from dragoman.training.run.log import Board, RunLog
from dragoman.training.run.run_folder import RunFolder
from dragoman.training.session import TrainingSession
from dragoman.training.step.gradients import Gradients

STEPS = 70
CONFIG = Config(
    model=replace(PRESETS["tiny"], d_model=32, d_ff=48, num_encoder_layers=1, num_decoder_layers=1, dropout=0.2),
    train=TrainSettings(
        batch_tokens=400,
        max_steps=STEPS,
        patience=0,
        precision="float32",
        device="cpu",
        log_every_steps=1,
        warmup_steps=20,
        decay_share=0.3,
        checkpoint_every_steps=5,
        threads=1,
    ),
    validate=ValidateSettings(every_epochs=0, every_steps=20, metric="loss"),
)


def override_train(config: Config = CONFIG, **changes: Any) -> Config:
    return replace(config, train=replace(config.train, **changes))


@dataclass(frozen=True)
class Texts:
    """Training and validation pairs as ids."""

    tokenizers: TokenizerPair
    src: list[list[int]]
    tgt: list[list[int]]
    dev: InMemoryPairs


@cache
def phrasebook_texts(count: int = 500) -> Texts:
    """`count` pairs of the phrasebook for training, 100 for validation."""
    pairs = load_phrasebook().generate(seed=1, count=count + 100)
    tokenizer = train_tokenizer(
        TokenizerSettings(vocab_size=500), [text for pair in pairs for text in (pair.src, pair.tgt)]
    )
    src, tgt = (tokenizer.encode_batch([getattr(pair, side) for pair in pairs]) for side in ("src", "tgt"))
    tokenizers = TokenizerPair(tokenizer, tokenizer, joint=True)
    return Texts(tokenizers, src[:count], tgt[:count], InMemoryPairs(src[count:], tgt[count:]))


class KeptLog(RunLog):
    """A log that keeps its progress lines instead of printing them."""

    def __init__(self, folder: Path) -> None:
        with mock.patch.object(Board, "is_installed", return_value=False):
            super().__init__(folder)
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def make_session(folder: Path, texts: Texts, config: Config = CONFIG) -> TrainingSession:
    """A session of a tiny model in a run's folder; it validates by loss."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(config.train.seed)
    size = texts.tokenizers.src.vocab_size
    trained = Model(Weights.of(Transformer(config.model, size, size)), texts.tokenizers, config, Card())
    pairs = InMemoryPairs(texts.src, texts.tgt)
    return TrainingSession(RunFolder(folder), trained, pairs, texts.dev, lambda model: {}, KeptLog(folder))


def events_of(run: Path, event: str) -> list[dict[str, Any]]:
    """Entries of one kind in a run's log."""
    lines = (run / "log.jsonl").read_text().split("\n")
    return [entry for entry in map(json.loads, filter(None, lines)) if entry["event"] == event]


def loss_gap(one: Path, other: Path) -> float:
    """The largest relative difference between the training losses of two runs."""
    losses = ([entry["loss"] for entry in events_of(run, "train")] for run in (one, other))
    return max(abs(a - b) / a for a, b in zip(*losses, strict=True))


def is_whole(folder: Path) -> bool:
    """Whether every file of a checkpoint matches its manifest."""
    with suppress(DragomanError):
        verify_folder(folder)
        return True
    return False


@contextmanager
def scaled_gradients(session: TrainingSession, steps: set[int], factor: float, repeat: bool = False) -> Iterator[None]:
    """Multiply the gradients of some steps, the first time or (`repeat`) every time they are computed.

    A factor of NaN makes the loss NaN, too.
    """
    original, left = Gradients.compute, set(steps)

    def compute(self: Any, batches: Any, draws: Any, *rest: Any) -> torch.Tensor:
        total = original(self, batches, draws, *rest)
        if draws[1] in left:
            if not repeat:
                left.discard(draws[1])
            for parameter in session.transformer.parameters():
                if parameter.grad is not None:
                    parameter.grad *= factor
            total = total * factor if factor != factor else total
        return total

    with mock.patch.object(Gradients, "compute", compute):
        yield

"""Training throughput of Dragoman's own trainer: its store, its stream of batches, its loop and its log.

A step has as many target tokens as the peers' batches have on average, so that all compute equally many updates per
token.
"""

import contextlib
import hashlib
import math
import tempfile
from pathlib import Path
from typing import Any, cast

import torch
from recording import peak_bytes

from dragoman.bundle import Card, Model, Weights
from dragoman.config import Config, ModelSettings, TrainSettings, ValidateSettings
from dragoman.data.store import PairStore, open_if_current, write_store
from dragoman.devices.device import resolve_precision
from dragoman.model.transformer import Transformer
from dragoman.text.tokenization.encoding import RaggedIds
from dragoman.text.tokenization.tokenizer import TokenizerPair
from dragoman.training.run.log import RunLog
from dragoman.training.run.run_folder import RunFolder
from dragoman.training.session import TrainingSession
from dragoman.training.trainer import fit
from side_by_side.corpus import Corpus
from side_by_side.processes import children_peak_rss_mb
from side_by_side.shapes import ADAM_BETAS, DROPOUT, LABEL_SMOOTHING, LEARNING_RATE, Size
from side_by_side.timing import print_result, training_arguments, training_result


class Enough(Exception):
    """Raised to end the measurement."""


class Clock(RunLog):
    """A log that drops its first line, sums up the others, and ends training when they cover enough time."""

    def __init__(self, folder: Path, seconds: float, steps_per_line: int) -> None:
        super().__init__(folder)
        self._wanted_seconds, self._steps_per_line = seconds, steps_per_line
        self._began: float | None = None
        self.tokens = self.seconds = 0.0
        self.steps = 0

    def progress(self, event: dict[str, Any], seconds_left: float | None) -> None:
        """Called by the trainer every few steps; `seconds` is its own time since it started."""
        super().progress(event, seconds_left)
        if self._began is not None:
            passed = event["seconds"] - self._began - self.seconds
            self.tokens += event["tokens_per_second"] * passed
            self.seconds += passed
            self.steps += self._steps_per_line
        else:
            self._began = event["seconds"]
        if self.seconds >= self._wanted_seconds and self.steps >= 3:
            raise Enough


def main() -> None:
    parser = training_arguments(__doc__)
    parser.add_argument("--precision", default="auto", help="the setting train.precision")
    parser.add_argument("--paper-dropout", action="store_true", help="on embeddings and sublayers' outputs only")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    corpus = Corpus(given.data)
    settings = TrainSettings(
        batch_tokens=int(corpus.meta["peer_tokens_per_step"]),
        learning_rate=LEARNING_RATE,
        schedule="constant",
        warmup_steps=0,
        adam_beta1=ADAM_BETAS[0],
        adam_beta2=ADAM_BETAS[1],
        label_smoothing=LABEL_SMOOTHING,
        precision=given.precision,
        device="cpu",
        patience=0,
        log_every_steps=given.size.dropped_steps,
    )
    inner_dropout = 0.0 if given.paper_dropout else DROPOUT
    shape = model_settings(given.size, attention_dropout=inner_dropout, activation_dropout=inner_dropout)
    torch.manual_seed(settings.seed)
    model = Transformer(shape, corpus.vocab_size, corpus.vocab_size)
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock(Path(folder), given.seconds, given.size.dropped_steps)
        train(model, store_of(corpus), settings, RunFolder(Path(folder)), clock)
    precision = resolve_precision(given.precision, torch.device("cpu"))
    result = training_result(clock.tokens, clock.steps, clock.seconds)
    # Each thread but the first has a helper process. Memory that they share counts in each.
    peak_mb = math.ceil(peak_bytes() / 2**20) + (given.threads - 1) * children_peak_rss_mb()
    print_result(result, str(precision).removeprefix("torch."), ["dragoman", "torch"], peak_rss_mb=peak_mb)


def model_settings(size: Size, attention_dropout: float, activation_dropout: float) -> ModelSettings:
    """Return the shape of all contenders, with pre-norm and tied embeddings."""
    return ModelSettings(
        preset="custom",
        d_model=size.d_model,
        d_ff=size.d_ff,
        num_heads=size.num_heads,
        num_encoder_layers=size.layers,
        num_decoder_layers=size.layers,
        dropout=DROPOUT,
        attention_dropout=attention_dropout,
        activation_dropout=activation_dropout,
    )


def store_of(corpus: Corpus) -> PairStore:
    """Return the training pairs as the trainer reads them, memory-mapped and made once."""
    folder = corpus.folder / "dragoman_store"
    key = hashlib.sha256((corpus.folder / "ids.npz").read_bytes()).hexdigest()
    if store := open_if_current(folder, key):
        return store
    with write_store(folder, key, corpus.vocab_size, corpus.vocab_size) as writer:
        src, tgt = corpus.ids("train")
        writer.append(RaggedIds.of(src), RaggedIds.of(tgt))
    return PairStore(folder, key)


def train(model: Transformer, store: PairStore, settings: TrainSettings, run: RunFolder, log: RunLog) -> None:
    """Train until the log covers enough time, without validating or saving."""
    config = Config(model=model.settings, train=settings, validate=ValidateSettings(every_epochs=0, every_steps=10**9))
    tokenizers = cast("TokenizerPair", None)  # only a checkpoint would need them
    session = TrainingSession(
        run, Model(Weights.of(model), tokenizers, config, Card()), store, store, validate=lambda _: {}, log=log
    )
    session.seconds_alone = 0.0
    with contextlib.suppress(Enough):
        fit(session)


if __name__ == "__main__":
    main()

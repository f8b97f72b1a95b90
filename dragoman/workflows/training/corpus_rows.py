"""What a run did with each of several corpora: pairs read, kept and seen, and the loss on held-out pairs of its own."""

import numpy as np

from dragoman.bundle import Model
from dragoman.bundle.card import CorpusRow
from dragoman.data.batching import epoch_batches
from dragoman.data.mixing import MixedPairs
from dragoman.data.prepare import PreparedData
from dragoman.data.store import InMemoryPairs, PairStore
from dragoman.training.session import TrainingSession, dev_losses, fitting


def corpus_rows(model: Model, data: PreparedData, session: TrainingSession) -> tuple[CorpusRow, ...]:
    """A row for each of several corpora, in the order of their weights. Empty for one corpus.

    The loss is that of `model` in nats per token, with the control tokens of the corpus, and 0 without held-out pairs.
    """
    train = session.train
    if not isinstance(train, MixedPairs):
        return ()
    rows, start = [], 0
    for corpus, mixed, seen in zip(data.corpora, train.corpora, _seen(train, session), strict=True):
        loss = _own_loss(model, data.own, range(start, start + corpus.num_own), mixed.controls)
        start += corpus.num_own
        marks = corpus.settings.tag + " back-translated" * bool(corpus.settings.synthetic)
        counts = corpus.cleaning.read, corpus.cleaning.kept, seen
        rows.append((corpus.name, round(mixed.weight, 4), marks.strip(), *counts, round(loss, 3)))
    return tuple(rows)


def _seen(train: MixedPairs, session: TrainingSession) -> list[int]:
    """How many pairs of each corpus the run has taken. A pair counts each time."""
    state, settings = session.state, session.settings
    seen = train.taken(state.epoch)
    if state.step_in_epoch:
        batches = epoch_batches(train, settings.batch_tokens, settings.seed, state.epoch)
        taken = np.sort(batches.order[: int(batches.ends[state.step_in_epoch - 1])])
        counts = np.diff(np.searchsorted(taken, train.starts)).tolist()
        seen = [before + count for before, count in zip(seen, counts, strict=True)]
    return seen


def _own_loss(model: Model, own: PairStore | None, places: range, controls: tuple[int, ...]) -> float:
    if own is None or not places:
        return 0.0
    sides = (
        [[*controls, *own.src_ids(place).tolist()] for place in places],
        [own.tgt_ids(place).tolist() for place in places],
    )
    pairs, longest = InMemoryPairs(*sides), model.config.data.max_tokens
    model.transformer.eval()
    if not fitting(model.transformer, pairs, np.arange(len(pairs)), longest).any():
        return 0.0
    return dev_losses(model.transformer, pairs, longest)["loss"]

"""Oracles of the search: a table of probabilities as a StepModel, and its outputs by enumeration."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dragoman.bundle import Model
from dragoman.config import InferenceSettings
from dragoman.data.batch import Batch, pad_ids
from dragoman.engines.search.step_model import Predictions
from dragoman.engines.tensors.engine import score_tokens
from dragoman.exchange.marian import import_marian
from dragoman.model.transformer import Transformer
from dragoman.records import Hypothesis

BOS_ID, EOS_ID = 1, 2
FIRST_LETTER = 4


@dataclass
class TableState:
    """The source and the target so far of each row."""

    sources: list[tuple[int, ...]]
    written: list[tuple[int, ...]]


@dataclass
class TableModel:
    """A model whose next-token distribution is a random function of seed, source and the whole target so far.

    Ids: pad, bos, eos, unk, then `num_letters` letters. All ids are likely, even those that a search must never write.
    """

    seed: int
    num_letters: int
    sharpness: float = 2.0
    max_length: int | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    rows_seen: list[int] = field(default_factory=list)

    @property
    def vocab_size(self) -> int:
        return FIRST_LETTER + self.num_letters

    def log_probs(self, source: Sequence[int], written: Sequence[int]) -> list[float]:
        """Return the log-probabilities of the next token after `written`, which has no bos."""
        rng = random.Random(f"{self.seed}/{tuple(source)}/{tuple(written)}")
        sharpness = self.sharpness * rng.choice([1, 4])  # some distributions are much sharper than others
        weights = [math.exp(sharpness * rng.gauss(0, 1)) for _ in range(self.vocab_size)]
        return [math.log(weight / sum(weights)) for weight in weights]

    def start(self, src_ids: Tensor, src_lengths: Tensor) -> TableState:
        rows = zip(src_ids.tolist(), src_lengths.tolist(), strict=True)
        sources = [tuple(ids[:length]) for ids, length in rows]
        return TableState(sources, [() for _ in sources])

    def step(self, ids: Tensor, state: TableState) -> Predictions:
        assert ids.numel() == len(state.written)
        state.written = [(*written, new) for written, new in zip(state.written, ids.tolist(), strict=True)]
        assert all(written[0] == BOS_ID for written in state.written)
        self.rows_seen.append(ids.numel())
        per_sentence = len(state.written) // len(state.sources)
        rows = [self.log_probs(state.sources[n // per_sentence], w[1:]) for n, w in enumerate(state.written)]
        return Predictions.of(torch.tensor(rows))

    def reorder(self, state: TableState, rows: Tensor, sentences: Tensor) -> None:
        state.written = [state.written[row] for row in rows.tolist()]
        state.sources = [state.sources[sentence] for sentence in sentences.tolist()]

    def outputs(
        self, source: Sequence[int], limit: int, settings: InferenceSettings, start: tuple[int, ...] = ()
    ) -> list[Hypothesis]:
        """Return every output that a search may find, best first: outputs that end in eos, then cut ones."""
        found = list(self._outputs(source, limit, settings, start))
        return sorted(found, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))

    def _outputs(
        self, source: Sequence[int], limit: int, settings: InferenceSettings, written: tuple[int, ...]
    ) -> Iterator[Hypothesis]:
        if len(written) == limit:
            yield self.hypothesis(source, written, settings, finished=False)
            return
        if len(written) >= settings.min_tokens:
            yield self.hypothesis(source, written, settings, finished=True)
        for letter in range(FIRST_LETTER, self.vocab_size):
            yield from self._outputs(source, limit, settings, (*written, letter))

    def hypothesis(
        self, source: Sequence[int], ids: tuple[int, ...], settings: InferenceSettings, *, finished: bool
    ) -> Hypothesis:
        tokens = (*ids, EOS_ID) if finished else ids
        token_log_probs = tuple(self.log_probs(source, tokens[:t])[tokens[t]] for t in range(len(tokens)))
        length = len(tokens)
        base = (5 + length) / 6 if settings.length_penalty == "paper" else length
        log_prob = sum(token_log_probs)
        return Hypothesis(ids, token_log_probs, log_prob, log_prob / base**settings.length_penalty_alpha, finished)


@pytest.fixture
def table_model() -> type[TableModel]:
    return TableModel


@pytest.fixture(scope="session")
def imported(trained_marian: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    """The trained Marian model after import, saved and loaded again."""
    folder = tmp_path_factory.mktemp("imported") / "model"
    import_marian(trained_marian, "opus-mt-en-de").model.save(folder)
    return Model.load(folder, "cpu")


Found = Sequence[Sequence[Hypothesis]]


@pytest.fixture(scope="session")
def assert_teacher_forced() -> Callable[[Transformer, Sequence[Sequence[int]], Found], None]:
    """Check that outputs of a search have the log-probabilities of a full pass, token by token, within 1e-4.

    Takes the ids of the sources, eos included, and the hypotheses of each source.
    """

    def check(model: Transformer, sources: Sequence[Sequence[int]], found: Found) -> None:
        pairs = [(source, h) for source, hypotheses in zip(sources, found, strict=True) for h in hypotheses]
        assert pairs
        targets, lengths = pad_ids([[BOS_ID, *h.ids, *([EOS_ID] if h.finished else [])] for _, h in pairs], 0)
        scores = score_tokens(model, Batch(*pad_ids([source for source, _ in pairs], 0), targets, lengths - 1))
        for (_, h), row, length in zip(pairs, scores.tolist(), lengths.tolist(), strict=True):
            assert h.token_log_probs == pytest.approx(row[: length - 1], abs=1e-4)

    return check

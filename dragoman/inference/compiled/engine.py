"""The compiled beam search of a model: sentences in, hypotheses out; as many at once as there is room, others follow.

A sentence that is done gives its slot to the next one waiting, so that a step always has about as many rows. Every
sentence's numbers are the same to the last bit, whatever is in the other slots.
"""

from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from dragoman.config import InferenceSettings
from dragoman.inference.compiled.beams import decode_step, finished_path
from dragoman.inference.compiled.jit import BYTES_AT_ONCE, COLUMNS, NUMBERS_AT_ONCE, ROWS
from dragoman.inference.compiled.layers import BLOCK, encode
from dragoman.inference.compiled.layout import Rows, Rules, Search
from dragoman.inference.compiled.weights import CompiledWeights
from dragoman.inference.constraints import Constraints
from dragoman.inference.length_penalty import length_penalty
from dragoman.inference.segments import Source
from dragoman.records import Hypothesis
from dragoman.text.tokenizer import BOS_ID, EOS_ID

_REFILL_SHARE = 8
_FREE = -1


class Waiting:
    """The sentences that are to be searched, the longest first, for several workers."""

    def __init__(self, sources: Sequence[Source], settings: InferenceSettings, max_length: int | None) -> None:
        ordered = sorted((source for source in sources if source.ids), key=lambda one: -one.length)
        lengths = torch.tensor([source.length for source in ordered], dtype=torch.int64)
        limits = Constraints.of(lengths, settings, max_length, [source.prefix for source in ordered]).limits
        self._queue = deque(zip(ordered, limits.tolist(), strict=True))

    def __len__(self) -> int:
        return len(self._queue)

    def longest(self) -> int:
        """The source tokens of the next one; 0 if there is none."""
        try:
            return self._queue[0][0].length
        except IndexError:
            return 0

    def most(self) -> tuple[int, int]:
        """The longest output and the longest prefix of any that wait."""
        waiting = list(self._queue)
        return max(limit for _, limit in waiting), max(len(source.prefix) for source, _ in waiting)

    def taken(self, count: int) -> list[tuple[Source, int]]:
        """At most so many, with the limits of their outputs."""
        taken: list[tuple[Source, int]] = []
        while self._queue and len(taken) < count:
            try:
                taken.append(self._queue.popleft())
            except IndexError:
                break
        return taken

    def give_up(self) -> None:
        """Nobody waits any more."""
        self._queue.clear()


def search_all(weights: CompiledWeights, waiting: Waiting, settings: InferenceSettings, workers: int) -> None:
    """One worker's share of the work: takes sentences that wait until there are none, and gives them hypotheses."""
    try:
        while length := waiting.longest():
            share = -(-len(waiting) // workers)
            slots = max(1, min(settings.batch_tokens // (settings.beam_size * length), share))
            _Batch(weights, settings, slots, length, *waiting.most()).run(waiting)
    except BaseException:
        waiting.give_up()
        raise


def is_compiled() -> bool:
    """Whether the search has been compiled here before, and was kept."""
    folder = decode_step.stats.cache_path  # type: ignore[attr-defined]
    return bool(folder) and any(Path(folder).glob(f"*{decode_step.__name__}*.nbi"))


class _Batch:
    """Slots for sentences of at most so many source tokens, and the searches in them."""

    def __init__(
        self,
        weights: CompiledWeights,
        settings: InferenceSettings,
        slots: int,
        longest: int,
        max_length: int,
        max_prefix: int,
    ) -> None:
        self._encoder, self._decoder = weights.encoder(longest), weights.decoder(max_length)
        src_length = -(-longest // NUMBERS_AT_ONCE) * NUMBERS_AT_ONCE
        self._src_length, self._settings = src_length, settings
        self._rules = Rules(settings.beam_size, settings.n_best, settings.min_tokens)
        self._shape = weights.shape
        self._rows = _rows(
            weights, max(slots * settings.beam_size, src_length), src_length, max(src_length, max_length)
        )
        self._search = _search(weights, settings, slots, src_length, max_length, max_prefix)
        self._free = list(range(slots))
        self._slots = slots
        self._sources: dict[int, Source] = {}
        self._active, self._done = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        self._ids, self._log_probs = np.zeros(max_length, np.int64), np.zeros(max_length, np.float32)

    def run(self, waiting: Waiting) -> None:
        """Searches until those that wait are half as long, or none, and the slots are empty."""
        while True:
            suits = 2 * waiting.longest() > self._src_length or self._src_length == NUMBERS_AT_ONCE
            if suits and (not self._sources or len(self._free) * _REFILL_SHARE >= self._slots):
                self._add(waiting.taken(len(self._free)))
            num_active = len(self._sources)
            if not num_active:
                return
            going = decode_step(
                self._decoder, self._shape, self._rules, self._rows, self._search, self._active, num_active, self._done
            )
            for slot in self._done[: num_active - going].tolist():
                self._sources.pop(slot).hypotheses = self._hypotheses(slot)
                self._free.append(slot)

    def _add(self, taken: Sequence[tuple[Source, int]]) -> None:
        """Gives each a slot and reads it."""
        group: list[tuple[int, Source]] = []
        num_rows = 0
        for source, limit in taken:
            if num_rows + source.length > self._rows.states.shape[0] - ROWS:
                self._read(group)
                group, num_rows = [], 0
            slot = self._free.pop()
            self._begin(slot, source, limit)
            group.append((slot, source))
            num_rows += source.length
        if group:
            self._read(group)

    def _begin(self, slot: int, source: Source, limit: int) -> None:
        search = self._search
        search.limit[slot], search.position[slot], search.live[slot] = limit, 0, 1
        search.ids[slot, 0], search.log_probs[slot, 0] = BOS_ID, 0.0
        search.prefixes[slot] = _FREE
        search.prefixes[slot, : len(source.prefix)] = source.prefix
        search.finished[slot] = 0
        search.finished_scores[slot] = -np.inf
        self._active[len(self._sources)] = slot
        self._sources[slot] = source

    def _read(self, group: Sequence[tuple[int, Source]]) -> None:
        starts = np.cumsum([0, *(source.length for _, source in group)], dtype=np.int64)
        ids = np.fromiter((one for _, source in group for one in (*source.ids, EOS_ID)), np.int64, int(starts[-1]))
        slots = np.array([slot for slot, _ in group], np.int64)
        sources = self._decoder.cross_sources
        encode(self._encoder, sources, self._shape, ids, starts, slots, self._rows, self._search)

    def _hypotheses(self, slot: int) -> list[Hypothesis]:
        search, found = self._search, []
        for rank in range(min(int(search.finished[slot]), self._settings.n_best)):
            length = finished_path(slot, rank, search, self._ids, self._log_probs)
            finished = bool(self._ids[length - 1] == EOS_ID)
            log_probs = tuple(self._log_probs[:length].tolist())
            ids = tuple(self._ids[: length - finished].tolist())
            score = float(search.finished_scores[slot, rank])
            found.append(Hypothesis(ids, log_probs, sum(log_probs), score, finished))
        return found


def _rows(weights: CompiledWeights, count: int, src_length: int, positions: int) -> Rows:
    """Room for `count` rows that look at so many positions. A tile's rows beyond the last are there too."""
    room = -(-count // ROWS) * ROWS + ROWS
    width, inner = weights.width, weights.inner_width
    of_bytes = weights.precision == "int8"
    inputs = np.uint8 if of_bytes else np.float32
    outputs = -(-max(3 * width, inner) // COLUMNS) * COLUMNS
    return Rows(
        states=np.zeros((room, width), np.float32),
        inputs=np.zeros((room, -(-width // BYTES_AT_ONCE) * BYTES_AT_ONCE if of_bytes else width), inputs),
        inner_inputs=np.zeros((room, -(-inner // BYTES_AT_ONCE) * BYTES_AT_ONCE if of_bytes else inner), inputs),
        scales=np.ones(room, np.float32),
        outputs=np.zeros((room, outputs), np.float32),
        tile=np.zeros((ROWS, COLUMNS), np.float32),
        line=np.zeros(max(width, inner, COLUMNS), np.float32),
        scores=np.zeros((weights.shape.num_heads, positions + BLOCK), np.float32),
        places=np.zeros(positions, np.int64),
        dimensions=np.arange(width // weights.shape.num_heads, dtype=np.int64) * src_length,
        merged=np.zeros(width, np.float32),
        slot=np.zeros(room, np.int64),
        hypothesis=np.zeros(room, np.int64),
        best_of_panel=np.zeros((room, weights.vocabulary_panels), np.float32),
        normalisers=np.zeros(room, np.float32),
        largest=np.zeros(room, np.float32),
    )


def _search(
    weights: CompiledWeights,
    settings: InferenceSettings,
    slots: int,
    src_length: int,
    max_length: int,
    max_prefix: int,
) -> Search:
    width, beam_size, layers = weights.width, settings.beam_size, weights.num_layers
    per_slot, per_beam = (slots,), (slots, beam_size)
    kept = np.uint16 if weights.precision == "int8" else np.float32
    # Memory that nobody has written is not taken: the positions that no output reaches cost nothing.
    return Search(
        src_lengths=np.zeros(per_slot, np.int64),
        src_keys=np.empty((layers, slots, src_length * width), kept),
        src_values=np.empty((layers, slots, src_length * width), kept),
        keys=np.empty((layers, slots, max_length * beam_size * width), kept),
        values=np.empty((layers, slots, max_length * beam_size * width), kept),
        ancestors=np.empty((slots, beam_size, max_length), np.int16),
        moved=np.empty((beam_size, max_length), np.int16),
        position=np.zeros(per_slot, np.int64),
        limit=np.zeros(per_slot, np.int64),
        live=np.zeros(per_slot, np.int64),
        first_row=np.zeros(per_slot, np.int64),
        ids=np.zeros(per_beam, np.int64),
        log_probs=np.zeros(per_beam, np.float32),
        path_ids=np.empty((slots, max_length, beam_size), np.int32),
        path_parents=np.empty((slots, max_length, beam_size), np.int16),
        path_log_probs=np.empty((slots, max_length, beam_size), np.float32),
        prefixes=np.full((slots, max_prefix), _FREE, np.int64),
        finished=np.zeros(per_slot, np.int64),
        finished_scores=np.zeros(per_beam, np.float32),
        finished_lengths=np.zeros(per_beam, np.int64),
        finished_parents=np.zeros(per_beam, np.int64),
        finished_ids=np.zeros(per_beam, np.int64),
        finished_log_probs=np.zeros(per_beam, np.float32),
        candidates=np.zeros((2, 2 * beam_size), np.int64),
        candidate_log_probs=np.zeros((2, 2 * beam_size), np.float32),
        bounds=np.zeros(2 * beam_size, np.float32),
        penalties=length_penalty(settings, torch.arange(1, max_length + 1, dtype=torch.float32)).numpy(),
    )

"""The compiled beam search of a model: sentences in, hypotheses out; as many at once as there is room, others follow.

A sentence that is done gives its slot to the next one waiting, so that a step always has about as many rows. Every
sentence's numbers are the same to the last bit, whatever is in the other slots.
"""

import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dragoman.config import InferenceSettings
from dragoman.inference.compiled.beams import decode_steps, finished_path
from dragoman.inference.compiled.layers import encode
from dragoman.inference.compiled.layout import FREE, BeamRules, SearchState
from dragoman.inference.compiled.memory import allocate_rows, allocate_search, extend_search
from dragoman.inference.compiled.weights import CompiledWeights
from dragoman.inference.output_rules import length_penalties, output_limit
from dragoman.inference.segments import Source
from dragoman.kernels.tiles import HEAD_WIDTH_MULTIPLE, PRODUCT_ROWS
from dragoman.records import Hypothesis
from dragoman.text.tokenization.tokenizer import BOS_ID, EOS_ID

_REFILL_SHARE = 8
# Outputs of very short sources are longer than these.
_MIN_LENGTH = 12
# There is room for so many tokens of output at first, then for twice as many, and so on.
_FIRST_LENGTH = 32


class WaitingWork(NamedTuple):
    """What waits: how many sentences, and the most that any of them needs."""

    sentences: int
    src_length: int
    max_length: int
    max_prefix: int


class _Limited(NamedTuple):
    """A source, its place among all, and the longest output it may have, in tokens."""

    place: int
    source: Source
    limit: int


class Waiting:
    """The sentences that are to be searched, the longest first, for several workers.

    `max_length` is the longest output. `found` gets the hypotheses of each source. Raises ValueError for ids that the
    vocabularies, of these sizes, do not have.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        settings: InferenceSettings,
        max_length: int | None,
        vocab_sizes: tuple[int, int],
    ) -> None:
        for side, size in zip(("ids", "prefix"), vocab_sizes, strict=True):
            if any(row and not 0 <= min(row) <= max(row) < size for row in (getattr(one, side) for one in sources)):
                raise ValueError(f"a source's {side} must be below {size}")
        limited = (
            _Limited(place, source, output_limit(source.length, len(source.prefix), settings, max_length))
            for place, source in enumerate(sources)
            if source.ids
        )
        self._queue = deque(sorted(limited, key=lambda one: -one.source.length))
        self.found: list[list[Hypothesis]] = [[] for _ in sources]
        self._lock = threading.Lock()
        self.given_up = False

    def __len__(self) -> int:
        return len(self._queue)

    def next(self) -> WaitingWork | None:
        """None if nothing waits."""
        with self._lock:
            if not self._queue:
                return None
            longest = max(one.limit for one in self._queue)
            prefix = max(len(one.source.prefix) for one in self._queue)
            return WaitingWork(len(self._queue), self._queue[0].source.length, longest, prefix)

    def longest(self) -> int:
        """The source tokens of the next one; 0 if there is none."""
        with self._lock:
            return self._queue[0].source.length if self._queue else 0

    def take(self, count: int) -> list[_Limited]:
        """Remove up to `count` sources from the queue and return them."""
        with self._lock:
            return [self._queue.popleft() for _ in range(min(count, len(self._queue)))]

    def give_up(self) -> None:
        """Nobody wants any of it any more, begun or not."""
        with self._lock:
            self.given_up = True
            self._queue.clear()


def search_all(weights: CompiledWeights, waiting: Waiting, settings: InferenceSettings, workers: int) -> None:
    """One worker's share of the work: search sentences from `waiting` until there are none."""
    try:
        while following := waiting.next():
            share = -(-following.sentences // workers)
            # The memory of a sentence is that of its source and of its output, which is about as long.
            budget = settings.batch_tokens // (settings.beam_size * max(following.src_length, _MIN_LENGTH))
            _Batch(weights, settings, max(1, min(budget, share)), following).run(waiting)
    except BaseException:
        waiting.give_up()
        raise


class _Batch:
    """Slots for sentences of at most so many source tokens, and the searches in them."""

    def __init__(self, weights: CompiledWeights, settings: InferenceSettings, slots: int, most: WaitingWork) -> None:
        self._weights, self._settings, self._most = weights, settings, most
        self._src_length = -(-most.src_length // HEAD_WIDTH_MULTIPLE) * HEAD_WIDTH_MULTIPLE
        self._rules = BeamRules(settings.beam_size, settings.n_best, settings.min_tokens)
        self._slots, self._free = slots, list(range(slots))
        self._places: dict[int, int] = {}
        self._active, self._done = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        self._encoder = weights.encoder(most.src_length)
        self._search = self._room(_FIRST_LENGTH)

    def _room(self, length: int) -> SearchState:
        """Room for outputs of so many tokens, as far as there are any; that for the search itself is returned."""
        length = min(length, self._most.max_length)
        weights, settings, slots = self._weights, self._settings, self._slots
        self._length, self._decoder = length, weights.decoder(length)
        rows = max(slots * settings.beam_size, self._src_length)
        self._rows = allocate_rows(weights, rows, self._src_length, max(self._src_length, length))
        self._ids, self._log_probs = np.zeros(length, np.int64), np.zeros(length, np.float32)
        return allocate_search(weights, settings, slots, self._src_length, length, self._most.max_prefix)

    def run(self, waiting: Waiting) -> None:
        """Searches until those that wait are half as long, or none, and the slots are empty."""
        while not waiting.given_up:
            suits = 2 * waiting.longest() > self._src_length or self._src_length == HEAD_WIDTH_MULTIPLE
            if suits and (not self._places or len(self._free) * _REFILL_SHARE >= self._slots):
                self._add(waiting.take(len(self._free)))
            num_active = len(self._places)
            if not num_active:
                return
            active = self._active[:num_active]
            if int(self._search.position[active].max()) >= self._length:
                self._search = extend_search(self._search, self._room(2 * self._length))
            # In one call, because other threads hold the interpreter for milliseconds between two.
            going = decode_steps(
                self._decoder,
                self._weights.shape,
                self._rules,
                self._rows,
                self._search,
                self._active,
                num_active,
                self._done,
                self._length,
            )
            for slot in self._done[: num_active - going].tolist():
                waiting.found[self._places.pop(slot)] = self._hypotheses(slot)
                self._free.append(slot)

    def _add(self, taken: Sequence[_Limited]) -> None:
        """Give each a slot and encode it."""
        group: list[tuple[int, Source]] = []
        num_rows = 0
        of_limits = length_penalties(self._settings, [one.limit for one in taken])
        for one, penalty in zip(taken, of_limits, strict=True):
            source = one.source
            if num_rows + source.length > self._rows.states.shape[0] - PRODUCT_ROWS:
                self._read(group)
                group, num_rows = [], 0
            slot = self._free.pop()
            self._begin(slot, one, penalty)
            group.append((slot, source))
            num_rows += source.length
        if group:
            self._read(group)

    def _begin(self, slot: int, taken: _Limited, penalty: np.float32) -> None:
        search, source = self._search, taken.source
        search.limit[slot], search.position[slot], search.live[slot] = taken.limit, 0, 1
        search.limit_penalties[slot] = penalty
        search.ids[slot, 0], search.log_probs[slot, 0] = BOS_ID, 0.0
        search.prefixes[slot] = FREE
        search.prefixes[slot, : len(source.prefix)] = source.prefix
        search.finished[slot] = 0
        search.finished_scores[slot] = -np.inf
        self._active[len(self._places)] = slot
        self._places[slot] = taken.place

    def _read(self, group: Sequence[tuple[int, Source]]) -> None:
        starts = np.cumsum([0, *(source.length for _, source in group)], dtype=np.int64)
        ids = np.fromiter((one for _, source in group for one in (*source.ids, EOS_ID)), np.int64, int(starts[-1]))
        slots = np.array([slot for slot, _ in group], np.int64)
        sources = self._decoder.cross_sources
        encode(self._encoder, sources, self._weights.shape, ids, starts, slots, self._rows, self._search)

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
